"""Playing environments with continuous actions, for learning and for evaluation; agent by agent where they act in turn.

Policies act in [-1, 1] whatever the boxes of the environment are, and recorded actions are in [-1, 1] too.
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
from train.off_policy.q_learning import Metrics, RoleState
from train.off_policy.replay_buffer import Decisions


class Method(Protocol):
    """The part of an algorithm that differs between TD3 and SAC, for one role; actions are in [-1, 1]."""

    @property
    def batches_per_step(self) -> int:
        """Minibatches of one call of `learn`."""

    def init(self, key: jax.Array) -> RoleState: ...

    def act(self, actor: Any, observation: jax.Array, noise: jax.Array) -> jax.Array:
        """Actions `f32[n, A]` by parameters, observations `f32[n, F]` and standard normal noise `f32[n, A]`.

        Noise 0 gives the deterministic policy.
        """

    def learn(self, state: RoleState, batches: Decisions, key: jax.Array) -> tuple[RoleState, Metrics]:
        """Learn from minibatches `[batches_per_step, B, ...]`, this device's share; metrics are the same everywhere."""


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


def draw_uniform(key: jax.Array, roles: dict[str, Role], num_envs: int) -> ByRole:
    """Independent uniform numbers in (-1, 1) for every agent, `{role: f32[E, agents, A]}`, by one draw."""
    shapes = {name: (role.num_agents, sizes(role)[1]) for name, role in roles.items()}
    ends = np.cumsum([np.prod(shape) for shape in shapes.values()])
    # Open below: `to_normal` of -1 would be infinite.
    low = np.nextafter(np.float32(-1), np.float32(0))
    uniform = jax.random.uniform(key, (num_envs, int(ends[-1])), jnp.float32, low, 1.0)
    parts = jnp.split(uniform, ends[:-1].tolist(), axis=1)
    return {name: part.reshape(num_envs, *shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def to_normal(uniform: jax.Array) -> jax.Array:
    """Standard normal numbers from uniform ones in (-1, 1), the same shape."""
    return jnp.sqrt(jnp.float32(2)) * jax.lax.erf_inv(uniform)


def choose_actions(
    roles: dict[str, Role], policies: Mapping[str, Method], actors: dict[str, Any], observation: ByRole, noise: ByRole
) -> ByRole:
    """The actions `{role: f32[n, A]}` in [-1, 1] of n agents of each role; `noise` is standard normal, or 0."""
    return {
        name: policies[name].act(actors[name], observation[name].reshape(-1, sizes(roles[name])[0]), noise[name])
        for name in roles
    }


@dataclasses.dataclass(frozen=True)
class TurnActor:
    """Trained policies, as an `Actor`: each agent chooses its action after the moves before its own.

    `env` gives the observations of the agents; its `step` with the same actions then makes the same moves. The
    deviation of the noise is multiplied by the root of `temperature`.
    """

    env: Environment
    policies: Mapping[str, Method]
    actors: dict[str, Any]
    deterministic: bool = True
    temperature: float = 1.0

    def init(self, num_envs: int) -> Carry:
        """Nothing is carried: `()`."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: Any, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `jaxvrp.actor.Actor`."""
        roles = self.env.roles
        uniform = draw_uniform(key, roles, timestep.terminated.shape[0])
        scale = 0.0 if self.deterministic else self.temperature**0.5
        noise = jax.tree.map(lambda leaf: scale * to_normal(leaf), uniform)

        def act_in_turn(state: Any, noise: ByRole) -> ByRole:
            def choose(observation: ByRole, agent: ByRole) -> ByRole:
                agents_noise = {name: noise[name][agent[name]] for name in roles}
                action = choose_actions(roles, self.policies, self.actors, observation, agents_noise)
                return {name: to_box(box_of(role), action[name]) for name, role in roles.items()}

            return turns.play(self.env, state, choose)[2].action

        return jax.vmap(act_in_turn)(state, noise), carry


@dataclasses.dataclass(frozen=True)
class Collector:
    """Plays `num_steps` steps of a batch of environments, exploring, and keeps the agents' decisions.

    The first `unrecorded_steps` are random play that is not recorded, the next `random_steps` random play that is.
    """

    vec_env: VecEnv
    policies: Mapping[str, Method]
    num_steps: int
    unrecorded_steps: int
    random_steps: int

    def policy_plays(self, step: jax.Array) -> jax.Array:
        """Whether random play is over after `step` steps, `bool[]`."""
        return step >= self.unrecorded_steps + self.random_steps

    def play(
        self, actors: dict[str, Any], vec: Any, step: jax.Array, key: jax.Array
    ) -> tuple[Any, dict[str, tuple[jax.Array, jax.Array]], dict[str, jax.Array]]:
        """Play on, after `step` steps, `i32[]`.

        The state afterwards; `{role: (rows f32[E, T * agents, W], whether to keep them, bool[E, T * agents])}`;
        statistics of finished episodes, as of `train.on_policy.rollout.Rollout.play`.
        """
        pool_key, play_key = jax.random.split(key)
        due = vec.cursor >= self.vec_env.pool_steps
        vec = jax.lax.cond(due, lambda v: self.vec_env.refresh_pool(v, pool_key), lambda v: v, vec)
        steps = (step + jnp.arange(self.num_steps, dtype=jnp.int32), jax.random.split(play_key, self.num_steps))
        vec, (recorded, statistics) = jax.lax.scan(lambda v, xs: self._step(actors, v, *xs), vec, steps)
        # `[T, E, agents, ...] -> [E, T * agents, ...]`
        recorded = jax.tree.map(
            lambda leaf: jnp.moveaxis(leaf, 0, 1).reshape(leaf.shape[1], -1, *leaf.shape[3:]), recorded
        )
        return vec, recorded, jax.tree.map(lambda leaf: leaf.sum(axis=0), statistics)

    def _step(self, actors: dict[str, Any], vec: Any, step: jax.Array, key: jax.Array) -> tuple[Any, Any]:
        """One step of all environments: the state afterwards; rows and whether to keep them by role, statistics."""
        roles = self.vec_env.env.roles

        def choose(observation: ByRole, agent: ByRole, uniform: ByRole) -> ByRole:
            random_action = {name: uniform[name][agent[name]] for name in roles}
            noise = {name: to_normal(numbers) for name, numbers in random_action.items()}
            action = choose_actions(roles, self.policies, actors, observation, noise)
            is_policy = self.policy_plays(step)
            action = {name: jnp.where(is_policy, action[name], random_action[name]) for name in roles}
            return {name: to_box(box_of(role), action[name]) for name, role in roles.items()}

        uniform = draw_uniform(key, roles, self.vec_env.num_envs)
        vec, timestep, played = self.vec_env.play(vec, choose, uniform, refresh=False)
        recorded = {}
        for name, role in roles.items():
            rows = rows_of(role, played, name)
            # A row that is not finite is a refused move, not a decision.
            keep = played.valid[name] & jnp.isfinite(rows).all(axis=-1)
            recorded[name] = (rows, keep & (step >= self.unrecorded_steps))
        return vec, (recorded, timestep.ended_episodes())


def rows_of(role: Role, played: Turns, name: str) -> jax.Array:
    """The turns `[E, ...]` of the role of that name as rows `f32[E, agents, W]`, see `Decisions`."""
    lead = played.reward[name].shape

    def flat(array: jax.Array) -> jax.Array:
        return array.reshape(*lead, -1)

    return Decisions(
        observation=flat(played.observation[name]),
        action=flat(from_box(box_of(role), played.action[name])),
        reward=played.reward[name],
        terminated=played.terminated[name].astype(jnp.float32),
        next_observation=flat(played.next_observation[name]),
    ).packed()
