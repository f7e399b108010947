"""Evaluation: whole episodes on fixed instances, deterministic by default.

python -m train.evaluate --run DIR [--sampled] [--episodes N] [--checkpoint best] [--render out.gif]
python -m train.evaluate --run DIR --best_of 128 --temperature 3
python -m train.evaluate --run DIR --env.num_nodes 40    # another size, where the network (attention) allows it
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp import Environment, TimeStep
from jaxvrp.actor import Actor, Carry
from jaxvrp.environment import select
from train import logger, policy
from train.actor_critic import Actors, ByRole
from train.rollout import sample_actions

Figures = dict[str, Any]

SUFFIXES = (".gif", ".png", ".svg", ".pdf")
"""Pictures that can be asked for."""

RENAMED = {"success": "success_rate"}
"""Names of metrics of one episode whose mean over episodes has another name."""


@dataclasses.dataclass(frozen=True)
class PolicyActor:
    """Trained actors, as an `Actor`: the most probable action, or a sample, of logits divided by `temperature`."""

    actors: Actors
    params: dict[str, Any]
    deterministic: bool = True
    temperature: float = 1.0

    def init(self, num_envs: int) -> Carry:
        """Recurrent states at the beginning of an episode."""
        return self.actors.initial_carry(num_envs)

    def act(self, key: jax.Array, carry: Carry, state: Any, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `jaxvrp.actor.Actor`."""
        del state
        observation = jax.tree.map(lambda leaf: leaf[None], timestep.observation)
        reset = jnp.zeros((1, *timestep.terminated.shape), bool)
        logits, carry = self.actors.apply(self.params, observation, carry, reset)
        logits = jax.tree.map(lambda leaf: leaf[0] / self.temperature, logits)
        if not self.deterministic:
            return sample_actions(key, logits, timestep.action_mask)[0], carry
        return {name: policy.mode(logits[name], timestep.action_mask[name]) for name in logits}, carry


class _Play(struct.PyTreeNode):
    """Batch of episodes under way: `[E, ...]` throughout."""

    state: Any
    timestep: TimeStep
    carry: Carry
    episode_return: jax.Array
    episode_length: jax.Array


def play_episodes(env: Environment, actor: Actor, instances: Any, key: jax.Array) -> dict[str, jax.Array]:
    """Play every instance (leading axis `[E]`) once, to its end.

    Returns:
        `{metric: f32[E]}`: the environment's metrics at the end, `return` (mean over agents) and `length`.
    """
    num_envs = jax.tree.leaves(instances)[0].shape[0]
    state, timestep = jax.vmap(env.reset_to)(instances)
    zero = jnp.zeros(num_envs, jnp.float32)

    def advance(step: jax.Array, play: _Play) -> _Play:
        action, carry = actor.act(jax.random.fold_in(key, step), play.carry, play.state, play.timestep)
        running = ~play.timestep.done
        state, timestep = jax.vmap(env.step)(play.state, action)
        return _Play(state, timestep, carry, play.episode_return + timestep.team_reward, play.episode_length + running)

    def body(loop: tuple[jax.Array, _Play]) -> tuple[jax.Array, _Play]:
        return loop[0] + 1, advance(*loop)

    def unfinished(loop: tuple[jax.Array, _Play]) -> jax.Array:
        return (loop[0] < env.max_episode_steps) & ~loop[1].timestep.done.all()

    first = _Play(state, timestep, actor.init(num_envs), zero, zero)
    _, play = jax.lax.while_loop(unfinished, body, (jnp.zeros((), jnp.int32), first))
    return {**play.timestep.metrics, "return": play.episode_return, "length": play.episode_length}


def record_episode(env: Environment, actor: Actor, instance: Any, key: jax.Array) -> tuple[Any, ByRole]:
    """States `[T + 1, ...]` and actions `{role: [T, agents, ...]}` of one episode; its last state repeats."""
    state, timestep = jax.vmap(env.reset_to)(jax.tree.map(lambda leaf: leaf[None], instance))

    def advance(loop: tuple[Any, TimeStep, Carry], key: jax.Array) -> tuple[tuple[Any, TimeStep, Carry], Any]:
        state, timestep, carry = loop
        action, carry = actor.act(key, carry, state, timestep)
        state, timestep = jax.vmap(env.step)(state, action)
        return (state, timestep, carry), (state, action)

    keys = jax.random.split(key, env.max_episode_steps)
    _, (states, actions) = jax.lax.scan(advance, (state, timestep, actor.init(1)), keys)
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first, rest[:, 0]]), state, states)
    return states, jax.tree.map(lambda leaf: leaf[:, 0], actions)


def first_seed(learner: Any, params: Any) -> Any:
    """The parameters of the first seed, if the learner has several."""
    return jax.tree.map(lambda leaf: leaf[0], params) if learner.config.num_seeds > 1 else params


def means(metrics: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Means over episodes, under the names that reports use: `success` becomes `success_rate`."""
    return {RENAMED.get(name, name): value.mean(axis=0) for name, value in metrics.items()}


class Evaluator:
    """Plays the fixed instances of a run with any actor.

    Attributes:
        env: the environment that is played.
        num_episodes: how many instances.
        seed: where they come from; not the training seed.
    """

    def __init__(self, env: Environment, num_episodes: int, seed: int):
        self.env, self.num_episodes, self.seed = env.for_evaluation, num_episodes, seed

    def instances(self) -> Any:
        """The fixed instances, leading axis `[num_episodes]`."""
        return jax.vmap(self.env.generate)(jax.random.split(jax.random.key(self.seed), self.num_episodes))

    def play(self, actor: Actor, best_of: int = 1) -> dict[str, jax.Array]:
        """Mean figures of an actor, of its best of several tries on each instance; pure, to be jitted by the caller."""
        key = jax.random.fold_in(jax.random.key(self.seed), self.num_episodes)
        instances = self.instances()
        best = play_episodes(self.env, actor, instances, key)

        def retry(best: dict[str, jax.Array], key: jax.Array) -> tuple[dict[str, jax.Array], None]:
            again = play_episodes(self.env, actor, instances, key)
            return select(again["return"] > best["return"], again, best), None

        if best_of > 1:
            best, _ = jax.lax.scan(retry, best, jax.random.split(key, best_of - 1))
        return means(best)

    def baselines(self) -> dict[str, Figures]:
        """Figures of the environment's baselines, by name."""
        return {
            name: to_host(jax.jit(lambda make=make: self.play(make()))()) for name, make in self.env.baselines.items()
        }

    def record(self, actor: Actor, index: int = 0) -> tuple[Any, ByRole]:
        """States and actions of the episode on instance `index`, see `record_episode`; pure."""
        instance = jax.tree.map(lambda leaf: leaf[index], self.instances())
        return record_episode(self.env, actor, instance, jax.random.key(self.seed))


def to_host(figures: dict[str, jax.Array]) -> Figures:
    """Python numbers, and lists where there are seeds or agents."""
    return {name: np.asarray(value).tolist() for name, value in jax.device_get(figures).items()}


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained run.

    Attributes:
        learner: as `train.loop.Learner`, on one device, with the environment to play.
        params: of its actors.
        update: of the checkpoint.
    """

    learner: Any
    params: Any
    update: int


class RunFolder:
    """A run on disk, to be played on one device, with some parameters of its environment changed if wanted.

    Attributes:
        player: the learner of the environment to play.
    """

    def __init__(self, folder: pathlib.Path, env: dict[str, Any] | None = None):
        """Read the configuration; `env` holds the changes, such as another size.

        Raises:
            UserError: no run there, or no such parameter.
        """
        from train import cli, loop  # they build on this module

        config, algorithm = loop.read_run(folder)
        # One device is enough, and may be all there is; the checkpoint does not depend on how many wrote it.
        config = dataclasses.replace(config, num_devices=1)
        changed = cli.checked(type(config), {**vars(config), "env": {**config.env, **(env or {})}})
        make_train = importlib.import_module(f"train.{algorithm}").make_train
        try:
            self.player = make_train(changed)
            self._writer = make_train(config) if env else self.player
        except (ValueError, TypeError) as error:
            raise cli.UserError(str(error)) from None
        self.folder = folder

    def load(self, checkpoint: str) -> Trained:
        """The actors of the `latest` or `best` checkpoint.

        Raises:
            UserError: no such checkpoint, or networks that are tied to the old size.
        """
        from train import checkpoint as checkpoints  # they build on this module
        from train import cli

        with checkpoints.Checkpoints(self.folder / "checkpoints", read_only=True) as saved:
            update = getattr(saved, checkpoint)
            like = self._writer.init(jax.random.key(self._writer.config.seed))
            params = self._writer.actor_params(saved.load(like, update))
        wanted = self.player.actor_params(jax.eval_shape(self.player.init, jax.random.key(0)))
        if jax.tree.map(jnp.shape, params) != jax.tree.map(jnp.shape, wanted):
            network = getattr(self.player.config, "network", "")
            kind, other = (f"({network}) ", ", or train with --network attention") if network else ("", "")
            raise cli.UserError(
                f"the networks of {self.folder} {kind}are tied to the sizes that they were trained with; "
                f"leave out what changes these{other}"
            )
        return Trained(self.player, params, update)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: figures of a trained run beside the baselines, and a picture of an episode."""
    from train import cli, loop  # they build on this module

    args, env = _arguments(cli, argv)
    folder = RunFolder(pathlib.Path(args.run), env)
    learner = folder.player
    try:
        _check_render(learner.env, args.render)
        _check_debug(learner.env, args.debug)
    except ValueError as error:
        raise cli.UserError(str(error)) from None
    run = folder.load(args.checkpoint)
    config = learner.config
    evaluator = Evaluator(learner.env, args.episodes or config.eval_episodes, args.seed or config.eval_seed)
    how = {"deterministic": not (args.sampled or args.best_of > 1), "temperature": args.temperature}
    figures = to_host(loop.evaluation(learner, evaluator, **how, best_of=args.best_of)(run.params))
    kind = "deterministic" if how["deterministic"] else "sampled"
    kind += f" at temperature {args.temperature:g}" if args.temperature != 1 else ""
    kind += f", best of {args.best_of}," if args.best_of > 1 else ""
    print(f"{evaluator.num_episodes} fixed instances, whole episodes, {kind} policy of update {run.update}\n")
    print(logger.figures_table({"policy": figures, **evaluator.baselines()}))
    if args.render:
        loop.render(learner, run.params, evaluator, [pathlib.Path(args.render)], **how)
        print(f"\ndrew {args.render}")
    if args.debug and (record := evaluator.env.debug_recorder):
        record(loop.recorded(learner, run.params, evaluator, **how), args.debug)
        print(f"\nrecorded every step in {args.debug}")


def _check_render(env: Environment, path: str | None) -> None:
    """Find out before the episodes are played whether one can be drawn there."""
    if path is None:
        return
    if env.renderer is None:
        raise ValueError(f"--render {path}: this environment has no renderer; leave it out")
    if pathlib.Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(f"--render {path}: the name must end in one of: {', '.join(SUFFIXES)}")
    if not pathlib.Path(path).parent.is_dir():
        raise ValueError(f"--render {path}: there is no folder {pathlib.Path(path).parent}; make it first")


def _check_debug(env: Environment, folder: str | None) -> None:
    """Find out before the episodes are played whether one can be recorded there."""
    if folder is None:
        return
    if env.debug_recorder is None:
        raise ValueError(f"--debug {folder}: this environment records no steps; leave it out")
    path = pathlib.Path(folder)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ValueError(f"--debug {folder}: this is no empty folder; give another one, or empty it")


def _arguments(cli: Any, argv: Sequence[str] | None) -> tuple[Any, dict[str, Any]]:
    """The options, and the parameters of the environment among them (`--env.key value`)."""
    parser = cli.plain_parser("train.evaluate", "Evaluate a trained run on fixed instances.")
    parser.add_argument("--run", type=str, required=True, help="run folder")
    parser.add_argument("--sampled", action="store_true", help="sample actions instead of taking the most probable")
    parser.add_argument("--best_of", type=cli.positive, default=1, help="sample so many episodes, keep the best")
    parser.add_argument(
        "--temperature", type=cli.above_zero, default=1.0, help="of the samples; above 1 they differ more (default: 1)"
    )
    parser.add_argument("--episodes", type=cli.positive, help="how many instances (default: the run's eval_episodes)")
    parser.add_argument(
        "--seed", type=cli.positive, help="where the instances come from (default: the run's eval_seed)"
    )
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest", help="which checkpoint")
    parser.add_argument("--render", type=str, help="draw one episode: a .gif moves, a .png sums up")
    parser.add_argument("--debug", metavar="FOLDER", help="record every step of one episode in an empty folder")
    parser.add_argument("--env.KEY", metavar="VALUE", help="another value of a parameter of the environment")
    words, env = cli.split_env(sys.argv[1:] if argv is None else argv)
    return parser.parse_args(words), env


if __name__ == "__main__":
    from train.cli import entry

    entry(main)
