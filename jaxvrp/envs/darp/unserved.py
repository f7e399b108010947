"""Requests that were not served in an episode of `darp`: when each could last be served, and what forbade it later."""

from __future__ import annotations

from typing import Any

from jaxvrp.envs.darp.env import ROLE
from jaxvrp.envs.darp.played import Plan, name_of
from jaxvrp.replay.reasons import shown_amount, told_reason

Steps = list[dict[str, Any]]
"""Entries of `steps` of an episode, with the key `why`."""


def shortfalls(plan: Plan, steps: Steps) -> dict[str, Any]:
    """The requests that were not delivered, as `jaxvrp.replay.episode_format` has them.

    Args:
        plan: of the episode.
        steps: see there.
    """
    unserved = [request for request in plan.requests.tolist() if not plan.delivered[request]]
    entries = [{"name": f"request {request}", "why": _story(plan, steps, request)} for request in unserved]
    return {"title": "Not served", "entries": entries}


def _story(plan: Plan, steps: Steps, request: int) -> str:
    pickup, drop_off = 2 * request - 1, 2 * request
    if plan.moment[pickup] <= 0:
        return _never_fetched(steps, pickup)
    vehicle = int(plan.visited_by[pickup])
    decisions = [at for at, step in enumerate(steps[:-1]) if step["vehicle"] == vehicle]
    last = decisions[-1]
    begin = shown_amount(float(plan.begin[pickup]))
    reason = told_reason(steps[last], ROLE, 0, drop_off) or "the drop-off was allowed"
    gone = _choice(steps, last)
    return f"fetched by vehicle {vehicle} at {begin}, and left behind at step {last} ({gone}): {reason}"


def _never_fetched(steps: Steps, pickup: int) -> str:
    """When the pickup was allowed last, and what forbade it afterwards."""
    allowed = [at for at, step in enumerate(steps[:-1]) if step["mask"][ROLE][0][pickup] == "1"]
    if not allowed:
        return f"could never be fetched: {told_reason(steps[0], ROLE, 0, pickup) or 'masked from the start'}"
    last = allowed[-1]
    text = f"could be fetched until step {last} ({_choice(steps, last)})"
    later = list(filter(None, (told_reason(step, ROLE, 0, pickup) for step in steps[last + 1 : -1])))
    if later:
        text += f"; then: {later[0]}"
    return f"{text}; in the end: {later[-1]}" if later and later[-1] != later[0] else text


def _choice(steps: Steps, at: int) -> str:
    """What the vehicle did instead in a step."""
    return f"vehicle {steps[at]['vehicle']} went to {name_of(steps[at + 1]['node'])}"
