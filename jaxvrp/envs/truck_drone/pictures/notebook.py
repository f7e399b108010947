"""How a world shows itself in a notebook."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.truck_drone.world import CRASHED, ONBOARD, STATUS_NAMES, World, is_known
from jaxvrp.pictures import palette, stills


def draw_state(world: World) -> str | None:
    """A map and a line of words; of a batch, its first world; None if there is nothing to draw (traced values)."""
    first = stills.first_state(world, world.step)
    if first is None:
        return None
    world, note = first
    instance, drones = world.instance, world.drones
    corners = np.array([[-1, -1], [1, 1]])
    known = np.asarray(is_known(world))
    still = stills.Still(np.concatenate([corners, instance.customer_position, instance.node_position, drones.position]))
    for place in instance.node_position:
        still.mark(place, "square", stills.WAITING, filled=False, size=4)
    for customer, place in enumerate(instance.customer_position[: _num_customers(world)]):
        if not known[customer]:
            continue
        served = bool(world.customers.served[customer])
        still.mark(place, "circle", palette.ON_TIME if served else stills.WAITING, filled=served, size=8)
        still.text(place, customer, "white" if served else stills.INK)
    still.mark(world.truck.position, "square", stills.INK, size=7)
    for drone in np.flatnonzero(drones.status != ONBOARD).tolist():
        _draw_drone(still, world, drone)
    return still.html(_caption(world) + note)


def _num_customers(world: World) -> int:
    """Customers that exist, who come first."""
    exists = world.instance.exists
    return world.customers.served.size if exists is None else int(exists.sum())


def _draw_drone(still: stills.Still, world: World, drone: int) -> None:
    drones = world.drones
    colour = palette.LOST if drones.status[drone] == CRASHED else stills.agent_colour(drone)
    if drones.has_target[drone]:
        still.line(drones.position[drone], drones.target[drone], colour)
    still.mark(drones.position[drone], "circle", colour, size=5)
    still.text(drones.position[drone], f"{drone}: {drones.battery[drone]:.0%}", up=10)


def _caption(world: World) -> str:
    served = world.customers.served[: _num_customers(world)]
    states = ", ".join(f"drone {i} {STATUS_NAMES[status]}" for i, status in enumerate(world.drones.status))
    return f"step {world.step}: {served.sum()} of {served.size} customers served; {states}"
