"""What each part of a configuration is worth: the same training with one part changed at a time, several seeds each.

python -m benchmarks.ablation --out result.json --plot curves.png
python -m benchmarks.ablation --config truck_drone_scarce --only 'as it is' 'no imitation' --num_seeds 3
python -m benchmarks.ablation --suite vrpd_tw --runs runs/parts_vrpd_tw --out result.json

Every other key of `python -m train.mappo --help` is given to all of them. A suite (`benchmarks/suites/NAME.yaml`) names
a configuration, what is given to all, and what is changed. With `--runs` the runs are kept, for `benchmarks.quality
--trained`, and those that are there already are not trained again.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import pathlib
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import jaxvrp
from benchmarks import learning, measure
from jaxvrp import pictures
from jaxvrp.io.command_line import Parser, UserError, check_picture_path, positive
from jaxvrp.io.whole_files import write_json
from jaxvrp.pictures import STILLS, save_still, series_look
from train.algorithms import ALGORITHMS
from train.running.command import command_line
from train.running.command.config_file import read_yaml
from train.running.folder.run_folder import read_run
from train.running.loop.records import METRICS, TIMING, read_records
from train.running.shown.tables import aligned

AS_IT_IS = "as it is"

PARTS = {
    AS_IT_IS: "",
    "no imitation": "--imitate null --imitate_steps 0 --imitate_coef 0",
    "no pull after imitation": "--imitate_coef 0",
    "decisions at every step": "--env.decide steps",
    "MLP": "--network mlp",
    "encoded by every agent": "--attention_encode agent",
    "encoded once an instance": "--attention_encode instance",
    "no attention between entities": "--attention_layers 0",
    "a policy for every drone": "--share_drone_policy false",
    "local critics (IPPO)": "--critic local",
    "no value normalisation": "--value_norm false",
    "no entropy bonus": "--entropy_coef 0",
    "four times the entropy bonus": "--entropy_coef 0.02",
    "gradients clipped at 5": "--max_grad_norm 5",
    "constant learning rate": "--lr_decay false",
    "group baseline": "--rollout episodes --rollout_length 200 --baseline group --group_size 16 --eval_interval 4 "
    "--save_interval 4",
}
"""Words of the command line that change a part, by what the part is then called."""

SUITES = pathlib.Path(__file__).parent / "suites"
SPENT = "spent.json"
"""Beside a run: seconds of the whole of it, by the clock and of all cores."""

Record = dict[str, Any]


def replaced(words: Sequence[str], changes: Sequence[str]) -> list[str]:
    """Words `--key value ...` with those of `changes`, which take the place of the same keys."""
    keys = {key for key in changes if key.startswith("--")}
    starts = [place for place, word in enumerate(words) if word.startswith("--")]
    kept = [words[start:end] for start, end in itertools.pairwise([*starts, len(words)])]
    return [*itertools.chain.from_iterable(given for given in kept if given[0].split("=")[0] not in keys), *changes]


@dataclasses.dataclass(frozen=True)
class Suite:
    """Trainings that are compared.

    Attributes:
        config: as of `train.mappo --config`.
        options: words of the command line that all are given.
        parts: words that change a part, by what the part is then called; `{runs}` is the folder of all runs.
    """

    config: str
    options: Sequence[str]
    parts: Mapping[str, Sequence[str]]


def read_suite(name: str) -> Suite:
    """The suite `benchmarks/suites/NAME.yaml`, or that of a path; a part without words is the one of `PARTS`.

    Raises:
        UserError: no such file, or it says something else; one line.
    """
    path = pathlib.Path(name) if name.endswith(".yaml") else SUITES / f"{name}.yaml"
    try:
        content = read_yaml(path)
        config, options, parts = content["config"], content.get("options") or "", content["parts"]
        changes = {str(part): PARTS[part] if words is None else words for part, words in parts.items()}
        return Suite(config, shlex.split(options), {part: shlex.split(words) for part, words in changes.items()})
    except OSError as error:
        known = ", ".join(sorted(each.stem for each in SUITES.glob("*.yaml")))
        raise UserError(f"--suite {name}: {error.strerror}; give a path, or one of: {known}") from None
    except KeyError as error:
        raise UserError(
            f"{path}: nothing is known of {error}; see {SUITES.name}/truck_drone_basic.yaml for what is needed"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: {error}; see {SUITES.name}/truck_drone_basic.yaml for what is needed") from None


def measured(words: Sequence[str], run: pathlib.Path) -> Record:
    """What came of a training in the folder `run`, which is read if it is complete; see `record_of`.

    Raises:
        UserError: that folder holds another training, or one that did not end.
    """
    spent = run / SPENT
    if not spent.is_file():
        start = time.process_time()
        _, seconds = learning.trained("mappo", [*words, "--pictures", "false"], run)
        write_json(spent, {"wall": seconds, "cpu": time.process_time() - start})
    elif _training(read_run(run).config) != _training(_config(words)):
        raise UserError(f"{run} holds a training with other keys; move it away, or choose other --runs")
    return record_of(run)


def record_of(run: pathlib.Path) -> Record:
    """What came of the training in a folder.

    Figures of the policy, by seed; `seconds` of the whole run by the clock and `cpu_seconds` of all cores, both with
    compilation and evaluation; its `curve` against the CPU seconds of its updates; figures of all players, `baselines`.
    """
    spent = json.loads((run / SPENT).read_text(encoding="utf-8"))
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    share = spent["cpu"] / spent["wall"]
    return {
        "figures": summary["policy"],
        "seconds": spent["wall"],
        "cpu_seconds": spent["cpu"],
        "curve": [[seconds * share, mean] for seconds, mean in curve(run)],
        "baselines": summary,
    }


def _training(config: Any) -> dict[str, Any]:
    """What a training is, wherever the folder of all runs lies, and whatever it draws at its end."""
    start = config.start_from
    return {**vars(config), "start_from": start and pathlib.Path(start).name, "pictures": None}


def _config(words: Sequence[str]) -> Any:
    return command_line.parse(
        ALGORITHMS["mappo"].config_class, words, prog="benchmarks.ablation", description=""
    ).config


def curve(run: pathlib.Path) -> list[list[float]]:
    """`[seconds, mean return]` of each evaluation of a run; the seconds of its updates, without compilation."""
    metrics, timing = read_records(run / METRICS), read_records(run / TIMING)
    # The first update compiles.
    paces = [record["time/seconds"] for record in timing[1:]] or [0.0]
    first = min(timing[0]["time/seconds"], float(np.median(paces)))
    clock = np.cumsum([first, *paces])
    return [
        [float(seconds), float(np.mean(record["eval/return"]))]
        for record, seconds in zip(metrics, clock, strict=False)
        if "eval/return" in record
    ]


def table(records: dict[str, Record], titles: dict[str, str]) -> learning.Table:
    """A head and a row for each part that was changed; of several seeds, the mean and the range."""
    figures = {name: record["figures"] for name, record in records.items()}
    head, *rows = learning.table(figures, titles)
    seconds = [f"{record['curve'][-1][0]:.0f}" for record in records.values()]
    rows = [[*row, taken] for row, taken in zip(rows, seconds, strict=True)]
    return [["changed", *head[1:], "seconds"], *rows]


def draw(records: dict[str, Record], *, ax: Any = None) -> Any:
    """The curves of all, return against seconds of training; in `ax`, or the axes of a new figure, which it returns."""
    axes = pictures.axes_of(ax, 8.3, 4.4, 120, (0.7, 0.5))
    others = (name for name in records if name != AS_IT_IS)
    looks = {AS_IT_IS: {"color": "black", "linewidth": 2.5}}
    looks |= {name: {**series_look(number), "linewidth": 1.2} for number, name in enumerate(others)}
    for name, record in records.items():
        axes.plot(*zip(*record["curve"], strict=True), **looks[name], label=name)
    axes.set(xlabel="CPU seconds of training, all seeds", ylabel="return, mean over seeds")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    return axes


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args, words = _parser().parse_known_args(argv)
    suite = _suite(args)
    measure.check_result_file(args.out, [suite.config, args.runs])
    if args.plot:
        check_picture_path(args.plot, STILLS, "--plot")
    chosen = args.only or list(suite.parts)
    if unknown := [name for name in chosen if name not in suite.parts]:
        raise UserError(f"--only: nothing is called '{unknown[0]}'; choose among: {', '.join(suite.parts)}")
    words = replaced(["--config", suite.config, "--num_seeds", str(args.num_seeds), *suite.options], words)
    records: dict[str, Record] = {}
    with _folder(args.runs) as runs, measure.progress(chosen, "training") as bar:
        for name in bar:
            bar.set_postfix_str(name)
            changes = [word.replace("{runs}", str(runs)) for word in suite.parts[name]]
            records[name] = measured(replaced(words, changes), runs / name)
    config = _config(words)
    env = jaxvrp.make(**config.env)
    header = measure.machine(["python", "-m", "benchmarks.ablation", *argv], measure.device_name())
    how = {
        "training": f"mappo, {suite.config}: {config.total_steps} decisions of each of {config.num_seeds} seeds in "
        "one program, one part changed at a time",
        "figures": f"means over {config.eval_episodes} fixed instances, whole episodes, deterministic policy, "
        "after the last update; of the seeds: mean (least to largest)",
        "seconds": "CPU seconds of the updates of all seeds together, without compilation and evaluation: those by the "
        "clock times the processors that the whole run had on average",
    }
    titles = learning.titles_of(env)
    print(f"{measure.described(header, how)}\n\n{aligned(table(records, titles))}")
    if args.out:
        measure.write_result(args.out, {"machine": header, "protocol": how, "titles": titles, "records": records})
        print(f"wrote {args.out}")
    if args.plot:
        save_still(draw(records).figure, args.plot, dpi=120)
        print(f"drew {args.plot}")


def _suite(args: argparse.Namespace) -> Suite:
    if args.suite and args.config:
        raise UserError("--suite names a configuration; leave --config out")
    if args.suite:
        return read_suite(args.suite)
    return Suite(args.config or "truck_drone_basic", [], {part: words.split() for part, words in PARTS.items()})


@contextlib.contextmanager
def _folder(kept: pathlib.Path | None) -> Iterator[pathlib.Path]:
    """The folder of all runs; a temporary one if none are to be kept."""
    if kept is None:
        with tempfile.TemporaryDirectory() as folder:
            yield pathlib.Path(folder)
        return
    kept.mkdir(parents=True, exist_ok=True)
    yield kept


def _parser() -> argparse.ArgumentParser:
    parser = Parser("benchmarks.ablation", "What each part of a configuration is worth.")
    parser.epilog = "Any key of python -m train.mappo --help can be given: --total_steps 100000"
    parser.add_argument("--config", help="as of train.mappo (default: the main job)")
    parser.add_argument("--suite", help="instead: a file of benchmarks/suites, by name or path: what is changed, too")
    parser.add_argument("--only", nargs="+", help="what is changed (default: each)")
    parser.add_argument("--num_seeds", type=positive, default=3, help="independent trainings of each (default: 3)")
    parser.add_argument(
        "--runs", type=pathlib.Path, help="folder that keeps the runs; those that it holds are not trained again"
    )
    parser.add_argument("--out", type=measure.result_file, help="JSON file for machine, protocol and all figures")
    parser.add_argument("--plot", type=pathlib.Path, help="picture of the curves of return against seconds")
    return parser


if __name__ == "__main__":
    command_line.entry(main)
