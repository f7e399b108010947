"""Actors and critics by role: which network sees what, and how agents share parameters.

An actor belongs to a role. Its agents share one set of parameters, or have one each (`share` false: parameters with a
leading agent axis). A critic sees the global observation (`central`, MAPPO: one network with a value for every agent)
or the role's own (`local`, IPPO: one network per role). Everything maps sequences `[L, B, ...]`, see `networks.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp import Role, TimeStep
from jaxvrp.actor import Carry
from jaxvrp.spaces import ByRole
from train.networks import distributions

Params = Any

TEAM = "team"
"""Name of the central critic."""


@dataclasses.dataclass(frozen=True)
class Actors:
    """One actor network per role.

    Attributes:
        networks: by role.
        roles: by name, in order.
        separate: roles whose agents have one set of parameters each.
    """

    networks: dict[str, nn.Module]
    roles: dict[str, Role]
    separate: frozenset[str]

    def init(self, key: jax.Array, role: str) -> Params:
        """Fresh parameters of a role; with a leading axis `[agents]` if they are separate."""
        network, count = self.networks[role], self.roles[role].num_agents
        agents = 1 if role in self.separate else count
        inputs = jnp.zeros((1, 1, agents, *self.roles[role].observation.shape), jnp.float32)

        def one(key: jax.Array) -> Params:
            return network.init(key, inputs, network.initial_carry(1, agents), jnp.zeros((1, 1), bool))

        # Not `vmap`: see `Trainer.__init__`.
        return jax.lax.map(one, jax.random.split(key, count)) if role in self.separate else one(key)

    def initial_carry(self, num_envs: int) -> dict[str, Carry]:
        """Recurrent states at the beginning of an episode, `{role: [B, agents, ...]}`."""
        return {name: self.networks[name].initial_carry(num_envs, role.num_agents) for name, role in self.roles.items()}

    def apply(
        self, params: dict[str, Params], observation: ByRole, carry: dict[str, Carry], reset: jax.Array
    ) -> tuple[ByRole, dict[str, Carry]]:
        """Logits `{role: [L, B, agents, actions]}` from observations `{role: [L, B, agents, F]}`, `reset [L, B]`."""
        logits, after = {}, {}
        for name in self.roles:
            call = self._apply_separately if name in self.separate else self._apply_shared
            logits[name], after[name] = call(name, params[name], observation[name], carry[name], reset)
        return logits, after

    def _apply_shared(
        self, role: str, params: Params, observation: jax.Array, carry: Carry, reset: jax.Array
    ) -> tuple[jax.Array, Carry]:
        return self.networks[role].apply(params, observation, carry, reset)

    def _apply_separately(
        self, role: str, params: Params, observation: jax.Array, carry: Carry, reset: jax.Array
    ) -> tuple[jax.Array, Carry]:
        def one(params: Params, observation: jax.Array, carry: Carry) -> tuple[jax.Array, Carry]:
            carry = jax.tree.map(lambda leaf: leaf[:, None], carry)
            logits, carry = self.networks[role].apply(params, observation[:, :, None], carry, reset)
            return logits[:, :, 0], jax.tree.map(lambda leaf: leaf[:, 0], carry)

        return jax.vmap(one, in_axes=(0, 2, 1), out_axes=(2, 1))(params, observation, carry)


@dataclasses.dataclass(frozen=True)
class Critics:
    """One network per critic: `TEAM` alone (central), or one per role (local).

    Attributes:
        networks: by critic.
        roles: by name, in order.
    """

    networks: dict[str, nn.Module]
    roles: dict[str, Role]

    @property
    def is_central(self) -> bool:
        """Whether it sees the global observation."""
        return TEAM in self.networks

    def inputs(self, observation: ByRole, global_observation: jax.Array) -> ByRole:
        """What each critic sees, `{critic: [..., A, F]}`, from arrays with any leading axes."""
        return {TEAM: global_observation[..., None, :]} if self.is_central else observation

    def init(self, key: jax.Array, critic: str, seen: jax.Array) -> Params:
        """Fresh parameters of a critic that sees arrays like `seen [E, A, F]`."""
        network, agents = self.networks[critic], seen.shape[1]
        inputs = jnp.zeros((1, 1, agents, seen.shape[2]), jnp.float32)
        return network.init(key, inputs, network.initial_carry(1, agents), jnp.zeros((1, 1), bool))

    def initial_carry(self, num_envs: int) -> dict[str, Carry]:
        """Recurrent states at the beginning of an episode, `{critic: [B, A, ...]}`."""
        counts = {TEAM: 1, **{name: role.num_agents for name, role in self.roles.items()}}
        return {name: network.initial_carry(num_envs, counts[name]) for name, network in self.networks.items()}

    def apply(
        self, params: dict[str, Params], seen: ByRole, carry: dict[str, Carry], reset: jax.Array
    ) -> tuple[ByRole, dict[str, Carry]]:
        """Values `{role: [L, B, agents]}`, on the normalised scale, from inputs `{critic: [L, B, A, F]}`."""
        out, after = {}, {}
        for name, network in self.networks.items():
            out[name], after[name] = network.apply(params[name], seen[name], carry[name], reset)
        return self._by_role(out), after

    def _by_role(self, out: ByRole) -> ByRole:
        if not self.is_central:
            return {name: value[..., 0] for name, value in out.items()}
        values, start = {}, 0
        for name, role in self.roles.items():
            values[name] = out[TEAM][..., 0, start : start + role.num_agents]
            start += role.num_agents
        return values


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
        return {name: distributions.mode(logits[name], timestep.action_mask[name]) for name in logits}, carry


def sample_actions(key: jax.Array, logits: ByRole, mask: ByRole) -> tuple[ByRole, ByRole]:
    """Actions and log-probabilities, each `{role: [E, agents]}`, from one batched draw."""
    counts = [logit.shape[-2] for logit in logits.values()]
    batch = next(iter(logits.values())).shape[:-2]
    uniform = jnp.split(jax.random.uniform(key, (*batch, sum(counts)), jnp.float32), _offsets(counts), axis=-1)
    drawn = {name: distributions.sample(u, logits[name], mask[name]) for name, u in zip(logits, uniform, strict=True)}
    return {name: pair[0] for name, pair in drawn.items()}, {name: pair[1] for name, pair in drawn.items()}


def _offsets(counts: list[int]) -> list[int]:
    return [sum(counts[: i + 1]) for i in range(len(counts) - 1)]
