"""A planner that looks ahead at every decision: it plays candidate plans to their end in futures that may come.

Rolling-horizon search (Perez et al. 2013; rollouts of a base policy: Bertsekas & Castañon 1999). A plan says what some
agents do in the next decisions (`held_choices`); a policy, by default the dispatcher, decides everything else, then and
afterwards. At a decision the present plan is changed in many ways, the simulator plays all of them in the same sampled
futures (`futures.imagine`), and the best mean goes on: its first row is played, the rest is the next decision's plan.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.actor import Actor, Carry
from jaxvrp.environment import TimeStep, is_over, settle, unpaid_timestep
from jaxvrp.envs.truck_drone.baselines.futures import imagine
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.baselines.held_choices import FREE, overridden
from jaxvrp.envs.truck_drone.baselines.plan_search import changed
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.world import World, as_known
from jaxvrp.spaces import ByRole

LENGTH = 40
"""Decisions that a plan is long; beyond it the policy decides."""


CONTINUATIONS, FUTURES = 32, 1
"""Of a decision, and of a plan; see `benchmarks/NOTES.md`."""


class Memory(NamedTuple):
    """What a planner remembers.

    Attributes:
        plan: `i32[E, LENGTH, 1+D]`, from the next decision on.
        policy: what the policy remembers that it continues with.
    """

    plan: jax.Array
    policy: Carry


class RollingHorizonActor:
    """Plays the first row of the best plan that it finds at each decision; an `Actor`.

    It sees no more than other actors do: customers who are not known yet are drawn, in each future others.
    """

    def __init__(
        self,
        env: TruckDrone,
        policy: Actor | None = None,
        *,
        continuations: int = CONTINUATIONS,
        futures: int = FUTURES,
    ):
        """For episodes of `env`.

        Args:
            env: what is played.
            policy: decides what is not planned; of `env`. None: the dispatcher.
            continuations: of a decision, from it to the end of the episode; at least three plans are compared.
            futures: in which each plan is played, other ones at each decision; where everybody is
                known from the start, there is but one.
        """
        self.env, self.policy = env, policy or GreedyActor(env)
        self.continuations, self.futures = continuations, futures

    def init(self, num_envs: int) -> Memory:
        """Nothing is planned."""
        plan = jnp.full((num_envs, LENGTH, 1 + self.env.num_drones), FREE, jnp.int32)
        return Memory(plan, self.policy.init(num_envs))

    def act(self, key: jax.Array, carry: Memory, state: World, timestep: TimeStep) -> tuple[ByRole, Memory]:
        """See `Actor.act`."""
        future_key, plan_key, policy_key = jax.random.split(key, 3)
        # One where the scenario has no unknown customers: all would be the same.
        count = self.futures if state.instance.known_from is not None else 1
        futures = self._futures(_of_each(future_key, state), state, count)
        plan = jnp.where((state.step == 0)[:, None, None], FREE, carry.plan)
        propose = functools.partial(self._proposals, count=max(3, self.continuations // count))
        proposals = jax.vmap(propose)(_of_each(plan_key, state), plan, state)
        value = self._values(policy_key, carry.policy, futures, proposals)
        plan = jax.vmap(lambda plans, value: plans[value.argmax()])(proposals, value)
        action, policy = self.policy.act(policy_key, carry.policy, state, timestep)
        action = jax.vmap(functools.partial(overridden, self.env))(state, plan[:, 0], action)
        return action, Memory(jnp.full_like(plan, FREE).at[:, :-1].set(plan[:, 1:]), policy)

    def _futures(self, keys: jax.Array, state: World, count: int) -> World:
        """Worlds `[E, F]`."""

        def of_one(key: jax.Array, world: World) -> World:
            return jax.vmap(lambda key: imagine(self.env, world, key))(jax.random.split(key, count))

        return jax.vmap(of_one)(keys, state)

    def _proposals(self, key: jax.Array, plan: jax.Array, world: World, *, count: int) -> jax.Array:
        """Plans `i32[count, LENGTH, 1+D]` for one world: the present one, nothing planned, and changes of the first."""
        keys = jax.random.split(key, count - 2)
        served = as_known(world).customers.served
        change = functools.partial(changed, self.env, start=jnp.zeros((), jnp.int32))
        plans = jax.vmap(change, (0, None, None, None))(keys, plan, plan, served)
        return jnp.concatenate([plan[None], jnp.full_like(plan, FREE)[None], plans])

    def _values(self, key: jax.Array, memory: Carry, futures: World, plans: jax.Array) -> jax.Array:
        """Mean returns `f32[E, P]` of `plans` (`i32[E, P, LENGTH, 1+D]`) in `futures` (worlds `[E, F]`)."""
        shape = (*plans.shape[:2], jax.tree.leaves(futures)[0].shape[1])

        def lanes(axes: tuple[int, ...]) -> Callable[[jax.Array], jax.Array]:
            def spread(leaf: jax.Array) -> jax.Array:
                wide = jnp.broadcast_to(jnp.expand_dims(leaf, axes), (*shape, *leaf.shape[3 - len(axes) :]))
                return wide.reshape(-1, *leaf.shape[3 - len(axes) :])

            return spread

        worlds = jax.tree.map(lanes((1,)), futures)
        value = self._continued(key, jax.tree.map(lanes((1, 2)), memory), worlds, lanes((2,))(plans))
        return value.reshape(shape).mean(axis=2)

    def _continued(self, key: jax.Array, memory: Carry, worlds: World, plans: jax.Array) -> jax.Array:
        """Returns `f32[B]` from `worlds` `[B]` on, with `plans` `i32[B, LENGTH, 1+D]`."""
        env = self.env

        def goes_on(loop: tuple[jax.Array, World, Carry, jax.Array]) -> jax.Array:
            return (loop[0] < env.max_episode_steps) & ~jax.vmap(functools.partial(is_over, env))(loop[1]).all()

        def play(loop: tuple[jax.Array, World, Carry, jax.Array]) -> tuple[jax.Array, World, Carry, jax.Array]:
            step, worlds, memory, total = loop
            timestep = jax.vmap(functools.partial(unpaid_timestep, env))(worlds)
            action, memory = self.policy.act(jax.random.fold_in(key, step), memory, worlds, timestep)
            held = jnp.where(step < LENGTH, plans[:, jnp.minimum(step, LENGTH - 1)], FREE)
            worlds, paid = jax.vmap(advance)(worlds, held, action)
            return step + 1, worlds, memory, total + paid

        def advance(world: World, held: jax.Array, action: ByRole) -> tuple[World, jax.Array]:
            action = overridden(env, world, held, action)
            moved, outcome = settle(env, world, env.transition(world, action, jnp.zeros((), jnp.int32)))
            return moved, outcome.reward["truck"][0]  # shared by all agents

        nothing = jnp.zeros(plans.shape[0], jnp.float32)
        return jax.lax.while_loop(goes_on, play, (jnp.zeros((), jnp.int32), worlds, memory, nothing))[3]


def _of_each(key: jax.Array, state: World) -> jax.Array:
    """A key for each world `[E]`, another one in each step also where the same `key` is given to all."""
    return jax.vmap(jax.random.fold_in)(jax.random.split(key, state.step.shape[0]), state.step)
