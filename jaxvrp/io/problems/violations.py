"""The constraints that a plan breaks, and what the check of any plan reports."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from jaxvrp.io.messages import shown


def node_of(value: Any, place: str) -> int:
    """A node, or another number, of a plan: a whole number, of NumPy or JAX, too, or a float that is one, 1.0.

    Raises:
        ValueError: 1.9, true, "1" or the like; one line that names the `place` in the plan.
    """
    if isinstance(value, float | np.floating) and value.is_integer():
        return int(value)
    with contextlib.suppress(TypeError):
        if not isinstance(value, bool):
            return operator.index(value)
    raise ValueError(f"{place} is {shown(value)}; it must be a whole number")


@dataclasses.dataclass(frozen=True)
class Violation:
    """How often a constraint is broken, and the first node at which, in the plan's order; None for never."""

    count: int = 0
    first_node: int | None = None


def violations_of(found: Mapping[str, Sequence[int]]) -> dict[str, Violation]:
    """Of the nodes at which each constraint is broken, in the plan's order."""
    return {name: Violation(len(nodes), nodes[0] if nodes else None) for name, nodes in found.items()}


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class PlanReport:
    """What the check of a plan found.

    Attributes:
        cost: what the plan costs.
        violations: one for each constraint that is checked.
    """

    cost: float
    violations: dict[str, Violation]

    @property
    def feasible(self) -> bool:
        """Nothing is violated."""
        return not self.broken

    @property
    def broken(self) -> dict[str, dict[str, Any]]:
        """The violated constraints, as in files: each has `count`, and `first_node`, where it is broken first."""
        return {name: dataclasses.asdict(found) for name, found in self.violations.items() if found.count}

    @property
    def cost_entry(self) -> dict[str, float]:
        """`cost`, as in files, of a feasible plan; of another, the environment's fines count, too."""
        return {"cost": self.cost} if self.feasible else {}

    def summary(self) -> str:
        """The violated constraints with count and first node, on one line; empty if there are none."""
        found = self.broken.items()
        return ", ".join(f"{name} {each['count']} (first node {each['first_node']})" for name, each in found)

    def verdict(self, most: int = 3) -> str:
        """'feasible', or the first `most` kinds of violations, each with its count and its first place."""
        words = [
            f"{name.replace('_', ' ')} {each['count']} (first: {self.first_place(name, each['first_node'])})"
            for name, each in self.broken.items()
        ]
        if not words:
            return "feasible"
        more = [f"{len(words) - most} more"] if len(words) > most else []
        return "not feasible: " + ", ".join(words[:most] + more)

    def first_place(self, name: str, node: int) -> str:
        """The first node at which a constraint is broken, in words."""
        del name
        return f"node {node}"

    @property
    def counts(self) -> dict[str, int]:
        """What else is printed of the plan, by name."""
        return {}

    def __str__(self) -> str:
        rows = [("feasible", "yes" if self.feasible else "no", ""), ("cost", f"{self.cost:.4f}", "")]
        rows += [(name, str(count), "") for name, count in self.counts.items()]
        for name, found in self.violations.items():
            rows.append((name, str(found.count), f"first node {found.first_node}" if found.count else ""))
        return "\n".join(f"{name:<14}  {value:>12}  {where}".rstrip() for name, value, where in rows)

    def checked(self, strict: bool) -> Self:
        """The report.

        Raises:
            ValueError: `strict`, and constraints are violated; it names them.
        """
        if strict and not self.feasible:
            raise ValueError(f"the plan is not feasible: {self.summary()}")
        return self
