"""Play an episode of a trained run, and write it as JSON and as a page that plays it.

python -m train.replay --run DIR [--instance K] [--out FOLDER] [--sampled]
python -m train.replay --run DIR --instance FILE    # a problem of one's own
python -m train.replay --run DIR --against greedy   # a baseline on the same problem, side by side
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

import jax

from jaxvrp import Environment, registry, replay
from jaxvrp.io.command_line import Parser, UserError, index, refuse_overwriting
from jaxvrp.io.messages import nearest
from jaxvrp.replay.export import exporter
from train.running.command import command_line
from train.running.command.instance_file import INDEX_HELP, POLICY, InstanceFile
from train.running.command.keys import LAUNCH
from train.running.command.prepare import evaluation_env
from train.running.folder.run_folder import RunFolder, Trained
from train.running.loop.evaluator import Evaluator, baseline_actors, first_seed
from train.running.loop.progress import Parts

Episode = dict[str, Any]
"""In the format of `jaxvrp.replay.episode_format`."""


def episode_of(
    run: Trained, *, instance: int, deterministic: bool, num_episodes: int, seed: int, player: str = POLICY
) -> Episode:
    """The episode that a trained run, or a baseline, plays on one of its fixed instances.

    Args:
        run: from `RunFolder.load`; of several seeds, the first plays.
        instance: which, from 0.
        deterministic: the most probable actions, or samples.
        num_episodes, seed: of the fixed instances.
        player: `POLICY`, or the name of one of `baseline_actors`.
    """
    learner, params = run.learner, first_seed(run.learner, run.params)
    evaluator = Evaluator(evaluation_env(learner.env, learner.config), num_episodes, seed)
    place = f"fixed instance {instance} of seed {seed}"
    if player != POLICY:
        actor = baseline_actors(evaluator.env)[player]
        states, actions = jax.device_get(jax.jit(lambda: evaluator.record(actor, instance))())
        episode = replay.export_episode(evaluator.env, states, actions)
        return {**episode, "player": player, "subtitle": f"{player}, {place}"}
    record = jax.jit(lambda params: evaluator.record(learner.actor(params, deterministic=deterministic), instance))
    states, actions = jax.device_get(record(params))
    episode = _with_insight(run, evaluator.env, states, replay.export_episode(evaluator.env, states, actions))
    return {**episode, "player": player, "subtitle": f"{_player(run, deterministic)}, {place}"}


def episode_of_file(run: Trained, file: InstanceFile, *, deterministic: bool, player: str = POLICY) -> Episode:
    """The episode that a trained run, or a baseline, plays on the problem of a file, with the names that it has there.

    Args:
        run: of `file.folder`; of several seeds, the first plays.
        file: the problem.
        deterministic: the most probable actions, or samples.
        player: `POLICY`, or the name of one of `baseline_actors`.
    """
    actor = file.players(run, deterministic=deterministic, temperature=1.0)[player]
    played = file.play(actor, run.learner.config.eval_seed)
    episode = replay.export_episode(file.env, played.states, played.actions)
    who = player
    if player == POLICY:
        episode, who = _with_insight(run, file.env, played.states, episode), _player(run, deterministic)
    return {**file.files.label_episode(file.problem, episode), "player": player, "subtitle": who}


def _with_insight(run: Trained, env: Environment, states: Any, episode: Episode) -> Episode:
    """The episode of a policy with its probabilities, and with values where the run has kept its critic."""
    learner = run.learner
    params, critic = first_seed(learner, (run.params, run.critic))
    probability, value = jax.device_get(jax.jit(learner.insight)(params, critic, states))
    return replay.with_insight(episode, env, states, probability=probability, value=value)


def _player(run: Trained, deterministic: bool) -> str:
    return f"policy of update {run.update}, {'most probable' if deterministic else 'sampled'} actions"


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: writes `episode_K.json` and `episode_K.html`; of a problem in a file, with its name for K.

    With a baseline to compare with, also `episode_K_NAME.json`, and both are on the page.

    Raises:
        UserError: a mistake of the user's, as one line.
    """
    args = _arguments(argv)
    is_file = isinstance(args.instance, str)
    if args.index is not None and not is_file:
        raise UserError("--index is of the problem in a file; name it with --instance")
    file = InstanceFile.open(args.instance, args.run, {}, row=args.index, trust=args.trust) if is_file else None
    folder = file.folder if file else RunFolder(args.run, trust=args.trust)
    config, name = folder.player.config, file.name if file else args.instance
    if not file and args.instance >= config.eval_episodes:
        raise UserError(
            f"--instance is {args.instance}, but the run has {config.eval_episodes} fixed instances; "
            f"choose one from 0 to {config.eval_episodes - 1}, or the file of a problem"
        )
    try:
        exporter(folder.player.env)
    except ValueError as error:
        raise UserError(str(error)) from None
    env = file.env if file else evaluation_env(folder.player.env, config)
    players = [POLICY] + ([_baseline(args.against, env)] if args.against else [])
    # The folder of a shipped policy is part of the package, and perhaps read-only.
    default = pathlib.Path() if folder.is_policy else folder.folder
    names = [f"episode_{name}", *(f"episode_{name}_{player.replace(' ', '_')}" for player in players[1:])]
    out = make_folder(pathlib.Path(args.out or default))
    paths = [out / f"{each}.json" for each in names]
    for written in (*paths, paths[0].with_suffix(".html")):
        refuse_overwriting(written, "--out", [*folder.sources, *([file.path] if file else [])])
    run, deterministic = folder.load(args.checkpoint), not args.sampled
    episodes = []
    with Parts(len(players) + 1) as parts:
        for player in players:
            parts.begin("the policy plays" if player == POLICY else f"{player} plays")
            if file:
                episodes.append(episode_of_file(run, file, deterministic=deterministic, player=player))
            else:
                fixed = {"num_episodes": config.eval_episodes, "seed": config.eval_seed}
                episodes.append(
                    episode_of(run, instance=args.instance, deterministic=deterministic, player=player, **fixed)
                )
        parts.begin("writing")
        write_files(episodes, paths)
    _report(episodes, paths)


def _baseline(name: str, env: Environment) -> str:
    """The name of a baseline of an environment.

    Raises:
        UserError: there is no such baseline.
    """
    known, full_name = baseline_actors(env), registry.toolbox_of(env).full_name(name)
    if full_name not in known:
        raise UserError(f"--against {name}: there is no such baseline; {nearest(name, known)}")
    return full_name


def _report(episodes: list[Episode], paths: list[pathlib.Path]) -> None:
    """Say what they came to, a line for each player if there are several, and what was written."""
    width = max(len(episode["player"]) for episode in episodes)
    for episode in episodes:
        summary = episode["summary"]
        who = f"{episode['player']:<{width}}  " if len(episodes) > 1 else ""
        print(f"{who}return {summary['return']:.2f} in {summary['length']} steps", end="\n" if who else "; ")
    print(f"wrote {' and '.join(str(path) for path in (*paths, paths[0].with_suffix('.html')))}")


def write_files(episodes: list[Episode], paths: list[pathlib.Path]) -> None:
    """Write episodes, and the page with all of them.

    Raises:
        UserError: they cannot be written.
    """
    page = paths[0].with_suffix(".html")
    try:
        for episode, path in zip(episodes, paths, strict=True):
            replay.write_episode(episode, path)
        replay.write_page(episodes[0], page, *episodes[1:])
    except OSError as error:
        raise UserError(f"cannot write {page}: {error.strerror}; choose another --out") from None


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


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("train.replay", "Write an episode of a trained run as JSON and as a page that plays it.")
    parser.add_argument("--run", type=str, required=True, help="run folder, or the name of a policy that is shipped")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument(
        "--instance",
        type=lambda text: index(text) if text.isdecimal() else text,
        default=0,
        metavar="K",
        help="which fixed instance, from 0 (default: 0), or a FILE",
    )
    parser.add_argument("--index", type=index, help=INDEX_HELP)
    parser.add_argument(
        "--out",
        type=str,
        help="folder for both files (default: the run's; of a policy alone, this one)",
    )
    parser.add_argument(
        "--against",
        type=str,
        metavar="NAME",
        help="greedy or another baseline of the environment, or random, on the same instance, side by side on the page",
    )
    parser.add_argument("--sampled", action="store_true", help="sample actions instead of taking the most probable")
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    return parser.parse_args(argv)


if __name__ == "__main__":
    command_line.entry(main)
