"""Episodes of `truck_drone` as `jaxvrp.show.episode_format` has them, played by `replay.js`.

Lengths are map units, y points up; times are steps. Where a decision held for several steps, each has its entry, with
the same actions. Besides what all episodes have:

    map         {x: [low, high], y: [low, high]}, what should be seen
    nodes       [{position}], where the truck can drive; with a `name`, if they have one, as customers do
    customers   [{position, demand, window: [first, last] in steps, of which the last is the deadline, opens: the first
                step at which it can be served, 0 where no drone waits for the window, known_from: the step from which
                agents know of it, served_at: step or null, served_by: drone or null, late: steps after the deadline}]
    max_battery a full charge
    steps       also: truck {position, velocity}; drones [{position, velocity, battery, status: "onboard" | "flying" |
                "returning" | "crashed", waiting: whether for a window, carrying: customer or null, target: point or
                null, forced_return}];
                served: [customers, so far]

On a map of the user's own there are also `clock` {step, unit} and `length` {scale, unit}: what a step and a map unit
come to, and the name of the unit.

The key `why` is there in the scenarios that come with the environment; `instead` names the drones that are sent home.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp import episodes
from jaxvrp.envs.truck_drone.course import NOBODY, Course, course_of, step_by_step
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap
from jaxvrp.envs.truck_drone.problem.naming import naming_of
from jaxvrp.envs.truck_drone.reasons import battery_shortfall, reasons_of, shortfalls
from jaxvrp.envs.truck_drone.world import STATUS_NAMES, World
from jaxvrp.show.common import as_json, common_entries
from jaxvrp.show.reasons import shown_amount
from jaxvrp.show.schema import (
    POINT,
    all_of,
    boolean,
    list_of,
    number,
    object_with,
    one_of,
    optional,
    optional_keys,
    text,
    whole_number,
)

MARGIN = 0.56
"""Half the side of what is seen of a map, as a share of the larger extent of its places."""


def export_episode(env: TruckDrone, states: World, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.show.export_episode`."""
    steps = step_by_step(episodes.from_states(env, states, actions))
    episode = course_of(steps)
    names = naming_of(episode.instance, episode.num_drones, None)
    shortfall = np.asarray(jax.vmap(lambda world: battery_shortfall(env, world))(episode.world))
    instance, agents = episode.instance, range(episode.num_drones)
    nodes = range(len(instance.node_position))
    truck = [f"MOVE_{i}" for i in nodes] + [f"RELEASE_{i}" for i in agents] + [f"RECOVER_{i}" for i in agents]
    drone = [f"DELIVER_{i}" for i in range(episode.num_customers)]
    entries = common_entries(
        steps.env,
        episode.world,
        steps.actions,
        kind="truck_drone",
        title=f"{type(env).__name__}: {episode.num_drones} drones, {episode.num_customers} customers",
        action_names={"truck": ["STAY", *truck], "drone": ["HOVER", "RETURN", *drone]},
        step_entries=[_step_entry(episode, shortfall, index) for index in range(episode.length)],
        reasons=reasons_of(env, names),
    )
    vehicles = episode.world.truck.position, episode.world.drones.position
    places = (instance.node_position, instance.customer_position, *vehicles)
    limit = max(1.0, *(float(np.abs(place).max(initial=0.0)) for place in places))
    return {
        **entries,
        "config": as_json(env.parameters),
        "map": {"x": [-limit, limit], "y": [-limit, limit]},
        "max_battery": as_json(env.max_battery),
        "nodes": [{"position": as_json(place)} for place in instance.node_position],
        "customers": [_customer(episode, customer) for customer in range(episode.num_customers)],
        "shortfalls": {
            "title": "Not served",
            "entries": [{"name": name, "why": why} for name, why in shortfalls(episode, shortfall, names)],
        },
    }


def label_episode(fleet_map: FleetMap, episode: dict[str, Any]) -> dict[str, Any]:
    """The episode on a map, with the names and the units of the map."""
    nodes, customers, drones = (fleet_map.names(field) for field in ("nodes", "customers", "drones"))
    names = {"agents": [fleet_map.truck_name, *drones], "nodes": nodes, "customers": customers}
    named = {
        field: [{**entry, "name": name} for entry, name in zip(episode[field], names[field], strict=True)]
        for field in names
    }
    words, scale = _words_of(fleet_map), fleet_map.whole_scale
    steps = [_renamed(step, words) for step in episode["steps"]]
    left = episode["shortfalls"]
    entries = [{name: words(text) for name, text in entry.items()} for entry in left["entries"]]
    fixed = [entry["position"] for field in ("nodes", "customers") for entry in episode[field]]
    places = np.array([*fixed, *(step["truck"]["position"] for step in steps)])
    middle, half = (places.min(axis=0) + places.max(axis=0)) / 2, MARGIN * float(np.ptp(places, axis=0).max())
    truck = [("MOVE", nodes), ("RELEASE", drones), ("RECOVER", drones)]
    return {
        **episode,
        **named,
        "title": fleet_map.name or episode["title"],
        "map": {axis: [float(at) - half, float(at) + half] for axis, at in zip("xy", middle, strict=True)},
        "clock": {"step": scale.time, "unit": fleet_map.units.get("time", ""), "start": scale.clock},
        "length": {"scale": scale.length, "unit": fleet_map.units.get("length", "")},
        "actions": {
            "truck": ["STAY", *(f"{verb} {name}" for verb, objects in truck for name in objects)],
            "drone": ["HOVER", "RETURN", *(f"DELIVER {name}" for name in customers)],
        },
        "steps": steps,
        "shortfalls": {**left, "entries": entries},
    }


def _words_of(fleet_map: FleetMap) -> Callable[[str], str]:
    """What replaces, in a text of `reasons`, numbers by names, steps by times, and map units by lengths."""
    customers, drones, scale = fleet_map.names("customers"), fleet_map.names("drones"), fleet_map.whole_scale
    time, length = fleet_map.amount("time"), fleet_map.amount("length")
    patterns: list[tuple[str, Callable[[str], str]]] = [
        (r"\bcustomer (\d+)", lambda number: customers[int(number)]),
        (r"\bdrone (\d+)", lambda number: drones[int(number)]),
        (r"\bstep (\d+)", lambda step: time(scale.moment(int(step)))),
        (r"(\d+) steps?\b", lambda steps: time(int(steps) * scale.time)),
        (r"(?<=truck by |reach by )(\d[\d.]*)", lambda far: length(float(far) * scale.length)),
        (r"(\d[\d.]*)(?= from it)", lambda far: length(float(far) * scale.length)),
    ]
    # In one pass, so that a name that looks like a number of something stays.
    every = re.compile("|".join(f"(?:{pattern})" for pattern, _ in patterns))

    def replaced(found: re.Match[str]) -> str:
        assert found.lastindex
        return patterns[found.lastindex - 1][1](found[found.lastindex])

    return lambda text: every.sub(replaced, text)


def _renamed(step: dict[str, Any], words: Callable[[str], str]) -> dict[str, Any]:
    """An entry of `steps` with other words in its reasons."""
    if "why" not in step:
        return step
    why = {
        role: [[[words(text), actions] for text, actions in groups] for groups in of_agents]
        for role, of_agents in step["why"].items()
    }
    return {**step, "why": why}


def _customer(episode: Course, customer: int) -> dict[str, Any]:
    instance, server, state_index = episode.instance, episode.server[customer], episode.served_at[customer]
    return {
        "position": as_json(instance.customer_position[customer]),
        "demand": as_json(instance.demand[customer]),
        "window": [int(instance.window_start[customer]), int(instance.window_end[customer])],
        "opens": int(episode.opens[customer]),
        "known_from": int(episode.known_from[customer]),
        "served_at": None if state_index < 0 else int(episode.world.step[state_index]),
        "served_by": None if server == NOBODY else int(server),
        "late": int(episode.steps_late[customer]),
    }


def _step_entry(episode: Course, shortfall: np.ndarray, index: int) -> dict[str, Any]:
    """The entry of the state `index`; `shortfall` is `f32[L, D]`, of `battery_shortfall`."""
    world = jax.tree.map(lambda leaf: leaf[index], episode.world)
    entry = {
        "step": int(world.step),
        "truck": {"position": as_json(world.truck.position), "velocity": as_json(world.truck.velocity)},
        "drones": [_drone(world, drone) for drone in range(episode.num_drones)],
        "served": np.flatnonzero(world.customers.served).tolist(),
    }
    sent_home = episode.world.drones.forced_return[index + 1 : index + 2]
    if not sent_home.any():
        return entry
    words = [
        f"sent home: battery short by {shown_amount(float(missing))}" if forced else None
        for forced, missing in zip(sent_home[0], shortfall[index], strict=True)
    ]
    return {**entry, "instead": {"truck": [None], "drone": words}}


def _drone(world: World, drone: int) -> dict[str, Any]:
    drones = jax.tree.map(lambda leaf: leaf[drone], world.drones)
    return {
        "position": as_json(drones.position),
        "velocity": as_json(drones.velocity),
        "battery": as_json(drones.battery),
        "status": STATUS_NAMES[drones.status],
        "waiting": bool(drones.is_waiting),
        "carrying": None if drones.carrying < 0 else int(drones.carrying),
        "target": as_json(drones.target) if drones.has_target else None,
        "forced_return": bool(drones.forced_return),
    }


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    customers, drones = episode.get("customers"), sum(agent["role"] == "drone" for agent in episode["agents"])
    customer = whole_number(len(customers) if isinstance(customers, list) else 0)
    drone = object_with(
        position=POINT,
        velocity=POINT,
        battery=number,
        status=one_of(*STATUS_NAMES),
        waiting=boolean,
        carrying=optional(customer),
        target=optional(POINT),
        forced_return=boolean,
    )
    object_with(
        map=object_with(x=POINT, y=POINT),
        nodes=list_of(object_with(position=POINT)),
        max_battery=number,
        customers=list_of(
            object_with(
                position=POINT,
                demand=number,
                window=POINT,
                opens=whole_number(),
                known_from=whole_number(),
                served_at=optional(whole_number()),
                served_by=optional(whole_number(drones)),
                late=number,
            )
        ),
        steps=list_of(
            object_with(
                truck=object_with(position=POINT, velocity=POINT),
                drones=list_of(drone, drones),
                served=list_of(customer),
            )
        ),
    )(episode, "")
    clock = all_of(object_with(step=number, unit=text), optional_keys(start=number))
    optional_keys(clock=clock, length=object_with(scale=number, unit=text))(episode, "")
