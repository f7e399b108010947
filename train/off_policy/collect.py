"""Playing environments with continuous actions, agent by agent where they act in turn: what learners and evaluation do.

Policies act in [-1, 1] whatever the boxes of the environment are, and what they did is kept in [-1, 1] too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp import Environment, Role, TimeStep, VecEnv, turns
from jaxvrp.actor import Carry
from jaxvrp.spaces import Box, ByRole
from jaxvrp.turns import Turns
from train.episode_statistics import ended_episodes
from train.off_policy.replay_buffer import Decisions


class Policy(Protocol):
    """Acts for the agents of one role."""

    def act(self, actor: Any, observation: jax.Array, noise: jax.Array) -> jax.Array:
        """Actions `f32[n, A]` in [-1, 1] by parameters, observations `f32[n, F]` and standard normal noise `f32[n, A]`.

        Noise 0 gives the deterministic policy.
        """


def sizes(role: Role) -> tuple[int, int]:
    """Numbers in an observation and in an action of one agent."""
    return int(np.prod(role.observation.shape)), int(np.prod(role.action.shape))


def box_of(role: Role) -> Box:
    """The space of a continuous action."""
    assert isinstance(role.action, Box)
    return role.action


def to_box(box: Box, action: jax.Array) -> jax.Array:
    """From [-1, 1], `f32[n, A]`, to the box, `f32[n, ...]`."""
    action = action.reshape(action.shape[0], *box.shape)
    if (box.low, box.high) == (-1.0, 1.0):
        return action
    return jnp.clip(box.low + (action + 1) * ((box.high - box.low) / 2), box.low, box.high)


def from_box(box: Box, action: jax.Array) -> jax.Array:
    """From the box to [-1, 1], the same shape."""
    if (box.low, box.high) == (-1.0, 1.0):
        return action
    return (action - box.low) * (2 / (box.high - box.low)) - 1


def draw(key: jax.Array, roles: dict[str, Role], num_envs: int) -> ByRole:
    """Independent uniform numbers in (-1, 1) for every agent, `{role: f32[E, agents, A]}`, by one draw."""
    shapes = {name: (role.num_agents, sizes(role)[1]) for name, role in roles.items()}
    ends = np.cumsum([np.prod(shape) for shape in shapes.values()])
    # Open below: `normal` of -1 would be infinite.
    low = np.nextafter(np.float32(-1), np.float32(0))
    uniform = jax.random.uniform(key, (num_envs, int(ends[-1])), jnp.float32, low, 1.0)
    parts = jnp.split(uniform, ends[:-1].tolist(), axis=1)
    return {name: part.reshape(num_envs, *shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def normal(uniform: jax.Array) -> jax.Array:
    """Standard normal numbers from uniform ones in (-1, 1)."""
    return jnp.sqrt(jnp.float32(2)) * jax.lax.erf_inv(uniform)


def decide(
    roles: dict[str, Role], policies: Mapping[str, Policy], actors: dict[str, Any], observation: ByRole, noise: ByRole
) -> ByRole:
    """The actions of n agents of each role, `{role: f32[n, A]}` in [-1, 1], with `noise` of that shape."""
    return {
        name: policies[name].act(actors[name], observation[name].reshape(-1, sizes(roles[name])[0]), noise[name])
        for name in roles
    }


@dataclasses.dataclass(frozen=True)
class TurnActor:
    """Trained policies, as an `Actor`: each agent is asked after the moves before its own.

    `env` is asked what the agents see; its `step` with the same actions then makes the same moves.
    """

    env: Environment
    policies: Mapping[str, Policy]
    actors: dict[str, Any]
    deterministic: bool = True
    temperature: float = 1.0

    def init(self, num_envs: int) -> Carry:
        """Remembers nothing."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: Any, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `jaxvrp.actor.Actor`. The power 1 / temperature of a Gaussian has the root of it times the deviation."""
        roles = self.env.roles
        uniform = draw(key, roles, timestep.terminated.shape[0])
        scale = 0.0 if self.deterministic else self.temperature**0.5
        noise = jax.tree.map(lambda leaf: scale * normal(leaf), uniform)

        def one(state: Any, noise: ByRole) -> ByRole:
            def choose(observation: ByRole, agent: ByRole) -> ByRole:
                own = {name: noise[name][agent[name]] for name in roles}
                chosen = decide(roles, self.policies, self.actors, observation, own)
                return {name: to_box(box_of(role), chosen[name]) for name, role in roles.items()}

            return turns.play(self.env, state, choose)[2].action

        return jax.vmap(one)(state, noise), carry


@dataclasses.dataclass(frozen=True)
class Collector:
    """Plays `num_steps` steps of a batch of environments, exploring, and keeps the agents' decisions.

    Attributes:
        vec_env: the environments.
        policies: by role.
        num_steps: T.
        unseen_steps: steps of random play at first, of which nothing is kept.
        random_steps: steps of random play after these.
    """

    vec_env: VecEnv
    policies: Mapping[str, Policy]
    num_steps: int
    unseen_steps: int
    random_steps: int

    def explored(self, step: jax.Array) -> jax.Array:
        """Whether random play is over after `step` steps, `bool[]`."""
        return step >= self.unseen_steps + self.random_steps

    def play(
        self, actors: dict[str, Any], vec: Any, step: jax.Array, key: jax.Array
    ) -> tuple[Any, dict[str, tuple[jax.Array, jax.Array]], dict[str, jax.Array]]:
        """Play on.

        Args:
            actors: parameters by role.
            vec: state of the `VecEnv`.
            step: `i32[]`, steps played before.
            key: typed key.

        Returns:
            The state afterwards; `{role: (rows f32[E, T * agents, W], whether to keep them, bool[E, T * agents])}`;
            statistics of finished episodes, as of `Rollout.play`.
        """
        pool_key, play_key = jax.random.split(key)
        due = vec.cursor >= self.vec_env.pool_steps
        vec = jax.lax.cond(due, lambda v: self.vec_env.refresh_pool(v, pool_key), lambda v: v, vec)
        steps = (step + jnp.arange(self.num_steps, dtype=jnp.int32), jax.random.split(play_key, self.num_steps))
        vec, (recorded, statistics) = jax.lax.scan(lambda v, xs: self._step(actors, v, *xs), vec, steps)
        return vec, jax.tree.map(_by_env, recorded), jax.tree.map(lambda leaf: leaf.sum(axis=0), statistics)

    def _step(self, actors: dict[str, Any], vec: Any, step: jax.Array, key: jax.Array) -> tuple[Any, Any]:
        roles = self.vec_env.env.roles

        def choose(observation: ByRole, agent: ByRole, given: ByRole) -> ByRole:
            uniform = {name: given[name][agent[name]] for name in roles}
            noise = {name: normal(numbers) for name, numbers in uniform.items()}
            chosen = decide(roles, self.policies, actors, observation, noise)
            chosen = {name: jnp.where(self.explored(step), chosen[name], uniform[name]) for name in roles}
            return {name: to_box(box_of(role), chosen[name]) for name, role in roles.items()}

        given = draw(key, roles, self.vec_env.num_envs)
        vec, timestep, taken = self.vec_env.play(vec, choose, given, refresh=False)
        rows = {name: packed(role, taken, name) for name, role in roles.items()}
        # A row that is not finite tells of a move that was refused, not of a decision.
        keep = {name: taken.valid[name] & jnp.isfinite(rows[name]).all(axis=-1) for name in roles}
        keep = {name: kept & (step >= self.unseen_steps) for name, kept in keep.items()}
        return vec, ({name: (rows[name], keep[name]) for name in roles}, ended_episodes(timestep))


def packed(role: Role, turns: Turns, name: str) -> jax.Array:
    """The turns of a role as rows `f32[E, agents, W]`, see `Decisions`."""
    lead = turns.reward[name].shape

    def flat(array: jax.Array) -> jax.Array:
        return array.reshape(*lead, -1)

    return Decisions(
        observation=flat(turns.observation[name]),
        action=flat(from_box(box_of(role), turns.action[name])),
        reward=turns.reward[name],
        terminated=turns.terminated[name].astype(jnp.float32),
        next_observation=flat(turns.next_observation[name]),
    ).packed()


def _by_env(leaf: jax.Array) -> jax.Array:
    """`[T, E, agents, ...] -> [E, T * agents, ...]`."""
    leaf = jnp.moveaxis(leaf, 0, 1)
    return leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:])
