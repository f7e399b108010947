"""Where an episode of truck and drone stands."""

from __future__ import annotations

from typing import Annotated

import jax
from flax import struct

from jaxvrp import fields
from jaxvrp.envs.truck_and_drone.instance import Instance
from jaxvrp.envs.truck_and_drone.legs import Figures
from jaxvrp.notebook import NotebookStill


class Totals(struct.PyTreeNode):
    """What has happened in an episode so far."""

    served_by_drone: jax.Array  # `i32[]`, customers, counted at the launch
    sorties: jax.Array  # `i32[]`, meetings
    revisits: jax.Array  # `i32[]`, turns of the truck to a served node, its own included; not the last way home
    drone_flight: jax.Array  # `f32[]`, of sorties that are over
    truck_distance: jax.Array  # `f32[]`
    waiting_truck: jax.Array  # `f32[]`, time that the truck waited for the drone
    waiting_drone: jax.Array  # `f32[]`, time that the drone waited for the truck
    invalid_actions: jax.Array  # `i32[]`, actions that were executed as something else


class State(NotebookStill, struct.PyTreeNode):
    """Where an episode stands."""

    instance: Instance  # the problem, padded to the environment's size
    figures: Figures  # what follows from it
    is_drones_turn: jax.Array  # `bool[]`; else it is the truck's
    truck_node: Annotated[jax.Array, fields.Whole(0, "served")]  # `i32[]`, where the truck is
    served: jax.Array  # `bool[n]`, served already, or on the drone's way; the depot and padding from the start
    is_away: jax.Array  # `bool[]`, whether the drone is. If not, the next seven are 0 or false
    launch_node: Annotated[jax.Array, fields.Whole(0, "served")]  # `i32[]`, where it left the truck
    drone_customer: Annotated[jax.Array, fields.Whole(0, "served")]  # `i32[]`, the customer that it serves
    truck_elapsed: jax.Array  # `f32[]`, the truck's time since the last meeting before the launch
    drone_elapsed: jax.Array  # `f32[]`, the drone's, until it leaves its customer
    flight: jax.Array  # `f32[]`, drone distance of the first leg
    in_range: jax.Array  # `bool[n]`, nodes at which it can meet the truck within `max_flight`, or its endurance
    must_meet: jax.Array  # `bool[]`, whether the truck's last turn led to a node that was served already
    clock: jax.Array  # `f32[]`, at the last moment at which they were together; with tandems, of the tour under way
    growth: jax.Array  # `f32[]`, of the clock, in the last step; with tandems, of the cost
    totals: Totals  # of the episode
    step: jax.Array  # `i32[]`
    done: jax.Array  # `bool[]`

    @property
    def sortie_unit(self) -> jax.Array:
        """`f32[]`, by which times of sorties are seen."""
        return self.figures.horizon
