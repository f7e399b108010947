"""A planner that looks ahead at every decision: it plays candidate plans to their end in futures that may come.

Rolling-horizon search (Perez et al. 2013; rollouts of a base policy: Bertsekas & Castañon 1999). A plan says what some
agents do in the next decisions (`held_choices`); a policy, by default the dispatcher, decides everything else, then and
afterwards. At a decision the present plan is changed in many ways, the simulator plays all of them in the same sampled
futures (`imagine`), and the plan with the best mean is kept: its first row is played, the rest is the plan of
the next decision.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.actor import Actor, Carry
from jaxvrp.environment import TimeStep, is_over, settle, unpaid_timestep
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.baselines.held_choices import FREE, overridden
from jaxvrp.envs.truck_drone.baselines.plan_search import changed
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.planned import cost
from jaxvrp.envs.truck_drone.world import World, is_known
from jaxvrp.fields import ABSENT
from jaxvrp.players import least
from jaxvrp.spaces import ByRole

LENGTH = 40
"""Decisions that a plan is long; beyond it the policy decides."""

CONTINUATIONS, FUTURES = 32, 1
"""Episodes that are played to their end at each decision, and futures in which each plan is played; see
`benchmarks/NOTES.md`."""


class Memory(NamedTuple):
    """The plan from the next decision on, `i32[E, LENGTH, 1+D]`, and the memory of the policy that continues it."""

    plan: jax.Array
    policy: Carry


class RollingHorizonActor:
    """Plays the first row of the best plan that it finds at each decision; an `Actor`.

    It sees no more than other actors do: customers that are not known yet are drawn anew in each future.
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
            policy: for `env`; decides what is not planned. None: the dispatcher.
            continuations: episodes played to their end at each decision; at least three plans are compared.
            futures: in which each plan is played, drawn anew at each decision; one where all customers are known from
                the start.
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
        # Without unknown customers all futures would be the same.
        count = self.futures if state.instance.known_from is not None else 1
        imagined = jax.vmap(functools.partial(imagine, self.env), (None, 0))
        keys = jax.vmap(lambda key: jax.random.split(key, count))(_of_each(future_key, state))
        futures = jax.vmap(imagined)(state, keys)
        plan = jnp.where((state.step == 0)[:, None, None], FREE, carry.plan)
        propose = functools.partial(self._proposals, count=max(3, self.continuations // count))
        proposals = jax.vmap(propose)(_of_each(plan_key, state), plan, state)
        found = self._costs(policy_key, carry.policy, futures, proposals)
        plan = jax.vmap(lambda plans, cost: plans[least(cost)])(proposals, found)
        action, policy = self.policy.act(policy_key, carry.policy, state, timestep)
        action = jax.vmap(functools.partial(overridden, self.env))(state, plan[:, 0], action)
        return action, Memory(jnp.full_like(plan, FREE).at[:, :-1].set(plan[:, 1:]), policy)

    def _proposals(self, key: jax.Array, plan: jax.Array, world: World, *, count: int) -> jax.Array:
        """Plans `i32[count, LENGTH, 1+D]` for one world: the present one, nothing planned, and changes of the first."""
        keys = jax.random.split(key, count - 2)
        served = self.env.known_world(world).customers.served
        change = functools.partial(changed, self.env, start=jnp.zeros((), jnp.int32))
        plans = jax.vmap(change, (0, None, None, None))(keys, plan, plan, served)
        return jnp.concatenate([plan[None], jnp.full_like(plan, FREE)[None], plans])

    def _costs(self, key: jax.Array, memory: Carry, futures: World, plans: jax.Array) -> jax.Array:
        """Mean costs `f32[E, K, P]` of `plans` (`i32[E, P, LENGTH, 1+D]`) in `futures` (worlds `[E, F]`)."""
        num_envs, num_plans = plans.shape[:2]
        num_futures = jax.tree.leaves(futures)[0].shape[1]
        world, plan, future = (index.ravel() for index in jnp.indices((num_envs, num_plans, num_futures)))
        memory = jax.tree.map(lambda leaf: leaf[world], memory)
        worlds = jax.tree.map(lambda leaf: leaf[world, future], futures)
        found = self._continued(key, memory, worlds, plans[world, plan])
        return found.reshape(-1, num_envs, num_plans, num_futures).mean(axis=3).swapaxes(0, 1)

    def _continued(self, key: jax.Array, memory: Carry, worlds: World, plans: jax.Array) -> jax.Array:
        """Costs `f32[K, B]` from `worlds` `[B]` on, with `plans` `i32[B, LENGTH, 1+D]`."""
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
        _, last, _, total = jax.lax.while_loop(goes_on, play, (jnp.zeros((), jnp.int32), worlds, memory, nothing))
        return jax.vmap(functools.partial(cost, env), out_axes=1)(last, total)


def _of_each(key: jax.Array, state: World) -> jax.Array:
    """A key for each world `[E]`, another one in each step also where the same `key` is given to all."""
    return jax.vmap(jax.random.fold_in)(jax.random.split(key, state.step.shape[0]), state.step)


def imagine(env: TruckDrone, world: World, key: jax.Array) -> World:
    """The world with another future: every customer that agents do not know yet is drawn anew.

    It depends on nothing but what agents know. Where no customer is padding, they know how many are still to come;
    otherwise that number is drawn as well, as if any number of customers were as probable. Places, demands and widths
    of windows come from the generator of `env`.
    """
    instance = world.instance
    if instance.known_from is None:
        return world
    # Agents cannot tell a customer that is not known yet from one that does not exist.
    hidden = ~is_known(world) if instance.exists is None else ~(is_known(world) & instance.exists)
    instance_key, window_key, count_key = jax.random.split(key, 3)
    drawn = env.generate(instance_key)
    # By Bayes' rule from `generate` and `draw_known_from`: of the steps in which the customer of a window can become
    # known, those that are still to come are as probable as the others.
    starts, next_step = jnp.arange(env.max_steps // 2, dtype=jnp.int32), world.step + 1
    first, last = env.news_range(starts)
    to_come = jnp.maximum(last + 1 - jnp.maximum(first, jnp.maximum(next_step, 1)), 0).astype(jnp.float32)
    weight = to_come / jnp.maximum(last + 1 - first, 1).astype(jnp.float32)
    start_key, known_key = jax.random.split(window_key)
    start = starts[jax.random.categorical(start_key, jnp.log(weight), shape=hidden.shape).astype(jnp.int32)]
    first, last = env.news_range(start)
    earliest = jnp.maximum(first, next_step)
    known_from = jax.random.randint(known_key, hidden.shape, earliest, jnp.maximum(last, earliest) + 1, jnp.int32)
    comes = hidden & weight.any()
    if instance.exists is not None:
        share = 0.0 if env.dynamic_share is ABSENT else env.dynamic_share * weight.mean()
        comes &= jnp.cumsum(hidden) <= _draw_count(share, hidden, count_key)
    end = jnp.minimum(start + drawn.window_end - drawn.window_start, env.max_steps)
    instance = instance.replace(
        customer_position=jnp.where(hidden[:, None], drawn.customer_position, instance.customer_position),
        demand=jnp.where(hidden, drawn.demand, instance.demand),
        window_start=jnp.where(hidden, start, instance.window_start),
        window_end=jnp.where(hidden, end, instance.window_end),
        known_from=jnp.where(hidden, jnp.where(comes, known_from, 0), instance.known_from),
        exists=None if instance.exists is None else jnp.where(hidden, comes, instance.exists),
    )
    served = jnp.where(hidden, ~comes, world.customers.served)
    return world.replace(instance=instance, customers=world.customers.replace(served=served))


def _draw_count(share: jax.Array | float, hidden: jax.Array, key: jax.Array) -> jax.Array:
    """How many of the `hidden` (`bool[C]`) there are, `i32[]`, by Bayes' rule from how many are known.

    `share` is the probability that a customer is not known. Any number of customers from 1 to C is as probable before,
    as `jaxvrp.randomize` draws them.
    """
    num_known = jnp.sum(~hidden, dtype=jnp.float32)
    number = jnp.arange(hidden.shape[0] + 1, dtype=jnp.float32)
    ways = jax.lax.lgamma(num_known + number + 1) - jax.lax.lgamma(number + 1)
    likely = ways + jax.scipy.special.xlogy(number, share)
    is_possible = (num_known + number <= hidden.shape[0]) & (num_known + number >= 1)
    return jax.random.categorical(key, jnp.where(is_possible, likely, -jnp.inf)).astype(jnp.int32)
