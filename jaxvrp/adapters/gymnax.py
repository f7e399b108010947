"""gymnax's `Environment` over environments with one agent, as PureJaxRL plays it: the extra `gymnax`."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.actions import typed_action
from jaxvrp.adapters.common import missing_extra, typed_key
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, State
from jaxvrp.spaces import Discrete

try:
    from gymnax.environments import environment, spaces
except ModuleNotFoundError as error:
    raise missing_extra("gymnax", error) from None


@partial(jax.tree_util.register_dataclass, data_fields=["env"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Params:
    """An environment with all that it has, as gymnax's clients know parameters."""

    env: Environment

    @property
    def max_steps_in_episode(self) -> int:
        """Steps of the longest episode."""
        return self.env.max_episode_steps

    def replace(self, **changes: Any) -> Params:
        """Parameters with other values, checked as by `jaxvrp.make`."""
        return Params(self.env.replace(**changes))

    def __getattr__(self, name: str) -> Any:
        # Before there is an environment, copies ask for special methods.
        if name == "env" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.env, name)


class GymnaxEnv(environment.Environment):
    """A gymnax environment of the one agent; functions may be jitted and mapped, keys may be typed or raw.

    Parameters are `Params`, or an environment, of the same sizes; None stands for `default_params`.

    `step` begins a new episode with the step that ends one, as every environment of gymnax does; `info` then has the
    metrics of the old one, and always `terminated`, `truncated`, `final_observation`. A problem is drawn for every step
    and thrown away where no episode ends, which is gymnax's way; `jaxvrp.VecEnv` does without.

    Args:
        env: an environment with one role of one agent.
        separate_truncation: `step` returns `(observation, state, reward, terminated, truncated, info)`, as gymnax and
            its wrappers do from 1.0 on; else `(observation, state, reward, done, info)`, as before, in PureJaxRL and in
            rejax.

    Raises:
        ValueError: there are several agents.
    """

    def __init__(self, env: Environment, *, separate_truncation: bool = True):
        env = seen_as(env, "flat")
        agents = sum(role.num_agents for role in env.roles.values())
        if agents != 1:
            text = f"gymnax knows one agent, {type(env).__name__} has {agents}"
            raise ValueError(f"{text}; use jaxvrp.adapters.jaxmarl.to_jaxmarl")
        ((self._role, role),) = env.roles.items()
        self._env, self._observed, self._acts = env, role.observation, role.action
        self._separate_truncation = separate_truncation

    @property
    def name(self) -> str:
        """Name of the environment's class."""
        return type(self._env).__name__

    @property
    def default_params(self) -> Any:
        """`Params` of the environment as it was given."""
        return Params(self._env)

    @property
    def num_actions(self) -> int:
        """Of a discrete action; of a continuous one, how many numbers it has."""
        return self._acts.num_actions if isinstance(self._acts, Discrete) else self._acts.shape[0]

    def action_space(self, params: Any = None) -> spaces.Space:
        """`Discrete` or `Box`."""
        if isinstance(self._acts, Discrete):
            return spaces.Discrete(self._acts.num_actions)
        return spaces.Box(self._acts.low, self._acts.high, self._acts.shape)

    def observation_space(self, params: Any = None) -> spaces.Box:
        """`Box`, `f32[O]`."""
        return spaces.Box(self._observed.low, self._observed.high, self._observed.shape)

    def step(self, key: jax.Array, state: State, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Play one step, and begin again with the step that ends an episode."""
        # Before the compiled program begins: JAX would wrap an index of 64 bits into a legal one.
        typed = typed_action(f"action of {self._role}_0", self._acts, action, self._acts.shape)
        observation, state, reward, terminated, truncated, info = super().step(key, state, typed, params)
        if self._separate_truncation:
            return observation, state, reward, terminated, truncated, info
        return observation, state, reward, terminated | truncated, info

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, State]:
        """A fresh problem: observation and state."""
        state, timestep = params.reset(typed_key(key))
        return timestep.observation[self._role][0], state

    def step_env(
        self, key: jax.Array, state: State, action: Any, params: Any
    ) -> tuple[jax.Array, State, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Play one step without a reset; nothing is drawn from `key`."""
        state, last = params.step(state, {self._role: jnp.asarray(action)[None]})
        return last.observation[self._role][0], state, last.reward[self._role][0], last.terminated, dict(last.metrics)

    def observe(self, key: jax.Array, state: State, action: Any, params: Any) -> jax.Array:
        """`f32[O]`; nothing is drawn from `key`."""
        return self.get_obs(state, params)

    def get_obs(self, state: State, params: Any = None, key: jax.Array | None = None) -> jax.Array:
        """As `observe`, by the name that gymnax had for it before 1.0."""
        return (self._env if params is None else params).observation(state)[self._role][0]

    def is_terminated(self, state: State, params: Any) -> jax.Array:
        """`bool[]`: the task is over."""
        return params.is_terminal(state)

    def is_truncated(self, state: State, params: Any) -> jax.Array:
        """`bool[]`: the episode is cut short."""
        return params.is_truncated(state) & ~params.is_terminal(state)

    @partial(jax.jit, static_argnums=0)
    def action_mask(self, state: State, params: Any = None) -> jax.Array:
        """`bool[actions]`, the legal actions in a state; for discrete actions."""
        return (self._env if params is None else params).action_mask(state)[self._role][0]


to_gymnax = GymnaxEnv
