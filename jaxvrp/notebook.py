"""Pictures of states in notebooks."""

from __future__ import annotations

from jaxvrp import registry


class NotebookStill:
    """A mixin for classes of states: notebooks show the drawing that the toolbox of their environment makes."""

    def _repr_html_(self) -> str | None:
        still = registry.toolbox_of(self).still
        return None if still is None else still(self)
