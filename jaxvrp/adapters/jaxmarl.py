"""JaxMARL's `MultiAgentEnv` over any environment of the suite: the extra `jaxmarl`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.actions import as_array, typed_action
from jaxvrp.adapters.common import fill, missing_extra, typed_key
from jaxvrp.adapters.host import members
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, State
from jaxvrp.io.messages import shown
from jaxvrp.spaces import Discrete, Space, agent_names

try:
    from jaxmarl.environments import spaces
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv
except ModuleNotFoundError as error:
    raise missing_extra("jaxmarl", error) from None

Arrays = dict[str, jax.Array]
"""By agent."""


class JaxMarlEnv(MultiAgentEnv):
    """A `jaxmarl` environment with the agents `truck_0`, `drone_0`, ...

    Functions may be jitted and mapped, keys may be typed or raw. Beside the observations of the agents there is
    `"world_state"`, the global observation, `f32[G]`. `dones` of an agent also holds while its row is void. `infos` are
    the metrics of the episode, `f32[agents]` each: one without an entry for every agent is the mean of those that it
    has, repeated. `step` begins a new episode with the step that ends one, as every environment of JaxMARL does.

    Args:
        env: the environment.
        pad: append zeros to flat observations, and actions that are never available, so that the spaces of all agents
            are the same: what the baselines of JaxMARL with one network for all need.
        name: of the environment; None: that of its class. JaxMARL's `CTRolloutManager`, and so all of its Q-learning,
            asks for available actions, the world state and a shared reward only where the name contains "smax": with
            another name it plays forbidden actions, which are counted in `invalid_actions`.

    Attributes:
        agents, num_agents: names in order, and how many.
        num_allies: as scripts for SMAX call `num_agents`.
        state_size: G, of the world state.
    """

    def __init__(self, env: Environment, *, pad: bool = False, name: str | None = None):
        env = seen_as(env, "flat")
        self._name = type(env).__name__ if name is None else name
        self._members = members(env)
        super().__init__(len(self._members))
        self.env, self._roles = env, env.roles
        self.agents, self.num_allies = [member.name for member in self._members], self.num_agents
        pairs = [(_to_jaxmarl(role.observation), _to_jaxmarl(role.action)) for role in self._roles.values()]
        seen = jax.eval_shape(lambda: env.reset(jax.random.key(0))[1])
        self.state_size = seen.global_observation.size
        of_role = dict(zip(self._roles, _alike(pairs) if pad else pairs, strict=True))
        self.observation_spaces = {member.name: of_role[member.role][0] for member in self._members}
        self.action_spaces = {member.name: of_role[member.role][1] for member in self._members}

    @property
    def name(self) -> str:
        """See `name` above."""
        return self._name

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """`{role: names}`."""
        return agent_names(self._roles)

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: jax.Array) -> tuple[Arrays, State]:
        """A fresh problem: observations and state."""
        state, timestep = self.env.reset(typed_key(key))
        return self._observations(timestep.observation, timestep.global_observation), state

    def step(  # type: ignore[override]  # that one is jitted
        self,
        key: jax.Array,
        state: State,
        actions: Mapping[str, jax.Array],
        reset_state: State | None = None,
    ) -> tuple[Arrays, State, Arrays, Arrays, Arrays]:
        """Play one step, and begin again with the step that ends an episode: on `reset_state`, or drawn from `key`."""
        # Before the compiled program begins: JAX would wrap an index of 64 bits into a legal one.
        return super().step(key, state, self._typed(actions), reset_state)

    def step_env(
        self, key: jax.Array, state: State, actions: Mapping[str, jax.Array]
    ) -> tuple[Arrays, State, Arrays, Arrays, Arrays]:
        """As `step`, without a reset; nothing is drawn from `key`."""
        by_agent = self._typed(actions)
        joined = {name: jnp.stack([by_agent[agent] for agent in agents]) for name, agents in self.agent_classes.items()}
        state, last = self.env.step(state, joined)
        rewards = {member.name: last.reward[member.role][member.row] for member in self._members}
        dones = {name: last.done for name in self.agents}
        dones |= {m.name: last.done | ~last.valid[m.role][m.row] for m in self._members if m.role in last.valid}
        each = (self.num_agents,)
        infos = {
            name: metric if metric.shape == each else jnp.broadcast_to(metric.mean(), each)
            for name, metric in last.metrics.items()
        }
        observations = self._observations(last.observation, last.global_observation)
        return observations, state, rewards, {**dones, "__all__": last.done}, infos

    def get_obs(self, state: State) -> Arrays:
        """Observations in a state."""
        return self._observations(self.env.observation(state), self.env.global_observation(state))

    @partial(jax.jit, static_argnums=0)
    def get_avail_actions(self, state: State) -> Arrays:
        """`bool[actions]` of the agents with a discrete action."""
        mask = self.env.action_mask(state)
        return {
            member.name: fill(mask[member.role][member.row], self.action_spaces[member.name].n)
            for member in self._members
            if member.role in mask
        }

    def get_legal_moves(self, state: State) -> Arrays:
        """As `get_avail_actions`, by the name that scripts for Hanabi have for it."""
        return self.get_avail_actions(state)

    def _observations(self, observation: Arrays, global_observation: jax.Array | None) -> Arrays:
        seen = {
            member.name: fill(observation[member.role][member.row], self.observation_spaces[member.name].shape[0])
            for member in self._members
        }
        assert global_observation is not None, "flat observations have a global one"
        return {**seen, "world_state": global_observation}

    def _typed(self, actions: Mapping[str, jax.Array]) -> dict[str, jax.Array | np.ndarray]:
        """An element of its space for each agent, or an index outside of it; a baseline may give an index as `[1]`."""
        if not isinstance(actions, Mapping) or not set(self.agents) <= set(actions):
            given = f"actions for {list(actions)}" if isinstance(actions, Mapping) else shown(actions)
            raise ValueError(f"step needs a dict with one action for each of {self.agents}; got {given}")
        typed = {}
        for name, role, _ in self._members:
            space, subject = self._roles[role].action, f"action of {name}"
            array = as_array(subject, actions[name])
            is_wrapped = array.shape != space.shape and array.size == math.prod(space.shape)
            single = array.reshape(space.shape) if is_wrapped else actions[name]
            typed[name] = typed_action(subject, space, single, space.shape)
        return typed


def _to_jaxmarl(space: Space) -> spaces.Space:
    if isinstance(space, Discrete):
        return spaces.Discrete(space.num_actions)
    return spaces.Box(space.low, space.high, space.shape)


def _alike(pairs: list[tuple[spaces.Space, spaces.Space]]) -> list[tuple[spaces.Space, spaces.Space]]:
    """The same for all roles: (observation, action), as large as the largest; actions only if they are discrete."""
    size = max(observation.shape[0] for observation, _ in pairs if isinstance(observation, spaces.Box))
    number = max((action.n for _, action in pairs if isinstance(action, spaces.Discrete)), default=0)
    seen = spaces.Box(-jnp.inf, jnp.inf, (size,))
    return [(seen, spaces.Discrete(number) if isinstance(action, spaces.Discrete) else action) for _, action in pairs]


to_jaxmarl = JaxMarlEnv
