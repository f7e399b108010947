"""Measure a policy beside the baselines, by whole episodes on fixed instances or on a problem of your own.

python -m train.evaluate --run DIR [--sampled] [--episodes N] [--checkpoint best] [--render out.gif]
python -m train.evaluate --run DIR --best_of 128 --temperature 3
python -m train.evaluate --run DIR --env.num_nodes 40    # another size, where the network (attention) allows it
python -m train.evaluate --run DIR --instance FILE --plan out.json out.csv [--actor greedy]    # a problem of one's own
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax

from jaxvrp import Environment, registry
from jaxvrp.episodes import Episode
from jaxvrp.io.command_line import Parser, UserError, above_zero, index, positive
from jaxvrp.io.messages import nearest
from jaxvrp.show import STILLS
from jaxvrp.show.export import can_record_steps, draw, record_steps
from train.commands.entry import entry
from train.commands.instance_file import (
    INDEX_HELP,
    POLICY,
    InstanceFile,
    Output,
    check_output,
    show_warnings,
    write_all,
)
from train.run.compiler import Compiler
from train.run.evaluator import (
    Evaluator,
    baseline_actors,
    best_of_tries,
    evaluation_function,
    first_seed,
    recording_function,
    to_host,
)
from train.run.folder import RunFolder
from train.run.progress import Episodes
from train.settings.command_line import split_mapping
from train.settings.keys import LAUNCH
from train.shown.tables import figures_table


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: figures of a trained run beside the baselines, and a picture of an episode."""
    args, changes = _arguments(argv)
    if args.instance:
        return _evaluate_instance(args, changes)
    folder = RunFolder(args.run, changes, trust=args.trust)
    learner, config = folder.player, folder.player.config
    env = learner.evaluation_env
    _check_pictures(args, env, folder.sources)
    run = folder.load(args.checkpoint)
    seed = config.eval_seed if args.seed is None else args.seed
    evaluator = Evaluator(env, args.episodes or config.eval_episodes, seed)
    deterministic = not (args.sampled or args.best_of > 1)
    choosing: dict[str, Any] = {"deterministic": deterministic, "temperature": args.temperature}
    rounds = args.best_of * config.num_seeds + len(baseline_actors(evaluator.env))
    with Episodes(evaluator.num_episodes * rounds) as episodes, Compiler() as compiler:
        episodes.begin("policy")
        compiled = functools.partial(compiler.compile, quick=True)
        # By hand: a map of JAX would sort the players by name.
        baselines = {name: [*map(compiled, forms)] for name, forms in evaluator.baseline_programs().items()}
        key = None if deterministic else evaluator.keys(1)[0]
        if args.best_of > 1:
            best, tries = best_of_tries(
                learner, run.params, evaluator, args.best_of, episodes, temperature=args.temperature
            )
            key = evaluator.keys(args.best_of)[int(tries.ravel()[0])]
        else:
            play = evaluation_function(learner, evaluator, **choosing)
            best = compiler.compile(play, run.params, quick=True)(run.params)
            episodes.advance(evaluator.num_episodes * config.num_seeds)
        figures = {"policy": to_host(best), **evaluator.baselines(episodes, baselines)}
        outputs = []
        if args.render or args.debug:
            record = recording_function(learner, evaluator, key=key, temperature=args.temperature)
            params = first_seed(learner, run.params)
            outputs = _pictures(args, jax.device_get(compiler.compile(record, params, quick=True)(params)))
    head = f"{evaluator.num_episodes} fixed instances, whole episodes, {_kind_of_play(args, deterministic)} policy of"
    write_all(outputs, f"{head} update {run.update}\n\n{figures_table(figures, registry.card_of(env).headlines)}")


def _evaluate_instance(args: argparse.Namespace, changes: dict[str, Any]) -> None:
    """Figures on the problem of a file, and the plan and the pictures of one player's episode there."""
    file = InstanceFile.open(args.instance, args.run, changes, row=args.index, trust=args.trust)
    for path in args.plan:
        check_output("--plan", path, file.problems.endings, [file.path, *file.folder.sources])
    _check_pictures(args, file.env, [*file.folder.sources, file.path])
    show_warnings(file.problems.inspect(file.problem, file.env), file.assumed)
    run = file.folder.load(args.checkpoint)
    deterministic = not (args.sampled or args.best_of > 1)
    players = file.players(run, deterministic=deterministic, temperature=args.temperature)
    args.actor = registry.players_of(file.env).full_name(args.actor)
    if args.actor not in players:
        raise UserError(f"--actor {args.actor}: there is no such player; {nearest(args.actor, players)}")
    seed = run.learner.config.eval_seed if args.seed is None else args.seed
    tries = {name: args.best_of if name == POLICY else 1 for name in players}
    played = {}
    with Episodes(sum(tries.values())) as episodes:
        for name, actor in players.items():
            episodes.begin(name)
            played[name] = file.play(actor, seed, tries[name])
            episodes.advance(tries[name])
    headlines = registry.card_of(file.env).headlines
    figures = figures_table({name: each.figures for name, each in played.items()}, headlines)
    report = f"{file.path}, {_kind_of_play(args, deterministic)} policy of update {run.update}\n\n{figures}"
    shown = played[args.actor]
    outputs = _pictures(args, shown.episode, file.problem)
    if args.plan:
        plan = file.plan(shown, args.actor)
        outputs += [
            Output("--plan", path, lambda path: file.problems.write_plan(file.problem, path, plan))
            for path in args.plan
        ]
    write_all(outputs, f"{report}\n\nthe episode of {args.actor}:" if outputs else report)


def _kind_of_play(args: argparse.Namespace, deterministic: bool) -> str:
    temperature = f" at temperature {args.temperature:g}" if args.temperature != 1 else ""
    best_of = f", best of {args.best_of}," if args.best_of > 1 else ""
    return f"{'deterministic' if deterministic else 'sampled'}{temperature}{best_of}"


def _check_pictures(args: argparse.Namespace, env: Environment, sources: list[pathlib.Path]) -> None:
    """Check, before anything is played, that what `_pictures` gives can be written."""
    if args.render is not None:
        check_output("--render", args.render, (".gif", *STILLS), sources)
    if args.debug is None:
        return
    if not can_record_steps(env):
        raise UserError(f"--debug {args.debug}: this environment records no steps; leave it out")
    path = pathlib.Path(args.debug)
    is_empty_folder = path.is_dir() and not any(path.iterdir())
    if path.exists() and not is_empty_folder:
        raise UserError(f"--debug {args.debug}: this is no empty folder; give another one, or empty it")


def _pictures(args: argparse.Namespace, episode: Episode, problem: Any = None) -> list[Output]:
    """What `--render` and `--debug` ask for of an episode."""
    draw_episode = functools.partial(draw, episode, problem=problem)
    record = functools.partial(record_steps, episode)
    known = [Output("--render", args.render, draw_episode), Output("--debug", args.debug, record)]
    return [output for output in known if output.path]


def _arguments(argv: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any]]:
    parser = Parser("train.evaluate", "Evaluate a trained run on fixed instances.")
    parser.add_argument("--run", type=str, required=True, help="run folder, or the name of a policy that is shipped")
    parser.add_argument("--trust", action="store_true", help=LAUNCH["trust"].sentence)
    parser.add_argument("--sampled", action="store_true", help="sample actions instead of taking the most probable")
    parser.add_argument("--best_of", type=positive, default=1, help="sample this many episodes, keep the best")
    parser.add_argument(
        "--temperature",
        type=above_zero,
        default=1.0,
        help="of the samples; above 1 they differ more (default: 1)",
    )
    parser.add_argument("--episodes", type=positive, help="how many instances (default: the run's eval_episodes)")
    parser.add_argument("--seed", type=index, help="where the instances come from (default: the run's eval_seed)")
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument("--render", type=str, help="draw one episode: an animated .gif or a summary .png")
    parser.add_argument("--debug", metavar="FOLDER", help="record every step of one episode in an empty folder")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of a parameter of the environment")
    parser.add_argument("--instance", metavar="FILE", help="a problem of your own, instead of the fixed instances")
    parser.add_argument("--index", type=index, help=INDEX_HELP)
    parser.add_argument("--plan", metavar="FILE", nargs="+", default=[], help="write the plan for it: .json, .csv")
    parser.add_argument("--actor", metavar="NAME", default=POLICY, help="player of the plan: a row of the table")
    words, env = split_mapping(sys.argv[1:] if argv is None else argv, "env")
    args = parser.parse_args(words)
    if args.temperature != 1 and not args.sampled and args.best_of == 1:
        raise UserError("--temperature is of samples, and none are drawn; add --sampled or --best_of, or leave it out")
    if args.instance and args.episodes:
        raise UserError("--episodes: there is one instance, that of --instance; leave one of them out")
    if not args.instance and (args.plan or args.actor != POLICY or args.index is not None):
        raise UserError("--plan, --actor and --index are of the problem in a file; name it with --instance")
    return args, env


if __name__ == "__main__":
    entry(main)
