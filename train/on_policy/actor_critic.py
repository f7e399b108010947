"""Actors and critics by role: which network sees what, and how agents share parameters.

An actor belongs to a role. Its agents share one set of parameters, or have one each (`separate`: parameters with a
leading agent axis). A critic sees the global observation (`central`, MAPPO: one network with a value for every agent)
or the role's own (`local`, IPPO: one network per role). Everything maps sequences `[L, B, ...]`, see `train.networks`.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import EntityKind, Environment, Role, TimeStep
from jaxvrp.actor import Carry
from jaxvrp.spaces import ByKind, ByRole
from train.networks import distributions
from train.networks.attention import TeamEncoder
from train.networks.inputs import EntityInput, Inputs, blank, joined

Params = Any

TEAM = "team"
"""Name of the central critic."""

ENCODER = "shared_encoder"
"""Name of what the actors of all roles share, among the parameters of the actors."""


class Seen(struct.PyTreeNode):
    """What the agents of a batch saw, any leading axes."""

    observation: ByRole  # `{role: f32[..., agents, F]}`
    global_observation: jax.Array | None  # `f32[..., G]`; None where entities are seen
    static: ByKind  # planes of the entities, `{kind: f32[..., features, count]}`; {} where observations are flat
    dynamic: ByKind
    valid: ByRole  # `{role: bool[..., agents]}`, only for roles whose rows can be void
    # what the actors' shared encoder made of the entities, `f32[..., M, H]`; None before, or without one
    encoded: jax.Array | None = None

    @classmethod
    def in_state(cls, env: Environment, state: Any) -> Seen:
        """What the agents see in one state."""
        static, dynamic = env.static_entities(state), env.entities(state)
        return cls(env.observation(state), env.global_observation(state), static, dynamic, env.valid(state))

    def input(self, role: str) -> Inputs:
        """What the networks of a role read."""
        return joined(self.observation[role], self.static, self.dynamic, self.encoded)

    def team_input(self) -> Inputs:
        """What a central critic reads: the global observation, or the entities and the mean context of each role.

        The means, since then it may meet any number of agents.
        """
        if self.global_observation is not None:
            return self.global_observation[..., None, :]
        means = [self._mean(role) for role in self.observation]
        return joined(jnp.concatenate(means, axis=-1), self.static, self.dynamic)

    def _mean(self, role: str) -> jax.Array:
        """The mean context of the agents of a role that are not void, `f32[..., 1, C]`."""
        context = self.observation[role]
        if role not in self.valid:
            return context.mean(axis=-2, keepdims=True)
        weight = self.valid[role][..., None].astype(jnp.float32)
        return (context * weight).sum(axis=-2, keepdims=True) / jnp.maximum(weight.sum(axis=-2, keepdims=True), 1.0)


@dataclasses.dataclass(frozen=True)
class Actors:
    """One actor network per role; agents of roles that are `separate` have one set of parameters each.

    `kinds` are the entities that the networks read, () if they read vectors; they share the `encoder`, if there is one.
    """

    networks: dict[str, nn.Module]
    roles: dict[str, Role]
    separate: frozenset[str]
    kinds: tuple[EntityKind, ...] = ()
    encoder: TeamEncoder | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the sets of parameters: the roles, and the encoder that they share."""
        return (*self.roles, *((ENCODER,) if self.encoder else ()))

    def encode_static(self, params: dict[str, Params], static: ByKind) -> jax.Array | None:
        """What the encoder makes of a table of static entities, `f32[rows, M, H]`; None unless it reads them alone."""
        if self.encoder is None or not self.encoder.once:
            return None
        encoded: Any = self.encoder.apply(params[ENCODER], static, {})
        return encoded

    def encode(self, params: dict[str, Params], seen: Seen) -> Seen:
        """What is seen, with what the shared encoder makes of it, unless that is there or nothing is shared."""
        if self.encoder is None or seen.encoded is not None:
            return seen
        return seen.replace(encoded=self.encoder.apply(params[ENCODER], seen.static, seen.dynamic))

    def init(self, key: jax.Array, name: str) -> Params:
        """Fresh parameters of a role, with a leading axis `[agents]` if they are separate; or of the shared encoder."""
        encoded = None
        if self.encoder is not None:
            inputs = blank(0, 0, self.kinds)
            assert isinstance(inputs, EntityInput)
            if name == ENCODER:
                return self.encoder.init(key, inputs.static, inputs.dynamic)
            count = sum(kind.count for kind in self.kinds)
            encoded = jnp.zeros((1, 1, count, self.encoder.size), jnp.float32)
        network, num_agents, is_separate = self.networks[name], self.roles[name].num_agents, name in self.separate
        agents_per_network = 1 if is_separate else num_agents
        (context_size,) = self.roles[name].observation.shape
        inputs = blank(context_size, agents_per_network, self.kinds, encoded)

        def init_network(key: jax.Array) -> Params:
            return network.init(key, inputs, network.initial_carry(1, agents_per_network), jnp.zeros((1, 1), bool))

        # Not `vmap`: see `train.sharding.compiled`.
        return jax.lax.map(init_network, jax.random.split(key, num_agents)) if is_separate else init_network(key)

    def initial_carry(self, num_envs: int) -> dict[str, Carry]:
        """Recurrent states at the beginning of an episode, `{role: [B, agents, ...]}`."""
        return {name: self.networks[name].initial_carry(num_envs, role.num_agents) for name, role in self.roles.items()}

    def apply(
        self, params: dict[str, Params], seen: Seen, carry: dict[str, Carry], reset: jax.Array
    ) -> tuple[ByRole, dict[str, Carry]]:
        """Logits `{role: f32[L, B, agents, actions]}` of all roles, and the recurrent states after the last step.

        `seen` is encoded, `[L, B, ...]`; `carry` is that before the first step; where `reset`, `bool[L, B]`, an episode
        begins.
        """
        logits, new_carry = {}, {}
        for role in self.roles:
            logits[role], new_carry[role] = self.apply_role(role, params[role], seen, carry[role], reset)
        return logits, new_carry

    def apply_role(
        self, role: str, params: Params, seen: Seen, carry: Carry, reset: jax.Array
    ) -> tuple[jax.Array, Carry]:
        """As `apply`, of one role: logits `f32[L, B, agents, actions]`, and the recurrent states afterwards."""
        network = self.networks[role]
        if role not in self.separate:
            return network.apply(params, seen.input(role), carry, reset)

        def apply_agent(params: Params, context: jax.Array, carry: Carry) -> tuple[jax.Array, Carry]:
            carry = jax.tree.map(lambda leaf: leaf[:, None], carry)
            inputs = joined(context[:, :, None], seen.static, seen.dynamic, seen.encoded)
            logits, carry = network.apply(params, inputs, carry, reset)
            return logits[:, :, 0], jax.tree.map(lambda leaf: leaf[:, 0], carry)

        return jax.vmap(apply_agent, in_axes=(0, 2, 1), out_axes=(2, 1))(params, seen.observation[role], carry)


@dataclasses.dataclass(frozen=True)
class Critics:
    """One network per critic: `TEAM` alone (central), or one per role (local)."""

    networks: dict[str, nn.Module]
    roles: dict[str, Role]

    @property
    def is_central(self) -> bool:
        """Whether it sees the global observation."""
        return TEAM in self.networks

    def inputs(self, seen: Seen) -> dict[str, Inputs]:
        """What each critic reads, `{critic: f32[..., A, F]}` or with entities, from arrays with any leading axes."""
        return {critic: seen.team_input() if critic == TEAM else seen.input(critic) for critic in self.networks}

    def init(self, key: jax.Array, critic: str, inputs: Inputs) -> Params:
        """Fresh parameters of a critic that reads arrays like `inputs`, `f32[E, A, F]` or with entities."""
        network = self.networks[critic]
        agents = (inputs.context if isinstance(inputs, EntityInput) else inputs).shape[1]
        zeros = jax.tree.map(lambda leaf: jnp.zeros((1, 1, *leaf.shape[1:]), jnp.float32), inputs)
        return network.init(key, zeros, network.initial_carry(1, agents), jnp.zeros((1, 1), bool))

    def initial_carry(self, num_envs: int) -> dict[str, Carry]:
        """Recurrent states at the beginning of an episode, `{critic: [B, A, ...]}`."""
        num_agents = {TEAM: 1, **{name: role.num_agents for name, role in self.roles.items()}}
        return {name: network.initial_carry(num_envs, num_agents[name]) for name, network in self.networks.items()}

    def apply(
        self, params: dict[str, Params], inputs: dict[str, Inputs], carry: dict[str, Carry], reset: jax.Array
    ) -> tuple[ByRole, dict[str, Carry]]:
        """Values `{role: f32[L, B, agents]}`, on the normalised scale, and the recurrent states after the last step.

        Inputs are those of `inputs`, `[L, B, ...]`; the rest is as in `Actors.apply`.
        """
        values: ByRole = {}
        new_carry = {}
        for critic in self.networks:
            of_critic, new_carry[critic] = self.apply_critic(
                critic, params[critic], inputs[critic], carry[critic], reset
            )
            values |= of_critic
        return values, new_carry

    def apply_critic(
        self, critic: str, params: Params, inputs: Inputs, carry: Carry, reset: jax.Array
    ) -> tuple[ByRole, Carry]:
        """As `apply`, of one critic: values `{role: f32[L, B, agents]}` of the roles that it values."""
        outputs, carry = self.networks[critic].apply(params, inputs, carry, reset)
        if critic != TEAM:
            return {critic: outputs[..., 0]}, carry
        values, start = {}, 0
        for name, role in self.roles.items():
            values[name] = outputs[..., 0, start : start + role.num_agents]
            start += role.num_agents
        return values, carry


@dataclasses.dataclass(frozen=True)
class PolicyActor:
    """Trained actors, as an `Actor`: the most probable action, or a sample, of logits divided by `temperature`."""

    env: Environment
    actors: Actors
    params: dict[str, Any]
    deterministic: bool = True
    temperature: float = 1.0

    def init(self, num_envs: int) -> Carry:
        """Recurrent states at the beginning of an episode."""
        return self.actors.initial_carry(num_envs)

    def act(self, key: jax.Array, carry: Carry, state: Any, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `jaxvrp.actor.Actor`."""
        static = jax.vmap(self.env.static_entities)(state)
        seen = Seen(timestep.observation, None, static, timestep.entities, timestep.valid)
        seen = self.actors.encode(self.params, jax.tree.map(lambda leaf: leaf[None], seen))
        reset = jnp.zeros((1, *timestep.terminated.shape), bool)
        logits, carry = self.actors.apply(self.params, seen, carry, reset)
        logits = jax.tree.map(lambda leaf: leaf[0] / self.temperature, logits)
        mask = timestep.action_mask
        if not self.deterministic:
            return sample_actions(key, logits, mask), carry
        return {name: distributions.mode(logits[name], mask[name]) for name in logits}, carry


def sample_actions(key: jax.Array, logits: ByRole, mask: ByRole) -> ByRole:
    """Actions `{role: i32[E, agents]}` by logits and masks `{role: [E, agents, actions]}`, from one batched draw."""
    num_agents = [logit.shape[-2] for logit in logits.values()]
    batch = next(iter(logits.values())).shape[:-2]
    uniform = jax.random.uniform(key, (*batch, sum(num_agents)), jnp.float32)
    ends = list(itertools.accumulate(num_agents))
    parts = jnp.split(uniform, ends[:-1], axis=-1)
    return {
        name: distributions.sample(part, logits[name], mask[name]) for name, part in zip(logits, parts, strict=True)
    }


def log_probs(logits: ByRole, mask: ByRole, action: ByRole) -> ByRole:
    """Log-probabilities `{role: f32[E, agents]}` of actions `{role: i32[E, agents]}`; otherwise as `sample_actions`."""
    return {
        name: distributions.log_prob_and_entropy(logits[name], mask[name], chosen)[0] for name, chosen in action.items()
    }
