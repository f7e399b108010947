"""Policies without what trained them: the arrays of the actors and their configuration. Some are shipped, by name.

The folder of a policy holds `config.yaml`, as a run folder does, the arrays in `actor.npz`, and `policy.json`, its
card: what it is, how it was trained, what it came to, and checksums of both, so that damage is found before it plays.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np

from jaxvrp.io.arrays import LARGEST_ARRAYS, bytes_of, read_npz, write_npz
from jaxvrp.io.command_line import UserError
from jaxvrp.io.json_files import read_json
from jaxvrp.io.messages import cut, nearest, shown
from jaxvrp.io.states import by_place
from jaxvrp.io.whole_files import read_bytes, write_json
from jaxvrp.io.yaml_text import read_yaml

CONFIG = "config.yaml"
"""The configuration, of a policy or of a run."""

CARD, ARRAYS = "policy.json", "actor.npz"
"""What a folder has beside its configuration, if it is that of a policy."""

VERSION = 1
"""Of the folder's layout and of the card."""

SHIPPED = pathlib.Path(__file__).parent / "shipped"

REMEDY = "export the policy anew, or install the package anew"
LARGEST_POLICY = 2**27
"""Bytes of each file of a policy."""


@dataclasses.dataclass(frozen=True)
class Card:
    """What `policy.json` says."""

    about: str
    training: dict[str, Any]  # its command, and the updates and environment steps that were done
    # the command that measures them; number and seed of the fixed instances; means over them, by player
    figures: dict[str, Any]
    exported: dict[str, Any]  # date, version and commit of the code that measured the figures
    checksums: dict[str, str]  # of the configuration and the arrays, by the name of the file
    version: int = VERSION


def shipped_policies() -> list[str]:
    """The names of the policies that are shipped."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CARD}"))


def find_run(run: str | os.PathLike) -> pathlib.Path:
    """The folder of a run or of a policy: that at a path, or else the policy that is shipped by that name."""
    path = pathlib.Path(run)
    if path.exists():
        return path
    names = shipped_policies()
    if str(run) in names:
        return SHIPPED / str(run)
    raise UserError(f"{run} is no run folder, and no policy of that name is shipped; {nearest(str(run), names)}")


def write_policy(folder: pathlib.Path, params: Any, config_file: pathlib.Path, **card: Any) -> None:
    """Write arrays and card of a policy into a folder that holds its configuration; `card` has the other entries."""
    write_npz(folder / ARRAYS, {name: np.asarray(leaf) for name, leaf in by_place(params).items()})
    checksums = {path.name: _checksum(path) for path in (config_file, folder / ARRAYS)}
    write_json(folder / CARD, dataclasses.asdict(Card(**card, checksums=checksums)))


RETIRED = {
    "value_loss": "huber",
    "huber_delta": 10.0,
    "value_norm_decay": 0.99,
    "value_clip": True,
    "recurrent_layers": 1,
    "critic_attention_layers": 0,
}
"""Keys that configurations of earlier versions have, with the only value that is left of each."""


def without_retired(values: Mapping[str, Any]) -> dict[Any, Any]:
    """Values of a configuration without the keys that are gone, where they say what is done now."""
    return {name: value for name, value in values.items() if name not in RETIRED or value != RETIRED[name]}


def read_values(folder: pathlib.Path, algorithms: Collection[str]) -> tuple[dict[Any, Any], str]:
    """The configuration of a run or a policy as it stands there, and its algorithm, one of these."""
    try:
        values = read_yaml(folder / CONFIG)
        algorithm = values.pop("algorithm")
        if algorithm not in algorithms:
            raise KeyError(algorithm)
        return without_retired(values), algorithm
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        raise UserError(f"{folder} is no run folder: it has no readable {CONFIG}; give the folder of a run") from None


def refuse_dotted_paths(env: Any, place: object, remedy: str, *, trust: bool, named: Collection[Any] = ()) -> None:
    """Refuse parameters of an environment that are dotted paths, which would be imported, without `trust`.

    The user may have `named` the same path; `remedy` is what to add.
    """
    for key in ("name", "scenario"):
        value = env.get(key) if isinstance(env, Mapping) else None
        if not trust and isinstance(value, str) and ":" in value and value not in named:
            raise UserError(
                f"{place}: env.{key} is {shown(value)}, which would be imported and run; if you trust it, add {remedy}"
            )


def read_card(folder: pathlib.Path) -> Card:
    """The card of a policy, whose files are as they were written."""
    path = folder / CARD
    try:
        card = Card(**read_json(path, REMEDY))
        if card.version != VERSION:
            raise UserError(f"{path}: another version wrote it ({shown(card.version)}, not {VERSION}); {REMEDY}")
        checked = {name: card.checksums[name] for name in (CONFIG, ARRAYS) if name in card.checksums}
        wrong = [name for name, checksum in checked.items() if _checksum(folder / name) != checksum]
        int(card.training["update"])
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}; {REMEDY}") from None
    except (TypeError, AttributeError, KeyError):
        raise UserError(f"{path} is no card of a policy; {REMEDY}") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    if wrong:
        raise UserError(f"{folder / wrong[0]} was changed; {REMEDY}")
    return card


def read_policy(folder: pathlib.Path, like: Any) -> Any:
    """The parameters of a policy, with the structure, shapes and dtypes of `like`."""
    path, wanted = folder / ARRAYS, by_place(like)
    try:
        arrays = read_npz(path, REMEDY, LARGEST_ARRAYS + bytes_of(wanted))
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from None
    for name in {**wanted, **arrays}:
        found = [(each[name].shape, each[name].dtype) if name in each else None for each in (arrays, wanted)]
        if found[0] != found[1]:
            raise UserError(f"{path}: {cut(name, 80)} does not fit the configuration beside it; {REMEDY}")
    leaves = [jax.numpy.asarray(arrays[name]) for name in wanted]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _checksum(path: pathlib.Path) -> str:
    """Of a file; of a text whatever the ends of its lines are."""
    content = read_bytes(path, LARGEST_POLICY)
    if path.name != ARRAYS:
        content = content.replace(b"\r\n", b"\n")
    return hashlib.blake2b(content, digest_size=32).hexdigest()
