"""The frozen sets of problems: generated from a seed, and the same on every machine, as their checksums show.

python -m benchmarks.records.sets
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxvrp
from benchmarks.measuring.subject import ProblemSet, subject_of
from jaxvrp import Environment, Problems, registry
from jaxvrp.io.command_line import Parser, UserError
from jaxvrp.io.messages import cut, nearest
from jaxvrp.players import Players
from train import aligned, entry


class Known(NamedTuple):
    """A set, and the registered name of its environment."""

    environment: str
    problems: ProblemSet

    @property
    def env(self) -> Environment:
        """The environment whose generator draws the set."""
        return jaxvrp.make(self.environment, **self.problems.parameters)

    @property
    def players(self) -> Players:
        """Of the environment."""
        return registry.players_of(self.env)

    @property
    def files(self) -> Problems[Any]:
        """How its plans are made."""
        files = registry.problems_of(self.env)
        assert files
        return files

    def recompute(self, problem: Any, plan: Mapping[str, Any]) -> dict[str, Any]:
        """See `jaxvrp.Problems.recompute`."""
        return self.files.recompute(problem, plan)


def known_sets() -> dict[str, Known]:
    """All sets, by name."""
    return {
        name: Known(environment, problems)
        for environment in jaxvrp.registered()
        for name, problems in subject_of(environment).sets.items()
    }


def find_set(name: str) -> Known:
    """The set of a name.

    Raises:
        UserError: there is none.
    """
    known = known_sets()
    if name not in known:
        raise UserError(f"there is no set {cut(name)}; {nearest(name, known)}")
    return known[name]


def generate(name: str, known: Known) -> list[Any]:
    """The problems of a set, one by one, NumPy; made on the CPU, whatever other devices there are.

    Raises:
        UserError: they are not what they were when the set was made.
    """
    problems = known.problems
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        # Typed, whatever the default of this machine is.
        keys = jax.random.split(jax.random.key(problems.seed, impl="threefry2x32"), problems.count)
        instances = jax.device_get(jax.jit(jax.vmap(known.env.generate))(keys))
    if (found := checksum(instances)) != problems.checksum:
        raise UserError(
            f"{name} has the checksum {found} here, and not {problems.checksum}: JAX {jax.__version__} draws other "
            "numbers on this machine; take the versions of constraints.txt"
        )
    return [jax.tree.map(lambda leaf, row=row: leaf[row], instances) for row in range(problems.count)]


def checksum(instances: Any) -> str:
    """SHA-256 of all arrays of a dataclass: name, type, shape, and bytes with the lowest first."""
    found = hashlib.sha256()
    for field in dataclasses.fields(instances):
        if (value := getattr(instances, field.name)) is not None:
            array = np.asarray(value)
            array = array.astype(array.dtype.newbyteorder("<"))
            found.update(f"{field.name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return found.hexdigest()


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: a table of all sets."""
    parser = Parser("benchmarks.records.sets", "List the frozen sets of problems.")
    parser.parse_args(argv)
    rows = [["set", "version", "environment", "parameters", "seed", "problems", "checksum"]]
    for name, (environment, problems) in known_sets().items():
        parameters = ", ".join(f"{key} {value}" for key, value in problems.parameters.items())
        sizes = [str(problems.seed), str(problems.count)]
        rows.append([name, str(problems.version), environment, parameters, *sizes, problems.checksum[:16]])
    print(aligned(rows))


if __name__ == "__main__":
    entry(main)
