"""A policy as one file that needs JAX alone: observation, mask and network in a program of `jax.export`.

The file is a zip archive of `program`, which `jax.export.deserialize` reads, and `policy.json`, which says what goes in
and comes out. The program takes two dictionaries of arrays by name, the state and the memory (`{}` of a policy without
one), all with one leading axis of any length, the batch.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import pathlib
import typing
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.export
import jax.numpy as jnp

from jaxvrp import fields
from jaxvrp.environment import State
from jaxvrp.io.arrays import MEMBER, MOST_ARRAYS
from jaxvrp.io.command_line import UserError
from jaxvrp.io.json_files import LARGEST_JSON, json_in
from jaxvrp.io.messages import cut, in_words, printable, shown
from jaxvrp.io.states import by_place, described
from jaxvrp.io.whole_files import UnreadableError, read_bytes, write_whole
from jaxvrp.policies.choice import likeliest_actions
from jaxvrp.policies.environment import playing_environment
from jaxvrp.policies.folder import LARGEST_POLICY, refuse_dotted_paths
from jaxvrp.policies.policy import Memory, Policy
from jaxvrp.spaces import ByRole

ENDING = ".jaxpolicy"

PLATFORMS = ("cpu", "cuda", "tpu")

VERSION = 1
"""Of the file's layout."""

PROGRAM, CARD = "program", "policy.json"

REMEDY = "export the policy anew"

CONFIGURED = ("env", "eval_env", "network")
"""Keys of a configuration that a card has."""

INFINITE = {math.inf: "inf", -math.inf: "-inf"}
"""Texts in the place of numbers that JSON has none for, as limits that are not there."""

Arrays = dict[str, Any]
"""Arrays by name."""


def write_program(policy: Policy, path: str | os.PathLike, values: Mapping[str, Any]) -> None:
    """Write a policy whose environment is that of a configuration, `values`, as `playing_environment` makes it.

    Raises:
        ImportError: flatbuffers is not installed.
        OSError: the file cannot be written.
    """
    memory = jax.eval_shape(policy.memory)

    def run(state: Arrays, memory_arrays: Arrays) -> dict[str, Any]:
        logits, after = policy.decide(_filled(memory, memory_arrays), _filled(policy.state, state))
        legal = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, bool), logits)
        return {"action": likeliest_actions(logits, legal), "logits": logits, "memory": by_place(after)}

    shapes = [by_place(policy.state), by_place(memory)]
    (batch,) = jax.export.symbolic_shape("batch")
    inputs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((batch, *leaf.shape), leaf.dtype), shapes)
    program = jax.export.export(jax.jit(run), platforms=PLATFORMS)(*inputs).serialize()
    card = {
        "version": VERSION,
        "jax": jax.__version__,
        "about": policy.about,
        "call": "program.call(state, memory) -> {action, logits, memory}; every array has a leading axis [batch]",
        "state": _described(shapes[0]),
        "bounds": bounds_of(policy.state),
        "memory": _described(shapes[1]),
        "action": {name: f"int32[{role.num_agents}]" for name, role in policy.env.roles.items()},
        "platforms": list(PLATFORMS),
        "configuration": _mapped(_as_text, {name: values[name] for name in CONFIGURED if name in values}),
    }

    def write(partial: pathlib.Path) -> None:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(CARD, json.dumps(card, indent=2, allow_nan=False))
            file.writestr(PROGRAM, bytes(program))

    write_whole(path, write)


def read_program(path: pathlib.Path, *, trust: bool) -> Policy:
    """The policy in a file that `write_program` wrote.

    Raises:
        ValueError: it is damaged, or something else; one line.
        UserError: it names a dotted path, and is not to be trusted.
        OSError: it cannot be read.
    """
    content = read_bytes(path, LARGEST_POLICY)
    try:
        if content.count(MEMBER) > MOST_ARRAYS:
            raise ValueError(f"it holds more than {MOST_ARRAYS} files")
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            for name, largest in {CARD: LARGEST_JSON, PROGRAM: LARGEST_POLICY}.items():
                if file.getinfo(name).file_size > largest:
                    raise ValueError(f"its content is larger than {in_words(largest)}")
            card, program = json_in(file.read(CARD), CARD, REMEDY), bytearray(file.read(PROGRAM))
        if card["version"] != VERSION:
            raise ValueError(f"another version wrote it ({shown(card['version'])}, not {VERSION})")
        configuration = _mapped(_as_number, card["configuration"])
        refuse_dotted_paths(configuration["env"], path, "trust=True", trust=trust)
        env = playing_environment(configuration, {})
        exported = _exported(program, card.get("jax"))
        about = str(card["about"])
        (_, memory), _ = jax.tree.unflatten(exported.in_tree, exported.in_avals)
    except (UserError, ImportError):
        raise
    except Exception as error:  # zipfile, flatbuffers and JAX raise exceptions of all kinds
        said = error.reason if isinstance(error, UnreadableError) else error
        reason = printable(said, 200) or type(error).__name__
        raise ValueError(f"{path} is no readable policy ({reason}); {REMEDY}") from None

    def decide(memory: Memory, state: State) -> tuple[ByRole, Memory]:
        out = exported.call(by_place(state), memory)
        return {name: out["logits"][name] for name in env.roles}, out["memory"]  # in the order of the agents

    def initial_memory(num_envs: int) -> Memory:
        return {name: jnp.zeros((num_envs, *leaf.shape[1:]), leaf.dtype) for name, leaf in memory.items()}

    return Policy(env, jax.tree_util.Partial(decide), initial_memory, about)


def _exported(program: bytearray, written_by: object) -> jax.export.Exported:
    """A program that the JAX of a version serialized; None: of which version is unknown.

    Raises:
        ValueError: it is of another JAX, and this one does not read it.
    """
    try:
        exported = jax.export.deserialize(program)
        exported.mlir_module()  # a program of a later JAX would fail only here
    except ImportError:
        raise
    except Exception as error:  # of all kinds, see `read_program`
        if written_by == jax.__version__:
            raise
        writer = "another JAX" if written_by is None else f"JAX {cut(str(written_by))}"
        raise ValueError(f"{writer} wrote it, which JAX {jax.__version__} does not read") from error
    return exported


def bounds_of(state: State) -> dict[str, tuple[int, int]]:
    """The least and the largest number of each array of a state whose class declares them, see `fields.Whole`."""
    sizes = {name: leaf.shape[0] for name, leaf in by_place(state).items() if leaf.shape}

    def of_fields(node: Any, place: str) -> Iterator[tuple[str, tuple[int, int]]]:
        hints = typing.get_type_hints(type(node), include_extras=True)
        for field in dataclasses.fields(node):
            value, name = getattr(node, field.name), f"{place}{field.name}"
            if dataclasses.is_dataclass(value):
                yield from of_fields(value, f"{name}/")
            for note in getattr(hints[field.name], "__metadata__", ()):
                if isinstance(note, fields.Whole) and value is not None:
                    yield name, (note.low, sizes[note.high] - 1 if isinstance(note.high, str) else note.high)

    return dict(of_fields(state, ""))


def _filled(like: Any, arrays: Arrays) -> Any:
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in by_place(like)])


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A JSON value with a function applied to each that is no list and no object."""
    if isinstance(value, dict):
        return {name: _mapped(function, entry) for name, entry in value.items()}
    return [_mapped(function, entry) for entry in value] if isinstance(value, list | tuple) else function(value)


def _as_text(value: Any) -> Any:
    return INFINITE.get(value, value) if isinstance(value, float) else value


def _as_number(value: Any) -> Any:
    return float(value) if value in INFINITE.values() else value


def _described(shapes: Arrays) -> dict[str, str]:
    return {name: described(leaf) for name, leaf in shapes.items()}
