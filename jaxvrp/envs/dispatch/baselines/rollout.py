"""Looking ahead by play: each legal decision is continued by the threshold rule, on days that could follow."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.dispatch import rules
from jaxvrp.envs.dispatch.baselines.greedy import ThresholdActor
from jaxvrp.envs.dispatch.env import DISPATCHER, DRIVER, Dispatch, prepared_day
from jaxvrp.envs.dispatch.plans import Prepared
from jaxvrp.envs.dispatch.problem.instance import minute_of
from jaxvrp.envs.dispatch.rules import State
from jaxvrp.spaces import ByRole

TRAVEL_WEIGHT = 1e-4
"""Value of a minute of travel, on a generated day, that decides between decisions that serve alike."""


class RolloutActor:
    """The rolling-horizon planner: the decision that serves most on average over sampled futures, drivers wait.

    Futures are drawn by the environment's generator; all decisions are judged on the same ones.
    """

    def __init__(self, env: Dispatch, samples: int = 4, length: int = 30):
        """`samples` futures, of `length` requests after the one at hand."""
        self.env, self.samples, self.length = env, samples, length
        self.follower = ThresholdActor(env)

    def init(self, num_envs: int) -> Carry:
        """Nothing to carry from one decision to the next."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `Actor.act`."""
        batch = timestep.terminated.shape[0]
        choice = jax.vmap(self._choose)(jax.random.split(key, batch), state)
        action = {DISPATCHER: choice[:, None]}
        if DRIVER in timestep.action_mask:
            action[DRIVER] = jnp.zeros(timestep.action_mask[DRIVER].shape[:2], jnp.int32)
        return action, carry

    def _choose(self, key: jax.Array, state: State) -> jax.Array:
        legal = jnp.concatenate([jnp.ones(1, bool), state.offers.feasible])
        choices = jnp.arange(legal.shape[0], dtype=jnp.int32)
        futures = jax.vmap(lambda key: self._future(key, state))(jax.random.split(key, self.samples))
        of_choices = jax.vmap(self._play_on, in_axes=(None, None, 0))
        worth = jax.vmap(of_choices, in_axes=(0, None, None))(futures, state, choices).mean(axis=0)
        return jax.lax.argmax(jnp.where(legal, worth, -jnp.inf), 0, jnp.int32)

    def _future(self, key: jax.Array, state: State) -> Prepared:
        """The day as it is known, and requests of a drawn one that arrive from now on."""
        drawn = prepared_day(self.env, self.env.generate(key))
        count, number = drawn.table.shape[0], jnp.arange(drawn.table.shape[0], dtype=jnp.int32)
        exists = number < drawn.num_requests
        passed = jnp.sum(exists & (drawn.instance.arrival <= state.now), dtype=jnp.int32)
        shift = passed - (state.step + 1)
        rows = drawn.table[jnp.clip(number + shift, 0, count - 1)]
        known = (number <= state.step)[:, None]
        total = jnp.minimum(state.step + 1 + drawn.num_requests - passed, count)
        table = jnp.where(known, state.prepared.table, rows)
        return state.prepared.replace(table=table, num_requests=total, factors=drawn.factors)

    def _play_on(self, future: Prepared, state: State, choice: jax.Array) -> jax.Array:
        """`f32[]`, the value of a decision and of those that follow it, less a little for travel."""
        price = self.env.travel_price + TRAVEL_WEIGHT / minute_of(future.fleet)

        def decide(state: State, choice: jax.Array) -> tuple[State, jax.Array]:
            plans, growth = rules.assign(state, choice)
            moved = rules.proceed(state, plans, choice, growth, jnp.zeros((), jnp.int32))
            return moved, jnp.where(state.done, 0.0, moved.gained - price * moved.driven)

        def advance(state: State, _: None) -> tuple[State, jax.Array]:
            moved, gained = decide(state, self.follower.choose(state))
            kept = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), moved, state)
            return kept, gained

        state, first = decide(state.replace(prepared=future), choice)
        return first + jax.lax.scan(advance, state, length=self.length)[1].sum()
