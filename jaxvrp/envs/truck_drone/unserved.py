"""Who was not served in an episode of `truck_drone`, and why: what became of the parcels, and how the episode ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvrp.envs.truck_drone.played import NOBODY, Episode, runs
from jaxvrp.envs.truck_drone.world import CRASHED, ONBOARD
from jaxvrp.replay.reasons import shown_amount

Sortie = tuple[int, int, int]
"""`(start, stop, drone)`: the drone carried the parcel in the states from `start` to before `stop`."""


def shortfalls(episode: Episode, shortfall: np.ndarray, max_steps: int) -> dict[str, Any]:
    """The customers who were not served, as `jaxvrp.replay.episode_format` has them.

    Args:
        episode: that was played.
        shortfall: `f32[L, D]`, of `reasons.battery_shortfall`.
        max_steps: of the environment.
    """
    ending = _ending(episode, max_steps)
    unserved = np.flatnonzero(episode.server == NOBODY).tolist()
    entries = [
        {"name": f"customer {customer}", "why": f"{_story(episode, customer, shortfall)}; {ending}"}
        for customer in unserved
    ]
    return {"title": "Not served", "entries": entries}


def _ending(episode: Episode, max_steps: int) -> str:
    """How the episode ended."""
    step = int(episode.world.step[-1])
    if (episode.world.drones.status[-1] == CRASHED).all():
        return f"all drones had crashed by step {step}"
    return f"time was up at step {step}" if step >= max_steps else f"the episode stops at step {step}"


def _story(episode: Episode, customer: int, shortfall: np.ndarray) -> str:
    """What became of a customer's parcel, and how long the window has been closed."""
    sorties = sorted(
        (start, stop, drone)
        for drone in range(episode.num_drones)
        for start, stop, carried in runs(episode.world.drones.carrying[:, drone])
        if carried == customer
    )
    words = [_outcome(episode, customer, sorties[-1], shortfall) if sorties else "no drone set out"]
    if len(sorties) > 1:
        words.append(f"the last of {len(sorties)} tries")
    if episode.known_from[customer] > 0:
        words.append(f"known from step {episode.known_from[customer]} on")
    closed = int(episode.world.step[-1]) - int(episode.instance.window_end[customer])
    if closed > 0:
        words.append(f"window closed {closed} step{'s' * (closed > 1)} before the end")
    return ", ".join(words)


def _outcome(episode: Episode, customer: int, sortie: Sortie, shortfall: np.ndarray) -> str:
    """How a sortie ended that did not serve its customer."""
    start, stop, drone = sortie
    world, name = episode.world, f"drone_{drone}"
    if stop == episode.length:
        return _unfinished(episode, customer, drone)
    step = int(world.step[stop])
    if world.drones.status[stop, drone] == CRASHED:
        return f"{name} crashed on the way at step {step}"
    sent_home = start + np.flatnonzero(world.drones.forced_return[start : stop + 1, drone])
    if sent_home.size:
        first = int(sent_home[0])
        missing = shown_amount(float(shortfall[max(first - 1, 0), drone]))
        return f"{name} was sent home at step {int(world.step[max(first - 1, 0)])}, battery short by {missing}"
    boarded = world.drones.status[stop, drone] == ONBOARD
    return f"{name} took the parcel {'back to the truck' if boarded else 'no further'} at step {step}"


def _unfinished(episode: Episode, customer: int, drone: int) -> str:
    """What a drone that still has the parcel in the last state was doing."""
    gap = float(np.linalg.norm(episode.world.drones.position[-1, drone] - episode.instance.customer_position[customer]))
    opens, step = int(episode.opens[customer]), int(episode.world.step[-1])
    if episode.world.drones.is_waiting[-1, drone] and opens > step:
        return f"drone_{drone} was waiting there for the window, {opens - step} steps too early"
    return f"drone_{drone} was on the way, {shown_amount(gap)} from it"
