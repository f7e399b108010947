"""Episodes of `darp` as `jaxvrp.show.episode_format` has them, played by `replay.js`.

Vehicles drive one after the other. Node 0 is the depot; request r has its pickup at node 2r - 1 and its drop-off at 2r.
Padding is left out of `requests`, but not of `nodes`. Lengths are map units, y points up; times are in the unit of the
instance. Besides what all episodes have:

    nodes       [{position, demand, window: [earliest, deadline or null], service_time, vehicle, begin, late}]: the
                vehicle that served it, when service began, and how long after the deadline; null, null, 0 if unserved
    requests    [{request, delivered, ride: time or null, too_long}]
    vehicles    [{name, capacity}]
    legs        [{step, vehicle, from, to, leave, begin, load_before, load}]: the drives that step `step` (from that
                state to the next) brings about, with the times of `solution_report`; the last step may also bring a
                vehicle home
    span        [first, last] time that is worth showing
    verdict     "feasible", or what is not
    steps       also: vehicle and node (where the current vehicle is), clock, load, distance (so far)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvrp.envs.darp import played
from jaxvrp.envs.darp.env import ROLE, Darp
from jaxvrp.envs.darp.played import Plan, name_of
from jaxvrp.envs.darp.reasons import reasons_of
from jaxvrp.envs.darp.rules import State
from jaxvrp.episodes import until_end
from jaxvrp.show.common import as_json, as_json_float32, common_entries
from jaxvrp.show.reasons import told_reason
from jaxvrp.show.schema import POINT, boolean, list_of, number, object_with, optional, text, whole_number


def export_episode(env: Darp, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.show.export_episode`; actions that are not given are read off the states."""
    states = until_end(states)
    plan = played.plan_of(states)
    entries = common_entries(
        env,
        states,
        {"vehicle": states.current_node[1:, None]} if actions is None else actions,
        kind="darp",
        title=f"Dial-a-ride: {len(plan.requests)} requests, {plan.num_vehicles} vehicles",
        action_names={"vehicle": [name_of(node) for node in range(env.num_nodes + 1)]},
        step_entries=[
            {
                "step": int(states.step[index]),
                "vehicle": int(states.current_agent[index]),
                "node": int(states.current_node[index]),
                "clock": as_json(states.current_time[index]),
                "load": int(states.current_load[index]),
                "distance": as_json(states.total_distance[index]),
            }
            for index in range(len(states.step))
        ],
        reasons=reasons_of(env),
    )
    unserved = [request for request in plan.requests.tolist() if not plan.delivered[request]]
    return {
        **entries,
        "nodes": [_node(plan, node) for node in range(plan.instance.num_nodes + 1)],
        "requests": [
            {
                "request": request,
                "delivered": bool(plan.delivered[request]),
                "ride": as_json_float32(plan.ride[request]),
                "too_long": bool(plan.too_long[request]),
            }
            for request in plan.requests.tolist()
        ],
        "vehicles": [
            {"name": f"vehicle {vehicle}", "capacity": int(capacity)}
            for vehicle, capacity in enumerate(plan.instance.capacity)
        ],
        "legs": _legs(plan, states),
        "span": as_json(np.asarray(plan.span(), np.float32)),
        "verdict": played.verdict(plan.report),
        "shortfalls": {
            "title": "Not served",
            "entries": [
                {"name": f"request {request}", "why": _why_unserved(plan, entries["steps"], request)}
                for request in unserved
            ],
        },
    }


def _node(plan: Plan, node: int) -> dict[str, Any]:
    instance = plan.instance
    known = plan.moment[node] > 0
    return {
        "position": as_json(instance.locs[node]),
        "demand": int(instance.demand[node]),
        "window": [as_json(instance.earliest[node]), as_json(instance.deadline[node])],
        "service_time": as_json(instance.service_time[node]),
        "vehicle": int(plan.visited_by[node]) if known else None,
        "begin": as_json_float32(plan.begin[node]) if known else None,
        "late": as_json_float32(plan.late[node]),
    }


def _legs(plan: Plan, states: State) -> list[dict[str, Any]]:
    # The steps that went somewhere; the last one also brings about the way home.
    moved = np.flatnonzero((states.current_node[:-1] != 0) | (states.current_node[1:] != 0)).tolist()
    steps = moved + moved[-1:] * (len(plan.legs) - len(moved))
    return [
        {
            "step": step,
            "vehicle": leg.vehicle,
            "from": leg.origin,
            "to": leg.node,
            "leave": as_json_float32(leg.leave),
            "begin": as_json_float32(leg.begin),
            "load_before": leg.load_before,
            "load": leg.load,
        }
        for leg, step in zip(plan.legs, steps, strict=True)
    ]


def _why_unserved(plan: Plan, steps: list[dict[str, Any]], request: int) -> str:
    """When a request could last be served, by the `steps` of the episode, and what forbade it later."""
    pickup, drop_off = 2 * request - 1, 2 * request

    def choice(at: int) -> str:
        return f"vehicle {steps[at]['vehicle']} went to {name_of(steps[at + 1]['node'])}"

    if plan.moment[pickup]:
        vehicle = int(plan.visited_by[pickup])
        last = [at for at, step in enumerate(steps[:-1]) if step["vehicle"] == vehicle][-1]
        fetched = next(at for at, step in enumerate(steps) if step["node"] == pickup)
        reason = told_reason(steps[last], ROLE, 0, drop_off) or "the drop-off was allowed"
        return (
            f"fetched by vehicle {vehicle} at step {fetched}, and left behind at step {last} ({choice(last)}): {reason}"
        )
    allowed = [at for at, step in enumerate(steps[:-1]) if step["mask"][ROLE][0][pickup] == "1"]
    if not allowed:
        return f"could never be fetched: {told_reason(steps[0], ROLE, 0, pickup) or 'masked from the start'}"
    story = f"could be fetched until step {allowed[-1]} ({choice(allowed[-1])})"
    later = list(filter(None, (told_reason(step, ROLE, 0, pickup) for step in steps[allowed[-1] + 1 : -1])))
    if later:
        story += f"; then: {later[0]}"
    return f"{story}; in the end: {later[-1]}" if later and later[-1] != later[0] else story


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    vehicles = list_of(object_with(name=text, capacity=number))
    object_with(nodes=list_of(object_with(), least=1), vehicles=vehicles)(episode, "")
    node, vehicle = whole_number(len(episode["nodes"])), whole_number(len(episode["vehicles"]))
    request, step = whole_number((len(episode["nodes"]) + 1) // 2, least=1), whole_number(len(episode["steps"]))
    window, place = list_of(optional(number), length=2), {"position": POINT, "demand": number, "service_time": number}
    visit = {"vehicle": optional(vehicle), "begin": optional(number), "late": number}
    drive = {"step": step, "vehicle": vehicle, "from": node, "to": node, "leave": number, "begin": number}
    object_with(
        nodes=list_of(object_with(window=window, **place, **visit)),
        requests=list_of(object_with(request=request, delivered=boolean, ride=optional(number), too_long=boolean)),
        legs=list_of(object_with(load_before=number, load=number, **drive)),
        span=POINT,
        verdict=text,
        steps=list_of(object_with(vehicle=vehicle, node=node, clock=number, load=number, distance=number)),
    )(episode, "")
