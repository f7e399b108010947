"""Pictures of states in notebooks."""

from __future__ import annotations

from jaxvrp import registry


class NotebookStill:
    """A mixin for classes of states: notebooks show the drawing that the toolbox of their environment makes."""

    def _repr_html_(self) -> str | None:
        draw = registry.toolbox_of(self).still
        still = None if draw is None else draw(self)
        return None if still is None else still.html()
