"""Episodes of `darp` in the format of `jaxvrp.replay.episode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp.envs.darp.env import Darp
from jaxvrp.envs.darp.pictures import plan as plans
from jaxvrp.envs.darp.pictures.plan import Leg, Plan
from jaxvrp.envs.darp.pictures.render import actions_of
from jaxvrp.envs.darp.rules import SLACK, State
from jaxvrp.episodes import count_states
from jaxvrp.replay.common import common_parts, plain
from jaxvrp.replay.schema import POINT, flag, index, many, number, optional, record, text


def export_episode(env: Darp, states: State, actions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """See `jaxvrp.replay.export_episode`; actions that are not given are read off the states."""
    driven = actions_of(states)
    states = jax.tree.map(np.asarray, states)
    length = count_states(states.step, states.done)
    states = jax.tree.map(lambda leaf: leaf[:length], states)
    plan = plans.from_actions(jax.tree.map(lambda leaf: leaf[0], states.instance), driven, SLACK)
    if actions is None:
        actions = {"vehicle": states.current_node[1:, None]}
    title = f"Dial-a-ride: {len(plan.requests)} requests, {plan.num_vehicles} vehicles"
    names = {"vehicle": [plans.name_of(node) for node in range(env.num_nodes + 1)]}
    told = common_parts(env, states, actions, kind="darp", title=title, names=names)
    steps = told.pop("steps")
    return {
        **told,
        "nodes": [_node(plan, node) for node in range(plan.instance.num_nodes + 1)],
        "requests": [_request(plan, request) for request in plan.requests.tolist()],
        "vehicles": [
            {"name": f"vehicle {vehicle}", "capacity": int(capacity)}
            for vehicle, capacity in enumerate(plan.instance.capacity)
        ],
        "legs": [_leg(leg, step) for leg, step in zip(plan.legs, _steps_of(plan, states), strict=True)],
        "span": plain(np.asarray(plan.span(), np.float32)),
        "verdict": plans.verdict(plan.report),
        "steps": [{**step, **_frame(states, at)} for at, step in enumerate(steps)],
    }


def _node(plan: Plan, node: int) -> dict[str, Any]:
    instance = plan.instance
    known = plan.moment[node] > 0
    return {
        "position": plain(instance.locs[node]),
        "demand": int(instance.demand[node]),
        "window": [plain(instance.earliest[node]), plain(instance.deadline[node])],
        "service_time": plain(instance.service_time[node]),
        "vehicle": int(plan.visited_by[node]) if known else None,
        "begin": _time(plan.begin[node]) if known else None,
        "late": _time(plan.late[node]),
    }


def _request(plan: Plan, request: int) -> dict[str, Any]:
    return {
        "request": request,
        "delivered": bool(plan.delivered[request]),
        "ride": _time(plan.ride[request]),
        "too_long": bool(plan.too_long[request]),
    }


def _leg(leg: Leg, step: int) -> dict[str, Any]:
    return {
        "step": step,
        "vehicle": leg.vehicle,
        "from": leg.origin,
        "to": leg.node,
        "leave": _time(leg.leave),
        "begin": _time(leg.begin),
        "load_before": leg.load_before,
        "load": leg.load,
    }


def _time(value: float) -> float | None:
    # The report computes in float64 from float32 data: digits beyond those would be noise.
    return plain(np.float32(value))


def _steps_of(plan: Plan, states: State) -> list[int]:
    """The step that brought about each leg: those that went somewhere; the last again for the way home."""
    here, after = states.current_node[:-1], states.current_node[1:]
    moved = np.flatnonzero((here != 0) | (after != 0)).tolist()
    return moved + moved[-1:] * (len(plan.legs) - len(moved))


def _frame(states: State, at: int) -> dict[str, Any]:
    return {
        "step": int(states.step[at]),
        "vehicle": int(states.current_agent[at]),
        "node": int(states.current_node[at]),
        "clock": plain(states.current_time[at]),
        "load": int(states.current_load[at]),
        "distance": plain(states.total_distance[at]),
    }


def check_episode(episode: dict[str, Any]) -> None:
    """Raise a ValueError, one line, unless an episode has what `replay.js` reads."""
    record(nodes=many(record(), least=1), vehicles=many(record(name=text, capacity=number)))(episode, "")
    node, vehicle = index(len(episode["nodes"])), index(len(episode["vehicles"]))
    record(
        nodes=many(
            record(
                position=POINT,
                demand=number,
                window=many(optional(number), length=2),
                service_time=number,
                vehicle=optional(vehicle),
                begin=optional(number),
                late=number,
            )
        ),
        requests=many(
            record(
                request=index((len(episode["nodes"]) + 1) // 2, least=1),
                delivered=flag,
                ride=optional(number),
                too_long=flag,
            )
        ),
        legs=many(
            record(
                **{"step": index(len(episode["steps"])), "from": node, "to": node},
                vehicle=vehicle,
                leave=number,
                begin=number,
                load_before=number,
                load=number,
            )
        ),
        span=POINT,
        verdict=text,
        steps=many(record(vehicle=vehicle, node=node, clock=number, load=number, distance=number)),
    )(episode, "")
