"""Environments of JaxMARL, or with its interface, as environments of this suite, for its learners; the extra `jaxmarl`.

python -m train.mappo --env.name jaxvrp.adapters.from_jaxmarl:JaxMarl --env.id MPE_simple_spread_v3
"""

from __future__ import annotations

import abc
import contextlib
import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp import fields
from jaxvrp.adapters.common import missing_extra
from jaxvrp.environment import Environment
from jaxvrp.io.messages import nearest, shown
from jaxvrp.spaces import Box, ByRole, Discrete, Role, Space

WORLD = "world_state"
"""Among the observations of some environments: what a central critic sees."""

LIMIT = "max_steps"

PARTS = ("agents", LIMIT, "observation_space", "action_space", "reset", "step_env")
"""What is read of an environment there."""


class Start(struct.PyTreeNode):
    """How an episode begins: the state there, what agents see, and data of a key (`u32[...]`) for what is drawn."""

    inner: Any
    seen: dict[str, jax.Array]
    key: jax.Array


class State(struct.PyTreeNode):
    """A state there (`inner`), and what it does not keep.

    Attributes:
        seen: `{agent: f32[...]}`, observations, and `"world_state"` if there is one.
        key: `u32[...]`, data of a typed key.
        paid: `{role: f32[agents]}`, of the last step.
        invalid_actions: `f32[]`.
        done: `bool[]`.
    """

    inner: Any
    seen: dict[str, jax.Array]
    key: jax.Array
    paid: ByRole
    invalid_actions: jax.Array
    done: jax.Array


class Foreign(Environment):
    """A cooperative environment with the interface of `jaxmarl.environments.MultiAgentEnv`.

    Agents with equal spaces are a role, named as the first of them without its number; observations are one vector for
    each. Available actions are the masks; where there are none, all actions are legal. The global observation is the
    world state, else the observations of all agents. An episode is over when all are done there, at its limit too, and
    its problem is the state that it begins in. Metric: invalid_actions.
    """

    @property
    @abc.abstractmethod
    def wrapped(self) -> Any:
        """The environment with that interface, static."""

    @property
    def agents_of(self) -> dict[str, list[str]]:
        """`{role: agents}`, as they are called there."""
        groups: dict[Any, list[str]] = {}
        for agent in self.wrapped.agents:
            groups.setdefault(self._spaces(agent), []).append(agent)
        names: dict[str, list[str]] = {}
        for agents in groups.values():
            name = agents[0].rstrip("0123456789").rstrip("_") or agents[0]
            names[agents[0] if name in names else name] = agents
        return names

    def _spaces(self, agent: str) -> tuple[Box, Space]:
        seen, acts = self.wrapped.observation_space(agent), self.wrapped.action_space(agent)
        return Box(-jnp.inf, jnp.inf, (int(np.prod(seen.shape)),)), _from_jaxmarl(acts, agent)

    @property
    def roles(self) -> dict[str, Role]:
        """See the class."""
        return {name: Role(len(agents), *self._spaces(agents[0])) for name, agents in self.agents_of.items()}

    @property
    def max_episode_steps(self) -> int:
        """`max_steps` there, and one more: its particle environments compare before they count."""
        return int(self.wrapped.max_steps) + 1

    def generate(self, key: jax.Array) -> Start:
        """How an episode begins there."""
        begin_key, play_key = jax.random.split(key)
        seen, inner = self.wrapped.reset(begin_key)
        return Start(_typed(inner), _typed(seen), jax.random.key_data(play_key))

    def init_state(self, instance: Start) -> State:
        """See `Environment.init_state`."""
        zero = jnp.zeros((), jnp.float32)
        paid = {name: jnp.zeros(len(agents), jnp.float32) for name, agents in self.agents_of.items()}
        begin = vars(instance)
        return State(**begin, paid=paid, invalid_actions=zero, done=jnp.zeros((), bool))

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """A step there, without its reset."""
        step_key, rest_key = jax.random.split(jax.random.wrap_key_data(state.key))
        actions = {agent: action[name][row] for name, row, agent in self._members()}
        seen, inner, rewards, dones, _ = self.wrapped.step_env(step_key, state.inner, actions)
        paid = {
            name: jnp.stack([jnp.asarray(rewards[agent], jnp.float32).reshape(()) for agent in agents])
            for name, agents in self.agents_of.items()
        }
        return State(
            inner=_typed(inner, state.inner),
            seen=_typed(seen, state.seen),
            key=jax.random.key_data(rest_key),
            paid=paid,
            invalid_actions=state.invalid_actions + num_invalid.astype(jnp.float32),
            done=jnp.asarray(dones["__all__"], bool),
        )

    def _members(self) -> list[tuple[str, int, str]]:
        """Role, row and agent."""
        return [(name, row, agent) for name, agents in self.agents_of.items() for row, agent in enumerate(agents)]

    def observation(self, state: State) -> ByRole:
        """`{role: f32[agents, F]}`."""
        return {
            name: jnp.stack([state.seen[agent].astype(jnp.float32).ravel() for agent in agents])
            for name, agents in self.agents_of.items()
        }

    def global_observation(self, state: State) -> jax.Array:
        """`f32[G]`, see the class."""
        if WORLD in state.seen:
            return state.seen[WORLD].astype(jnp.float32).ravel()
        return jnp.concatenate([rows.ravel() for rows in self.observation(state).values()])

    def action_mask(self, state: State) -> ByRole:
        """`{role: bool[agents, actions]}`; where nothing is available, action 0 is."""
        discrete = {name: role.action for name, role in self.roles.items() if isinstance(role.action, Discrete)}
        try:
            available = self.wrapped.get_avail_actions(state.inner)
        except NotImplementedError:
            available = {}
        masks = {}
        for name, space in discrete.items():
            rows = [
                jnp.asarray(available.get(agent, jnp.ones(space.num_actions)), bool) for agent in self.agents_of[name]
            ]
            mask = jnp.stack(rows)
            masks[name] = mask.at[:, 0].set(mask[:, 0] | ~mask.any(axis=1))
        return masks

    def fallback(self, mask: ByRole) -> ByRole:
        """The first available action; in a box, the point nearest to 0."""
        first = {name: jnp.argmax(rows, axis=1).astype(jnp.int32) for name, rows in mask.items()}
        return super().fallback(mask) | first

    def reward(self, state: State) -> ByRole:
        """Those of the step."""
        return state.paid

    def is_terminal(self, state: State) -> jax.Array:
        """All are done there."""
        return state.done

    def metrics(self, state: State) -> dict[str, jax.Array]:
        """See the class; `f32[]`."""
        return {"invalid_actions": state.invalid_actions}


def _typed(tree: Any, like: Any = None) -> Any:
    """The arrays of a tree, none of a weak type; with the dtypes of another one, if it is given."""

    def typed(leaf: Any, other: Any) -> jax.Array:
        array = jnp.asarray(leaf)
        is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
        return array if is_key else jax.lax.convert_element_type(array, jnp.asarray(other).dtype)

    return jax.tree.map(typed, tree, tree if like is None else like)


def _from_jaxmarl(space: Any, agent: str) -> Space:
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    for name in ("low", "high"):
        if np.ptp(bounds := np.asarray(getattr(space, name))):
            raise ValueError(
                f"the numbers of an action of {agent} have different bounds, {name} is {bounds.tolist()}; give all the "
                "same bounds, and scale each number in step_env"
            )
    low, high = (float(np.min(np.asarray(bound))) for bound in (space.low, space.high))
    return Box(low, high, tuple(space.shape))


class FromJaxMarl(Foreign):
    """`Foreign` of an environment that is at hand; see `from_jaxmarl`."""

    env: Any = struct.field(pytree_node=False, default=None)

    @property
    def wrapped(self) -> Any:
        """The environment at hand."""
        return self.env


class JaxMarl(Foreign):
    """`Foreign` of an environment that JaxMARL makes by its name, with the parameters that it has by default."""

    id: str = fields.size("MPE_simple_spread_v3", help="name of the environment in JaxMARL")

    @property
    def wrapped(self) -> Any:
        """The environment; one for each name, since programs are compiled for each."""
        # It and its modules keep arrays, which what is traced when it is first needed would else own.
        with jax.ensure_compile_time_eval():
            return _made(self.id)


@functools.lru_cache
def _made(name: str) -> Any:
    try:
        # Put back behind it: its import leaves others than it found.
        with contextlib.redirect_stdout(sys.stdout), contextlib.redirect_stderr(sys.stderr):
            import jaxmarl
    except ModuleNotFoundError as error:
        raise missing_extra("jaxmarl", error) from None
    if name not in jaxmarl.registered_envs:
        raise ValueError(f"id is {shown(name)}; {nearest(name, jaxmarl.registered_envs)}")
    return _checked(jaxmarl.make(name))


def _checked(env: Any) -> Any:
    """An environment that has all that `Foreign` reads; a ValueError, one line, for another."""
    name = type(env).__name__
    for part in PARTS:
        if not hasattr(env, part):
            remark = ", the most steps of an episode; set it" if part == LIMIT else ", as environments of JaxMARL have"
            raise ValueError(f"{name} has no {part}{remark}")
    for agent in env.agents:
        if not isinstance(agent, str):
            raise ValueError(f"{name} calls an agent {shown(agent)}; names of agents must be texts")
        if not hasattr(seen := env.observation_space(agent), "shape"):
            raise ValueError(f"{name}: the observation space of {agent} is {shown(seen)}; give a Box")
    return env


def from_jaxmarl(env: Any) -> FromJaxMarl:
    """An environment with JaxMARL's interface as one of this suite, see `Foreign`.

    Args:
        env: a `MultiAgentEnv`, or what has its `agents`, `max_steps`, `observation_space`, `action_space`, `reset` and
            `step_env`, and `get_avail_actions` if some actions are not always available.

    Raises:
        ValueError: it has not; one line.
    """
    return FromJaxMarl(_checked(env))
