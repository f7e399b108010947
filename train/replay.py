"""Play an episode of a trained run, and write it as JSON and as a page that plays it.

python -m train.replay --run DIR [--instance K] [--out FOLDER] [--sampled]
python -m train.replay --run DIR --instance FILE    # a problem of one's own
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

import jax

from jaxvrp import replay
from jaxvrp.io.command_line import Parser, UserError, index, refuse_overwriting
from jaxvrp.replay.export import exporter
from train.running import command_line
from train.running.evaluator import Evaluator, first_seed
from train.running.instance_file import POLICY, InstanceFile
from train.running.keys import LAUNCH
from train.running.prepare import evaluation_env
from train.running.progress import Parts
from train.running.run_folder import RunFolder, Trained


def episode_of(run: Trained, *, instance: int, deterministic: bool, num_episodes: int, seed: int) -> dict[str, Any]:
    """The episode that a trained run plays on one of its fixed instances, in the format of `jaxvrp.replay`.

    Args:
        run: from `RunFolder.load`; of several seeds, the first plays.
        instance: which, from 0.
        deterministic: the most probable actions, or samples.
        num_episodes, seed: of the fixed instances.
    """
    learner, params = run.learner, first_seed(run.learner, run.params)
    evaluator = Evaluator(evaluation_env(learner.env, learner.config), num_episodes, seed)
    record = jax.jit(lambda params: evaluator.record(learner.actor(params, deterministic=deterministic), instance))
    states, actions = jax.device_get(record(params))
    episode = replay.export_episode(evaluator.env, states, actions)
    return {**episode, "subtitle": f"{_player(run, deterministic)}, fixed instance {instance} of seed {seed}"}


def episode_of_file(run: Trained, file: InstanceFile, *, deterministic: bool) -> dict[str, Any]:
    """The episode that a trained run plays on the problem of a file, with the names that it has there.

    Args:
        run: of `file.folder`; of several seeds, the first plays.
        file: the problem.
        deterministic: the most probable actions, or samples.
    """
    actor = file.players(run, deterministic=deterministic, temperature=1.0)[POLICY]
    played = file.play(actor, run.learner.config.eval_seed)
    episode = replay.export_episode(file.env, played.states, played.actions)
    return {**file.files.label_episode(file.problem, episode), "subtitle": _player(run, deterministic)}


def _player(run: Trained, deterministic: bool) -> str:
    return f"policy of update {run.update}, {'most probable' if deterministic else 'sampled'} actions"


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: writes `episode_K.json` and `episode_K.html`; of a problem in a file, with its name for K.

    Raises:
        UserError: a mistake of the user's, as one line.
    """
    args = _arguments(argv)
    is_file = isinstance(args.instance, str)
    file = InstanceFile.open(args.instance, args.run, {}, trust=args.trust) if is_file else None
    folder = file.folder if file else RunFolder(args.run, trust=args.trust)
    config, name = folder.player.config, file.path.stem if file else args.instance
    if not file and args.instance >= config.eval_episodes:
        raise UserError(
            f"--instance is {args.instance}, but the run has {config.eval_episodes} fixed instances; "
            f"choose one from 0 to {config.eval_episodes - 1}, or the file of a problem"
        )
    try:
        exporter(folder.player.env)
    except ValueError as error:
        raise UserError(str(error)) from None
    # A policy that is shipped lies where nobody looks, and perhaps may not write.
    default = pathlib.Path() if folder.is_policy else folder.folder
    path = make_folder(pathlib.Path(args.out or default)) / f"episode_{name}.json"
    for written in (path, path.with_suffix(".html")):
        refuse_overwriting(written, "--out", [*folder.sources, *([file.path] if file else [])])
    run = folder.load(args.checkpoint)
    with Parts(2) as parts:
        parts.begin("the policy plays")
        if file:
            episode = episode_of_file(run, file, deterministic=not args.sampled)
        else:
            episode = episode_of(
                run,
                instance=args.instance,
                deterministic=not args.sampled,
                num_episodes=config.eval_episodes,
                seed=config.eval_seed,
            )
        parts.begin("writing")
        write_files(episode, path)
    summary = episode["summary"]
    print(f"return {summary['return']:.2f} in {summary['length']} steps; wrote {path} and {path.with_suffix('.html')}")


def write_files(episode: dict[str, Any], path: pathlib.Path) -> None:
    """Write an episode and its page.

    Raises:
        UserError: they cannot be written.
    """
    try:
        replay.write_episode(episode, path)
        replay.write_page(episode, path.with_suffix(".html"))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another --out") from None


def make_folder(folder: pathlib.Path) -> pathlib.Path:
    """The folder for what is written, made if it is not there.

    Raises:
        UserError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another --out") from None
    return folder


def _index_or_file(text: str) -> int | str:
    """The number of a fixed instance, or a path, as an argument type."""
    return index(text) if text.isdecimal() else text


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("train.replay", "Write an episode of a trained run as JSON and as a page that plays it.")
    parser.add_argument("--run", type=str, required=True, help="run folder, or the name of a policy that is shipped")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument(
        "--instance",
        type=_index_or_file,
        default=0,
        metavar="K",
        help="which fixed instance, from 0 (default: 0), or a FILE",
    )
    parser.add_argument(
        "--out",
        type=str,
        help="folder for both files (default: the run's; of a policy alone, this one)",
    )
    parser.add_argument("--sampled", action="store_true", help="sample actions instead of taking the most probable")
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    return parser.parse_args(argv)


if __name__ == "__main__":
    command_line.entry(main)
