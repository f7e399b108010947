"""A greedy dispatcher: the baseline that learned policies have to beat."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxvrp.actor import Carry
from jaxvrp.environment import TimeStep
from jaxvrp.envs.truck_drone.baselines.dispatcher import dispatch
from jaxvrp.envs.truck_drone.baselines.matching import SLACK, claimed, joint_action, match_cheapest
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.physics import distance, recoverable
from jaxvrp.envs.truck_drone.scenarios.vrpd_tw import VrpdTw
from jaxvrp.envs.truck_drone.world import DELIVER, STAY, World


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

    Where packages are loaded at the truck and windows have a start (`vrpd_tw`), with what is known by then:

    1. A drone flies to the customer whose deadline is the nearest after its arrival, if its battery covers the flight
       with the package, the wait for the window, the way home and the battery guard. It is not sent if it would wait
       for more than `PATIENCE` steps; airborne drones choose before those onboard.
    2. As above.
    3. The truck releases drones that have a customer, the most urgent first.
    4. Else it drives to the node from which most customers are within a full battery's reach, those who can be served
       soon counting more, as long as every airborne drone can still finish what it does. Where driving on would strand
       one, it stops before anything else.
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
    """The rules of `GreedyActor` on one instance; legal by the scenario's mask.

    Args:
        env: its physics and its mask.
        world: one world, without a batch axis.

    Returns:
        `{"truck": i32[1], "drone": i32[D]}`.
    """
    mask = env.action_mask(world)
    customer = _match_customers(env, world, mask["drone"][:, DELIVER:])
    return joint_action(world, mask, customer, _truck_action(env, world, customer))


def _reserve(env: TruckDrone, gap: jax.Array) -> jax.Array:
    """Battery with which a drone at distance `gap` from the truck must go home: where the battery guard fires."""
    # A guard that is set below the length of the way home does not protect from a crash.
    factor = jnp.maximum(env.forced_return_factor, 1.0)
    return factor * env.battery_rate * (gap + env.drone_speed * env.dt)


def _trip(env: TruckDrone, gap: jax.Array, outward: jax.Array, homeward: jax.Array) -> jax.Array:
    """Battery for a delivery on whose way the guard never fires.

    The battery falls linearly on the way and the reserve is convex in the position, so both ends suffice.

    Args:
        env: its physics.
        gap: distance of the drone from the truck.
        outward: distance of the customer from the drone.
        homeward: distance of the customer from the truck.
    """
    return jnp.maximum(env.battery_rate * outward + _reserve(env, homeward), _reserve(env, gap))


def _match_customers(env: TruckDrone, world: World, may_deliver: jax.Array) -> jax.Array:
    """The customer of each drone, `i32[D]`, -1 for none; onboard drones are meant to be released for it.

    Args:
        env: its physics.
        world: one world.
        may_deliver: `bool[D, C]`, the mask of the DELIVER actions.
    """
    drones, places = world.drones, world.instance.customer_position
    onboard, loaded = drones.is_onboard, drones.carrying >= 0
    outward = distance(drones.position[:, None], places)
    # Release takes a hovering step; and what is worth a release must still be worth it one rounding later.
    charge = drones.battery - jnp.where(onboard, env.hover_cost + SLACK, 0.0)
    gap = distance(drones.position, world.truck.position)
    trip = _trip(env, gap[:, None], outward, distance(places, world.truck.position))
    affordable = charge[:, None] >= trip + jnp.where(loaded, 0.0, SLACK)[:, None]
    free = ~world.customers.served & ~claimed(drones.carrying, places.shape[0])
    candidates = affordable & jnp.where(onboard[:, None], free, may_deliver & (free | loaded[:, None]))
    # Whoever is in the air chooses first: a drone just released must not lose its customer to one onboard.
    rank = jnp.where(loaded, 0.0, jnp.where(onboard, 2.0, 1.0))[:, None]
    return match_cheapest(jnp.where(candidates, outward + rank * (1.0 + outward.max()), jnp.inf))


def _truck_action(env: TruckDrone, world: World, customer: jax.Array) -> jax.Array:
    """RELEASE, else MOVE, else RECOVER, else STAY: `i32[]`, given the `customer` (`i32[D]`) of each drone."""
    waiting = world.drones.is_onboard & (customer >= 0)
    gap = distance(world.instance.customer_position[jnp.maximum(customer, 0)], world.truck.position)
    # The farthest first: the last delivery ends the episode.
    released = jax.lax.argmax(jnp.where(waiting, gap, -1.0), 0, jnp.int32)
    idle = recoverable(env, world) & (customer < 0)
    recovered = jax.lax.argmax(idle, 0, jnp.int32)
    node, worthwhile = _destination(env, world, customer)
    moves = worthwhile & _leaves_nobody(env, world, customer, _after_move(env, world, node))
    release = 1 + env.num_route_nodes
    action = jnp.where(idle.any(), release + env.num_drones + recovered, STAY)
    action = jnp.where(moves, 1 + node, action)
    return jnp.where(waiting.any(), release + released, action)


def _destination(env: TruckDrone, world: World, customer: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The node to drive to, `i32[]`, and whether that is worthwhile, `bool[]`.

    It is the node closest to the nearest customer that no drone has; customers which a full battery cannot serve from
    here or from any node come last, or the truck would wait beside them for ever. Every move brings that customer
    nearer, so the choice needs no memory not to swing to and fro.
    """
    places, nodes = world.instance.customer_position, world.instance.node_position
    from_truck, from_node = distance(places, world.truck.position), distance(nodes[:, None], places)
    closest = jnp.minimum(from_truck, from_node.min(axis=0))
    full = env.max_battery - env.hover_cost
    within_reach = full >= _trip(env, jnp.zeros_like(closest), closest, closest) + 2 * SLACK
    unclaimed = ~world.customers.served & ~claimed(world.drones.carrying, places.shape[0])
    unclaimed &= ~claimed(customer, places.shape[0])
    hopeful = unclaimed & within_reach
    wanted = jnp.where(hopeful.any(), hopeful, unclaimed)
    nearest = jax.lax.argmin(jnp.where(wanted, from_truck, jnp.inf), 0, jnp.int32)
    node = jax.lax.argmin(from_node[:, nearest], 0, jnp.int32)
    return node, unclaimed.any() & (from_node[node, nearest] < from_truck[nearest] - SLACK)


def _after_move(env: TruckDrone, world: World, node: jax.Array) -> jax.Array:
    """The truck's position after one step towards `node`, `f32[2]`."""
    truck, target = world.truck.position, world.instance.node_position[node]
    gap = distance(target, truck)
    fraction = jnp.minimum(env.truck_speed * env.dt / jnp.where(gap > 0, gap, 1.0), 1.0)
    return truck + fraction * (target - truck)


def _leaves_nobody(env: TruckDrone, world: World, customer: jax.Array, truck: jax.Array) -> jax.Array:
    """`bool[]`: with the truck at `truck` (`f32[2]`) every airborne drone can still finish what it does.

    One step ahead is enough, because the truck can always stay where it then is.
    """
    drones, delivers = world.drones, customer >= 0
    target = jnp.where(delivers[:, None], world.instance.customer_position[customer], drones.position)
    gap, gap_after = distance(drones.position, world.truck.position), distance(drones.position, truck)
    trip = _trip(env, gap_after, distance(target, drones.position), distance(target, truck))
    # A returning drone boards where the truck was before it moved (but never at a threshold of 0, which is strict).
    boards = (gap <= env.drone_speed * env.dt) & (env.recovery_threshold > 0)
    can_finish = (drones.battery >= trip + SLACK) | (~delivers & (boards | (gap_after <= gap)))
    return (can_finish | ~drones.is_airborne).all()
