"""Problems as arrays: a small one with all kinds of fields is checked, padded, stacked, saved and loaded."""

import dataclasses
import re
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from jaxvrp.io import arrays as arrays_module
from jaxvrp.io.arrays import (
    ArrayField,
    ArrayFiles,
    bytes_of,
    check_shapes,
    computed_arrays,
    number_arrays,
    pad_arrays,
    refuse_where,
    stack_arrays,
    stored_arrays,
)
from tests.refusals import refusal


class Errand(struct.PyTreeNode):
    """`place` `f[S, 2]`, `load` `i[S]`, `open` `bool[D]`, `speed` `f[]`."""

    place: np.ndarray
    load: np.ndarray
    open: np.ndarray
    speed: np.ndarray


SCHEMA = {
    "place": ArrayField("stops", (2,), padding="first row"),
    "load": ArrayField("stops", kind=int, padding=-1),
    "open": ArrayField("doors", kind=bool, padding=False),
    "speed": ArrayField(),
}
FORMAT = "errand-1"
REMEDY = "give a file that errands.save wrote"
VALUES = {"place": [[1, 2], [3, 4.5]], "load": [1, 2], "open": [True], "speed": 1 / 3}


def errand(**changes):
    arrays = number_arrays(VALUES | changes, "an errand")
    return Errand(**stored_arrays(SCHEMA, arrays, "has a fraction"))


def check(problem):
    check_shapes(SCHEMA, problem, {"stops": np.size(problem.load), "doors": np.size(problem.open)})
    refuse_where(problem.load < 0, "load of stop {} is negative")


FILES = ArrayFiles(FORMAT, "an errand", "errands", SCHEMA, Errand, check)
save, load = FILES.save, FILES.load


def assert_same(problem, other):
    for name in SCHEMA:
        np.testing.assert_array_equal(getattr(problem, name), getattr(other, name), err_msg=name, strict=True)


def dtypes(problem):
    return [np.asarray(getattr(problem, name)).dtype.name for name in SCHEMA]


# --- checking -------------------------------------------------------------------------------------------------------


def test_values_become_arrays_of_the_stored_dtypes():
    assert dtypes(errand()) == ["float64", "int32", "bool", "float64"]
    assert errand().load.tolist() == [1, 2] and errand().open.tolist() == [True] and errand().speed == 1 / 3


def test_the_arrays_are_copies():
    given = np.ones((2, 2))
    problem = errand(place=given)
    given[:] = 7
    assert (problem.place == 1).all()


@pytest.mark.parametrize("value", ["a", [[1, 2], [3]], [None, {}], ["1", "2"], [1j], np.zeros(2, "M8[s]"), [2**70]])
def test_what_is_no_array_of_numbers_is_refused(value):
    with pytest.raises(ValueError, match=r"^an errand needs arrays of numbers: "):
        errand(place=value)


@pytest.mark.parametrize(("name", "value"), [("load", [1, 1.5]), ("load", [1, np.inf]), ("open", [0.5])])
def test_fractions_are_refused_where_numbers_are_whole(name, value):
    with pytest.raises(ValueError, match=f"^{name} has a fraction$"):
        errand(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("place", np.zeros((2, 3)), "place has shape (2, 3); it needs (2, 2)"),
        ("place", np.zeros((3, 2)), "place has shape (3, 2); it needs (2, 2)"),
        ("speed", np.zeros(1), "speed has shape (1,); it needs ()"),
        ("load", np.array([3, -1]), "load of stop 1 is negative"),
    ],
)
def test_a_wrong_shape_or_entry_is_named(name, value, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(errand().replace(**{name: value}))


# --- computing ------------------------------------------------------------------------------------------------------


def test_computed_arrays_are_of_float32_and_keep_whole_numbers():
    problem = computed_arrays(SCHEMA, errand())
    assert dtypes(problem) == ["float32", "int32", "bool", "float32"]
    assert all(isinstance(leaf, jax.Array) and not leaf.weak_type for leaf in jax.tree.leaves(problem))


def test_padding_adds_rows_at_the_end_in_the_same_dtypes():
    padded = pad_arrays(SCHEMA, errand(), {"stops": 4, "doors": 2})
    assert padded.place.tolist() == [[1, 2], [3, 4.5], [1, 2], [1, 2]]
    assert padded.load.tolist() == [1, 2, -1, -1] and padded.open.tolist() == [True, False]
    assert dtypes(padded) == dtypes(errand()) and padded.speed == 1 / 3


def test_padding_touches_only_what_is_too_short():
    problem = errand()
    assert pad_arrays(SCHEMA, problem, {"stops": 2, "doors": 1}) is problem
    assert pad_arrays(SCHEMA, problem, {"stops": 2, "doors": 3}).place is problem.place


@pytest.mark.parametrize("as_kind", [lambda problem: problem, lambda problem: computed_arrays(SCHEMA, problem)])
def test_a_batch_is_padded_as_each_of_it(as_kind):
    single = [as_kind(errand()), as_kind(errand(load=[5, 6], speed=2))]
    xp = jnp if isinstance(single[0].load, jax.Array) else np
    batch = jax.tree.map(lambda *leaves: xp.stack(leaves), *single)
    lengths = {"stops": 3, "doors": 4}
    whole = pad_arrays(SCHEMA, batch, lengths)
    mapped = jax.vmap(lambda problem: pad_arrays(SCHEMA, problem, lengths))(computed_arrays(SCHEMA, batch))
    for index, problem in enumerate(single):
        padded = pad_arrays(SCHEMA, problem, lengths)
        assert_same(jax.tree.map(lambda leaf, at=index: leaf[at], whole), padded)
        assert_same(jax.tree.map(lambda leaf, at=index: leaf[at], mapped), computed_arrays(SCHEMA, padded))
    assert all(isinstance(leaf, xp.ndarray) for leaf in jax.tree.leaves(whole))


def test_stacking_pads_each_axis_to_the_longest():
    long = errand(place=np.zeros((3, 2)), load=[1, 2, 3])
    wide = errand(open=[1, 0, 1])
    batch = stack_arrays(SCHEMA, [long, wide])
    assert batch.place.shape == (2, 3, 2) and batch.open.shape == (2, 3) and batch.speed.shape == (2,)
    for index, problem in enumerate((long, wide)):
        padded = pad_arrays(SCHEMA, problem, {"stops": 3, "doors": 3})
        assert_same(jax.tree.map(lambda leaf, at=index: leaf[at], batch), padded)


# --- files ----------------------------------------------------------------------------------------------------------


def test_saving_and_loading_is_exact(tmp_path):
    single = errand(place=np.random.default_rng(0).normal(size=(2, 2)))
    batch = stack_arrays(SCHEMA, [single, errand(load=[1, 1])])
    for problem in (single, batch, computed_arrays(SCHEMA, single)):
        save(tmp_path / "errand.npz", problem)
        assert_same(load(tmp_path / "errand.npz"), jax.tree.map(np.asarray, problem))
    assert [path.name for path in tmp_path.iterdir()] == ["errand.npz"]


def test_the_ending_of_the_name_is_kept(tmp_path):
    save(tmp_path / "errand.data", errand())
    assert [path.name for path in tmp_path.iterdir()] == ["errand.data"]
    assert_same(load(tmp_path / "errand.data"), errand())


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "errand.npz"
    save(path, errand())
    before = path.read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        save(path, errand(load=[9, 9]))
    assert [found.name for found in tmp_path.iterdir()] == ["errand.npz"] and path.read_bytes() == before


def test_a_missing_file_stays_an_operating_system_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("cut", [0, 1, 100, -200, -1])
def test_a_truncated_file_is_refused(tmp_path, cut):
    path = tmp_path / "cut.npz"
    save(path, errand())
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=rf"cut\.npz is no readable \.npz file .*; {REMEDY}$"):
        load(path)


def test_a_plain_array_is_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"array\.npy is no readable \.npz file"):
        load(tmp_path / "array.npy")


def refused_with(path, damages, problem):
    """Where `{place: bits}` are flipped, one byte at a time: the places at which the file is refused in a line.

    At all others it says the same as before.
    """
    content, refused = path.read_bytes(), set()
    for at, bits in damages.items():
        path.write_bytes(content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :])
        try:
            assert_same(load(path), problem)
        except ValueError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
            refused.add(at)
    return refused


def test_a_damaged_byte_is_refused_wherever_it_matters(tmp_path):
    path, problem = tmp_path / "damaged.npz", errand(place=np.random.default_rng(0).normal(size=(2, 2)))
    save(path, problem)
    content = path.read_bytes()
    # The last 200 bytes are the archive's directory.
    spots = {*range(0, len(content), 7), *range(len(content) - 200, len(content))}
    start = content.index(problem.place.tobytes())
    assert refused_with(path, dict.fromkeys(spots, 1), problem) > spots & {*range(start, start + problem.place.nbytes)}


def test_a_damaged_byte_of_a_compressed_file_is_refused_wherever_it_matters(tmp_path):
    """Here zlib, zipfile and NumPy each find something else: checksums, unknown methods, headers."""
    path, problem = tmp_path / "damaged.npz", errand(place=np.random.default_rng(0).normal(size=(2, 2)))
    np.savez_compressed(path, **{name: getattr(problem, name) for name in SCHEMA}, format=np.array(FORMAT))
    assert_same(load(path), problem)
    size = path.stat().st_size
    assert len(refused_with(path, {at: 1 + at % 255 for at in range(0, size, 3)}, problem)) > size / 9


def npy(shape, descr="<f8", data=bytes(32)):
    """An array file whose header says what it likes."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


LYING = {
    "10^12 rows": (
        npy((10**12, 2)),
        "place.npy declares float64 of shape (1000000000000, 2), 16000000000000 bytes, an",
    ),
    "10^30 rows": (npy((10**30, 2)), "place.npy declares float64 of shape (1000000000000000000000000000000, 2), "),
    "less than there is": (
        npy((1, 2)),
        f"place.npy declares float64 of shape (1, 2), 16 bytes, and holds 32); {REMEDY}",
    ),
    "negative rows": (npy((-2, -2)), "place.npy declares float64 of shape (-2, -2), 32 bytes, and holds 32"),
    "texts of any length": (
        npy((2, 2), f"<U{10**8}"),
        "place.npy declares <U100000000 of shape (2, 2), 1600000000 bytes",
    ),
    "a header of no array": (npy((2, 2)).replace(b"descr", b"DESCR"), "is no readable .npz file ("),
    "a version to come": (npy((2, 2)).replace(b"\x01", b"\x09", 1), "place.npy is of version 9 of its format"),
    "no header": (b"", "is no readable .npz file ("),
}


@pytest.mark.parametrize(("content", "message"), LYING.values(), ids=LYING)
def test_a_declared_shape_is_not_believed(tmp_path, content, message):
    """Nothing of that size is made: a machine that would try it could not."""
    path = tmp_path / "lying.npz"
    save(path, errand())
    whole = {info.filename: zipfile.ZipFile(path).read(info) for info in zipfile.ZipFile(path).infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in (whole | {"place.npy": content}).items():
            archive.writestr(name, member)
    says = refusal(load, path)
    assert says.startswith(str(path)) and message in says and says.endswith(f"; {REMEDY}")


def test_arrays_are_refused_by_their_headers_before_they_are_read(tmp_path, monkeypatch):
    """A gigabyte of zeros is some megabytes in the file."""
    path = tmp_path / "large.npz"
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("place.npy", "w") as member:
        member.write(npy((2**26, 2), data=b""))
        for _ in range(2**10):
            member.write(bytes(2**20))
    monkeypatch.setattr(np, "load", None)  # would be called
    says = rf"large\.npz is no readable .* \(its arrays take 1.07 GB, and up to 67.1 MB are read\); {REMEDY}$"
    with pytest.raises(ValueError, match=says):
        load(path)
    with path.open("r+b") as file:
        file.truncate(2**27)
    with pytest.raises(ValueError, match=r"large\.npz is larger than 83.5 MB; give a smaller file$"):
        load(path)


def test_more_arrays_or_problems_than_are_read_are_refused(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as archive:
        for number in range(1_001):
            archive.writestr(f"{number}.npy", b"")
    with pytest.raises(ValueError, match=rf"many\.npz is no readable .* \(it holds more than 1000 arrays\); {REMEDY}$"):
        load(tmp_path / "many.npz")
    monkeypatch.setattr(arrays_module, "MOST_PROBLEMS", 2)
    save(tmp_path / "batch.npz", stack_arrays(SCHEMA, [errand()] * 3))
    with pytest.raises(ValueError, match=rf"batch\.npz: 3 problems; at most 2 are read from a file; {REMEDY}$"):
        load(tmp_path / "batch.npz")


STORED = {name: np.asarray(value) for name, value in dataclasses.asdict(errand()).items()} | {"format": FORMAT}
FOREIGN = {
    "another format": ({"format": "errand-0"}, f"holds load, open, place, speed, not an errand; {REMEDY}"),
    "no format": ({"format": None}, f"not an errand; {REMEDY}"),
    "a missing field": ({"speed": None}, f"holds load, open, place, not an errand; {REMEDY}"),
    "a surplus field": ({"name": np.ones(3)}, f"not an errand; {REMEDY}"),
    "objects": ({"place": np.array([None])}, "is no readable .npz file"),
    "another batch": ({"place": np.zeros((3, 2, 2))}, f"load has shape (2,), which does not fit place's; {REMEDY}"),
    "another rank": ({"load": np.zeros((), np.int32)}, "load has shape (), which does not fit place's"),
    "another length": ({"place": np.zeros((3, 2))}, "place has shape (3, 2); it needs (2, 2)"),
    "whole numbers for a float": ({"place": np.zeros((2, 2), np.int64)}, f"place has dtype int64; {REMEDY}"),
    "numbers for flags": ({"open": np.ones(1)}, f"open has dtype float64; {REMEDY}"),
    "whole numbers beyond int32": (
        {"load": np.array([1, 2**40])},
        "load holds 1.09951e+12; numbers must be below 2.147",
    ),
    "numbers beyond float32": (
        {"place": np.full((2, 2), -1e308)},
        "place holds -1e+308; numbers must be below 1e+12 in",
    ),
    "spans of time for whole numbers": ({"load": np.ones(2, "m8[s]")}, f"load has dtype timedelta64[s]; {REMEDY}"),
    "complex numbers": ({"place": np.ones((2, 2), complex)}, f"place has dtype complex128; {REMEDY}"),
    "dates": ({"place": np.zeros((2, 2), "M8[D]")}, f"place has dtype datetime64[D]; {REMEDY}"),
    "texts": ({"place": np.full((2, 2), "1.5")}, f"place has dtype <U3; {REMEDY}"),
    "records": ({"load": np.zeros(2, "i4,i4")}, f"load has dtype [('f0', '<i4'), ('f1', '<i4')]; {REMEDY}"),
    "letters": ({"load": np.array(["a", "b"])}, f"load has dtype <U1; {REMEDY}"),
    "a wrong entry": ({"load": np.array([1, -1])}, "load of stop 1 is negative"),
}


@pytest.mark.parametrize(("changes", "message"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_by_name(tmp_path, changes, message):
    path = tmp_path / "foreign.npz"
    np.savez(path, **{name: array for name, array in (STORED | changes).items() if array is not None})
    says = refusal(load, path)
    assert says.startswith(str(path)) and message in says


@pytest.mark.parametrize("dtype", [">f8", "f2", "g", "f4"])
def test_numbers_of_other_widths_and_orders_are_read_as_what_they_are(tmp_path, dtype):
    place = np.array([[1, 2], [3, 4.5]], dtype)
    np.savez(tmp_path / "other.npz", **(STORED | {"place": place}))
    problem = load(tmp_path / "other.npz")
    np.testing.assert_array_equal(problem.place, VALUES["place"])
    assert computed_arrays(SCHEMA, problem).place.tolist() == VALUES["place"]


UNCHECKED = {
    "NaN for a whole number": ({"load": np.array([np.nan, 1])}, "load has dtype float64; it must be int32"),
    "texts": ({"place": np.full((2, 2), "1")}, "place has dtype <U1; it must be float64"),
    "beyond float32": ({"place": np.full((2, 2), 1e39)}, "place holds 1e+39; numbers must be below 1e+12 in size"),
    "beyond int32": ({"load": np.array([1, -(2**40)])}, "load holds -1.09951e+12; numbers must be below 2.14748e+09"),
}


@pytest.mark.parametrize(("changes", "message"), UNCHECKED.values(), ids=UNCHECKED)
def test_what_was_not_checked_is_not_converted_to_nonsense(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        computed_arrays(SCHEMA, errand().replace(**changes))


def test_a_wrong_problem_in_a_batch_is_named(tmp_path):
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *[stack_arrays(SCHEMA, [errand(), errand()])] * 3)
    batch.load[2, 1, 0] = -4
    save(tmp_path / "batch.npz", batch)
    with pytest.raises(ValueError, match=r"batch\.npz \(errand 2, 1\): load of stop 0 is negative$"):
        load(tmp_path / "batch.npz")


def test_arrays_are_counted_whether_they_exist_or_not():
    def make():
        return {"a": jnp.zeros((3, 5)), "b": (jnp.ones(7, bool), jnp.zeros((), jnp.int16)), "c": None}

    assert bytes_of(make()) == bytes_of(jax.eval_shape(make)) == 3 * 5 * 4 + 7 + 2
    assert bytes_of(jax.eval_shape(lambda: jnp.zeros((10**10, 10**10), bool))) == 10**20
    keys = jax.random.split(jax.random.key(0), 6)
    assert bytes_of(keys) == jax.random.key_data(keys).nbytes
