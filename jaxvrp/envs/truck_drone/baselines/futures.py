"""What may still come: customers of whom nobody knows yet, drawn as the generator draws them, given what is known."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.problem.generator import draw_unknown, share_unknown
from jaxvrp.envs.truck_drone.world import World, is_known


def imagine(env: TruckDrone, world: World, key: jax.Array) -> World:
    """The world with another future: everybody of whom agents do not know yet is drawn anew.

    What agents know is all that it depends on. Where no customer is padding, they know how many are still to come; else
    that is drawn, too, as if any number of customers were as probable.

    Args:
        env: whose generator draws places, demands and widths of windows.
        world: one world, without a batch axis.
        key: typed key.
    """
    instance = world.instance
    if instance.known_from is None:
        return world
    hidden, num_customers = is_hidden(world), instance.demand.shape[0]
    instance_key, window_key, count_key = jax.random.split(key, 3)
    drawn = env.generate(instance_key)
    start, known_from, possible = draw_unknown(window_key, world.step, num_customers, env.max_steps)
    comes = hidden & possible
    if instance.exists is not None:
        comes &= jnp.cumsum(hidden) <= _draw_count(env, world, hidden, count_key)
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


def is_hidden(world: World) -> jax.Array:
    """`bool[C]`: agents cannot tell whether there is such a customer: not known yet, or none at all."""
    known = is_known(world)
    return ~known if world.instance.exists is None else ~(known & world.instance.exists)


def _draw_count(env: TruckDrone, world: World, hidden: jax.Array, key: jax.Array) -> jax.Array:
    """How many of the `hidden` (`bool[C]`) there are, `i32[]`, by Bayes' rule from how many are known.

    Any number of customers from 1 to C is as probable before, as `jaxvrp.randomize` draws them.
    """
    num_known = jnp.sum(~hidden, dtype=jnp.float32)
    number = jnp.arange(hidden.shape[0] + 1, dtype=jnp.float32)
    share = share_unknown(world.step, env.parameters.get("dynamic_share", 0.0), env.max_steps)
    ways = jax.lax.lgamma(num_known + number + 1) - jax.lax.lgamma(number + 1)
    likely = ways + jax.scipy.special.xlogy(number, share)
    is_possible = (num_known + number <= hidden.shape[0]) & (num_known + number >= 1)
    return jax.random.categorical(key, jnp.where(is_possible, likely, -jnp.inf)).astype(jnp.int32)
