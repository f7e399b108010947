"""Play an episode of a trained run, and write it as JSON and as a page that plays it.

python -m train.replay --run DIR [--instance K] [--out FOLDER] [--sampled]
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
from train.running.keys import LAUNCH
from train.running.prepare import evaluation_env
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
    kind = "most probable actions" if deterministic else "sampled actions"
    return {**episode, "subtitle": f"policy of update {run.update}, {kind}, fixed instance {instance} of seed {seed}"}


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: writes `episode_K.json` and `episode_K.html`.

    Raises:
        UserError: a mistake of the user's, as one line.
    """
    args = _arguments(argv)
    folder = RunFolder(args.run, trust=args.trust)
    config = folder.player.config
    if args.instance >= config.eval_episodes:
        raise UserError(
            f"--instance is {args.instance}, but the run has {config.eval_episodes} fixed instances; "
            f"choose one from 0 to {config.eval_episodes - 1}"
        )
    try:
        exporter(folder.player.env)
    except ValueError as error:
        raise UserError(str(error)) from None
    # A policy that is shipped lies where nobody looks, and perhaps may not write.
    default = pathlib.Path() if folder.is_policy else folder.folder
    path = _make_folder(pathlib.Path(args.out or default)) / f"episode_{args.instance}.json"
    for written in (path, path.with_suffix(".html")):
        refuse_overwriting(written, "--out", folder.sources)
    run = folder.load(args.checkpoint)
    episode = episode_of(
        run,
        instance=args.instance,
        deterministic=not args.sampled,
        num_episodes=config.eval_episodes,
        seed=config.eval_seed,
    )
    try:
        replay.write_episode(episode, path)
        replay.write_page(episode, path.with_suffix(".html"))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another --out") from None
    summary = episode["summary"]
    print(f"return {summary['return']:.2f} in {summary['length']} steps; wrote {path} and {path.with_suffix('.html')}")


def _make_folder(folder: pathlib.Path) -> pathlib.Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another --out") from None
    return folder


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("train.replay", "Write an episode of a trained run as JSON and as a page that plays it.")
    parser.add_argument("--run", type=str, required=True, help="run folder, or the name of a policy that is shipped")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--instance", type=index, default=0, help="which fixed instance, from 0 (default: 0)")
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
