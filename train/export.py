"""Write the policy of a run alone: a folder with its configuration and results, or one file that needs JAX alone.

python -m train.export RUN FOLDER [--about TEXT] [--config FILE] [--checkpoint best]
python -m train.export RUN FILE.jaxpolicy [--env.num_customers 50]    # another size, where the network allows it
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import jax

import jaxvrp
from jaxvrp import registry
from jaxvrp.io.command_line import Parser, UserError, positive, refuse_overwriting, refuse_unwritable
from jaxvrp.io.messages import escaped, installing
from jaxvrp.io.whole_files import UNFINISHED, try_to_write
from jaxvrp.policies import program
from jaxvrp.policies.actors import build_actors
from jaxvrp.policies.folder import read_card, write_policy
from jaxvrp.policies.networks import NetworkKeys
from jaxvrp.policies.policy import of_networks
from train.commands.entry import entry
from train.run.evaluator import Evaluator, first_seed, to_host
from train.run.folder import CONFIG, RunFolder, Trained, write_configuration
from train.run.resume import RecordedRun
from train.settings.command_line import NAMES, build_config, parse, split_mapping
from train.settings.config_file import flat
from train.settings.keys import LAUNCH, as_typed
from train.shown.tables import figures_table


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: writes a folder, and prints the policy's figures beside the baselines; or a file."""
    args, changes = _arguments(argv)
    out = pathlib.Path(args.out)
    folder = RunFolder(args.run, changes, trust=args.trust)
    if out.suffix == program.ENDING:
        _write_program(out, folder, args)
        return
    if changes:
        raise UserError(
            f"--env.{next(iter(changes))} is of a file *{program.ENDING}; a folder plays what its run plays"
        )
    _check_new_folder(out)
    if folder.is_policy and args.config:
        raise UserError(f"{args.run} is a policy, whose card says what it was trained by; leave --config out")
    run = folder.load(args.checkpoint)
    training = _training(folder, run.update, args.config)
    config = folder.recorded.config
    episodes = args.episodes or config.eval_episodes
    asked = [] if episodes == config.eval_episodes else ["--episodes", str(episodes)]
    figures = measured(run, episodes)
    export(
        out,
        run,
        folder.recorded,
        about=args.about,
        training=training,
        figures={
            "command": shlex.join(["python", "-m", "train.evaluate", "--run", out.name, *asked]),
            "instances": episodes,
            "seed": config.eval_seed,
            "players": figures,
        },
        exported=provenance(),
    )
    print(f"{episodes} fixed instances, whole episodes, deterministic policy of update {run.update}\n")
    print(figures_table(figures, registry.card_of(run.learner.env).headlines))
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"\nwrote {out}: {size / 1000:.0f} kB, trained by {escaped(str(training.get('command')))}")


def _check_new_folder(out: pathlib.Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is no new or empty folder; give another one, or a file {out.stem}{program.ENDING}")
    try:
        try_to_write(next(parent for parent in out.absolute().parents if parent.is_dir()) / out.name)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose another folder") from None


def _training(folder: RunFolder, update: int, config_file: str | None) -> dict[str, Any]:
    """How a policy was trained, for its card."""
    if folder.is_policy:
        return read_card(folder.folder).training
    command = training_commands(folder.recorded, config_file, update)
    return {"command": command, "update": update, "env_steps": update * folder.recorded.config.steps_per_update}


def _write_program(out: pathlib.Path, folder: RunFolder, args: argparse.Namespace) -> None:
    if args.config or args.episodes:
        raise UserError(f"--config and --episodes are of a folder, and {out} will be a file; leave them out")
    refuse_overwriting(out, "OUT", folder.sources)
    refuse_unwritable(out, "OUT")
    config = folder.recorded.config
    if not isinstance(config, NetworkKeys):
        raise UserError(f"{args.run} was trained by {folder.recorded.algorithm}; only discrete actions go into a file")
    run = folder.load(args.checkpoint)
    env = run.learner.evaluation_env
    about = args.about or (read_card(folder.folder).about if folder.is_policy else "")
    policy = of_networks(env, build_actors(config, env), first_seed(run.learner, run.params), about)
    try:
        played = {"env": dict(folder.player.config.env), "eval_env": dict(folder.player.config.eval_env)}
        program.write_program(policy, out, {**folder.recorded.values, **played})
    except ImportError:
        raise UserError(f"exporting a program needs flatbuffers; {installing('export')}") from None
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose another file") from None
    print(f"wrote {out}: {out.stat().st_size / 1000:.0f} kB, for {', '.join(program.PLATFORMS)}, any batch")


def measured(run: Trained, episodes: int) -> dict[str, dict[str, Any]]:
    """Means over fixed instances of a run, of its policy and of every baseline; of several seeds the first."""
    learner, config = run.learner, run.learner.config
    evaluator = Evaluator(learner.evaluation_env, episodes, config.eval_seed)
    play = jax.jit(lambda params: evaluator.play(learner.actor(params, deterministic=True)))
    return {"policy": to_host(play(first_seed(learner, run.params))), **evaluator.baselines()}


def training_command(recorded: RecordedRun, config_file: str | None) -> str:
    """What to type to train a run: a configuration file, if one is given, and every key that differs from it."""
    names = {f"env.{name}": recorded.config.env.get(name) for name in NAMES}
    start = {"config": config_file} if config_file else {name: value for name, value in names.items() if value}
    argv = [f"--{name}={value}" for name, value in start.items()]
    program = f"train.{recorded.algorithm}"
    config_class = type(recorded.config)
    typed = parse(config_class, argv, prog=program, description="").config
    # Of a run that was made in Python, parameters of the environment may be left to their defaults.
    whole, _ = build_config(config_class, vars(recorded.config), complete=True)
    before, after = (flat(RecordedRun(config, recorded.algorithm).values) for config in (typed, whole))
    if gone := before.keys() - after.keys():
        raise UserError(f"--config {config_file} has {sorted(gone)[0]}, which the run has not; give another one")
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    words = [(f"--{name}", as_typed(value)) for name, value in [*start.items(), *changed.items()]]
    return shlex.join(["python", "-m", program, *(word for pair in words for word in pair)])


def training_commands(recorded: RecordedRun, config_file: str | None, update: int) -> str:
    """What to type to train a run up to an update; several commands where a resume has changed what it had trained to.

    Schedules reach over all updates, so the last configuration alone would train other numbers.
    """
    configs = [recorded.config]
    for change in reversed(recorded.changes):
        configs.insert(0, dataclasses.replace(configs[0], **change.before))
    changes = [change for change in recorded.changes if change.update < update]
    configs = configs[: len(changes) + 1]
    if all(config.num_updates == configs[0].num_updates for config in configs):
        return training_command(dataclasses.replace(recorded, config=configs[-1]), config_file)
    text = f"{training_command(dataclasses.replace(recorded, config=configs[0]), config_file)} --run_dir run"
    for config, change in zip(configs, changes, strict=False):
        words = [word for name, value in change.after.items() for word in (f"--{name}", as_typed(value))]
        stopped = f", stopped at update {change.update}" if change.update < config.num_updates else ""
        resume = shlex.join(["python", "-m", f"train.{recorded.algorithm}", "--resume", "run", *words])
        text += f"{stopped}, then {resume}"
    return text


def export(out: pathlib.Path, run: Trained, recorded: RecordedRun, **card: Any) -> None:
    """Write the folder of a policy, whole or not at all; of several seeds the first. For `card` see `policies.Card`."""
    single = dataclasses.replace(recorded, config=dataclasses.replace(recorded.config, num_seeds=1), changes=())
    partial = out.with_name(f".{out.name}.{os.getpid()}{UNFINISHED}")
    try:
        partial.mkdir(parents=True)
        write_configuration(partial, single)
        write_policy(partial, first_seed(run.learner, run.params), partial / CONFIG, **card)
        partial.replace(out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose another folder") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def provenance() -> dict[str, str | None]:
    """Date, version, and commit of the code, None where it is no checkout; `+` behind it if files were changed."""
    here = pathlib.Path(jaxvrp.__file__).parent
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    try:
        git = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = None
    return {"date": date, "version": jaxvrp.__version__, "commit": commit}


def _arguments(argv: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any]]:
    parser = Parser("train.export", "Write the policy of a run alone, as a folder or as one file.")
    parser.add_argument("run", metavar="RUN", help="run folder, or the name of a shipped policy")
    out = f"new or empty folder, whose name is the policy's; or a file *{program.ENDING}, which needs JAX alone"
    parser.add_argument("out", metavar="OUT", help=out)
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--about", default="", help="a sentence about it")
    parser.add_argument("--config", metavar="FILE", help="file that the run was trained with, to name in its command")
    parser.add_argument("--episodes", type=positive, help="instances for its figures (default: the run's)")
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument("--env.KEY", metavar="VALUE", help="of a file: another size, where the network allows it")
    words, env = split_mapping(sys.argv[1:] if argv is None else argv, "env")
    return parser.parse_args(words), env


if __name__ == "__main__":
    entry(main)
