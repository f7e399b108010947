"""The card of an environment: what learners, tables and configurations read of it besides its rules.

It draws nothing and searches nothing: who trains imports no more than this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Headline:
    """A metric that tables, plots and progress bars show.

    Attributes:
        metric: its name in `Environment.metrics`; `NAME_0`, ... of single agents, if it is a metric by agent.
        title: the head of its column in tables.
        mean_name: the name of its mean over episodes in figures and records; None: that of the metric.
        curve: its label in the plot of rates, for metrics that are shares; None: not drawn.
        progress: its label on the progress bar; None: not shown.
        optional: whether it is left out of the table where the environment's parameters do without it.
    """

    metric: str
    title: str
    mean_name: str | None = None
    curve: str | None = None
    progress: str | None = None
    optional: bool = False

    @property
    def figure(self) -> str:
        """The name of its mean over episodes."""
        return self.mean_name or self.metric


@dataclasses.dataclass(frozen=True)
class Padding:
    """How an instance holds fewer entities than the environment's size, in arrays of the same shape.

    Attributes:
        void_beyond: `(instance, count i32[]) -> instance`, in which the entities after the first `count` do not exist:
            they are not observed, allowed, counted or rewarded. Traceable.
        multiple: counts are multiples of this.
    """

    void_beyond: Callable[[Any, Any], Any]
    multiple: int = 1


@dataclasses.dataclass(frozen=True)
class Card:
    """What is said of an environment; every part is optional.

    Attributes:
        headlines: in the order of the table's columns.
        evaluation: parameters that evaluation changes by default, such as longer episodes.
        parameters: dataclasses whose fields are keywords of the factory, besides the fields of the environment itself;
            `--help` takes sentences and ranges from them.
        paddings: by size (a static field of the environment), for those that instances can fall short of.
        changed: `(keywords, changes) -> keywords` of the factory, if changing one keyword removes another; else None.
    """

    headlines: tuple[Headline, ...] = ()
    evaluation: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    parameters: tuple[type, ...] = ()
    paddings: Mapping[str, Padding] = dataclasses.field(default_factory=dict)
    changed: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None
