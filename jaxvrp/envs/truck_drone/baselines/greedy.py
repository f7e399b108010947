"""A greedy dispatcher: the baseline that learned policies have to beat."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.truck_drone.baselines.dispatcher import dispatch
from jaxvrp.envs.truck_drone.baselines.matching import SLACK, assign, joint_action, truck_action, unclaimed
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import distance
from jaxvrp.envs.truck_drone.scenarios.vrpd_tw import VrpdTw
from jaxvrp.envs.truck_drone.world import DELIVER, World


class GreedyActor:
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

    def init(self, num_envs: int) -> Carry:
        """Remembers nothing."""
        del num_envs
        return ()

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
    customer = _match_customers(env, world, mask["drone"][:, DELIVER:])
    gap = distance(world.instance.customer_position[jnp.maximum(customer, 0)], world.truck.position)
    # The farthest first: the last delivery ends the episode.
    waits = world.drones.is_onboard & (customer >= 0)
    released = jax.lax.argmax(jnp.where(waits, gap, -1.0), 0, jnp.int32)
    node, worthwhile = _destination(env, world, customer)
    moves = worthwhile & _strands_no_drone(env, world, customer, node)
    truck = truck_action(env, world, customer, released=released, node=node, moves=moves)
    return joint_action(world, mask, customer, truck)


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


def _match_customers(env: TruckDrone, world: World, may_deliver: jax.Array) -> jax.Array:
    """The customer of each drone, see `assign`: the nearest pair first."""
    drones, places = world.drones, world.instance.customer_position
    outward = distance(drones.position[:, None], places)
    # Release takes a hovering step; and what is worth a release must still be worth it one rounding later.
    charge = drones.battery - jnp.where(drones.is_onboard, env.hover_cost + SLACK, 0.0)
    gap = distance(drones.position, world.truck.position)
    trip = _trip(env, gap[:, None], outward, distance(places, world.truck.position))
    affordable = charge[:, None] >= trip + jnp.where(drones.carrying >= 0, 0.0, SLACK)[:, None]
    return assign(world, may_deliver, affordable, True, outward, 1.0 + outward.max())


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
    free = unclaimed(world, customer)
    hopeful = free & within_reach
    wanted = jnp.where(hopeful.any(), hopeful, free)
    nearest = jax.lax.argmin(jnp.where(wanted, from_truck, jnp.inf), 0, jnp.int32)
    node = jax.lax.argmin(from_node[:, nearest], 0, jnp.int32)
    return node, free.any() & (from_node[node, nearest] < from_truck[nearest] - SLACK)


def _strands_no_drone(env: TruckDrone, world: World, customer: jax.Array, node: jax.Array) -> jax.Array:
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
