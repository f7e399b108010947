"""The greedy dispatcher of `vrpd_tw`: packages are loaded at the truck and weigh, and windows have a start.

It sees the world as agents know it, and remembers nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.baselines.matching import SLACK, assign, joint_action, truck_action, unclaimed
from jaxvrp.envs.truck_drone.physics import distance
from jaxvrp.envs.truck_drone.scenarios.vrpd_tw import VrpdTw
from jaxvrp.envs.truck_drone.world import DELIVER, World, as_known

PATIENCE = 2
"""Steps: a sortie that would wait longer at its customer is not begun yet."""

HORIZON = 40.0
"""Steps: only customers that can be served within this time draw the truck, the earlier the more."""

INERTIA = 0.1
"""By so much another place has to be better for the truck to leave, so that it does not swing to and fro."""


class Sortie(NamedTuple):
    """Flights to customers and back to the truck; arrays of one shape."""

    arrival: jax.Array
    """The step in which the drone arrives and, unless the window is closed, serves, `i32`."""
    wait: jax.Array
    """Steps for which it then waits for the window, `i32`."""
    battery: jax.Array
    """Charge that the flight takes, with what has to be left for the way home, `f32`."""


def dispatch(env: VrpdTw, world: World) -> dict[str, jax.Array]:
    """The rules of `GreedyActor` for windows, in one world: `{"truck": i32[1], "drone": i32[D]}`, legal."""
    mask = env.action_mask(world)
    world = as_known(world)
    customer = _match_customers(env, world, mask["drone"][:, DELIVER:])
    slack = world.instance.window_end[jnp.maximum(customer, 0)]
    waits = world.drones.is_onboard & (customer >= 0)
    released = jax.lax.argmin(jnp.where(waits, slack, jnp.iinfo(jnp.int32).max), 0, jnp.int32)
    place = _best_place(env, world, customer)
    node = jnp.maximum(place - 1, 0)
    moves = (place > 0) & _strands_no_drone(env, world, customer, node)
    target = jnp.full((), -1, jnp.int32) if world.truck.target_node is None else world.truck.target_node
    drives_on = (place > 0) & _strands_no_drone(env, world, customer, jnp.maximum(target, 0))
    # RELEASE and RECOVER let the truck drive on; where it must not, it turns or stops before.
    is_free = (target < 0) | drives_on
    truck = truck_action(env, world, customer, released=released, node=node, moves=moves, is_free=is_free)
    return joint_action(world, mask, customer, truck)


def _sortie(
    env: VrpdTw,
    world: World,
    gap: jax.Array,
    outward: jax.Array,
    homeward: jax.Array,
    *,
    delay: jax.Array | int = 0,
    longest_wait: int | None = None,
) -> Sortie:
    """What it takes to fly to each customer, and to the truck after that.

    Lengths in map units, each `f32[..., C]`: `gap` from the truck to the drone (or one for all customers, `[..., 1]`),
    `outward` from the drone to the customer, `homeward` from the customer to the truck. The drone leaves after `delay`
    steps (`i32[..., 1]` or one number) as early as it can; with a `longest_wait`, so late that it waits no more steps.
    """
    stride = jnp.maximum(env.drone_speed * env.dt, SLACK)
    flight = jnp.maximum(jnp.ceil(outward / stride - SLACK), 1.0)
    arrival = world.step + delay + flight.astype(jnp.int32)
    opens = world.instance.window_start if env.wait_for_window else jnp.zeros_like(world.instance.window_start)
    if longest_wait is not None:
        arrival = jnp.maximum(arrival, opens - longest_wait)
    wait = jnp.maximum(opens - arrival, 0)
    laden = env.laden_consumption(world.instance.demand)
    # The guard counts the package up to the step before the one that delivers it.
    last = (flight - 1.0) * stride
    share = last / jnp.maximum(outward, SLACK)
    on_the_way = laden * last + _guard(env, (1.0 - share) * gap + share * homeward, laden)
    consumption = jnp.where(wait > 0, laden, env.battery_rate)
    in_the_end = jnp.maximum(_guard(env, homeward, consumption), _home(env, homeward))
    at_customer = laden * outward + env.hover_cost * wait + in_the_end
    return Sortie(arrival, wait, jnp.maximum(jnp.where(flight > 1, on_the_way, 0.0), at_customer))


def _home(env: VrpdTw, gap: jax.Array) -> jax.Array:
    """Charge that takes an empty drone home from a distance of `gap`, with a step to spare."""
    return env.battery_rate * (gap + env.drone_speed * env.dt)


def _guard(env: VrpdTw, gap: jax.Array, consumption: jax.Array) -> jax.Array:
    """Charge below which the battery guard fires at a distance of `gap` from the truck."""
    return env.forced_return_factor * consumption * (gap + env.drone_speed * env.dt)


def _match_customers(env: VrpdTw, world: World, may_deliver: jax.Array) -> jax.Array:
    """The customer of each drone, see `assign`: the most urgent pair first.

    That has the least time between arrival and deadline; of those that are late anyway, the nearer is first.
    """
    drones, places = world.drones, world.instance.customer_position
    onboard, loaded = drones.is_onboard, drones.carrying >= 0
    outward = distance(drones.position[:, None], places)
    gap, homeward = distance(drones.position, world.truck.position), distance(places, world.truck.position)
    sortie = _sortie(env, world, gap[:, None], outward, homeward, delay=onboard[:, None].astype(jnp.int32))
    # Release takes a hovering step.
    charge = drones.battery - jnp.where(onboard, env.hover_cost, 0.0)
    # What is worth a release must still be worth it one rounding later, and what has begun, a step of the truck later.
    spare = SLACK * jnp.where(loaded, 0.0, jnp.where(onboard, 2.0, 1.0))
    affordable = charge[:, None] >= sortie.battery + spare[:, None]
    timely = sortie.wait <= (PATIENCE + ~onboard)[:, None]
    slack = jnp.maximum(world.instance.window_end - sortie.arrival, 0).astype(jnp.float32)
    urgency = slack + outward + env.max_battery - drones.battery[:, None]
    return assign(world, may_deliver, affordable, timely, urgency, 4.0 * env.max_steps)


def _best_place(env: VrpdTw, world: World, customer: jax.Array) -> jax.Array:
    """Where the truck should be: 0 where it is, 1 + k at node k, `i32[]`.

    The place from which a full battery serves most customers; those that can be served soon count more.
    """
    instance, truck = world.instance, world.truck.position
    places = jnp.concatenate([truck[None], instance.node_position])
    gap = distance(places[:, None], instance.customer_position)
    stride = jnp.maximum(env.truck_speed * env.dt, SLACK)
    drive = jnp.ceil(distance(places, truck) / stride - SLACK).astype(jnp.int32)
    sortie = _sortie(env, world, jnp.zeros_like(gap), gap, gap, delay=1 + drive[:, None], longest_wait=PATIENCE)
    within_reach = sortie.battery + env.hover_cost + 2 * SLACK <= env.max_battery
    until = (sortie.arrival + sortie.wait - world.step).astype(jnp.float32)
    counts = within_reach & unclaimed(world, customer)
    worth = jnp.where(counts, jnp.maximum(1.0 - until / HORIZON, 0.0), 0.0).sum(axis=1)
    best = jax.lax.argmax(worth, 0, jnp.int32)
    return jnp.where(worth[best] > worth[0] + INERTIA, best, 0)


def _strands_no_drone(env: VrpdTw, world: World, customer: jax.Array, node: jax.Array) -> jax.Array:
    """`bool[]`: if the truck drives to `node` (`i32[]`), every airborne drone can still finish what it does.

    The way until the next decision counts: one step, or, where choices hold, as many as they may. The charge that is
    needed is convex in the truck's position, so both ends of the way suffice.
    """
    drones, truck = world.drones, world.truck.position
    offset = world.instance.node_position[node] - truck
    steps = 1 if env.decide == "steps" else env.max_repeat
    reach = steps * env.truck_speed * env.dt
    way = jnp.minimum(1.0, reach / jnp.maximum(distance(offset, jnp.zeros(2)), SLACK))
    ends = jnp.stack([truck, truck + way * offset])
    delivers = customer >= 0
    target = jnp.where(delivers[:, None], world.instance.customer_position[customer], drones.position)
    # A sortie has a row for each customer, of which each drone takes that of its own customer.
    gap, homeward = (distance(place[:, None], ends).max(axis=1)[:, None] for place in (drones.position, target))
    outward = distance(target, drones.position)[:, None] + jnp.zeros_like(world.instance.demand)
    needed = _sortie(env, world, gap, outward, homeward).battery
    of_delivery = jnp.take_along_axis(needed, jnp.maximum(customer, 0)[:, None], axis=1)[:, 0]
    laden = env.consumption(world.instance, drones.carrying)
    of_return = jnp.maximum(_home(env, homeward), laden[:, None] * homeward)[:, 0]
    enough = drones.battery >= jnp.where(delivers, of_delivery, of_return) + SLACK
    return (enough | ~drones.is_airborne).all()
