"""The programs that ship, as jitted functions and shapes of arguments: for devices that need not be here."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxvrp
from benchmarks.measuring.subject import parameters_of
from benchmarks.throughput import RandomPlay
from jaxvrp import Environment, VecEnv
from jaxvrp.entities import PARAMETER
from jaxvrp.policies.networks import NETWORKS
from train import ALGORITHMS, Evaluator, RunConfig, evaluation_function, make_train, parse, shipped_names, stages_of
from train.learning.sharding import make_mesh

STEPS = 64
"""Scanned steps of random play."""

SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {"same_day": ("dispatch", {"scenario": "same_day"})}
"""Beside the environments at their first sizes: environments and parameters whose programs differ, by name."""

Lowered = Any
"""`jax.stages.Lowered`."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program by name; `lower` makes it for the devices of `train.learning.sharding.DEVICES`.

    `steps` are the trips of the loop whose body is a step of `batch` environments; None: the whole program counts.
    """

    name: str
    lower: Callable[[], Lowered]
    batch: int | None = None
    steps: int | None = None


def all_programs(batch: int) -> Iterator[Program]:
    """Of every environment, at its first size (`benchmarks.measuring.subject`), and of every shipped configuration."""
    for name in jaxvrp.registered():
        yield from environment_programs(name, name, parameters_of(name), batch)
    for name, (environment, parameters) in SCENARIOS.items():
        yield from environment_programs(name, environment, parameters, batch)
    for name in shipped_names():
        yield from learner_programs(name)
    yield from network_programs()


def environment_programs(name: str, environment: str, parameters: dict[str, Any], batch: int) -> Iterator[Program]:
    """Random play, with flat observations and with entities where there are both; a step; a reset."""
    env = jaxvrp.make(environment, **parameters)
    players = {f"play:{name}": env}
    if PARAMETER in env.parameters:
        kinds = {seen: {**parameters, PARAMETER: seen} for seen in ("flat", "entities")}
        players = {f"play:{name}:{seen}": jaxvrp.make(environment, **changed) for seen, changed in kinds.items()}
    for program, player in players.items():
        yield Program(program, functools.partial(random_play, player, batch), batch, STEPS)
    yield Program(f"step:{name}", functools.partial(step, env, batch), batch)
    yield Program(f"reset:{name}", functools.partial(reset, env, batch), batch)


def learner_programs(config: str, **changes: Any) -> Iterator[Program]:
    """The updates of a shipped configuration, of each stage, and its evaluation; `changes` of its keys by name."""
    algorithm = next((name for name in ALGORITHMS if config.endswith(f"_{name}")), "mappo")
    configs = stages_of(configuration(algorithm, config, changes))
    for number, each in enumerate(configs, 1):
        ending = f":{number}" if len(configs) > 1 else ""
        yield Program(f"train:{config}{ending}", functools.partial(chunk, each))
    yield Program(f"evaluate:{config}", functools.partial(evaluation, configs[-1]))


def network_programs(**changes: Any) -> Iterator[Program]:
    """The updates of MAPPO and IPPO with every network, on the main job, whose rollouts are whole sequences of 8."""
    for algorithm, network in itertools.product(("mappo", "ippo"), NETWORKS):
        config = configuration(algorithm, "truck_drone_basic", {"network": network, "chunk_length": 8, **changes})
        yield Program(f"train:{algorithm}:{network}", functools.partial(chunk, config))


def random_play(env: Environment, batch: int) -> Lowered:
    """As `benchmarks.throughput` measures it."""
    play = RandomPlay(env, batch, STEPS, make_mesh(1))
    return play.chunk.lower(jax.eval_shape(play.begin, _key()))


def step(env: Environment, batch: int) -> Lowered:
    """`VecEnv.step`, donated, with a refresh of the pool of instances."""
    vec = VecEnv(env, batch)
    return jax.jit(vec.step, donate_argnums=0).lower(*_placed(shapes_of_step(vec)))


def shapes_of_step(vec: VecEnv) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
    """Shapes of what `VecEnv.step` takes: a state, and an action for each agent of each environment."""
    state, _ = jax.eval_shape(vec.reset, _key())
    action = {
        name: jax.ShapeDtypeStruct((vec.num_envs, role.num_agents, *role.action.shape), role.action.dtype)
        for name, role in vec.env.roles.items()
    }
    return state, action


def reset(env: Environment, batch: int) -> Lowered:
    """`VecEnv.reset`."""
    return jax.jit(VecEnv(env, batch).reset).lower(_placed(_key()))


def chunk(config: Any) -> Lowered:
    """`train_chunk` of a learner."""
    learner = make_train(config)
    return learner.train_chunk.func.lower(learner.config.numbers, jax.eval_shape(learner.init, _key()))


def evaluation(config: Any) -> Lowered:
    """The policy's episodes on the fixed instances."""
    learner = make_train(config)
    params = jax.eval_shape(lambda key: learner.actor_params(learner.init(key)), _key())
    evaluator = Evaluator(learner.evaluation_env, config.eval_episodes, config.eval_seed)
    return jax.jit(evaluation_function(learner, evaluator)).lower(_placed(params))


def configuration(algorithm: str, config: str, changes: Mapping[str, Any]) -> RunConfig:
    """A shipped configuration, by the command line of an algorithm, with other values of some keys, on all devices."""
    words = [word for key, value in changes.items() for word in (f"--{key}", str(value))]
    config_class = ALGORITHMS[algorithm].config_class
    return parse(config_class, ["--config", config, *words], prog=f"train.{algorithm}", description="").config


def _key() -> jax.ShapeDtypeStruct:
    return jax.eval_shape(lambda: jax.random.key(0))


def _placed(shapes: Any) -> Any:
    """The same shapes on the first device."""
    mesh: Mesh = make_mesh(1)
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, P())), shapes
    )
