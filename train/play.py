"""Play one episode of an environment by a baseline, at random or by a policy, and show it as a page.

python -m train.play truck_drone
python -m train.play darp --actor random --env.num_nodes 40 --seed 3
python -m train.play vrpd_tw --actor vrpd_tw --no_browser    # a run folder, or a policy that is shipped
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
import webbrowser
from collections.abc import Sequence
from typing import Any

import jax

import jaxvrp
from jaxvrp import Environment, registry, show
from jaxvrp.actor import Actor, RandomActor
from jaxvrp.io.command_line import Parser, UserError, index
from jaxvrp.io.messages import nearest
from jaxvrp.players import GREEDY
from jaxvrp.policies.environment import changed_for_evaluation
from jaxvrp.policies.folder import find_run, shipped_policies
from train.commands.entry import entry
from train.replay import check_written, episode_of, make_folder, write_files
from train.run.evaluator import Evaluator
from train.run.folder import RunFolder, read_run
from train.run.progress import Parts
from train.settings.command_line import split_mapping, users_code
from train.settings.keys import LAUNCH

Values = dict[str, Any]


def play(env: Environment, actor: Actor, seed: int) -> dict[str, Any]:
    """The episode that an actor plays, in the format of `jaxvrp.show`; a seed gives all actors the same instance."""
    evaluator = Evaluator(env, 1, seed)
    return show.export_episode(jax.device_get(jax.jit(lambda: evaluator.record(actor))()))


def players(env: Environment) -> dict[str, Any]:
    """By name, functions from an environment to a player that needs no training: baselines, planners, random play."""
    known = registry.players_of(env)
    first = dict(zip([GREEDY], known.baselines.values(), strict=False))
    return {**first, **known.baselines, "random": RandomActor, **known.planners}


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: writes `ENV_ACTOR_SEED.json` and `.html`, and opens the page in a browser."""
    args, changes = _arguments(sys.argv[1:] if argv is None else argv)
    with users_code(args.env):
        env = _made(args.env, changes)
    known_players = players(env)
    actor = args.actor or (GREEDY if GREEDY in known_players else "random")
    folder = None if actor in known_players else _folder(args, known_players, changes)
    if folder is None and (args.sampled or args.trust or args.checkpoint != "latest"):
        raise UserError(f"--sampled, --checkpoint and --trust are of a run, and '{actor}' is none; leave them out")
    name = pathlib.Path(actor).resolve().name if folder else actor
    name = re.sub(r"[^\w.-]+", "_", f"{args.env}_{name}_{args.seed}")
    path = make_folder(pathlib.Path(args.out)) / f"{name}.json"
    check_written([path], folder.sources if folder else [])
    run = folder.load(args.checkpoint) if folder else None
    with Parts(2) as parts:
        parts.begin(f"{pathlib.Path(actor).name} plays")
        if run:
            episode = episode_of(run, instance=0, deterministic=not args.sampled, num_episodes=1, seed=args.seed)
        else:
            subtitle = f"{registry.players_of(env).full_name(actor)}, instance of seed {args.seed}"
            episode = {**play(env, known_players[actor](env), args.seed), "subtitle": subtitle}
        parts.begin("writing")
        write_files([episode], [path])
    summary, page = episode["summary"], path.with_suffix(".html")
    print(f"return {summary['return']:.2f} in {summary['length']} steps; wrote {path} and {page}")
    if not args.no_browser and not _open(page):
        print(f"there is no browser to open {page} in; open it where there is one: it needs no other file")


def _made(name: str, changes: Values) -> Environment:
    """The environment of evaluation, but for what was typed."""
    env = jaxvrp.make(name, **changes)
    evaluation = registry.card_of(env).evaluation
    return changed_for_evaluation(env, {name: changes[name] for name in evaluation if name in changes})


def _folder(args: argparse.Namespace, known_players: Values, changes: Values) -> RunFolder:
    if not pathlib.Path(args.actor).exists() and args.actor not in shipped_policies():
        known = nearest(args.actor, [*known_players, *shipped_policies()])
        raise UserError(
            f"--actor {args.actor}: no player of {args.env}, no run folder, no policy is called so; {known}"
        )
    played = read_run(find_run(args.actor), trust=args.trust).config.env
    if args.env not in (played["name"], played.get("scenario")):
        raise UserError(f"--actor {args.actor} plays {played.get('scenario', played['name'])}, and not {args.env}")
    return RunFolder(args.actor, changes, trust=args.trust)


def _open(page: pathlib.Path) -> bool:
    """Open a page in a browser with a window; whether there is one. Those of a terminal would take it over."""
    is_desktop = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(is_desktop) and webbrowser.open(page.resolve().as_uri())


def _arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, Values]:
    parser = Parser("train.play", "Play one episode of an environment, and show it as a page; nothing is trained.")
    parser.add_argument("env", metavar="ENV", help="a registered name, or package.module:Class")
    parser.add_argument(
        "--actor",
        help="greedy (the environment's first baseline), another baseline or planner by its name, random, a run folder "
        "or the name of a shipped policy (default: greedy, where there is a baseline, else random)",
    )
    parser.add_argument("--seed", type=index, default=0, help="of the instance and of what is drawn (default: 0)")
    parser.add_argument("--out", default=".", metavar="FOLDER", help="for the page and the episode (default: this one)")
    parser.add_argument("--no_browser", action="store_true", help="write the page, and do not open it")
    parser.add_argument("--sampled", action="store_true", help="of a run: sample actions")
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="of a run: which")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of a parameter of the environment")
    words, env = split_mapping(argv, "env", has_name=True)
    return parser.parse_args(words), env


if __name__ == "__main__":
    entry(main)
