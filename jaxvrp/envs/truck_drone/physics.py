"""One step of the truck-and-drones world, in the order of its specification, without observations and rewards."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp.actions import lowest_true
from jaxvrp.envs.truck_drone.problem.instance import Instance
from jaxvrp.envs.truck_drone.world import (
    CRASHED,
    DELIVER,
    FLYING,
    HOVER,
    ONBOARD,
    RETURN,
    RETURNING,
    STAY,
    Customers,
    Drones,
    Truck,
    World,
    is_known,
)
from jaxvrp.fields import ABSENT, parameter
from jaxvrp.rows import rows_at


class Physics(struct.PyTreeNode):
    """The parameters of the world, leaves that can be swept, batched and differentiated; and its rules."""

    dt: float = parameter(0.1, above=0.0, help="length of a step", unit="time units")
    truck_speed: float = parameter(1.0, minimum=0.0, help="how fast the truck drives", unit="map units per time unit")
    drone_speed: float = parameter(2.0, minimum=0.0, help="how fast a drone flies", unit="map units per time unit")
    max_battery: float = parameter(1.0, above=0.0, help="a full charge")
    # With 0.5 a full charge lasts for 2 map units, so the truck has to move.
    battery_rate: float = parameter(0.5, minimum=0.0, help="battery per map unit flown", unit="charge per map unit")
    hover_cost: float = parameter(0.001, minimum=0.0, help="battery per hovering step", unit="charge per step")
    recharge_rate: float = parameter(0.05, minimum=0.0, help="battery per step on board", unit="charge per step")
    forced_return_factor: float = parameter(1.2, minimum=0.0, help="safety factor of the battery guard")
    delivery_threshold: float = parameter(
        0.05, above=0.0, help="a drone serves a customer closer than this", unit="map units"
    )
    # 0.12 is not a multiple of a truck step, where an exact tie would be decided by rounding.
    recovery_threshold: float = parameter(
        0.12,
        minimum=0.0,
        help="the truck recovers a drone within this; a returning drone boards closer than this",
        unit="map units",
    )

    # Rules: attributes that a scenario sets, or makes parameters of its own.
    truck_motion = "step"
    """The truck drives in steps whose action is MOVE alone; `"persistent"`: to its node until STAY or arrival."""
    load_at_truck = False
    """Whether an empty drone takes a package only within `recovery_threshold` of the truck."""
    wait_for_window = False
    """Whether no customer is served before its window opens, and a drone that is there waits."""
    on_demand = False
    """Whether customers call when their windows open, and are lost when they close."""
    payload_factor = ABSENT
    """By which share battery per map unit grows for a package of demand 1; absent: packages weigh nothing."""

    def consumption(self, instance: Instance, carrying: jax.Array) -> jax.Array | float:
        """Battery per map unit flown: one number, or `f32[D]` by the customer whose package is carried (`i32[D]`)."""
        if self.payload_factor is ABSENT:
            return self.battery_rate
        return self.laden_consumption(jnp.where(carrying >= 0, rows_at(instance.demand, jnp.maximum(carrying, 0)), 0.0))

    def laden_consumption(self, demand: jax.Array) -> jax.Array:
        """Battery per map unit flown with a package of this demand, `f32[...]`."""
        return self.battery_rate * (1.0 + self.payload_factor * demand)

    def is_closed(self, world: World) -> jax.Array | None:
        """`bool[C]`: customers that cannot be served yet in the step that begins in `world`; None if all can."""
        return world.step + 1 < world.instance.window_start if self.wait_for_window else None

    def is_lost(self, world: World) -> jax.Array | None:
        """`bool[C]`: unserved customers that may not be served any more; None if that is never too late."""
        if not self.on_demand:
            return None
        return ~world.customers.served & (world.step >= world.instance.window_end)


ARRIVED = 1e-6
"""Map units: a truck nearer to a node than this is there."""


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Euclidean distance over the last axis; `a` and `b` broadcast, `[..., 2] -> [...]`."""
    # Written out: a reduction over an axis of two does not fuse and vectorise.
    x, y = a[..., 0] - b[..., 0], a[..., 1] - b[..., 1]
    square = x * x + y * y
    # The inner `where` keeps the gradient finite at distance 0.
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def recoverable(physics: Physics, world: World) -> jax.Array:
    """`bool[D]`: airborne and within the truck's `recovery_threshold`."""
    near = distance(world.drones.position, world.truck.position) <= physics.recovery_threshold
    return world.drones.is_airborne & near


def battery_reserve(physics: Physics, world: World) -> jax.Array:
    """Charge below which the battery guard sends an airborne drone home, `f32[D]`."""
    # One step of margin: without it most drones that are sent home crash on the way.
    way_home = distance(world.drones.position, world.truck.position) + physics.drone_speed * physics.dt
    return physics.forced_return_factor * physics.consumption(world.instance, world.drones.carrying) * way_home


def step(
    physics: Physics, world: World, truck_action: jax.Array, drone_action: jax.Array, num_invalid: jax.Array
) -> World:
    """Move the world by one step.

    `truck_action` is `i32[]` in `[0, 1 + N + 2D)`, `drone_action` `i32[D]` in `[0, 2 + C)`; `num_invalid` (`i32[]`)
    forbidden actions were replaced by index 0, and are counted.
    """
    num_nodes, num_drones = world.instance.node_position.shape[0], drone_action.shape[0]
    drone = jnp.arange(num_drones, dtype=jnp.int32)

    # The battery guard overrides the actions of drones that must go home.
    forced = world.drones.is_airborne & (world.drones.battery < battery_reserve(physics, world))
    action = jnp.where(forced, RETURN, drone_action)
    drones = world.drones.replace(forced_return=forced & (drone_action != RETURN))

    # The truck releases a drone or takes one back; a drone charges in a step that it begins and ends on board.
    released = (truck_action - (1 + num_nodes) == drone) & drones.is_onboard
    drones = drones.replace(status=jnp.where(released, FLYING, drones.status))
    charging = drones.is_onboard
    recovered = (truck_action - (1 + num_nodes + num_drones) == drone) & recoverable(physics, world)
    drones = drones.replace(
        status=jnp.where(recovered, ONBOARD, drones.status), carrying=jnp.where(recovered, -1, drones.carrying)
    )

    # Drones fly, then the truck drives with the drones on board.
    drones = _fly(physics, world, drones, action)
    truck, driven = _drive(physics, world.truck, truck_action, world.instance.node_position)
    charged = jnp.minimum(drones.battery + physics.recharge_rate, physics.max_battery)
    drones = drones.replace(
        position=jnp.where(drones.is_onboard[:, None], truck.position, drones.position),
        battery=jnp.where(charging, charged, drones.battery),
    )

    drones, customers = _deliver(physics, world.replace(drones=drones), action)
    on_time = customers.just_served & (customers.arrival_step <= world.instance.window_end)
    totals = world.totals.replace(
        on_time=world.totals.on_time + jnp.sum(on_time, dtype=jnp.int32),
        invalid_actions=world.totals.invalid_actions + num_invalid,
        forced_returns=world.totals.forced_returns + jnp.sum(drones.forced_return, dtype=jnp.int32),
        battery_used=world.totals.battery_used + drones.battery_used.sum(),
        truck_distance=world.totals.truck_distance + driven,
        drone_distance=world.totals.drone_distance + drones.flown.sum(),
    )
    return world.replace(truck=truck, drones=drones, customers=customers, totals=totals, step=world.step + 1)


def _advance(position: jax.Array, target: jax.Array, reach: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Displacement `[..., 2]` straight at `target` by at most `reach` `[...]`, and its length `[...]`."""
    gap = distance(target, position)
    length = jnp.minimum(gap, reach)
    scale = length / jnp.where(gap > 0, gap, 1.0)
    return (target - position) * scale[..., None], length


def _fly(physics: Physics, world: World, drones: Drones, action: jax.Array) -> Drones:
    """Airborne `drones` fly, with truck and customers as before the step."""
    airborne, base = drones.is_airborne, world.truck.position
    returning = airborne & (action == RETURN)
    hovering = airborne & (action == HOVER)
    delivering = airborne & (action >= DELIVER)
    customer = jnp.maximum(action - DELIVER, 0)
    target = jnp.where(returning[:, None], base, rows_at(world.instance.customer_position, customer))
    moving = returning | delivering
    reach = jnp.where(moving, jnp.asarray(physics.drone_speed * physics.dt, jnp.float32), 0.0)
    displacement, flown = _advance(drones.position, target, reach)
    carrying = jnp.where(delivering & (drones.carrying < 0), customer, drones.carrying)
    position, closed = drones.position + displacement, physics.is_closed(world)
    if closed is not None:
        gap = distance(drones.position, target)
        hovering |= delivering & (flown == 0) & (gap < physics.delivery_threshold) & rows_at(closed, customer)
        # Exactly at the target: rounding would let a waiting drone move.
        position = jnp.where((gap <= reach)[:, None], target, position)
    drawn = jnp.where(hovering, physics.hover_cost, physics.consumption(world.instance, carrying) * flown)
    battery = jnp.where(airborne, drones.battery - drawn, drones.battery)
    crashed = airborne & (battery <= 0)
    boards = returning & ~crashed & (distance(position, base) < physics.recovery_threshold)
    status = jnp.where(airborne, jnp.where(returning, RETURNING, FLYING), drones.status)
    ends = crashed | boards
    return drones.replace(
        position=position,
        velocity=jnp.where(ends[:, None], 0.0, displacement / physics.dt),
        battery=jnp.where(crashed, 0.0, battery),
        status=jnp.where(crashed, CRASHED, jnp.where(boards, ONBOARD, status)),
        carrying=jnp.where(ends, -1, carrying),
        target=jnp.where((moving & ~ends)[:, None], target, 0.0),
        has_target=moving & ~ends,
        battery_used=drawn,
        flown=flown,
    )


def _drive(physics: Physics, truck: Truck, action: jax.Array, node_position: jax.Array) -> tuple[Truck, jax.Array]:
    """The truck moves; also the distance driven, `f32[]`.

    MOVE_k drives to node k. Any other action but STAY drives on to the target node, if there is one.
    """
    num_nodes, target = node_position.shape[0], truck.target_node
    drives, node = (action >= 1) & (action <= num_nodes), jnp.clip(action - 1, 0, num_nodes - 1)
    if target is not None:
        keeps = ~drives & (action != STAY) & (target >= 0)
        drives, node = drives | keeps, jnp.where(keeps, target, node)
    reach = jnp.where(drives, jnp.asarray(physics.truck_speed * physics.dt, jnp.float32), 0.0)
    place = rows_at(node_position, node)
    displacement, driven = _advance(truck.position, place, reach)
    truck = truck.replace(position=truck.position + displacement, velocity=displacement / physics.dt)
    if target is not None:
        arrived = distance(truck.position, place) < ARRIVED
        truck = truck.replace(target_node=jnp.where(drives & ~arrived, node, -1))
    return truck, driven


def _deliver(physics: Physics, world: World, action: jax.Array) -> tuple[Drones, Customers]:
    """Drones and customers after the deliveries.

    Crashed and onboard drones carry nothing, so `carrying` says which drones can serve.
    """
    drones, customers = world.drones, world.customers
    customer = jnp.maximum(action - DELIVER, 0)
    gap = distance(drones.position, rows_at(world.instance.customer_position, customer))
    can_serve = (action >= DELIVER) & (drones.carrying == action - DELIVER) & (gap < physics.delivery_threshold)
    number = jnp.arange(customers.served.shape[0], dtype=jnp.int32)
    candidates = can_serve[:, None] & (customer[:, None] == number) & ~customers.served
    closed = physics.is_closed(world)
    if closed is not None:
        candidates &= ~closed
    just_served = candidates.any(axis=0)
    first, drone = lowest_true(candidates.T), jnp.arange(action.shape[0], dtype=jnp.int32)
    serves = (candidates & (drone[:, None] == first)).any(axis=1)
    served = customers.served | just_served
    dropped = ((drones.carrying[:, None] == number) & served).any(axis=1)
    drones = drones.replace(
        target=jnp.where(serves[:, None], 0.0, drones.target),
        has_target=drones.has_target & ~serves,
        carrying=jnp.where(dropped, -1, drones.carrying),
    )
    arrival_step = jnp.where(just_served, world.step + 1, customers.arrival_step)
    served_by = jnp.where(just_served, first, customers.served_by)
    return drones, Customers(served, just_served, arrival_step, served_by)


def is_event(physics: Physics, before: World, after: World) -> jax.Array:
    """`bool[]`: something happened between two successive worlds.

    A customer was served or became known; a drone boarded, was released, crashed, came within the truck's reach, is
    fully charged, was sent home by its battery guard, or carries the package of a customer that was lost; the truck
    arrived at a node.
    """
    boarded = before.drones.is_onboard != after.drones.is_onboard
    crashed = before.drones.is_crashed != after.drones.is_crashed
    near = recoverable(physics, after) & ~recoverable(physics, before)
    charged = (after.drones.battery >= physics.max_battery) & (before.drones.battery < physics.max_battery)
    sent_home = after.drones.forced_return & ~before.drones.forced_return
    was_there, is_there = (
        distance(world.instance.node_position, world.truck.position) < ARRIVED for world in (before, after)
    )
    news = is_known(after) & ~is_known(before)
    of_drones = boarded | crashed | near | charged | sent_home
    lost_before, lost = physics.is_lost(before), physics.is_lost(after)
    if lost_before is not None and lost is not None:
        carrying = after.drones.carrying
        of_drones |= (carrying >= 0) & (lost & ~lost_before)[jnp.maximum(carrying, 0)]
    return of_drones.any() | (after.customers.just_served | news).any() | (is_there & ~was_there).any()
