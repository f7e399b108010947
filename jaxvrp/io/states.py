"""States as JSON: the arrays of any pytree by where they stand, exact to the bit.

A state, a moment, an instance, a batch: each array becomes numbers in nested lists, and what is None is left out. What
JSON has no number for, or readers may change, is a text: `"inf"`, `"-inf"`, `"-0.0"`, and the bits of a NaN,
`"0x7fc00000"`. Typed keys become `{"impl": "threefry2x32", "words": [0, 3]}`. Static fields are not written: they are
those of the template that is read into.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.io.messages import cut, shown

TEXTS = ("inf", "-inf", "-0.0")
"""Numbers that are written as texts, beside NaN."""

BITS = re.compile("0x[0-9a-f]{1,16}")


def by_place(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by where they are: `{"drone/params/Dense_0/bias": ...}`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(place, simple=True, separator="/"): leaf for place, leaf in leaves}


def shapes_of(env: Any) -> Any:
    """One state of an `Environment` on a problem of its generator, as `jax.ShapeDtypeStruct`."""
    return jax.eval_shape(lambda key: env.init_state(env.generate(key)), jax.random.key(0))


def described(leaf: Any) -> str:
    """`"float32[2]"`."""
    return f"{leaf.dtype.name}{list(leaf.shape)}"


def write_state(state: Any) -> dict[str, Any]:
    """The arrays of a state, or of any other pytree, by place; for `json.dumps`, and for `read_state`."""
    return {place: _written(leaf) for place, leaf in by_place(state).items()}


def read_state(written: Any, like: Any) -> Any:
    """The state that `write_state` has written, after JSON or not.

    Args:
        written: a JSON object.
        like: the environment whose state it is, as its generator draws problems; or a template with the structure,
            shapes and dtypes, of arrays or `jax.ShapeDtypeStruct`, which takes less time.

    Raises:
        ValueError: an array is missing, unknown, or of another shape or kind; one line.
    """
    template = shapes_of(like) if hasattr(like, "init_state") else like
    wanted = by_place(template)
    if not isinstance(written, dict):
        raise ValueError(f"a state is {shown(written)}; it must be an object, arrays by name")
    for place in {**wanted, **written}:
        if place not in wanted or place not in written:
            raise ValueError(f"{place} is missing" if place in wanted else f"no such state has {cut(place, 80)}")
    leaves = [_read(place, written[place], leaf) for place, leaf in wanted.items()]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _written(leaf: Any) -> Any:
    if _is_key(leaf):
        return {"impl": str(jax.random.key_impl(leaf)), "words": np.asarray(jax.random.key_data(leaf)).tolist()}
    array = np.asarray(leaf)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array.tolist()
    is_text = ~np.isfinite(array) | (np.signbit(array) & (array == 0))
    cells = _shortest(np.where(is_text, array.dtype.type(0), array)).astype(object)
    cells[is_text] = [_text_of(number) for number in array[is_text]]
    return cells.tolist()


def _shortest(array: np.ndarray) -> np.ndarray:
    """Finite numbers as `float64[...]` of few digits, each the same in the array's dtype."""
    numbers = array.astype(np.float64)
    if array.dtype == np.float32:
        is_long = numbers != np.rint(numbers)
        exact = array[is_long]
        short = exact.astype(str).astype(np.float64)
        numbers[is_long] = np.where(short.astype(np.float32) == exact, short, exact)
    return numbers


def _text_of(number: np.floating) -> str:
    return hex(number.view(f"u{number.itemsize}")) if np.isnan(number) else str(number)


def _read(place: str, written: Any, wanted: Any) -> jax.Array | np.ndarray:
    if _is_key(wanted):
        return _read_key(place, written, wanted)
    array = _read_array(place, written, np.empty(wanted.shape, wanted.dtype))
    return jnp.asarray(array) if isinstance(wanted, jax.Array | jax.ShapeDtypeStruct) else array


def _read_key(place: str, written: Any, wanted: Any) -> jax.Array:
    if not isinstance(written, dict) or written.keys() != {"impl", "words"}:
        raise ValueError(f"{place} is {shown(written)}; it must be a key, an object with impl and words")
    impl = written["impl"]
    found: Any = None
    with contextlib.suppress(TypeError, ValueError):  # there is no such implementation
        found = jax.eval_shape(lambda: (key := jax.random.key(0, impl=impl), jax.random.key_data(key)))
    if found is None or found[0].dtype != wanted.dtype:
        raise ValueError(f"{place} is a key by {shown(impl)}; it must be {described(wanted)}")
    like = np.empty((*wanted.shape, *found[1].shape), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(_read_array(place, written["words"], like)), impl=impl)


def _read_array(place: str, rows: Any, like: np.ndarray) -> np.ndarray:
    """Nested lists as an array like another one."""
    cells = np.array(rows, object)
    kinds = set(map(type, cells.flat))
    if list in kinds:
        raise ValueError(f"{place} has rows of different lengths; it needs {described(like)}")
    if cells.shape != like.shape:
        raise ValueError(f"{place} has shape {list(cells.shape)}; it needs {described(like)}")
    is_real = jnp.issubdtype(like.dtype, jnp.floating)
    accepted = {bool} if like.dtype == bool else {int, float, str} if is_real else {int}
    if kinds - accepted:
        wrong = next(cell for cell in cells.flat if type(cell) not in accepted)
        raise ValueError(f"{place} holds {shown(wrong)}; it needs {described(like)}")
    return _real_numbers(place, cells, like) if is_real else _whole_numbers(place, cells, like)


def _whole_numbers(place: str, cells: np.ndarray, like: np.ndarray) -> np.ndarray:
    low, high = (0, 1) if like.dtype == bool else (np.iinfo(like.dtype).min, np.iinfo(like.dtype).max)
    for cell in cells.flat:
        if not low <= cell <= high:
            raise ValueError(f"{place} holds {shown(cell)}; it needs numbers from {low} to {high}")
    return cells.astype(like.dtype)


def _real_numbers(place: str, cells: np.ndarray, like: np.ndarray) -> np.ndarray:
    is_text = np.array([type(cell) is str for cell in cells.flat], bool).reshape(cells.shape)
    try:
        with np.errstate(over="ignore"):
            numbers = np.where(is_text, 0.0, cells).astype(np.float64).astype(like.dtype)
            if not np.isfinite(numbers).all():
                raise OverflowError
    except OverflowError:
        raise ValueError(f"{place} holds a number that is too large; it needs {described(like)}") from None
    for text in set(cells[is_text]):
        numbers[is_text & (cells == text)] = _number_of(place, text, like)
    return numbers


def _number_of(place: str, text: str, like: np.ndarray) -> np.ndarray:
    """What `_text_of` wrote, an array of one number."""
    if text in TEXTS:
        return np.array(float(text), like.dtype)
    bits = int(text, 16) if BITS.fullmatch(text) else 0
    number = np.array(bits % 2 ** (8 * like.itemsize), f"u{like.itemsize}").view(like.dtype)
    if bits >= 2 ** (8 * like.itemsize) or not np.isnan(number):
        raise ValueError(f"{place} holds {shown(text)}; it needs {described(like)}")
    return number
