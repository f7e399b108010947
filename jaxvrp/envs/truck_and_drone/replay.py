"""Episodes of `tsp_drone` as `jaxvrp.show.episode_format` has them, played by `replay.js`.

Node 0 is the depot; padding is left out. Lengths are map units, y points up; times are in the unit of the instance.
Besides what all episodes have:

    nodes       [{position, served_by: "truck", "drone" or null, served_at: time or null, no_fly, tour: or null}]
    vehicles    where there are several drones: ["truck", "drone 1", ...]
    legs        [{who, from, to, leave, arrive, carries, tour}]: all ways, `who` being "truck", "drone" or a vehicle;
                the truck `carries` the drone, or a list of drones; times of `solution_report`, `tours_report` or
                `flights_report`
    waits       [{who, node, since, until, tour}]: who waited for the other, or for a window to open
    tours       how many
    makespan    time; 0 before the first meeting
    cost        money, of tours with time windows; else null
    verdict     "feasible", or what is not
    steps       also: clock (the truck's, in its tour), node (where the truck is), turn ("truck" or "drone"), customer
                (of the drone that is away, else null), served (customers so far, those on the drone's way too), tour
                (of the step)

Tours are numbered from 0; without time windows there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxvrp.envs.truck_and_drone import played
from jaxvrp.envs.truck_and_drone.env import TruckAndDrone
from jaxvrp.envs.truck_and_drone.played import DRONE, TRUCK, Plan, actions_of, instance_of, operations_of
from jaxvrp.envs.truck_and_drone.state import State
from jaxvrp.episodes import until_end
from jaxvrp.show.common import as_json, as_json_float32, common_entries
from jaxvrp.show.reasons import Reasons
from jaxvrp.show.schema import (
    POINT,
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

SCRIPT = Path(__file__).with_name("replay.js")


def export_episode(
    follow: Callable[..., Plan],
    tours_of: Callable[[State], list[int]],
    reasons_of: Callable[[Any], Reasons],
    env: TruckAndDrone,
    states: State,
    actions: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """See `jaxvrp.show.export_episode`; actions that are not given are read off the states.

    `follow` is `from_operations` of the environment, `tours_of` the tour of each state, `reasons_of` its reasons.
    """
    states = until_end(states)
    plan = follow(instance_of(states), operations_of(states), allow_revisits=env.allow_revisits)
    last = len(states.step) - 1
    places = [played.name_of(node) for node in range(env.num_nodes)]
    names = {DRONE: ["ride, or fly on", "meet", *(f"fly to {place}" for place in places)], TRUCK: places}
    entries = common_entries(
        env,
        states,
        actions_of(states, last) if actions is None else actions,
        kind="tsp_drone",
        title=f"{'Tandems' if plan.is_priced else 'Truck and drone'}: {len(plan.nodes) - 1} customers",
        action_names=names,
        step_entries=[_step_entry(states, index, tour) for index, tour in enumerate(tours_of(states))],
        reasons=reasons_of(env),
    )
    unserved = [node for node in plan.nodes.tolist() if not states.served[-1, node]]
    why = f"neither truck nor drone had come, or set out, when the episode stops after {int(states.step[-1])} turns"
    return {
        **entries,
        **drawn(plan),
        "tours": len(plan.tours),
        "makespan": as_json_float32(plan.end),
        "cost": as_json_float32(plan.report.cost) if plan.is_priced else None,
        "verdict": played.verdict(plan.report),
        # A whole episode serves all customers; this is for episodes that were cut off.
        "shortfalls": {"title": "Not served", "entries": [{"name": places[node], "why": why} for node in unserved]},
    }


def drawn(plan: Plan) -> dict[str, Any]:
    """What the map and the chart over time show."""
    instance, several = plan.instance, plan.vehicles != (TRUCK, DRONE)
    return {
        **({"vehicles": list(plan.vehicles)} if several else {}),
        "nodes": [
            {
                "position": as_json(np.asarray(instance.locs[node], np.float32)),
                "served_by": plan.served_by[node],
                "served_at": as_json_float32(plan.served_at[node]),
                "no_fly": bool(instance.no_fly[node]),
                "tour": int(plan.served_in[node]) if plan.served_in[node] >= 0 else None,
            }
            for node in plan.nodes.tolist()
        ],
        "legs": [
            {
                "who": leg.who,
                "from": leg.origin,
                "to": leg.node,
                "leave": as_json_float32(leg.leave),
                "arrive": as_json_float32(leg.arrive),
                "carries": list(leg.carries) if several else bool(leg.carries),
                "tour": leg.tour,
            }
            for leg in plan.legs
        ],
        "waits": [
            {
                "who": wait.who,
                "node": wait.node,
                "since": as_json_float32(wait.since),
                "until": as_json_float32(wait.until),
                "tour": wait.tour,
            }
            for wait in plan.waits
        ],
    }


def _step_entry(states: State, index: int, tour: int) -> dict[str, Any]:
    """What the entry of the state with this index says of the world."""
    customer = int(states.drone_customer[index]) if states.is_away[index] else None
    return {
        "step": int(states.step[index]),
        "clock": as_json(states.clock[index] + states.truck_elapsed[index]),
        "node": int(states.truck_node[index]),
        "turn": DRONE if states.is_drones_turn[index] else TRUCK,
        "customer": customer,
        "served": int((states.served[index] & states.instance.exists[index])[1:].sum()),
        "tour": tour,
    }


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    object_with(nodes=list_of(object_with(), least=1))(episode, "")
    list_of(text, least=2)(episode.get("vehicles", [TRUCK, DRONE]), "vehicles")
    vehicles = episode.get("vehicles", [TRUCK, DRONE])
    node, who = whole_number(len(episode["nodes"])), one_of(*vehicles)
    carried = list_of(who) if "vehicles" in episode else boolean
    object_with(
        nodes=list_of(object_with(position=POINT, served_by=optional(who), served_at=optional(number), no_fly=boolean)),
        legs=list_of(
            object_with(**{"who": who, "from": node, "to": node}, leave=number, arrive=number, carries=carried)
        ),
        waits=list_of(object_with(who=who, node=node, since=number, until=number)),
        makespan=number,
        verdict=text,
        steps=list_of(object_with(clock=number, node=node, turn=who, customer=optional(node), served=number)),
    )(episode, "")
    # Episodes of one truck that were written before there were tours have none of these.
    tours = episode.get("tours", 1)
    whole_number()(tours, "tours")
    of_tour = list_of(optional_keys(tour=whole_number(max(tours, 1))))
    optional_keys(
        cost=optional(number),
        nodes=list_of(optional_keys(tour=optional(whole_number(max(tours, 1))))),
        legs=of_tour,
        waits=of_tour,
        steps=list_of(optional_keys(tour=whole_number())),
    )(episode, "")
