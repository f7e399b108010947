"""The scenarios that come with `truck_drone`: they set parameters and rules of `TruckDrone`, and write no function."""

from __future__ import annotations

from typing import Any

from jaxvrp import fields
from jaxvrp.envs.truck_drone.env import TruckDrone
from jaxvrp.fields import again, parameter, size


class TruckDroneBasic(TruckDrone):
    """Deliver to all customers before the deadline, with little energy: `TruckDrone` as it is."""


class VrpdTw(TruckDrone):
    """The vehicle routing problem with drones and time windows, as a dispatcher would recognise it.

    The truck keeps driving to its node until STAY or arrival. A package is loaded at the truck, so that a sortie serves
    one customer, and weighs: a drone that carries it draws `battery_rate * (1 + payload_factor * demand)` per map unit.
    No customer is served before its window opens; a drone that is there waits, at `hover_cost` per step.

    Windows are narrow: the start is whole and uniform in [0, max_steps // 2), the width in
    [max_steps // 10, max_steps // 4), the end is cut at `max_steps`. Each customer becomes known during the episode
    with probability `dynamic_share`; until then it can be neither seen nor chosen, and looks like one that does not
    exist.

    Observation, flat: the vectors of `truck_drone_basic`, and then: start of the window of each customer / max_steps
    (C); per node: position relative to the truck (2), whether the truck is driving there; `step / max_steps`. So
    `f32[12 + 6C + 4(D-1) + (1+D) + 3N]` for a drone, `f32[5 + 8D + 6C + (1+D) + 3N]` for the truck. Globally
    `f32[5 + 7D + 6C + 3N]`: as there, starts of the windows, nodes in absolute coordinates.

    With `observation="entities"` all numbers of customers change in the course of an episode, since customers may
    become known; names and meanings stand in `jaxvrp.envs.truck_drone.observation`.

    Reward, shared: as there, minus `makespan_cost` for each step and `crash_penalty` for each drone that crashes in it;
    `completion_bonus` at the end only if all are served and no drone is in the air.

    End, always a termination: `max_steps`, all served with no drone in the air, or all drones crashed.
    """

    # Calibrated on 512 instances with four drones, twenty customers, ten nodes: random play serves 8 % of the customers
    # and completes no episode; the dispatcher serves all, 78 % on time; of the drones of a dispatcher that ignores
    # batteries none survives. python -m benchmarks.quality --env.scenario vrpd_tw --sizes 4,20,10 --blind
    battery_rate: float = again(TruckDrone, "battery_rate", 0.58)
    hover_cost: float = again(TruckDrone, "hover_cost", 0.02)
    recharge_rate: float = again(TruckDrone, "recharge_rate", 0.025)
    max_steps: int = size(200, minimum=4, help="length of an episode", unit="steps")
    truck_motion: str = fields.choice(
        "persistent",
        ("step", "persistent"),
        help="the truck drives in steps whose action is MOVE alone, or keeps to a node until STAY or arrival",
    )
    load_at_truck: bool = fields.switch(
        True, help="an empty drone takes a package only within `recovery_threshold` of the truck"
    )
    wait_for_window: bool = fields.switch(
        True, help="no customer is served before its window opens; a drone that is there waits"
    )
    # The power of a multirotor in flight grows about linearly with its payload (Dorling et al. 2017).
    payload_factor: float = parameter(
        0.5, minimum=0.0, help="battery per map unit grows by this share for a package of demand 1"
    )
    dynamic_share: float = parameter(
        0.0, minimum=0.0, maximum=1.0, help="probability that a customer becomes known during the episode only"
    )
    crash_penalty: float = parameter(10.0, minimum=0.0, help="for each crash of a drone")
    makespan_cost: float = parameter(0.1, minimum=0.0, help="for each step")
    window_shares = (10, 4)
    ends_on_board = True
    shows_windows = True


class TruckDroneSameDay(VrpdTw):
    """Orders come in during the day, more than can be served, each with little time; all else is as in `vrpd_tw`.

    Customers call when their window opens and are lost when it closes. A call comes at a step that is uniform in
    [0, max_steps // 2); the order can be delivered from then on for [max_steps // 40, max_steps // 16) steps. After
    that it may not be chosen any more, and looks as if it was served; a drone that has its package may fly home. Orders
    are more than can be served: to decline is to let the window pass.

    Reward, shared: `delivery_bonus` for each delivery, minus costs as in `vrpd_tw`; neither the end nor time costs
    anything by default.

    End, always a termination: `max_steps`, all served or lost with no drone in the air, or all drones crashed.
    """

    num_drones: int = size(4, help="drones on the truck")
    num_customers: int = size(30, help="customers")
    num_route_nodes: int = size(10, help="places that the truck can drive to")
    max_steps: int = size(200, minimum=40, help="length of an episode", unit="steps")
    dynamic_share: float = again(VrpdTw, "dynamic_share", 1.0)
    makespan_cost: float = again(VrpdTw, "makespan_cost", 0.0)
    completion_bonus: float = again(VrpdTw, "completion_bonus", 0.0)
    incomplete_penalty: float = again(VrpdTw, "incomplete_penalty", 0.0)
    window_shares = (40, 16)
    on_demand = True


def make_vrpd_tw(**parameters: Any) -> TruckDrone:
    """Vehicle routing with drones and time windows: `truck_drone` in its scenario `vrpd_tw`.

    `parameters` are any fields of the scenario.

    Raises:
        ValueError: an unknown parameter, or a value out of range.
        TypeError: a value of the wrong type.
    """
    return fields.build(VrpdTw, parameters, "parameter of 'vrpd_tw':")
