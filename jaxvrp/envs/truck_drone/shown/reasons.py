"""Why actions are masked, drones sent home, and customers not served; by the rules of the package's scenarios."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.envs.truck_drone.course import Course, runs
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import Physics, battery_reserve, distance
from jaxvrp.envs.truck_drone.problem.naming import Naming
from jaxvrp.envs.truck_drone.world import CRASHED, ONBOARD, World, is_known
from jaxvrp.io.messages import number
from jaxvrp.show.reasons import ALLOWED, Cause, Kind, Reasons, first_cause


class Why(Kind):
    """What forbids an action; amounts are distances, or steps."""

    ALLOWED = ""
    CRASHED = "has crashed"
    ON_BOARD = "on board: the truck has to release it first"
    IN_THE_AIR = "in the air already"
    BOARDED = "on board already"
    TOO_FAR = "too far from the truck by {distance}"
    MISSING = "no such customer"
    SERVED = "served at {moment}"
    UNKNOWN = "not known before {moment}"
    CARRIES = "carries the parcel for {customer}"
    LOADED_AT_TRUCK = "parcels are loaded at the truck, which is out of reach by {distance}"
    LOST = "lost: the window closed at {moment}"


def reasons_of(env: TruckDrone, naming: Naming) -> Reasons | None:
    """Why actions are masked; None where a scenario masks by functions of its own."""
    functions = ("action_mask", "may_load", "known_world")
    if any(getattr(type(env), name) is not getattr(TruckDrone, name) for name in functions):
        return None

    def fill(amount: float, customer: int) -> dict[str, str]:
        said = {"distance": naming.distance(amount), "moment": naming.moment(amount)}
        return said | {"customer": naming.customers[customer]} if customer < len(naming.customers) else said

    return Reasons(Why, lambda world: explain(env, world), fill)


def explain(env: TruckDrone, world: World) -> dict[str, Cause]:
    """`{"truck": Cause [1, 1 + N + 2D], "drone": Cause [D, 2 + C]}`; distances beyond what is allowed, in map units."""
    beyond = distance(world.drones.position, world.truck.position) - env.recovery_threshold
    return {"truck": _of_truck(world, beyond), "drone": _of_drones(env, world, beyond)}


def battery_shortfall(env: Physics, world: World) -> jax.Array:
    """`f32[D]`: how much charge the battery guard misses, of drones that it sends home; 0 for all others."""
    missing = battery_reserve(env, world) - world.drones.battery
    return jnp.where(world.drones.is_airborne, jnp.maximum(missing, 0.0), 0.0)


def _of_truck(world: World, beyond: jax.Array) -> Cause:
    """`beyond` is `f32[D]`: how far each drone is beyond the truck's reach; at most 0 within it."""
    drones = world.drones
    free = jnp.full(1 + world.instance.node_position.shape[0], ALLOWED, jnp.int32)
    release = jnp.where(drones.is_onboard, ALLOWED, jnp.where(drones.is_crashed, Why.CRASHED, Why.IN_THE_AIR))
    in_flight = jnp.where(beyond > 0, Why.TOO_FAR, ALLOWED)
    recover = jnp.where(drones.is_onboard, Why.BOARDED, jnp.where(drones.is_crashed, Why.CRASHED, in_flight))
    kind = jnp.concatenate([free, release, recover]).astype(jnp.int32)
    amount = jnp.concatenate([jnp.zeros(free.shape[0] + len(beyond), jnp.float32), beyond])
    return Cause(kind[None], amount[None], jnp.zeros_like(kind)[None])


def _of_drones(env: TruckDrone, world: World, beyond: jax.Array) -> Cause:
    drones, customers, instance = world.drones, world.customers, world.instance
    count, carrying = customers.served.shape[0], drones.carrying[:, None]
    exists = jnp.ones(count, bool) if instance.exists is None else instance.exists
    known_from = jnp.zeros(count, jnp.int32) if instance.known_from is None else instance.known_from
    out_of_reach = (jnp.maximum(beyond, 0.0) if env.load_at_truck else jnp.zeros_like(beyond))[:, None]
    others = (carrying >= 0) & (carrying != jnp.arange(count))
    lost = env.is_lost(world)
    kind, amount = first_cause(
        [
            (drones.is_crashed[:, None], Why.CRASHED, 0.0),
            (drones.is_onboard[:, None], Why.ON_BOARD, 0.0),
            (~exists, Why.MISSING, 0.0),
            (customers.served, Why.SERVED, customers.arrival_step),
            (~is_known(world), Why.UNKNOWN, known_from),
            (jnp.zeros(count, bool) if lost is None else lost, Why.LOST, instance.window_end),
            (others, Why.CARRIES, 0.0),
            ((carrying < 0) & (out_of_reach > 0), Why.LOADED_AT_TRUCK, out_of_reach),
        ],
        others.shape,
    )
    grounded = jnp.where(drones.is_crashed, Why.CRASHED, jnp.where(drones.is_onboard, Why.ON_BOARD, ALLOWED))
    without_customer = jnp.stack([jnp.zeros_like(grounded), grounded], axis=1)
    return Cause(
        jnp.concatenate([without_customer, kind], axis=1).astype(jnp.int32),
        jnp.concatenate([jnp.zeros_like(without_customer, jnp.float32), amount], axis=1).astype(jnp.float32),
        jnp.concatenate([without_customer, jnp.broadcast_to(carrying, kind.shape)], axis=1).astype(jnp.int32),
    )


def shortfalls(course: Course, shortfall: np.ndarray, naming: Naming) -> tuple[tuple[str, str], ...]:
    """`(name, why)` of each customer that was not served; `shortfall` is `f32[L, D]`, of `battery_shortfall`."""
    step = int(course.world.step[-1])
    is_over = step >= course.env.max_steps
    ending = f"time was up at {naming.moment(step)}" if is_over else f"the episode stops at {naming.moment(step)}"
    if (course.world.drones.status[-1] == CRASHED).all():
        ending = f"all drones had crashed by {naming.moment(step)}"
    unserved = np.flatnonzero(~course.world.customers.served[-1]).tolist()
    return tuple((naming.customers[i], f"{_why_unserved(course, i, shortfall, naming)}; {ending}") for i in unserved)


def _why_unserved(course: Course, customer: int, shortfall: np.ndarray, naming: Naming) -> str:
    """What became of a customer's parcel, and how long the window has been closed."""
    flights = sorted(
        (start, stop, drone)
        for drone in range(course.num_drones)
        for start, stop, carried in runs(course.world.drones.carrying[:, drone])
        if carried == customer
    )
    words = [_outcome(course, customer, flights[-1], shortfall, naming) if flights else "no drone set out"]
    if len(flights) > 1:
        words.append(f"the last of {len(flights)} tries")
    if course.known_from[customer] > 0:
        words.append(f"known from {naming.moment(course.known_from[customer])} on")
    closed = int(course.world.step[-1]) - int(course.instance.window_end[customer])
    if closed > 0:
        words.append(f"window closed {naming.duration(closed)} before the end")
    return ", ".join(words)


def _outcome(course: Course, customer: int, flight: tuple[int, int, int], shortfall: np.ndarray, naming: Naming) -> str:
    """How a flight ended that did not serve its customer: the drone had the parcel from `start` to before `stop`."""
    start, stop, drone = flight
    drones, name, step = course.world.drones, naming.drones[drone], course.world.step
    if stop == course.length:
        early = int(course.opens[customer]) - int(step[-1])
        if drones.is_waiting[-1, drone] and early > 0:
            return f"{name} was waiting there for the window, {naming.duration(early)} too early"
        gap = np.linalg.norm(drones.position[-1, drone] - course.instance.customer_position[customer])
        return f"{name} was on the way, {naming.distance(gap)} from it"
    if drones.status[stop, drone] == CRASHED:
        return f"{name} crashed on the way at {naming.moment(step[stop])}"
    sent_home = start + np.flatnonzero(drones.forced_return[start : stop + 1, drone])
    if sent_home.size:
        before = max(int(sent_home[0]) - 1, 0)
        missing = number(float(shortfall[before, drone]))
        return f"{name} was sent home at {naming.moment(step[before])}, battery short by {missing}"
    boarded = drones.status[stop, drone] == ONBOARD
    return f"{name} took the parcel {'back to the truck' if boarded else 'no further'} at {naming.moment(step[stop])}"
