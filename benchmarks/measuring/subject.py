"""What the benchmarks have to know of an environment: its sizes, and its NumPy reference."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from benchmarks.measuring.measure import Size


class Reference(Protocol):
    """One environment in NumPy under masked random play."""

    def step(self) -> tuple[float, bool]:
        """One random step and, at its end, a reset; every observation is computed, as the JAX side does.

        Returns:
            The reward of the step, and whether it ended the episode.
        """
        ...


@dataclasses.dataclass(frozen=True)
class ProblemSet:
    """Generated problems to compare players on, the same for ever: any change makes another version.

    Attributes:
        version: from 1.
        parameters: of the environment whose generator draws them. Only generators whose numbers are the same to the
            last bit on every machine make a set: draws that are scaled, sums of whole numbers.
        seed: of all problems.
        count: of problems.
        checksum: of their arrays; see `benchmarks.records.sets.checksum`.
    """

    version: int
    parameters: Mapping[str, Any]
    seed: int
    count: int
    checksum: str


@dataclasses.dataclass(frozen=True)
class Subject:
    """How an environment is measured: the attribute `SUBJECT` of `benchmarks/reference/NAME.py`.

    Attributes:
        labels: what the numbers of a size are, comma-separated.
        sizes: measured by default.
        parameters: the parameters of an environment of a size, by keyword of its factory.
        reference: the NumPy reference of an environment; None: there is none.
        tiny: the size that `benchmarks.guard` measures; None for none.
        reference_steps: steps of the reference between two looks at the clock.
        sets: by name, problems to compare players on; they need `jaxvrp.Problems.recompute`.
    """

    labels: str
    sizes: tuple[Size, ...]
    parameters: Callable[[Size], dict[str, Any]]
    reference: Callable[[Any], Reference] | None
    tiny: Size | None = None
    reference_steps: int = 500
    sets: Mapping[str, ProblemSet] = dataclasses.field(default_factory=dict)


NO_SUBJECT = Subject(labels="", sizes=((),), parameters=lambda size: {}, reference=None)
"""Of an environment that no file describes: measured as its factory makes it, alone."""


def module_of(package: str, env: str) -> ModuleType | None:
    """The module of `package` that is named as an environment is; None for dotted paths, or if there is none."""
    path = f"{package}.{env}"
    return importlib.import_module(path) if env.isidentifier() and importlib.util.find_spec(path) else None


def subject_of(env: str) -> Subject:
    """What `benchmarks/reference` says about an environment, by its name; `NO_SUBJECT` if it says nothing."""
    return getattr(module_of("benchmarks.reference", env), "SUBJECT", NO_SUBJECT)


def choose(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """Uniform over the legal actions, `i64[agents]`, by `bool[agents, actions]`; of several ways the fastest here."""
    return np.argmax(mask * rng.random(mask.shape), axis=1)


def parameters_of(env: str) -> dict[str, Any]:
    """The parameters of an environment of its first size, by keyword of its factory."""
    subject = subject_of(env)
    return subject.parameters(subject.sizes[0])
