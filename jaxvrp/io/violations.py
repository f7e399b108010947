"""The constraints that a plan breaks, as its check reports them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Violation:
    """How often a constraint is broken, and the first node at which, in the plan's order; None for never."""

    count: int = 0
    first_node: int | None = None


def violations_of(found: Mapping[str, Sequence[int]]) -> dict[str, Violation]:
    """Of the nodes at which each constraint is broken, in the plan's order."""
    return {name: Violation(len(nodes), nodes[0] if nodes else None) for name, nodes in found.items()}


def summary(violations: Mapping[str, Violation]) -> str:
    """The broken constraints with count and first node, on one line; empty if there are none."""
    found = violations.items()
    return ", ".join(f"{name} {each.count} (first node {each.first_node})" for name, each in found if each.count)
