"""What a plan is made of: numbers of actions, operations, and the way from one to the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_and_drone.ways import name_of
from jaxvrp.io.problems.violations import node_of

STAY_WITH_TRUCK, MEET, FIRST_SERVE = 0, 1, 2
"""Actions of the drone: ride along, or fly on; meet the truck; from here on, fly to serve node 0, 1, ..."""


class Operation(NamedTuple):
    """What happens from one place where truck and drone are together to the next."""

    start: int  # a node
    end: int  # the same node where the truck waits for the drone, or comes back for it
    fly: int | None = None  # the customer that the drone serves; None if it rides along
    internal: tuple[int, ...] = ()  # nodes that the truck visits between


def action_names(num_nodes: int) -> dict[str, tuple[str, ...]]:
    """What the actions of drone and truck are called."""
    places = tuple(map(name_of, range(num_nodes)))
    return {"drone": ("ride, or fly on", "meet", *(f"fly to {place}" for place in places)), "truck": places}


def with_nodes(operations: Sequence[Operation], place: str = "operations") -> list[Operation]:
    """The same operations with their nodes as `int`.

    Raises:
        ValueError: one is no whole number; one line that names the place, `operations[2].fly`.
    """

    def checked(number: int, operation: Operation) -> Operation:
        (start, end, fly, internal), where = operation, f"{place}[{number}]"
        return Operation(
            node_of(start, f"{where}.start"),
            node_of(end, f"{where}.end"),
            None if fly is None else node_of(fly, f"{where}.fly"),
            tuple(node_of(node, f"{where}.internal[{at}]") for at, node in enumerate(internal)),
        )

    return [checked(number, operation) for number, operation in enumerate(operations)]


def operations_to_actions(operations: Sequence[Operation]) -> dict[str, np.ndarray]:
    """A plan as the agents play it, `{"drone": i32[T, 1], "truck": i32[T, 1]}`; 0 where it is the other one's turn.

    Raises:
        ValueError: a node is no whole number; one line.
    """
    turns: list[tuple[int, int]] = []
    for start, end, fly, internal in with_nodes(operations):
        driven = [*internal, end]
        if fly is None and not internal and start == end:
            continue
        first = STAY_WITH_TRUCK if fly is None else FIRST_SERVE + fly
        for node, drone in zip(driven, [first] + [STAY_WITH_TRUCK] * len(internal), strict=True):
            turns += [(drone, 0), (0, node)]
        if fly is not None:
            turns.append((MEET, 0))
    table = np.array(turns, np.int32).reshape(-1, 2)
    return {"drone": table[:, :1], "truck": table[:, 1:]}


def actions_to_operations(actions: Mapping[str, ArrayLike]) -> list[Operation]:
    """The plan that legal actions make, `{"drone": [T, 1], "truck": [T, 1]}`, up to the last meeting or ride."""
    drone, truck = (np.ravel(np.asarray(actions[role])) for role in ("drone", "truck"))
    operations: list[Operation] = []
    start, fly, driven, is_drones_turn = 0, None, [0], True
    for choice, node in zip(drone.tolist(), truck.tolist(), strict=True):
        if not is_drones_turn:
            driven.append(node)
        elif choice >= FIRST_SERVE:
            fly = choice - FIRST_SERVE
        meets = is_drones_turn and choice == MEET
        if meets or (fly is None and not is_drones_turn):
            # A truck that waits at a node that it has just served is there once.
            waits = len(driven) > 2 and driven[-2] == driven[-1]
            operations.append(Operation(start, driven[-1], fly, tuple(driven[1 : -2 if waits else -1])))
            start, fly, driven = driven[-1], None, driven[-1:]
        is_drones_turn = meets or not is_drones_turn
    return operations


def tours_of(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Operations cut where they come back to the depot."""
    tours: list[list[Operation]] = [[]]
    for operation in operations:
        tours[-1].append(operation)
        if operation.end == 0:
            tours.append([])
    return tours if tours[-1] else tours[:-1]
