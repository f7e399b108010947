"""Greedy dispatchers: the baselines that learned policies have to beat.

`greedy_action` has the rules of `truck_drone_basic`, `dispatch` those of `vrpd_tw`, where packages are loaded at the
truck and weigh, and windows have a start. It sees the world as agents know it. Neither remembers anything.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry, Memoryless
from jaxvrp.environment import TimeStep
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import distance, recoverable
from jaxvrp.envs.truck_drone.scenarios import VrpdTw
from jaxvrp.envs.truck_drone.world import DELIVER, HOVER, RETURN, STAY, World

SLACK = 1e-4
"""Battery, or map units: far above the rounding of float32, far below any trip; a plan at the very edge of its battery
is not begun."""

PATIENCE = 2
"""Steps: a sortie that would wait longer at its customer is not begun yet."""

HORIZON = 40.0
"""Steps: only customers that can be served within this time draw the truck, the earlier the more."""

REACH = 0.6
"""Map units: where customers are lost, one that is farther from the truck is declined, and draws the truck less the
farther it is from a node; tuned, as `HASTE`, on `truck_drone_same_day`."""

HASTE = 0.1
"""Map units: there, a drone flies so much farther for a customer that is a step more urgent."""

INERTIA = 0.1
"""By so much another place has to be better for the truck to leave, so that it does not swing to and fro."""


class GreedyActor(Memoryless):
    """Plays `greedy_action`, or in `vrpd_tw` `dispatch`, on a batch; an `Actor` without memory or randomness.

    The rules, in the order in which they apply:

    1. A drone flies to the nearest unserved customer that no other drone has, if its battery covers the flight there
       and, at the customer, still satisfies the battery guard. A package that it carries decides for it; airborne
       drones choose before those onboard; of all free pairs the closest is matched first.
    2. An airborne drone without such a customer, or without the battery to go on, returns and boards.
    3. The truck releases drones that have a customer, the one with the farthest first.
    4. Else it drives to the node next to the nearest customer that no drone has, as long as that leaves the way home
       of every airborne drone covered.
    5. Else it recovers a drone that is near and has nothing to do, or stays.

    Where packages are loaded at the truck and windows have a start (`vrpd_tw`), among the customers known by then:

    1. A drone flies to the customer whose deadline is the nearest after its arrival, if its battery covers the flight
       with the package, the wait for the window, the way home and the battery guard. It is not sent if it would wait
       for more than `PATIENCE` steps; airborne drones choose before those onboard.
    2. As above.
    3. The truck releases drones that have a customer, the most urgent first.
    4. Else it drives to the node from which most customers are within a full battery's reach (customers that can be
       served soon count more), as long as every airborne drone can still finish what it does. Where driving on would
       strand a drone, the truck stops before anything else.
    5. As above.
    """

    def __init__(self, env: TruckDrone):
        self.env = env

    def act(self, key: jax.Array, carry: Carry, state: World, timestep: TimeStep) -> tuple[dict[str, jax.Array], Carry]:
        """See `Actor.act`."""
        del key, timestep
        return jax.vmap(functools.partial(choose, self.env))(state), carry


def choose(env: TruckDrone, world: World) -> dict[str, jax.Array]:
    """What `GreedyActor` does in one world: `{"truck": i32[1], "drone": i32[D]}`, legal by the scenario's mask."""
    return dispatch(env, world) if isinstance(env, VrpdTw) else greedy_action(env, world)


def greedy_action(env: TruckDrone, world: World) -> dict[str, jax.Array]:
    """The rules of `GreedyActor` without windows, in one world: `{"truck": i32[1], "drone": i32[D]}`, legal."""
    mask = env.action_mask(world)
    customer = _nearest_customers(env, world, mask["drone"][:, DELIVER:])
    gap = distance(world.instance.customer_position[jnp.maximum(customer, 0)], world.truck.position)
    # The farthest first: the last delivery ends the episode.
    waits = world.drones.is_onboard & (customer >= 0)
    released = jax.lax.argmax(jnp.where(waits, gap, -1.0), 0, jnp.int32)
    node, worthwhile = _destination(env, world, customer)
    moves = worthwhile & _move_is_safe(env, world, customer, node)
    truck = _truck_action(env, world, customer, released=released, node=node, moves=moves)
    return _joint_action(world, mask, customer, truck)


def _trip(env: TruckDrone, gap: jax.Array, outward: jax.Array, homeward: jax.Array) -> jax.Array:
    """Battery for a delivery on whose way the guard never fires.

    `gap` is the distance of the drone from the truck, `outward` from the drone to the customer, `homeward` from the
    customer to the truck. The battery falls linearly on the way and the reserve is convex in the position, so both ends
    suffice.
    """

    def reserve(gap: jax.Array) -> jax.Array:
        # A guard that is set below the length of the way home does not protect from a crash.
        factor = jnp.maximum(env.forced_return_factor, 1.0)
        return factor * env.battery_rate * (gap + env.drone_speed * env.dt)

    return jnp.maximum(env.battery_rate * outward + reserve(homeward), reserve(gap))


def _nearest_customers(env: TruckDrone, world: World, may_deliver: jax.Array) -> jax.Array:
    """The customer of each drone, see `_assign`: the nearest pair first."""
    drones, places = world.drones, world.instance.customer_position
    outward = distance(drones.position[:, None], places)
    # Release takes a hovering step; and what is worth a release must still be worth it one rounding later.
    charge = drones.battery - jnp.where(drones.is_onboard, env.hover_cost + SLACK, 0.0)
    gap = distance(drones.position, world.truck.position)
    trip = _trip(env, gap[:, None], outward, distance(places, world.truck.position))
    affordable = charge[:, None] >= trip + jnp.where(drones.carrying >= 0, 0.0, SLACK)[:, None]
    return _assign(world, may_deliver, affordable, True, outward, 1.0 + outward.max())


def _destination(env: TruckDrone, world: World, customer: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The node to drive to, `i32[]`, and whether that is worthwhile, `bool[]`.

    It is the node closest to the nearest customer that no drone has. Customers that a full battery cannot serve from
    here or from any node come last: otherwise the truck would wait beside them for ever. Every move brings that
    customer nearer, so the truck does not swing to and fro although nothing is remembered.
    """
    places, nodes = world.instance.customer_position, world.instance.node_position
    from_truck, from_node = distance(places, world.truck.position), distance(nodes[:, None], places)
    closest = jnp.minimum(from_truck, from_node.min(axis=0))
    full = env.max_battery - env.hover_cost
    within_reach = full >= _trip(env, jnp.zeros_like(closest), closest, closest) + 2 * SLACK
    free = _unclaimed(world, customer)
    hopeful = free & within_reach
    wanted = jnp.where(hopeful.any(), hopeful, free)
    nearest = jax.lax.argmin(jnp.where(wanted, from_truck, jnp.inf), 0, jnp.int32)
    node = jax.lax.argmin(from_node[:, nearest], 0, jnp.int32)
    return node, free.any() & (from_node[node, nearest] < from_truck[nearest] - SLACK)


def _move_is_safe(env: TruckDrone, world: World, customer: jax.Array, node: jax.Array) -> jax.Array:
    """`bool[]`: if the truck drives to `node` (`i32[]`), every airborne drone can still finish what it does.

    One step ahead is enough, because the truck can always stay where it then is.
    """
    drones, delivers = world.drones, customer >= 0
    offset = world.instance.node_position[node] - world.truck.position
    way = distance(world.instance.node_position[node], world.truck.position)
    truck = world.truck.position + jnp.minimum(env.truck_speed * env.dt / jnp.where(way > 0, way, 1.0), 1.0) * offset
    target = jnp.where(delivers[:, None], world.instance.customer_position[customer], drones.position)
    gap, gap_after = distance(drones.position, world.truck.position), distance(drones.position, truck)
    trip = _trip(env, gap_after, distance(target, drones.position), distance(target, truck))
    # A returning drone boards where the truck was before it moved (but never at a threshold of 0, which is strict).
    boards = (gap <= env.drone_speed * env.dt) & (env.recovery_threshold > 0)
    can_finish = (drones.battery >= trip + SLACK) | (~delivers & (boards | (gap_after <= gap)))
    return (can_finish | ~drones.is_airborne).all()


# --- windows: `vrpd_tw` ----------------------------------------------------------------------------------------------


class _Sortie(NamedTuple):
    """Flights to customers and back to the truck; arrays of one shape."""

    arrival: jax.Array  # `i32`, the step in which the drone arrives and, unless the window is closed, serves
    wait: jax.Array  # `i32`, steps for which it then waits for the window
    battery: jax.Array  # `f32`, charge that the flight takes, with what has to be left for the way home


def dispatch(env: VrpdTw, world: World) -> dict[str, jax.Array]:
    """The rules of `GreedyActor` for windows, in one world: `{"truck": i32[1], "drone": i32[D]}`, legal."""
    mask = env.action_mask(world)
    world = env.known_world(world)
    customer = _urgent_customers(env, world, mask["drone"][:, DELIVER:])
    slack = world.instance.window_end[jnp.maximum(customer, 0)]
    waits = world.drones.is_onboard & (customer >= 0)
    released = jax.lax.argmin(jnp.where(waits, slack, jnp.iinfo(jnp.int32).max), 0, jnp.int32)
    place = _best_place(env, world, customer)
    node = jnp.maximum(place - 1, 0)
    moves = (place > 0) & _drive_is_safe(env, world, customer, node)
    target = jnp.full((), -1, jnp.int32) if world.truck.target_node is None else world.truck.target_node
    drives_on = (place > 0) & _drive_is_safe(env, world, customer, jnp.maximum(target, 0))
    # RELEASE and RECOVER let the truck drive on; where it must not, it turns or stops before.
    is_free = (target < 0) | drives_on
    truck = _truck_action(env, world, customer, released=released, node=node, moves=moves, is_free=is_free)
    return _joint_action(world, mask, customer, truck)


def _sortie(
    env: VrpdTw,
    world: World,
    gap: jax.Array,
    outward: jax.Array,
    homeward: jax.Array,
    *,
    delay: jax.Array | int = 0,
    longest_wait: int | None = None,
) -> _Sortie:
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
    return _Sortie(arrival, wait, jnp.maximum(jnp.where(flight > 1, on_the_way, 0.0), at_customer))


def _home(env: VrpdTw, gap: jax.Array) -> jax.Array:
    """Charge that takes an empty drone home from a distance of `gap`, with a step to spare."""
    return env.battery_rate * (gap + env.drone_speed * env.dt)


def _guard(env: VrpdTw, gap: jax.Array, consumption: jax.Array) -> jax.Array:
    """Charge below which the battery guard fires at a distance of `gap` from the truck."""
    return env.forced_return_factor * consumption * (gap + env.drone_speed * env.dt)


def _urgent_customers(env: VrpdTw, world: World, may_deliver: jax.Array) -> jax.Array:
    """The customer of each drone, see `_assign`: the most urgent pair first.

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
    if env.is_lost(world) is not None:
        affordable &= sortie.arrival <= world.instance.window_end
        timely &= (outward <= REACH) | ~onboard[:, None]
        slack *= HASTE
    urgency = slack + outward + env.max_battery - drones.battery[:, None]
    return _assign(world, may_deliver, affordable, timely, urgency, 4.0 * env.max_steps)


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
    counts = within_reach & _unclaimed(world, customer)
    each = jnp.maximum(1.0 - until / HORIZON, 0.0)
    if env.is_lost(world) is not None:
        counts &= sortie.arrival <= world.instance.window_end
        each *= jnp.maximum(1.0 - gap / REACH, 0.0)
    worth = jnp.where(counts, each, 0.0).sum(axis=1)
    best = jax.lax.argmax(worth, 0, jnp.int32)
    return jnp.where(worth[best] > worth[0] + INERTIA, best, 0)


def _drive_is_safe(env: VrpdTw, world: World, customer: jax.Array, node: jax.Array) -> jax.Array:
    """`bool[]`: if the truck drives to `node` (`i32[]`), every airborne drone can still finish what it does.

    The way until the next decision counts: one step, or, where choices hold, as many as they may. The charge that is
    needed is convex in the truck's position, so both ends of the way suffice.
    """
    drones, truck = world.drones, world.truck.position
    offset = world.instance.node_position[node] - truck
    steps = 1 if env.decide == "steps" else env.max_repeat
    reach = steps * env.truck_speed * env.dt
    way = jnp.minimum(1.0, reach / jnp.maximum(distance(offset, jnp.zeros(2, jnp.float32)), SLACK))
    ends = jnp.stack([truck, truck + way * offset])
    delivers = customer >= 0
    target = jnp.where(delivers[:, None], world.instance.customer_position[customer], drones.position)
    # A sortie has a row for each customer, of which each drone takes that of its own customer.
    gap, homeward = (distance(place[:, None], ends).max(axis=1)[:, None] for place in (drones.position, target))
    outward = distance(target, drones.position)[:, None] + jnp.zeros_like(world.instance.demand)
    needed = _sortie(env, world, gap, outward, homeward).battery
    of_delivery = jnp.take_along_axis(needed, jnp.maximum(customer, 0)[:, None], axis=1)[:, 0]
    laden = jnp.asarray(env.consumption(world.instance, drones.carrying))
    of_return = jnp.maximum(_home(env, homeward), laden[:, None] * homeward)[:, 0]
    enough = drones.battery >= jnp.where(delivers, of_delivery, of_return) + SLACK
    return (enough | ~drones.is_airborne).all()


# --- what both share -------------------------------------------------------------------------------------------------


def _joint_action(
    world: World, mask: dict[str, jax.Array], customer: jax.Array, truck: jax.Array
) -> dict[str, jax.Array]:
    """Airborne drones deliver to their `customer` (`i32[D]`, -1 for none) or return, the truck does `truck` (`i32[]`).

    `{"truck": i32[1], "drone": i32[D]}`; 0 where the `mask` forbids an action, as a scenario may.
    """
    drone = jnp.where(customer >= 0, DELIVER + customer, RETURN)
    drone = jnp.where(world.drones.is_airborne, drone, HOVER)
    return {
        role: jnp.where(jnp.take_along_axis(mask[role], action[:, None], axis=1)[:, 0], action, 0)
        for role, action in (("truck", truck[None]), ("drone", drone))
    }


def _truck_action(
    env: TruckDrone,
    world: World,
    customer: jax.Array,
    *,
    released: jax.Array,
    node: jax.Array,
    moves: jax.Array,
    is_free: jax.Array | bool = True,
) -> jax.Array:
    """RELEASE, else MOVE, else RECOVER, else STAY: `i32[]`, given the `customer` (`i32[D]`) of each drone.

    `released` (`i32[]`) is the drone that leaves first; the truck drives to `node` (`i32[]`) if it `moves` (`bool[]`),
    and releases or recovers only where it `is_free` to.
    """
    idle, release = recoverable(env, world) & (customer < 0), 1 + env.num_route_nodes
    recover = release + env.num_drones + jax.lax.argmax(idle, 0, jnp.int32)
    action = jnp.where(idle.any() & is_free, recover, STAY)
    action = jnp.where(moves, 1 + node, action)
    waits = world.drones.is_onboard & (customer >= 0)
    return jnp.where(waits.any() & is_free, release + released, action)


def _assign(
    world: World,
    may_deliver: jax.Array,
    affordable: jax.Array,
    timely: jax.Array | bool,
    cost: jax.Array,
    rank_cost: jax.Array | float,
) -> jax.Array:
    """The customer of each drone, `i32[D]`, -1 for none, the cheapest pair first; arrays are `[D, C]`.

    `may_deliver` is the mask of the DELIVER actions; onboard drones are meant to be released for their customer. A
    drone keeps the package that it carries, whether it is `timely` or not. Loaded drones choose first, then airborne
    ones, so that a drone just released does not lose its customer to one onboard: each rank adds `rank_cost`.
    """
    drones, count = world.drones, world.customers.served.shape[0]
    onboard, loaded = drones.is_onboard[:, None], drones.carrying[:, None] >= 0
    free = ~world.customers.served & ~_claimed(drones.carrying, count) & timely
    candidates = affordable & jnp.where(onboard, free, may_deliver & (free | loaded))
    rank = jnp.where(loaded, 0.0, jnp.where(onboard, 2.0, 1.0))
    return _match_cheapest(jnp.where(candidates, cost + rank * rank_cost, jnp.inf))


def _claimed(customer: jax.Array, num_customers: int) -> jax.Array:
    """`bool[C]`: the customers that are among `customer` (`i32[D]`, -1 for none)."""
    return (customer[:, None] == jnp.arange(num_customers, dtype=jnp.int32)).any(axis=0)


def _unclaimed(world: World, customer: jax.Array) -> jax.Array:
    """`bool[C]`: not served, carried by no drone, and not among `customer` (`i32[D]`, -1 for none)."""
    count = world.customers.served.shape[0]
    return ~world.customers.served & ~_claimed(world.drones.carrying, count) & ~_claimed(customer, count)


def _match_cheapest(cost: jax.Array) -> jax.Array:
    """Match the cheapest pair, strike out its row and column, and so on: `f32[D, C]` (inf: never) to `i32[D]`."""
    num_drones, num_customers = cost.shape
    rows = jnp.arange(num_drones, dtype=jnp.int32)
    columns = jnp.arange(num_customers, dtype=jnp.int32)

    def match_pair(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        matched, cost = carry
        pair = jax.lax.argmin(cost.ravel(), 0, jnp.int32)
        row, column = pair // num_customers, pair % num_customers
        matched = jnp.where((rows == row) & jnp.isfinite(cost[row, column]), column, matched)
        return matched, jnp.where((rows == row)[:, None] | (columns == column), jnp.inf, cost)

    unmatched = jnp.full(num_drones, -1, jnp.int32)
    return jax.lax.fori_loop(0, num_drones, match_pair, (unmatched, cost))[0]
