"""The greedy dispatcher of `vrpd_tw`: packages are loaded at the truck and weigh, and windows have a start.

Everything is asked of the world as agents know it; nothing is remembered. `P` places of the truck.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.envs.truck_drone.baselines.matching import SLACK, claimed, joint_action, match_cheapest
from jaxvrp.envs.truck_drone.physics import distance, recoverable
from jaxvrp.envs.truck_drone.scenarios.vrpd_tw import VrpdTw
from jaxvrp.envs.truck_drone.world import DELIVER, STAY, World, as_known

PATIENCE = 2
"""Steps: a sortie that would wait longer at its customer is not begun yet."""

HORIZON = 40.0
"""Steps: the truck minds customers who can be served within this time, the earlier the more."""

INERTIA = 0.1
"""By so much another place has to be better for the truck to leave: it is no use to swing to and fro."""


class Sortie(NamedTuple):
    """Flights to customers and back to the truck; arrays of one shape.

    Attributes:
        arrival: the step in which the drone would serve at the earliest, but for the window, `i32`.
        wait: steps that it would then wait for the window, `i32`.
        battery: charge that it takes on leaving, with what has to be left for the way home, `f32`.
    """

    arrival: jax.Array
    wait: jax.Array
    battery: jax.Array


def dispatch(env: VrpdTw, world: World) -> dict[str, jax.Array]:
    """The rules of `GreedyActor` for windows on one instance; legal by the scenario's mask.

    Args:
        env: its physics and its mask.
        world: one world, without a batch axis.

    Returns:
        `{"truck": i32[1], "drone": i32[D]}`.
    """
    mask = env.action_mask(world)
    world = as_known(world)
    customer = _assign(env, world, mask["drone"][:, DELIVER:])
    return joint_action(world, mask, customer, _truck_action(env, world, customer))


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

    Args:
        env: its physics.
        world: its clock, its windows.
        gap: from the truck to the drone, map units, `f32[..., C or 1]`.
        outward: from the drone to the customer, map units, `f32[..., C]`.
        homeward: from the customer to the truck, map units, `f32[..., C]`.
        delay: steps from now on after which the drone leaves at the earliest, `i32[..., 1]` or one number.
        longest_wait: steps; the drone leaves so late that it waits no longer. None: it leaves as early as it can.
    """
    stride = jnp.maximum(env.drone_speed * env.dt, SLACK)
    flight = jnp.maximum(jnp.ceil(outward / stride - SLACK), 1.0)
    arrival = world.step + delay + flight.astype(jnp.int32)
    opens = world.instance.window_start if env.wait_for_window else jnp.zeros_like(world.instance.window_start)
    if longest_wait is not None:
        arrival = jnp.maximum(arrival, opens - longest_wait)
    wait = jnp.maximum(opens - arrival, 0)
    laden = env.laden_consumption(world.instance.demand)
    # The guard minds the package up to the step that delivers it: the last that it sees is the step before.
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


def _assign(env: VrpdTw, world: World, may_deliver: jax.Array) -> jax.Array:
    """The customer of each drone, `i32[D]`, -1 for none; onboard drones are meant to be released for it.

    The most urgent pair first: least time between arrival and deadline, the nearer of those who are late anyway.

    Args:
        env: its physics.
        world: one world, as it is known.
        may_deliver: `bool[D, C]`, the mask of the DELIVER actions.
    """
    drones, places = world.drones, world.instance.customer_position
    onboard, loaded = drones.is_onboard, drones.carrying >= 0
    outward = distance(drones.position[:, None], places)
    gap, homeward = distance(drones.position, world.truck.position), distance(places, world.truck.position)
    sortie = _sortie(env, world, gap[:, None], outward, homeward, delay=onboard[:, None].astype(jnp.int32))
    # Release takes a hovering step.
    charge = drones.battery - jnp.where(onboard, env.hover_cost, 0.0)
    # What is worth a release must still be worth it one rounding later, and what was begun, a step of the truck later.
    spare = SLACK * jnp.where(loaded, 0.0, jnp.where(onboard, 2.0, 1.0))
    affordable = charge[:, None] >= sortie.battery + spare[:, None]
    timely = sortie.wait <= (PATIENCE + ~onboard)[:, None]
    free = ~world.customers.served & ~claimed(drones.carrying, places.shape[0])
    fresh = free & timely
    candidates = affordable & jnp.where(onboard[:, None], fresh, may_deliver & (fresh | loaded[:, None]))
    slack = jnp.maximum(world.instance.window_end - sortie.arrival, 0).astype(jnp.float32)
    # Whoever is in the air chooses first: a drone just released must not lose its customer to one onboard.
    rank = jnp.where(loaded, 0.0, jnp.where(onboard, 2.0, 1.0))[:, None]
    urgency = slack + outward + env.max_battery - drones.battery[:, None]
    return match_cheapest(jnp.where(candidates, urgency + rank * 4.0 * env.max_steps, jnp.inf))


def _truck_action(env: VrpdTw, world: World, customer: jax.Array) -> jax.Array:
    """RELEASE, else MOVE, else RECOVER, else STAY: `i32[]`.

    Args:
        env: its physics.
        world: one world, as it is known.
        customer: of each drone, `i32[D]`, -1 for none.
    """
    drones = world.drones
    chosen = drones.is_onboard & (customer >= 0)
    slack = world.instance.window_end[jnp.maximum(customer, 0)]
    released = jax.lax.argmin(jnp.where(chosen, slack, jnp.iinfo(jnp.int32).max), 0, jnp.int32)
    place = _best_place(env, world, customer)
    node = jnp.maximum(place - 1, 0)
    moves = (place > 0) & _leaves_nobody(env, world, customer, node)
    target = jnp.full((), -1, jnp.int32) if world.truck.target_node is None else world.truck.target_node
    drives_on = (place > 0) & _leaves_nobody(env, world, customer, jnp.maximum(target, 0))
    # RELEASE and RECOVER let the truck drive on; where it must not, it turns or stops before.
    is_free = (target < 0) | drives_on
    idle = recoverable(env, world) & (customer < 0)
    release = 1 + env.num_route_nodes
    action = jnp.where(idle.any() & is_free, release + env.num_drones + jax.lax.argmax(idle, 0, jnp.int32), STAY)
    action = jnp.where(moves, 1 + node, action)
    return jnp.where(chosen.any() & is_free, release + released, action)


def _best_place(env: VrpdTw, world: World, customer: jax.Array) -> jax.Array:
    """Where the truck should be: 0 where it is, 1 + k at node k, `i32[]`.

    The place from which most can be served by a full battery, who can be served soon counting more.
    """
    instance, truck = world.instance, world.truck.position
    places = jnp.concatenate([truck[None], instance.node_position])
    gap = distance(places[:, None], instance.customer_position)
    stride = jnp.maximum(env.truck_speed * env.dt, SLACK)
    drive = jnp.ceil(distance(places, truck) / stride - SLACK).astype(jnp.int32)
    sortie = _sortie(env, world, jnp.zeros_like(gap), gap, gap, delay=1 + drive[:, None], longest_wait=PATIENCE)
    within_reach = sortie.battery + env.hover_cost + 2 * SLACK <= env.max_battery
    count = instance.demand.shape[0]
    unclaimed = ~world.customers.served & ~claimed(world.drones.carrying, count) & ~claimed(customer, count)
    until = (sortie.arrival + sortie.wait - world.step).astype(jnp.float32)
    worth = jnp.where(within_reach & unclaimed, jnp.maximum(1.0 - until / HORIZON, 0.0), 0.0).sum(axis=1)
    best = jax.lax.argmax(worth, 0, jnp.int32)
    return jnp.where(worth[best] > worth[0] + INERTIA, best, 0)


def _leaves_nobody(env: VrpdTw, world: World, customer: jax.Array, node: jax.Array) -> jax.Array:
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
    # By customer, since those are rows of a sortie; each drone then looks at its own.
    gap, homeward = (distance(place[:, None], ends).max(axis=1)[:, None] for place in (drones.position, target))
    outward = distance(target, drones.position)[:, None] + jnp.zeros_like(world.instance.demand)
    needed = _sortie(env, world, gap, outward, homeward).battery
    of_delivery = jnp.take_along_axis(needed, jnp.maximum(customer, 0)[:, None], axis=1)[:, 0]
    laden = env.consumption(world.instance, drones.carrying)
    of_return = jnp.maximum(_home(env, homeward), laden[:, None] * homeward)[:, 0]
    enough = drones.battery >= jnp.where(delivers, of_delivery, of_return) + SLACK
    return (enough | ~drones.is_airborne).all()
