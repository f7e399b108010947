"""Episodes of `truck_drone` in the format of `jaxvrp.replay.episode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.pictures import played_episode as episodes
from jaxvrp.envs.truck_drone.pictures.played_episode import NOBODY, Episode
from jaxvrp.envs.truck_drone.world import STATUS_NAMES, World
from jaxvrp.replay.common import common_parts, plain
from jaxvrp.replay.schema import POINT, flag, index, many, number, one_of, optional, record


def export_episode(env: TruckDrone, states: World, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.replay.export_episode`."""
    episode = episodes.from_states(
        states, lambda state: env.is_terminal(state) | env.is_truncated(state), float(env.delivery_threshold)
    )
    instance = episode.instance
    title = f"{type(env).__name__}: {episode.num_drones} drones, {episode.num_customers} customers"
    told = common_parts(env, episode.world, actions, kind="truck_drone", title=title, names=_action_names(episode))
    steps = told.pop("steps")
    limit = max(1.0, *(float(np.abs(place).max(initial=0.0)) for place in _places(episode)))
    return {
        **told,
        "map": {"x": [-limit, limit], "y": [-limit, limit]},
        "max_battery": plain(env.max_battery),
        "nodes": [{"position": plain(place)} for place in instance.node_position],
        "customers": [_customer(episode, customer) for customer in range(episode.num_customers)],
        "steps": [{**step, **_frame(episode, at)} for at, step in enumerate(steps)],
    }


def _places(episode: Episode) -> tuple[np.ndarray | jax.Array, ...]:
    instance, world = episode.instance, episode.world
    return instance.node_position, instance.customer_position, world.truck.position, world.drones.position


def _action_names(episode: Episode) -> dict[str, list[str]]:
    drones, nodes = range(episode.num_drones), range(len(episode.instance.node_position))
    truck = [f"MOVE_{i}" for i in nodes] + [f"RELEASE_{i}" for i in drones] + [f"RECOVER_{i}" for i in drones]
    return {
        "truck": ["STAY", *truck],
        "drone": ["HOVER", "RETURN", *(f"DELIVER_{i}" for i in range(episode.num_customers))],
    }


def _customer(episode: Episode, customer: int) -> dict[str, Any]:
    instance, at, server = episode.instance, episode.served_at[customer], episode.server[customer]
    return {
        "position": plain(instance.customer_position[customer]),
        "demand": plain(instance.demand[customer]),
        "window": [int(instance.window_start[customer]), int(instance.window_end[customer])],
        "served_at": None if at < 0 else int(episode.world.step[at]),
        "served_by": None if server == NOBODY else int(server),
        "late": int(episode.steps_late[customer]),
    }


def _frame(episode: Episode, at: int) -> dict[str, Any]:
    world = jax.tree.map(lambda leaf: leaf[at], episode.world)
    return {
        "step": int(world.step),
        "truck": {"position": plain(world.truck.position), "velocity": plain(world.truck.velocity)},
        "drones": [_drone(world, drone) for drone in range(episode.num_drones)],
        "served": np.flatnonzero(world.customers.served).tolist(),
    }


def _drone(world: World, drone: int) -> dict[str, Any]:
    drones = jax.tree.map(lambda leaf: leaf[drone], world.drones)
    return {
        "position": plain(drones.position),
        "velocity": plain(drones.velocity),
        "battery": plain(drones.battery),
        "status": STATUS_NAMES[drones.status],
        "carrying": None if drones.carrying < 0 else int(drones.carrying),
        "target": plain(drones.target) if drones.has_target else None,
        "forced_return": bool(drones.forced_return),
    }


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    record(
        map=record(x=POINT, y=POINT),
        nodes=many(record(position=POINT)),
        customers=many(record()),
        max_battery=number,
    )(episode, "")
    drones = sum(agent["role"] == "drone" for agent in episode["agents"])
    customer = index(len(episode["customers"]))
    drone = record(
        position=POINT,
        velocity=POINT,
        battery=number,
        status=one_of(*STATUS_NAMES),
        carrying=optional(customer),
        target=optional(POINT),
        forced_return=flag,
    )
    record(
        customers=many(
            record(
                position=POINT,
                demand=number,
                window=POINT,
                served_at=optional(index()),
                served_by=optional(index(drones)),
                late=number,
            )
        ),
        steps=many(
            record(truck=record(position=POINT, velocity=POINT), drones=many(drone, drones), served=many(customer))
        ),
    )(episode, "")
