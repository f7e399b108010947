"""How a world shows itself in a notebook."""

from __future__ import annotations

import numpy as np

from jaxvrp.envs.truck_drone.world import CRASHED, ONBOARD, STATUS_NAMES, World, is_known
from jaxvrp.show.drawing import palette, stills


@stills.of_first
def draw_state(world: World) -> stills.Still:
    """A map and a line of words."""
    instance, drones = world.instance, world.drones
    # Customers that only fill up the size come last.
    count = world.customers.served.size if instance.exists is None else int(instance.exists.sum())
    corners = np.array([[-1, -1], [1, 1]])
    known, served = np.asarray(is_known(world)), world.customers.served[:count]
    still = stills.Still(np.concatenate([corners, instance.customer_position, instance.node_position, drones.position]))
    for place in instance.node_position:
        still.mark(place, "square", stills.WAITING, filled=False, size=4)
    for customer in np.flatnonzero(known[:count]).tolist():
        place, is_served = instance.customer_position[customer], bool(served[customer])
        colour = palette.ON_TIME if is_served else stills.WAITING
        still.mark(place, "circle", colour, filled=is_served, size=8)
        still.text(place, customer, "white" if is_served else stills.INK)
    still.mark(world.truck.position, "square", stills.INK, size=7)
    for drone in np.flatnonzero(drones.status != ONBOARD).tolist():
        colour = palette.LOST if drones.status[drone] == CRASHED else stills.agent_colour(drone)
        if drones.has_target[drone]:
            still.line(drones.position[drone], drones.target[drone], colour)
        still.mark(drones.position[drone], "circle", colour, size=5)
        still.text(drones.position[drone], f"{drone}: {drones.battery[drone]:.0%}", up=10)
    states = ", ".join(f"drone {i} {STATUS_NAMES[status]}" for i, status in enumerate(drones.status))
    still.caption = f"step {world.step}: {served.sum()} of {count} customers served; {states}"
    return still
