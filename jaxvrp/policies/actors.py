"""Actors by role: what they see, and how agents share parameters.

An actor belongs to a role. Its agents share one set of parameters, or have one each (`separate`: parameters with a
leading agent axis). Everything maps sequences `[L, B, ...]`, see `jaxvrp.policies.networks`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.actor import Carry
from jaxvrp.environment import Environment, TimeStep
from jaxvrp.policies.blocks import Blocks
from jaxvrp.policies.choice import likeliest_actions, sample_actions
from jaxvrp.policies.networks import NetworkKeys, build_encoder, build_network
from jaxvrp.policies.networks.attention import TeamEncoder
from jaxvrp.policies.networks.inputs import EntityInput, Inputs, blank, joined
from jaxvrp.policies.networks.layers import NetworkSpec
from jaxvrp.spaces import ByKind, ByRole, Discrete, EntityKind, Role

Params = Any

ENCODER = "shared_encoder"
"""Name of what the actors of all roles share, among the parameters of the actors."""

BLOCK = 32
"""Most rows that are asked at once on a CPU, where those that decide can be taken apart: small, so that few others are
asked with them."""

HEAD_GAIN = 0.01
"""Scale of the last layers at the start: policies that are nearly uniform (Andrychowicz et al. 2021)."""


class Seen(struct.PyTreeNode):
    """What the agents of a batch saw, any leading axes."""

    observation: ByRole  # `{role: f32[..., agents, F]}`
    global_observation: jax.Array | None  # `f32[..., G]`; None where entities are seen
    static: ByKind  # planes of the entities, `{kind: f32[..., features, count]}`; {} where observations are flat
    entities: ByKind
    valid: ByRole  # `{role: bool[..., agents]}`, only for roles whose rows can be void
    # what the actors' shared encoder made of the entities, `f32[..., M, H]`; None before, or without one
    encoded: jax.Array | None = None

    @classmethod
    def in_state(cls, env: Environment, state: Any) -> Seen:
        """What the agents see in one state."""
        observation, whole = env.observation(state), env.global_observation(state)
        return cls(observation, whole, env.static_entities(state), env.entities(state), env.valid(state))

    def input(self, role: str) -> Inputs:
        """What the networks of a role read."""
        return joined(self.observation[role], self.static, self.entities, self.encoded)

    def team_input(self) -> Inputs:
        """What a central critic reads: the global observation, or the entities and the mean context of each role.

        The means, since then it may meet any number of agents.
        """
        if self.global_observation is not None:
            return self.global_observation[..., None, :]
        means = [self._mean(role) for role in self.observation]
        return joined(jnp.concatenate(means, axis=-1), self.static, self.entities)

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
        return seen.replace(encoded=self.encoder.apply(params[ENCODER], seen.static, seen.entities))

    def init(self, key: jax.Array, name: str) -> Params:
        """Fresh parameters of a role, with a leading axis `[agents]` if they are separate; or of the shared encoder."""
        encoded = None
        if self.encoder is not None:
            inputs = blank(0, 0, self.kinds)
            assert isinstance(inputs, EntityInput)
            if name == ENCODER:
                return self.encoder.init(key, inputs.static, inputs.entities)
            count = sum(kind.count for kind in self.kinds)
            encoded = jnp.zeros((1, 1, count, self.encoder.size), jnp.float32)
        network, num_agents, is_separate = self.networks[name], self.roles[name].num_agents, name in self.separate
        agents_per_network = 1 if is_separate else num_agents
        (context_size,) = self.roles[name].observation.shape
        inputs = blank(context_size, agents_per_network, self.kinds, encoded)

        def init_network(key: jax.Array) -> Params:
            return network.init(key, inputs, network.initial_carry(1, agents_per_network), jnp.zeros((1, 1), bool))

        # Not `vmap`: see `train.learning.sharding.compiled`.
        return jax.lax.map(init_network, jax.random.split(key, num_agents)) if is_separate else init_network(key)

    def init_all(self, key: jax.Array) -> dict[str, Params]:
        """Fresh parameters of every role, and of the shared encoder, by `names`."""
        return {
            name: self.init(k, name) for name, k in zip(self.names, jax.random.split(key, len(self.names)), strict=True)
        }

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

    def apply_step(
        self,
        params: dict[str, Params],
        seen: Seen,
        mask: ByRole,
        carry: dict[str, Carry],
        reset: jax.Array,
    ) -> tuple[ByRole, dict[str, Carry]]:
        """As `apply`, of one step `[1, B, ...]` with the masks `{role: bool[B, agents, actions]}`.

        Where several roles each encode for themselves, the logits of rows in which no agent of a role has a choice may
        be 0: roles that act in turn are asked where it is their turn.
        """
        seen = self.encode(params, seen)
        if not self.kinds or self.encoder is not None or len(self.roles) == 1:
            return self.apply(params, seen, carry, reset)

        def of_deciding(seen: Seen) -> ByRole:
            decides = {role: (mask[role].sum(axis=-1) > 1).any(axis=-1) for role in self.roles}
            return {role: self._apply_where(decides[role], role, params[role], seen) for role in self.roles}

        # An accelerator would rather ask all at once.
        return jax.lax.platform_dependent(
            seen, cpu=of_deciding, default=lambda seen: self.apply(params, seen, carry, reset)[0]
        ), carry

    def _apply_where(self, decides: jax.Array, role: str, params: Params, seen: Seen) -> jax.Array:
        """Logits `f32[1, B, agents, actions]` of a role, 0 in blocks of rows of which none `decides`, `bool[B]`."""
        blocks = Blocks.of(decides, BLOCK)

        def of_block(block: tuple[jax.Array, Seen]) -> jax.Array:
            def logits(seen: Seen) -> jax.Array:
                return self.apply_role(role, params, seen, (), jnp.zeros((1, blocks.size), bool))[0]

            shape = jax.eval_shape(logits, block[1]).shape
            return jax.lax.cond(block[0], logits, lambda _: jnp.zeros(shape, jnp.float32), block[1])

        cut = jax.tree.map(lambda leaf: blocks.cut(leaf[0])[:, None], seen)
        found = jax.lax.map(of_block, (blocks.cut(decides).any(axis=1), cut))
        return found.reshape(-1, *found.shape[3:])[blocks.place][None]

    def apply_role(
        self, role: str, params: Params, seen: Seen, carry: Carry, reset: jax.Array
    ) -> tuple[jax.Array, Carry]:
        """As `apply`, of one role: logits `f32[L, B, agents, actions]`, and the recurrent states afterwards."""
        network = self.networks[role]
        if role not in self.separate:
            return network.apply(params, seen.input(role), carry, reset)

        def apply_agent(params: Params, context: jax.Array, carry: Carry) -> tuple[jax.Array, Carry]:
            carry = jax.tree.map(lambda leaf: leaf[:, None], carry)
            inputs = joined(context[:, :, None], seen.static, seen.entities, seen.encoded)
            logits, carry = network.apply(params, inputs, carry, reset)
            return logits[:, :, 0], jax.tree.map(lambda leaf: leaf[:, 0], carry)

        return jax.vmap(apply_agent, in_axes=(0, 2, 1), out_axes=(2, 1))(params, seen.observation[role], carry)


def build_actors(config: NetworkKeys, env: Environment) -> Actors:
    """A network for every role; one for every agent where they do not share a policy."""
    specs, num_agents = {}, sum(role.num_agents for role in env.roles.values())
    for name, role in env.roles.items():
        assert isinstance(role.action, Discrete)
        specs[name] = NetworkSpec(
            is_actor=True,
            num_agents=num_agents,
            head_size=role.action.num_actions,
            head_gain=HEAD_GAIN,
            kinds=env.entity_kinds,
            pointers=role.pointers,
            places=places_of(role),
        )
    networks = {name: build_network(config, spec) for name, spec in specs.items()}
    # It reads what the specifications have in common.
    encoder = build_encoder(config, next(iter(specs.values())))
    several = frozenset(name for name, role in env.roles.items() if role.num_agents > 1)
    separate = frozenset() if config.share_drone_policy else several
    return Actors(networks, env.roles, separate, env.entity_kinds, encoder)


def places_of(role: Role) -> tuple[tuple[int, int], ...]:
    names = [feature.name for feature in role.context]
    return tuple((names.index(x), names.index(y)) for x, y in role.places)


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
        seen, mask = jax.tree.map(lambda leaf: leaf[None], seen), timestep.action_mask
        reset = jnp.zeros((1, *timestep.terminated.shape), bool)
        logits, carry = self.actors.apply_step(self.params, seen, mask, carry, reset)
        logits = jax.tree.map(lambda leaf: leaf[0] / self.temperature, logits)
        if not self.deterministic:
            return sample_actions(key, logits, mask), carry
        return likeliest_actions(logits, mask), carry
