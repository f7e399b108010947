"""Train many runs of a configuration with other keys, chosen by Optuna, on as many machines as join in.

python -m train.sweep --config truck_drone_basic --space docs/examples/space.yaml --trials 64
python -m train.sweep --config truck_drone_basic --space docs/examples/space.yaml --trials 64 --storage postgresql://host/sweeps
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import pathlib
import shutil
import time
import urllib.parse
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxvrp.io.command_line import INTERRUPTED, Interrupted, Parser, UserError, above_zero, index, positive
from jaxvrp.io.messages import few, installing, shown
from jaxvrp.io.whole_files import try_to_write, write_csv
from jaxvrp.io.yaml_text import read_yaml
from jaxvrp.show import save_still
from train.algorithms import CONFIG_CLASSES
from train.commands.entry import entry
from train.commands.trainings import Trainings, command_of
from train.run import loop
from train.run.checkpoint import Checkpoints
from train.run.folder import CHECKPOINTS
from train.run.lock import locked
from train.run.progress import Bar
from train.run.records import METRICS, read_records
from train.settings.command_line import check_names, known_for, parse
from train.settings.config_file import read_config_file
from train.settings.keys import LAUNCH, as_typed
from train.shown.tables import aligned

if TYPE_CHECKING:
    import optuna

FOLDER, FAULT, SURPLUS = "folder", "fault", "surplus"
"""What is noted of a trial: the name of its run folder, why it failed, that there was nothing to train. Of trials with
one folder the later goes on with the run of the earlier, whose worker is gone."""

SETTINGS = "settings"
"""What is noted of a study: everything that all who join in must have in common."""

OTHER = {
    "algorithm": "another algorithm",
    "config": "another configuration",
    "words": "other typed keys",
    "space": "another space",
}
"""What to call settings that are not those of the study."""

STALE = 6
"""Heartbeats that a worker may miss until its trial is taken up again."""

POLL = 1.0
"""Seconds between two looks at a run, and at the trials of others."""

PATIENCE = 60.0
"""Seconds that a worker waits for another one that writes to the database in SQLite."""

ATTEMPTS = 3
"""To open the database."""

RESTARTS = 3
"""A run that is killed goes on so many times; then its trial has failed."""

MOST_ROWS = 20
"""Of the printed table."""

RANGE, CHOICES = {"low", "high", "log", "step"}, {"choices"}


class Sweep(NamedTuple):
    """What is searched, and where the runs are."""

    algorithm: str
    words: tuple[str, ...]  # of the command line of every run
    space: dict[str, optuna.distributions.BaseDistribution]  # by key
    trials: int
    sampler_seed: int
    out: pathlib.Path


class EndedError(Exception):
    """A trial has ended without a return, and is not lost: `FAULT` or `SURPLUS` is noted of it."""


class StoppedError(BaseException):
    """Ctrl-C, or a request to terminate.

    Not an `Exception`, which ends a trial alone: the sweep ends, too.
    """


class Stop(loop.Stop):
    """Whether a stop was requested. A signal only sets a flag: raised within a library, an exception may be dropped."""

    def request(self, number: int, frame: FrameType | None) -> None:
        """The handler of signals; a second one is as the first."""
        self.requested = True

    def check(self) -> None:
        """Raise `StoppedError` if it was."""
        if self.requested:
            raise StoppedError


class Worker(NamedTuple):
    """What trains trial after trial."""

    bar: Bar
    stop: Stop
    trainings: Trainings


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("train.sweep", "Train many runs of a configuration with other keys, chosen by Optuna.")
    parser.add_argument("--config", required=True, metavar="FILE", help="as of a training")
    parser.add_argument("--space", required=True, metavar="FILE", help="YAML: what each key may be")
    parser.add_argument("--algorithm", choices=[*CONFIG_CLASSES], help="default: that of the file, else mappo")
    parser.add_argument("--trials", type=positive, default=64, metavar="N", help="default: 64")
    parser.add_argument("--out", metavar="DIR", help="of all run folders (default: sweeps/ and the configuration)")
    parser.add_argument("--storage", metavar="URL", help="database of the trials (default: sweep.db in --out)")
    parser.add_argument("--sampler_seed", type=index, default=0, metavar="N", help="of Optuna's sampler (default: 0)")
    parser.add_argument("--heartbeat", type=above_zero, default=10.0, metavar="SECONDS", help=argparse.SUPPRESS)
    parser.epilog = "All other options are keys of the training (train.mappo --help), the same for every trial."
    args, keys = parser.parse_known_args(argv)
    if importlib.util.find_spec("optuna") is None:
        raise UserError(f"sweeps need Optuna, which is not installed; {installing('sweep')}")
    sweep = read_sweep(args, keys)
    with _storage_errors_explained():
        study = open_study(sweep, args)
        try:
            with Stop() as stop:
                work(study, sweep, stop)
        except StoppedError:
            raise Interrupted(f"interrupted; everything is saved, go on with the same command ({sweep.out})") from None
        report(study, sweep)


def read_sweep(args: argparse.Namespace, keys: Sequence[str]) -> Sweep:
    """The sweep that a command line asks for, checked: the least and the largest of every range can be trained."""
    algorithm = args.algorithm or read_config_file(args.config).get("algorithm") or "mappo"
    config_class = CONFIG_CLASSES[algorithm]
    words = ("--config", args.config, *keys)
    space = read_space(args.space)
    for name in LAUNCH.keys() & space.keys():
        raise UserError(f"{args.space}: {name} is no key of a configuration; leave it out")
    for given in (word.removeprefix("--").partition("=")[0] for word in keys):
        if given in space:
            raise UserError(f"--{given} is fixed, and in {args.space} as well; leave one of them out")
        if given in LAUNCH:
            raise UserError(f"--{given} is of one run; a sweep has --out, and goes on when the same command is given")
    known = known_for(config_class, read_config_file(args.config), keys)
    check_names(space, known.keys, f" in {args.space}", CONFIG_CLASSES)
    for ends in zip(*map(_ends, space.values()), strict=True):
        values = dict(zip(space, ends, strict=True))
        words_of_trial = [*words, *typed(values)]
        parse(config_class, words_of_trial, prog=f"train.{algorithm}", description="", algorithms=CONFIG_CLASSES)
    out = pathlib.Path(args.out or pathlib.Path("sweeps") / pathlib.Path(args.config).stem)
    return Sweep(algorithm, words, space, args.trials, args.sampler_seed, out)


def read_space(path: str) -> dict[str, Any]:
    """Distributions of Optuna by key, from a YAML file: `{low, high, log, step}`, or `{choices}`."""
    try:
        content = read_yaml(pathlib.Path(path))
    except OSError as error:
        raise UserError(f"cannot read --space {path}: {error.strerror}; give an existing YAML file") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} names no key; write lines like 'actor_lr: {{low: 1e-4, high: 1e-2, log: true}}'")
    return {str(name): _distribution(f"{path}: {name}", entry) for name, entry in content.items()}


def _distribution(place: str, entry: Any) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    example = "{low: 1e-4, high: 1e-2, log: true} or {choices: [32, 64]}"
    if not isinstance(entry, dict):
        raise UserError(f"{place} is {shown(entry)}; write {example}")
    try:
        if entry.keys() == CHOICES and isinstance(entry["choices"], list):
            return CategoricalDistribution([as_typed(choice) for choice in entry["choices"]])
        if {"low", "high"} <= entry.keys() <= RANGE:
            numbers = {name: value for name, value in entry.items() if name != "log"}
            for name, number in numbers.items():
                if type(number) not in (int, float):
                    raise ValueError(f"{name} is {shown(number)}, which is no number")
            is_whole = all(type(number) is int for number in numbers.values())
            return (IntDistribution if is_whole else FloatDistribution)(**entry)
    except (ValueError, TypeError) as error:
        raise UserError(f"{place}: {error}; write {example}") from None
    raise UserError(f"{place} has {few(entry)}; write {example}")


def _ends(distribution: Any) -> tuple[Any, Any]:
    """The least and the largest value, or the first and the last choice."""
    if hasattr(distribution, "choices"):
        return distribution.choices[0], distribution.choices[-1]
    return distribution.low, distribution.high


def typed(values: Mapping[str, Any]) -> list[str]:
    """Values by key as words of a command line; choices are texts already."""
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def open_study(sweep: Sweep, args: argparse.Namespace) -> optuna.Study:
    """The study in its storage, made if it is new; one with other settings is refused."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    sweep.out.mkdir(parents=True, exist_ok=True)
    # A path may have signs that mean something in a URL.
    url = args.storage or f"sqlite:///{urllib.parse.quote(str(sweep.out.absolute() / 'sweep.db'))}"
    study = _connected(url, sweep.out.name, max(1, round(args.heartbeat)))
    space = {name: optuna.distributions.distribution_to_json(each) for name, each in sweep.space.items()}
    content = {name: as_typed(value) for name, value in read_config_file(args.config).items()}
    settings = {"algorithm": sweep.algorithm, "config": content, "words": list(sweep.words[2:]), "space": space}
    kept = study.user_attrs.get(SETTINGS, settings)
    for name, value in settings.items():
        if kept[name] != value:
            raise UserError(f"{sweep.out} is a sweep with {OTHER[name]}; take another --out, or give the same again")
    study.set_user_attr(SETTINGS, settings)
    return study


def _connected(url: str, name: str, beat: int) -> optuna.Study:
    import optuna

    for left in reversed(range(ATTEMPTS)):
        try:
            storage = optuna.storages.RDBStorage(
                url,
                {"connect_args": {"timeout": PATIENCE}} if url.startswith("sqlite") else None,
                heartbeat_interval=beat,
                grace_period=STALE * beat,
            )
            if url.startswith("sqlite"):
                _lock_before_reading(storage.engine)
            pruner = optuna.pruners.MedianPruner()
            return optuna.create_study(
                storage=storage, study_name=name, direction="maximize", load_if_exists=True, pruner=pruner
            )
        except Exception as error:  # of the database's own driver
            if not left:
                reason = str(error.__cause__ or error).splitlines()[0]  # Optuna does not name a missing driver
                raise UserError(f"cannot open --storage {url}: {reason}; mend that") from None
            time.sleep(POLL)  # another worker may be making the same tables
    raise AssertionError


@contextlib.contextmanager
def _storage_errors_explained() -> Iterator[None]:
    """Errors of the database, such as those of a full disk, in one line: Optuna's own blames the data."""
    import optuna
    import sqlalchemy

    try:
        yield
    except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise UserError(f"cannot use --storage: {reason}; mend that, then the same command goes on") from error


def _lock_before_reading(engine: Any) -> None:
    """Let a transaction in SQLite lock the database when it begins.

    By default it does so when it first writes; what it read before may be old by then, so that two workers would take
    up the same waiting trial.
    """
    import sqlalchemy

    def on_connect(connection: Any, record: Any) -> None:
        del record
        connection.isolation_level = None  # else the driver begins transactions

    def on_begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    sqlalchemy.event.listen(engine, "connect", on_connect)
    sqlalchemy.event.listen(engine, "begin", on_begin)
    engine.dispose()  # connections that were made without these


def work(study: optuna.Study, sweep: Sweep, stop: Stop) -> None:
    """Train trials until all are done, also those that another worker has begun and left."""
    import optuna

    states = optuna.trial.TrialState
    seen: set[int] = set()
    bar = Bar(total=sweep.trials, unit="trial", leave=False)
    with bar, Trainings(command_of(sweep.algorithm)) as trainings:
        worker = Worker(bar, stop, trainings)
        while True:
            stop.check()
            optuna.storages.fail_stale_trials(study)
            trials = study.get_trials(deepcopy=False)
            if take_up(study, trials):
                continue
            ended = (each for each in trials if each.state.is_finished() and not _is_lost(each))
            bar.n = len({each.user_attrs[FOLDER] for each in ended if SURPLUS not in each.user_attrs})
            bar.set_postfix_str(_best(study))
            running = {each._trial_id for each in trials if each.state == states.RUNNING}
            if sum(map(_has_place, trials)) < sweep.trials or any(each.state == states.WAITING for each in trials):
                study.optimize(lambda trial: try_once(trial, sweep, worker), n_trials=1, catch=(EndedError,))
            elif running:
                numbers = few(each.number for each in trials if each.state == states.RUNNING)
                bar.set_postfix_str(f"waiting for other workers, or a minute if they are gone: trial {numbers}")
                _expect(study, running - seen)
                seen |= running
                time.sleep(POLL)
            else:
                return


def take_up(study: optuna.Study, trials: Sequence[optuna.trial.FrozenTrial]) -> bool:
    """Let lost trials that nothing has taken up wait for a worker, in their own run folders; whether there are any."""
    import optuna

    last = {_folder_name(each): each for each in trials if SURPLUS not in each.user_attrs}
    lost = {name: each for name, each in last.items() if _is_lost(each)}
    for name, each in lost.items():
        waiting = optuna.create_trial(
            state=optuna.trial.TrialState.WAITING,
            params=each.params,
            distributions=each.distributions,
            user_attrs={**each.user_attrs, FOLDER: name},
        )
        study.add_trial(waiting)
    return bool(lost)


def _is_lost(trial: optuna.trial.FrozenTrial) -> bool:
    """Whether its worker is gone: it has ended, and nothing says how."""
    return trial.state.name == "FAIL" and not {FAULT, SURPLUS} & trial.user_attrs.keys()


def _expect(study: optuna.Study, running: set[int]) -> None:
    """Give one sign of life for each of these trials.

    Optuna waits for a next sign only after a first one, and a worker may have been killed before that.
    """
    storage: Any = study._storage
    for trial in running:
        storage.record_heartbeat(trial)


def _has_place(trial: optuna.trial.FrozenTrial) -> bool:
    """Whether it counts as one of the trials that are asked for, and not as a second try of another."""
    return SURPLUS not in trial.user_attrs and trial.user_attrs.get(FOLDER) in (None, _new_folder(trial))


def _folder_name(trial: optuna.trial.FrozenTrial | optuna.Trial) -> str:
    """Of its run folder, also before that is noted."""
    return trial.user_attrs.get(FOLDER, _new_folder(trial))


def _new_folder(trial: optuna.trial.FrozenTrial | optuna.Trial) -> str:
    return f"trial_{trial.number:04d}"


def _best(study: optuna.Study) -> str:
    complete = [each for each in study.get_trials(deepcopy=False) if each.state.name == "COMPLETE"]
    best = max(complete, key=lambda each: each.values[0], default=None)
    return "" if best is None else f"best return {best.value:.3f} in {best.user_attrs[FOLDER]}"


def try_once(trial: optuna.Trial, sweep: Sweep, worker: Worker) -> float:
    """`train_trial`; a stopped trial is lost at once, not, as that of a killed worker, a minute later."""
    import optuna

    try:
        return train_trial(trial, sweep, worker)
    except StoppedError:
        trial.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        raise


def train_trial(trial: optuna.Trial, sweep: Sweep, worker: Worker) -> float:
    """The return of a trial's run at its end; it is trained, or goes on if it was begun before.

    Raises:
        EndedError: the run ended by a mistake; or there are enough trials, or another worker has taken up this one, a
            moment before.
        optuna.TrialPruned: its evaluations are below the median of other trials.
    """
    import optuna

    earlier = [each for each in trial.study.get_trials(deepcopy=False) if each.number < trial.number]
    if FOLDER not in trial.user_attrs:
        if sum(map(_has_place, earlier)) >= sweep.trials:
            raise _surplus(trial)
        trial.set_user_attr(FOLDER, _folder_name(trial))
    folder = sweep.out / _folder_name(trial)
    same = [each for each in earlier if _folder_name(each) == folder.name and SURPLUS not in each.user_attrs]
    if any(each.state != optuna.trial.TrialState.FAIL for each in same):
        raise _surplus(trial)
    if same:
        gone = f"the worker of trial {same[-1].number} is gone"
        worker.bar.write(f"{folder.name}: {gone}, trial {trial.number} goes on with it")
    # A sampler for each trial: the draws of workers differ. `constant_liar`: what others train counts as bad.
    draws = int(np.random.SeedSequence([sweep.sampler_seed, trial.number]).generate_state(1)[0])
    trial.study.sampler = optuna.samplers.TPESampler(seed=draws, constant_liar=True)
    values = {name: _suggest(trial, name, distribution) for name, distribution in sweep.space.items()}
    _wait_until_free(folder, worker.stop)
    for _ in range(RESTARTS):
        status = _run(trial, sweep, folder, values, worker)
        if status == 0:
            break
        if status > 0 and status != INTERRUPTED:
            log = folder.with_suffix(".log")
            try_to_write(log)  # a full disk is no fault of the trial: it ends the sweep, which goes on later
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise _failed(trial, worker, lines[-1] if lines else f"exit status {status}, and nothing said")
    else:
        raise _failed(trial, worker, f"killed {RESTARTS} times")
    (*_, (_, value)) = evaluations(folder)
    if np.isnan(value):  # Optuna would fail the trial without a note, as that of a lost worker, which is taken up again
        raise _failed(trial, worker, "the evaluated return is no number; look at the environment with jaxvrp.check_env")
    keys = ", ".join(f"{name} {_shown(values[name])}" for name in values)
    worker.bar.write(f"{folder.name}: return {value:.3f}, {keys}")
    return value


def _surplus(trial: optuna.Trial) -> EndedError:
    trial.set_user_attr(SURPLUS, True)
    return EndedError()


def _failed(trial: optuna.Trial, worker: Worker, fault: str) -> EndedError:
    worker.bar.write(f"{trial.user_attrs[FOLDER]} failed: {fault}")
    trial.set_user_attr(FAULT, fault)
    return EndedError()


def _suggest(trial: optuna.Trial, name: str, distribution: Any) -> Any:
    kind = {"CategoricalDistribution": trial.suggest_categorical, "IntDistribution": trial.suggest_int}
    suggest: Any = kind.get(type(distribution).__name__, trial.suggest_float)
    return suggest(name, **distribution._asdict())


def _wait_until_free(folder: pathlib.Path, stop: Stop) -> None:
    """A run may have outlived the worker that began it: wait for its end."""
    while folder.is_dir():
        stop.check()
        try:
            with locked(folder):
                return
        except UserError:
            time.sleep(POLL)


def _run(trial: optuna.Trial, sweep: Sweep, folder: pathlib.Path, values: Mapping[str, Any], worker: Worker) -> int:
    """Train to the end, and report evaluations; the exit status."""
    import optuna

    worker.stop.check()
    if Checkpoints(folder / CHECKPOINTS, read_only=True).latest is None:
        shutil.rmtree(folder, ignore_errors=True)
        words = [*sweep.words, "--run_dir", str(folder), *typed(values)]
    else:
        words = ["--resume", str(folder), "--trust"]
    try:
        worker.trainings.begin(words, folder.with_suffix(".log"))
        num_reported = 0
        while (status := worker.trainings.status()) is None:
            worker.stop.check()
            for steps, value in evaluations(folder)[num_reported:]:
                trial.report(value, steps)
                num_reported += 1
                if trial.should_prune():
                    worker.bar.write(f"{folder.name}: pruned after {steps} steps, at return {value:.3f}")
                    raise optuna.TrialPruned
            time.sleep(POLL)
        return status
    finally:
        worker.trainings.stop()


def evaluations(folder: pathlib.Path) -> list[tuple[int, float]]:
    """Environment steps and return of the evaluations of a run, the mean of its seeds."""
    records = [each for each in read_records(folder / METRICS) if "eval/return" in each]
    return [(each["env_steps"], float(np.mean(each["eval/return"]))) for each in records]


def _shown(value: Any, digits: str = ".4g") -> str:
    return format(value, digits) if isinstance(value, float) else str(value)


def report(study: optuna.Study, sweep: Sweep) -> None:
    """The table of all trials, each with its end, the best first, as text and whole as CSV; and Optuna's plots."""
    trials = study.get_trials(deepcopy=False)
    trials.sort(key=lambda each: (each.state.name != "COMPLETE", -(each.value if each.value is not None else -np.inf)))
    rows: list[list[Any]] = [["run", "state", "return", *sweep.space, "trial"]]
    for each in trials:
        value = "" if each.value is None else each.value
        keys = [each.params.get(name, "") for name in sweep.space]
        run = "" if SURPLUS in each.user_attrs else _folder_name(each)
        rows.append([run, _end_of(each, trials), value, *keys, each.number])
    write_csv(sweep.out / "trials.csv", rows)
    printed = rows[: MOST_ROWS + 1]
    print(aligned([[run, end, _shown(value, ".3f"), *map(_shown, rest)] for run, end, value, *rest in printed]))
    if len(rows) > MOST_ROWS + 1:
        print(f"... and {len(rows) - MOST_ROWS - 1} more in {sweep.out / 'trials.csv'}")
    draw(study, sweep)


def _end_of(trial: optuna.trial.FrozenTrial, trials: Sequence[optuna.trial.FrozenTrial]) -> str:
    """What became of a trial, among all of them."""
    if SURPLUS in trial.user_attrs:
        return "surplus"
    same = (each for each in trials if _folder_name(each) == _folder_name(trial) and SURPLUS not in each.user_attrs)
    after = [each.number for each in same if each.number > trial.number]
    return f"taken up by {min(after)}" if after else trial.state.name.lower()


def draw(study: optuna.Study, sweep: Sweep) -> None:
    """Optuna's plots: the history, each key by itself, and which key mattered if there are several."""
    import matplotlib as mpl

    mpl.use("Agg")
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization import matplotlib as plots

    complete = [each for each in study.get_trials(deepcopy=False) if each.state.name == "COMPLETE"]
    if len(complete) < 2:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all trials are alike, say
        drawn: dict[str, Any] = {"history": plots.plot_optimization_history(study), "keys": plots.plot_slice(study)}
        if len(sweep.space) > 1:
            drawn["importance"] = plots.plot_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
        for axes in np.ravel(drawn["keys"]):
            axes.tick_params("x", which="both", rotation=60)  # within a decade, labels would lie on each other
        for name, axes in drawn.items():
            figure = np.ravel(axes)[0].figure
            # Else names of keys push the title of their axis out; `constrained` fails beside a colour bar of one plot.
            figure.set_layout_engine("tight" if np.size(axes) == 1 else "constrained")
            save_still(figure, sweep.out / f"{name}.png", dpi=120)
    print(f"drawn in {sweep.out}: {', '.join(f'{name}.png' for name in drawn)}")


if __name__ == "__main__":
    entry(main)
