"""Critics: which network sees what.

A critic sees the global observation (`central`, MAPPO: one network with a value for every agent) or the role's own
(`local`, IPPO: one network per role). Everything maps sequences `[L, B, ...]`, see `jaxvrp.policies.networks`.
"""

from __future__ import annotations

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.policies.actors import Params, Seen
from jaxvrp.policies.networks.inputs import EntityInput, Inputs
from jaxvrp.spaces import ByRole, Role

TEAM = "team"
"""Name of the central critic."""


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
