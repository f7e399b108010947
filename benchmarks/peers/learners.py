"""What learns beside each other: our learners and JaxMARL's scripts, with the same settings.

On JaxMARL's environments, and on `truck_drone`. The settings are those that JaxMARL publishes beside each script, but
for the length of a training, the width of recurrent networks in particle environments (64), and the number of
environments of the script of SMAX (16): ours are made from them, key by key.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import scripts
from jaxvrp import make
from jaxvrp.adapters.from_jaxmarl import Foreign
from train import RunConfig, make_train
from train.on_policy.config import IPPOConfig, PPOConfig

RECURRENT = {"FC_DIM_SIZE": 64, "GRU_HIDDEN_DIM": 64}
"""Published: 128, of which 100 000 steps take a minute of a core. The script of SMAX needs 128."""


class Update(NamedTuple):
    """One of a training: the mean return of an agent in episodes that ended; the clock, and CPU seconds, after it."""

    returned: float
    wall: float
    cpu: float


Train = Callable[[int], list[Update]]
"""A whole training, compiled, by its seed."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """An environment and an algorithm.

    Attributes:
        problem, algorithm: in words.
        env: the environment of ours, a name and parameters.
        is_ours: whether the script trains on it, too, by the adapter.
        script: below `baselines`.
        settings: its settings, below `baselines`.
        updates: of a training.
        changes: what differs from the published settings.
        counted: returns of agents that a return of its log is: its particle environments log the sum over agents.
        sides: names of `SIDES`.
    """

    problem: str
    algorithm: str
    env: dict[str, Any]
    script: str
    settings: str
    updates: int
    changes: dict[str, Any]
    counted: int = 1
    is_ours: bool = False
    sides: tuple[str, ...] = ("ours", "JaxMARL's")

    @property
    def name(self) -> str:
        """As it is asked for."""
        return f"{self.algorithm}, {self.problem}"

    def published(self, clone: pathlib.Path) -> dict[str, Any]:
        """The settings of the script, with the changes."""
        settings = scripts.published(clone, self.settings) | self.changes
        return settings | {"TOTAL_TIMESTEPS": self.updates * settings["NUM_ENVS"] * settings["NUM_STEPS"]}


def config_of(comparison: Comparison, settings: dict[str, Any], *, normalised: bool) -> RunConfig:
    """Our configuration of the settings of a script; `normalised`, with LayerNorm and ValueNorm, as by default."""
    is_recurrent = "GRU_HIDDEN_DIM" in settings
    config_class = IPPOConfig if comparison.algorithm.startswith("IPPO") else PPOConfig
    return config_class(
        env=comparison.env,
        total_steps=settings["TOTAL_TIMESTEPS"],
        num_envs=settings["NUM_ENVS"],
        rollout_length=settings["NUM_STEPS"],
        chunk_length=settings["NUM_STEPS"],
        num_epochs=settings["UPDATE_EPOCHS"],
        num_minibatches=settings["NUM_MINIBATCHES"],
        actor_lr=settings["LR"],
        critic_lr=settings["LR"],
        lr_decay=settings["ANNEAL_LR"],
        gamma=settings["GAMMA"],
        gae_lambda=settings["GAE_LAMBDA"],
        clip_eps=settings["CLIP_EPS"],
        entropy_coef=settings["ENT_COEF"],
        max_grad_norm=settings["MAX_GRAD_NORM"],
        network="gru" if is_recurrent else "mlp",
        # Its scripts have 64 units and the activation of the settings, or, with memory, always ReLU.
        hidden_sizes=(settings["FC_DIM_SIZE"], settings["GRU_HIDDEN_DIM"]) if is_recurrent else (64, 64),
        recurrent_size=settings.get("GRU_HIDDEN_DIM", 64),
        activation="relu" if is_recurrent else settings["ACTIVATION"],
        layer_norm=normalised,
        value_norm=normalised,
    )


def by_jaxvrp(comparison: Comparison, clone: pathlib.Path, *, normalised: bool = False) -> Train:
    """Our training, compiled."""
    config = config_of(comparison, comparison.published(clone), normalised=normalised)
    trainer = make_train(config)
    init, (program, given) = trainer.init, (trainer.train_chunk.func, trainer.train_chunk.args)
    advance = program.lower(*given, jax.eval_shape(init, jax.random.key(0))).compile()
    jax.block_until_ready(init(jax.random.key(0)))

    def train(seed: int) -> list[Update]:
        state, updates = init(jax.random.key(seed)), []
        for _ in range(config.num_updates):
            state, metrics = advance(*given, state)
            ended = jnp.maximum(metrics["episode/episodes"].sum(), 1)
            updates.append(_update(metrics["episode/episode_return"].sum() / ended))
        return updates

    return train


def by_jaxmarl(comparison: Comparison, clone: pathlib.Path) -> Train:
    """The script's training, compiled."""
    updates: list[Update] = []

    def log(said: Any) -> None:
        # One script logs all that its environment's wrapper says.
        returned = said.get("returned_episode_returns", said.get("returns"))
        updates.append(_update(np.asarray(returned) / comparison.counted))

    script = scripts.loaded(clone, comparison.script, log, _adapted(comparison.env) if comparison.is_ours else None)
    settings = comparison.published(clone)
    # It takes its settings from this dictionary, and adds to it.
    program = jax.jit(script.make_train(settings)).lower(jax.random.PRNGKey(0)).compile()

    def train(seed: int) -> list[Update]:
        updates.clear()
        jax.block_until_ready(program(jax.random.PRNGKey(seed)))
        jax.effects_barrier()
        return list(updates)

    return train


def _adapted(env: dict[str, Any]) -> Any:
    """Our environment as JaxMARL's learners see it, with equal spaces for all agents."""
    from jaxvrp.adapters.jaxmarl import to_jaxmarl

    return to_jaxmarl(make(**env), pad=True)


def _update(returned: Any) -> Update:
    return Update(float(returned), time.perf_counter(), time.process_time())


class Smax(Foreign):
    """SMAX with three marines on each side, whose enemies play by a rule, with the parameters of the scripts."""

    @property
    def wrapped(self) -> Any:
        """The environment."""
        with jax.ensure_compile_time_eval():  # as in `from_jaxmarl`
            return _smax()


@functools.lru_cache
def _smax() -> Any:
    from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario

    parameters = {"see_enemy_actions": True, "walls_cause_death": True, "attack_mode": "closest"}
    return HeuristicEnemySMAX(scenario=map_name_to_scenario("3m"), **parameters)


SIDES: dict[str, Callable[[Comparison, pathlib.Path], Train]] = {
    "ours": by_jaxvrp,
    "ours, normalised": functools.partial(by_jaxvrp, normalised=True),
    "JaxMARL's": by_jaxmarl,
}
"""What can be asked for, by name; in the order in which they take turns."""

PARTICLES = {
    "MPE spread": ("MPE_simple_spread_v3", 3),
    "MPE speaker-listener": ("MPE_simple_speaker_listener_v4", 2),
}
"""Their names in JaxMARL, and numbers of agents."""

SCRIPTS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "IPPO, MLP": ("IPPO/ippo_ff_mpe.py", "IPPO/config/ippo_ff_mpe.yaml", 400, {}),
    "IPPO, GRU": ("IPPO/ippo_rnn_mpe.py", "IPPO/config/ippo_rnn_mpe.yaml", 150, RECURRENT),
    "MAPPO, GRU": ("MAPPO/mappo_rnn_mpe.py", "MAPPO/config/mappo_homogenous_rnn_mpe.yaml", 150, RECURRENT),
}
"""Script, settings, updates and changes."""


NORMALISED = {*((problem, "IPPO, MLP") for problem in PARTICLES), ("MPE speaker-listener", "MAPPO, GRU")}
"""Where our networks are also trained as they are by default: with LayerNorm and ValueNorm."""


def _of_particles(problem: str, algorithm: str) -> Comparison:
    (name, agents), (script, settings, updates, changes) = PARTICLES[problem], SCRIPTS[algorithm]
    env = {"name": "jaxvrp.adapters.from_jaxmarl:JaxMarl", "id": name}
    sides = tuple(SIDES) if (problem, algorithm) in NORMALISED else Comparison.sides
    changes = {"ENV_NAME": name, **changes}
    return Comparison(problem, algorithm, env, script, settings, updates, changes, agents, sides=sides)


OF_SMAX = ("MAPPO/mappo_rnn_smax.py", "MAPPO/config/mappo_homogenous_rnn_smax.yaml")
"""Script and settings of the learner with masks."""

MAIN_JOB = {"name": "truck_drone", "scenario": "truck_drone_basic", "num_drones": 2, "num_customers": 3}
MAIN_JOB |= {"num_route_nodes": 5, "battery_rate": 1.0, "decide": "events"}
"""The environment of the main job."""

COMPARISONS = (
    *(_of_particles(problem, algorithm) for problem in PARTICLES for algorithm in SCRIPTS),
    Comparison(
        "SMAX 3m",
        "MAPPO, GRU",
        {"name": "benchmarks.peers.learners:Smax"},
        *OF_SMAX,
        50,
        {"MAP_NAME": "3m", "NUM_ENVS": 16},
    ),
    Comparison(
        "truck_drone",
        "MAPPO, GRU",
        MAIN_JOB,
        *OF_SMAX,
        100,
        {"MAP_NAME": "", "ENV_KWARGS": {}, "NUM_ENVS": 16},
        is_ours=True,
        sides=tuple(SIDES),
    ),
)
