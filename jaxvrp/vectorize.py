"""`VecEnv`: a batch of environments with auto-reset and episode statistics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import turns
from jaxvrp.actions import checked_action
from jaxvrp.environment import (
    Environment,
    Instance,
    Outcome,
    State,
    TimeStep,
    executed_action,
    observe,
    require_environment,
    settle,
    team_reward,
)
from jaxvrp.fields import require_count
from jaxvrp.memory import memory_of
from jaxvrp.rows import rows_replaced
from jaxvrp.spaces import ByKind, ByRole
from jaxvrp.turns import Turns


class VecTimeStep(TimeStep):
    """A `TimeStep` with a leading axis `[E]`.

    After an auto-reset `observation`, `global_observation`, `entities`, `action_mask` and `valid` belong to the new
    episode; `reward`, `duration`, `terminated`, `truncated` and `metrics` to the one that ended. `metrics` also has
    `episode_return` (mean over the agents, so a shared reward counts once) and `episode_length`, the sum of durations.

    Attributes:
        final_observation: `{role: f32[E, agents, ...]}` before the auto-reset; equals `observation` without one. {}
            unless `VecEnv.observes_ends`.
        final_global_observation: `f32[E, G]`, likewise; None unless `VecEnv.observes_ends`.
        final_entities: `{kind: f32[E, dynamic features, count]}`, likewise; {} unless `VecEnv.observes_ends`.
    """

    final_observation: ByRole
    final_global_observation: jax.Array | None
    final_entities: ByKind

    def ended_episodes(self) -> dict[str, jax.Array]:
        """Sums of the metrics over the episodes that end with this step, `{name: f32[] or f32[agents]}`.

        With `episodes`, how many they are over.
        """
        done = self.done

        def total(metric: jax.Array) -> jax.Array:
            done_per_entry = done.reshape(done.shape + (1,) * (metric.ndim - 1))
            return jnp.where(done_per_entry, metric, 0.0).sum(axis=0)

        sums = {name: total(metric) for name, metric in self.metrics.items()}
        return {**sums, "episodes": done.sum(dtype=jnp.float32)}


class VecState(struct.PyTreeNode):
    """State of a batch.

    Attributes:
        env: states of the environments, leading axis `[E]`.
        action_mask, valid: of these states, from the last timestep; the next actions are checked against them.
        pool: fresh states for coming resets, leading axis `[2E]`; () if nothing is reset.
        cursor: `i32[]`, steps since the pool was drawn.
        pool_row: `i32[E]`, row of the pool where the episode of an environment began; -1 if that was an earlier pool.
        key: typed key of the next pool.
        memory: the content of `Environment.memory` after the episodes so far; () without a memory.
        episode_return: `f32[E]`, so far.
        episode_length: `f32[E]`, environment steps so far.
    """

    env: State
    action_mask: ByRole
    valid: ByRole
    pool: Any
    cursor: jax.Array
    pool_row: jax.Array
    key: jax.Array
    memory: Any
    episode_return: jax.Array
    episode_length: jax.Array


class VecEnv(struct.PyTreeNode):
    """`num_envs` copies of an environment in lockstep, each reset as soon as its episode ends.

    A reset takes a state of a pool of `2 * num_envs` fresh states, redrawn every `pool_steps` steps. The batch reads
    one contiguous slice of the pool, elsewhere in each step; so the next problem of an environment does not depend on
    its episode. Of episodes shorter than half of `pool_steps`, some are on the same problem: their statistics then
    vary as those of fewer episodes do, and a smaller `pool_steps` makes more problems.

    Attributes:
        env: the environment.
        num_envs: E.
        pool_steps: steps between two draws of the pool.
        axis: name of the mapped axis over the devices, on which the memory is merged; None without such an axis.
        auto_reset: reset an environment as soon as its episode ends; otherwise the finished state stays, and pays 0,
            until `reset_to`.
        final_observations: return the last observation of every episode before its auto-reset, at the cost of a second
            observation. None: if episodes can be truncated, where learners need it.
        group_size: so many environments, side by side, get the same problems where they are reset together; it divides
            `num_envs`.

    Raises:
        ValueError: a number of environments or steps below 1, or groups that do not divide the environments.
        TypeError: one that is no whole number.
    """

    env: Environment
    num_envs: int = struct.field(pytree_node=False)
    pool_steps: int = struct.field(pytree_node=False, default=128)
    axis: str | None = struct.field(pytree_node=False, default=None)
    auto_reset: bool = struct.field(pytree_node=False, default=True)
    final_observations: bool | None = struct.field(pytree_node=False, default=None)
    group_size: int = struct.field(pytree_node=False, default=1)

    def __post_init__(self) -> None:
        # Not `env`: JAX makes pytrees anew with whatever it puts into the places of their leaves.
        require_count("num_envs", self.num_envs)
        require_count("pool_steps", self.pool_steps)
        require_count("group_size", self.group_size)
        if self.num_envs % self.group_size:
            raise ValueError(f"num_envs is {self.num_envs}, which group_size ({self.group_size}) does not divide")

    @property
    def observes_ends(self) -> bool:
        """Whether timesteps have final observations."""
        return "is_truncated" in self.env.extras if self.final_observations is None else self.final_observations

    def generate(self, key: jax.Array, count: int | None = None, memory: Any = None) -> Instance:
        """`count` (default: `num_envs`) problems, with a leading axis; by the content `memory`, if given.

        Those of a group are the same; `count` is a multiple of `group_size`.

        Raises:
            ValueError: `count` is below 1.
            TypeError: `count` is no whole number.
        """
        count = self.num_envs if count is None else count
        require_count("count", count)
        rules = memory_of(self.env)
        env = self.env if memory is None or rules is None else rules.apply(memory)
        instances = jax.vmap(env.generate)(jax.random.split(key, count // self.group_size))
        return jax.tree.map(lambda leaf: jnp.repeat(leaf, self.group_size, axis=0), instances)

    def reset(self, key: jax.Array) -> tuple[VecState, VecTimeStep]:
        """Fresh problems everywhere."""
        require_environment(self.env)
        instances, pool = jax.random.split(key)
        return self.reset_to(self.generate(instances), pool)

    def reset_to(self, instances: Instance, key: jax.Array) -> tuple[VecState, VecTimeStep]:
        """Begin on given problems (leading axis `[E]`); later episodes draw from `key`.

        Raises:
            ValueError: more or fewer problems than environments.
        """
        for leaf in jax.tree.leaves(instances):
            if jnp.shape(leaf)[:1] != (self.num_envs,):
                raise ValueError(f"instances have a leaf of shape {jnp.shape(leaf)}; all need {self.num_envs} rows")
        key, pool_key = jax.random.split(key)
        env, timestep = jax.vmap(self.env.reset_to)(instances)
        state = VecState(
            env=env,
            action_mask=timestep.action_mask,
            valid=timestep.valid,
            pool=self._pool(pool_key) if self.auto_reset else (),
            cursor=jnp.zeros((), jnp.int32),
            pool_row=jnp.full(self.num_envs, -1, jnp.int32),
            key=key,
            memory=() if (rules := memory_of(self.env)) is None else rules.initial,
            episode_return=jnp.zeros(self.num_envs, jnp.float32),
            episode_length=jnp.zeros(self.num_envs, jnp.float32),
        )
        return state, self._with_statistics(timestep, env, state)

    def step(
        self, state: VecState, action: Mapping[str, jax.Array], *, refresh: bool = True
    ) -> tuple[VecState, VecTimeStep]:
        """Play one step in all environments, `action` as `{role: [E, agents]}`, and reset those that have ended.

        `refresh` draws a new pool when one is due. Under `vmap` a conditional runs both branches at every step: a
        program that is itself mapped passes False and calls `refresh_pool` once per rollout.

        Raises:
            ValueError, TypeError: as `Environment.step`.
        """
        action = checked_action(self.env.roles, action, (self.num_envs,))
        state = self._supplied(state, refresh)

        def step_single(env: State, action: ByRole, mask: ByRole, valid: ByRole) -> tuple[State, Outcome]:
            executed, num_invalid = executed_action(self.env, action, mask, valid)
            return settle(self.env, env, self.env.transition(env, executed, num_invalid))

        settled, outcome = jax.vmap(step_single)(state.env, action, state.action_mask, state.valid)
        return self._advance(state, settled, outcome)

    def play(
        self, state: VecState, choose: Callable[[ByRole, ByRole, Any], ByRole], given: Any, *, refresh: bool = True
    ) -> tuple[VecState, VecTimeStep, Turns]:
        """As `step`, with actions from a function that is called at each turn; returns also the turns `[E, ...]`.

        `choose` is as `Choose`, for one environment; its third argument is this environment's row of `given`, a pytree
        with a leading axis `[E]`, such as random numbers.
        """
        state = self._supplied(state, refresh)

        def play_single(env: State, given: Any) -> tuple[tuple[State, Outcome], Turns]:
            moved, taken = turns.take(self.env, env, lambda observation, agent: choose(observation, agent, given))
            return settle(self.env, env, moved), taken

        settled, taken = jax.vmap(play_single)(state.env, given)
        return *self._advance(state, *settled), taken

    def _supplied(self, state: VecState, refresh: bool) -> VecState:
        """The state with a new pool, if one is due."""
        if not refresh or not self.auto_reset:
            return state

        def refresh_by_key(state: VecState) -> VecState:
            key, pool_key = jax.random.split(state.key)
            return self.refresh_pool(state.replace(key=key), pool_key)

        return jax.lax.cond(state.cursor >= self.pool_steps, refresh_by_key, lambda same: same, state)

    def refresh_pool(self, state: VecState, key: jax.Array) -> VecState:
        """Draw a new pool from `key`."""
        return state.replace(
            pool=self._pool(key, state.memory),
            cursor=jnp.zeros((), jnp.int32),
            pool_row=jnp.full(self.num_envs, -1, jnp.int32),
        )

    def _pool(self, key: jax.Array, memory: Any = None) -> State:
        """Fresh states `[2E]`."""
        return jax.vmap(self.env.init_state)(self.generate(key, 2 * self.num_envs, memory))

    def _advance(self, state: VecState, settled: State, outcome: Outcome) -> tuple[VecState, VecTimeStep]:
        """Reset the environments that ended with the step to `settled`, and observe the states after the resets."""
        env, pool_row = settled, state.pool_row
        if self.auto_reset:
            env, pool_row = self._reset_ended(state, settled, outcome.done)
        timestep = jax.vmap(functools.partial(observe, self.env))(env, outcome)
        paid = team_reward(outcome.reward, jax.vmap(self.env.valid)(settled))
        state = state.replace(
            env=env,
            action_mask=timestep.action_mask,
            valid=timestep.valid,
            cursor=state.cursor + 1,
            pool_row=pool_row,
            memory=self._remembered(state.memory, settled),
            episode_return=state.episode_return + paid,
            episode_length=state.episode_length + outcome.duration,
        )
        timestep = self._with_statistics(timestep, settled, state)
        if not self.auto_reset:
            return state, timestep
        episode_return = jnp.where(outcome.done, 0.0, state.episode_return)
        episode_length = jnp.where(outcome.done, 0.0, state.episode_length)
        return state.replace(episode_return=episode_return, episode_length=episode_length), timestep

    def _reset_ended(self, state: VecState, settled: State, done: jax.Array) -> tuple[State, jax.Array]:
        """The states after the resets, and the row of the pool where the episode of each began."""
        start = self._start(state.cursor)
        fresh = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, self.num_envs), state.pool)
        rows = start + jnp.arange(self.num_envs, dtype=jnp.int32)
        env = jax.tree.map(lambda old, new: rows_replaced(old, new, done), settled, fresh)
        return env, jnp.where(done, rows, state.pool_row)

    def _start(self, cursor: jax.Array) -> jax.Array:
        """`i32[]`, where the slice begins that the batch reads so many steps after the pool was drawn.

        First everywhere, by strides that use up the pool by the time it is redrawn: few environments get the same
        instance. Then wherever a hash says (the mixing of MurmurHash3): with a period, all episodes that are as long
        would begin on the same few instances.
        """
        groups = self.num_envs // self.group_size
        moved = cursor.astype(jnp.uint32) * max(1, groups // self.pool_steps)
        mixed = moved * jnp.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> 13)) * jnp.uint32(0xC2B2AE35)
        scattered = (mixed ^ (mixed >> 16)) % (groups + 1)
        return self.group_size * jnp.where(moved <= groups, moved, scattered).astype(jnp.int32)

    def _remembered(self, content: Any, env: State) -> Any:
        """The content of the memory after a step to the states `env`, the same on all devices."""
        rules = memory_of(self.env)
        if rules is None:
            return content
        content = rules.update(content, env)
        return rules.merge(content, self.axis) if self.axis and rules.merge else content

    def _with_statistics(self, timestep: TimeStep, settled: State, state: VecState) -> VecTimeStep:
        """The timestep with the statistics of the episodes, and with final observations if `observes_ends`."""
        final_observation, final_global_observation, final_entities = {}, None, {}
        if self.observes_ends:
            final_observation = jax.vmap(self.env.observation)(settled)
            final_global_observation = jax.vmap(self.env.global_observation)(settled)
            final_entities = jax.vmap(self.env.entities)(settled)
        statistics = {"episode_return": state.episode_return, "episode_length": state.episode_length}
        return VecTimeStep(
            **{**vars(timestep), "metrics": timestep.metrics | statistics},
            final_observation=final_observation,
            final_global_observation=final_global_observation,
            final_entities=final_entities,
        )
