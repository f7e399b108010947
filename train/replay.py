"""Play an episode of a trained run, and write it as JSON and as a page that plays it.

python -m train.replay --run DIR [--instance K] [--out FOLDER] [--sampled]
python -m train.replay --run DIR --instance FILE    # a problem of one's own
python -m train.replay --run DIR --against greedy   # a baseline on the same problem, side by side
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax

from jaxvrp import Environment, episodes, registry, show
from jaxvrp.io.command_line import Parser, UserError, index, refuse_overwriting, refuse_unwritable
from jaxvrp.io.messages import nearest
from train.commands.entry import entry
from train.commands.instance_file import INDEX_HELP, POLICY, InstanceFile, show_warnings
from train.run.evaluator import Evaluator, baseline_actors, first_seed
from train.run.folder import RunFolder, Trained
from train.run.progress import Parts
from train.settings.command_line import split_mapping
from train.settings.keys import LAUNCH

Episode = dict[str, Any]
"""In the format of `jaxvrp.show.episode_format`."""


def episode_of(
    run: Trained, *, instance: int, deterministic: bool, num_episodes: int, seed: int, player: str = POLICY
) -> Episode:
    """The episode that a trained run (of several seeds the first), or a baseline, plays on one of its fixed instances.

    `player` is `POLICY`, or the name of one of `baseline_actors`.
    """
    learner = run.learner
    evaluator = Evaluator(learner.evaluation_env, num_episodes, seed)

    def record(params: Any) -> episodes.Episode:
        policy = learner.actor(params, deterministic=deterministic)
        return evaluator.record({POLICY: policy, **baseline_actors(evaluator.env)}[player], instance)

    played = jax.device_get(jax.jit(record)(first_seed(learner, run.params)))
    episode = _with_player(run, played, None, player, deterministic)
    return {**episode, "subtitle": f"{episode['subtitle']}, fixed instance {instance} of seed {seed}"}


def _with_player(run: Trained, played: episodes.Episode, problem: Any, player: str, deterministic: bool) -> Episode:
    """An episode with its player; of the policy with probabilities, and values where the run has kept its critic."""
    episode = {**show.export_episode(played, problem), "player": player, "subtitle": player}
    if player != POLICY:
        return episode
    params, critic = first_seed(run.learner, (run.params, run.critic))
    probability, value = jax.device_get(jax.jit(run.learner.insight)(params, critic, played.states))
    episode = show.with_insight(episode, played, probability=probability, value=value)
    kind = "most probable" if deterministic else "sampled"
    return {**episode, "subtitle": f"policy of update {run.update}, {kind} actions"}


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: writes `episode_K.json` and `episode_K.html`; of a problem in a file, with its name for K.

    With a baseline to compare with, also `episode_K_NAME.json`, and both are on the page.
    """
    args, changes = _arguments(argv)
    file, folder = _opened(args, changes)
    config, name = folder.player.config, file.name if file else args.instance
    players = _players(args.against, folder.player.evaluation_env)
    # The folder of a shipped policy is part of the package, and perhaps read-only.
    default = pathlib.Path() if folder.is_policy else folder.folder
    names = [f"episode_{name}", *(f"episode_{name}_{player.replace(' ', '_')}" for player in players[1:])]
    out = make_folder(pathlib.Path(args.out or default))
    paths = [out / f"{each}.json" for each in names]
    check_written(paths, [*folder.sources, *([file.path] if file else [])])
    if file:
        show_warnings(file.problems.inspect(file.problem, file.env), file.assumed)
    run, deterministic = folder.load(args.checkpoint), not args.sampled

    def play(player: str) -> Episode:
        if file:
            actor = file.players(run, deterministic=deterministic, temperature=1.0)[player]
            played = file.play(actor, config.eval_seed)
            return _with_player(run, played.episode, file.problem, player, deterministic)
        fixed = {"num_episodes": config.eval_episodes, "seed": config.eval_seed}
        return episode_of(run, instance=args.instance, deterministic=deterministic, player=player, **fixed)

    episodes = []
    with Parts(len(players) + 1) as parts:
        for player in players:
            parts.begin("the policy plays" if player == POLICY else f"{player} plays")
            episodes.append(play(player))
        parts.begin("writing")
        write_files(episodes, paths)
    width = max(len(player) for player in players)
    for episode in episodes:
        summary = episode["summary"]
        row = f"{episode['player']:<{width}}  " if len(episodes) > 1 else ""
        print(f"{row}return {summary['return']:.2f} in {summary['length']} steps", end="\n" if row else "; ")
    print(f"wrote {' and '.join(str(path) for path in (*paths, paths[0].with_suffix('.html')))}")


def _opened(args: argparse.Namespace, changes: dict[str, Any]) -> tuple[InstanceFile | None, RunFolder]:
    """The problem in a file, if `--instance` names a file, and the run that plays."""
    if isinstance(args.instance, str):
        file = InstanceFile.open(args.instance, args.run, changes, row=args.index, trust=args.trust)
        return file, file.folder
    if args.index is not None:
        raise UserError("--index is of the problem in a file; name it with --instance")
    folder = RunFolder(args.run, changes, trust=args.trust)
    count = folder.player.config.eval_episodes
    if args.instance >= count:
        raise UserError(
            f"--instance is {args.instance}, but the run has {count} fixed instances; "
            f"choose one from 0 to {count - 1}, or the file of a problem"
        )
    return None, folder


def _players(against: str | None, env: Environment) -> list[str]:
    """Who plays: the policy, and the baseline to compare it with."""
    if not against:
        return [POLICY]
    baseline, known = registry.players_of(env).full_name(against), baseline_actors(env)
    if baseline not in known:
        raise UserError(f"--against {against}: there is no such baseline; {nearest(against, known)}")
    return [POLICY, baseline]


def check_written(paths: list[pathlib.Path], sources: list[pathlib.Path]) -> None:
    """Check, before anything is played, that the files can be written."""
    for written in (*paths, paths[0].with_suffix(".html")):
        refuse_overwriting(written, "--out", sources)
    refuse_unwritable(paths[0], "--out")


def write_files(episodes: list[Episode], paths: list[pathlib.Path]) -> None:
    """Write episodes, and the page with all of them."""
    page = paths[0].with_suffix(".html")
    try:
        for episode, path in zip(episodes, paths, strict=True):
            show.write_episode(episode, path)
        show.write_page(episodes[0], page, *episodes[1:])
    except OSError as error:
        raise UserError(f"cannot write {page}: {error.strerror}; choose another --out") from None


def make_folder(folder: pathlib.Path) -> pathlib.Path:
    """The folder for what is written, made if it is not there, which is said."""
    if not folder.exists():
        if folder.suffix.lower() in (".html", ".json"):
            raise UserError(f"--out {folder}: give a folder; page and episode have names of their own there")
        print(f"--out {folder}: there is no such folder yet; making it", file=sys.stderr)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another --out") from None
    return folder


def _arguments(argv: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any]]:
    parser = Parser("train.replay", "Write an episode of a trained run as JSON and as a page that plays it.")
    parser.add_argument("--run", type=str, required=True, help="run folder, or the name of a policy that is shipped")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument(
        "--instance",
        type=lambda text: index(text) if text.removeprefix("-").isdecimal() else text,
        default=0,
        metavar="K",
        help="which fixed instance, from 0 (default: 0), or a FILE",
    )
    parser.add_argument("--index", type=index, help=INDEX_HELP)
    parser.add_argument("--out", help="folder for both files (default: the run's; of a policy alone, this one)")
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="greedy or another baseline of the environment, or random, on the same instance, side by side on the page",
    )
    parser.add_argument("--sampled", action="store_true", help="sample actions instead of taking the most probable")
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of a parameter of the environment")
    words, env = split_mapping(sys.argv[1:] if argv is None else argv, "env")
    return parser.parse_args(words), env


if __name__ == "__main__":
    entry(main)
