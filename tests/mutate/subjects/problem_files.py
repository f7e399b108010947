"""Problem files, damaged: Cordeau's, `.npz`, Bookshelf, `.pcb`, maps, days, moments; read, and drawn by commands."""

from __future__ import annotations

import dataclasses
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxvrp
from jaxvrp.envs import darp, pcb, truck_drone
from jaxvrp.envs.darp import pictures as draw_plan
from jaxvrp.envs.darp.problem.instance import SCHEMA as INSTANCE_SCHEMA
from jaxvrp.envs.darp.problem.instance import as_float32 as computed_instance
from jaxvrp.envs.dispatch.moment.file import FORMAT as MOMENT_FORMAT
from jaxvrp.envs.dispatch.moment.file import planned_rows
from jaxvrp.envs.dispatch.plan import PROBLEMS as DISPATCH
from jaxvrp.envs.dispatch.problem.day_file import FORMAT as DAY_FORMAT
from jaxvrp.envs.dispatch.problem.instance import SCHEMA as DAY_SCHEMA
from jaxvrp.envs.dispatch.problem.instance import as_float32 as computed_day
from jaxvrp.envs.pcb.pictures import __main__ as draw_board
from jaxvrp.envs.pcb.problem.board import SCHEMA as BOARD_SCHEMA
from jaxvrp.envs.pcb.problem.board import as_float32 as computed_board
from jaxvrp.io.arrays import schema_of
from tests.mutate import material
from tests.mutate.mutators import NUMBERS, mutate_bytes, mutate_text, odd_value, pick
from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally
from tests.mutate.verdict import call, command

PLAN = ("--plan", "plan.json")

DRAWN = 0.03
"""Share of the cases that go through the command line as well: drawing takes most of a second."""


@dataclasses.dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        write: `(folder, random) -> path`, a sound one.
        read: `path -> content`.
        check: `(path, content)`, what was read of a damaged file against the file itself; raises a Finding.
        draw: the command that draws it, and its other words; None if there is none.
    """

    write: Callable[[Path, np.random.Generator], Path]
    read: Callable[[Path], Any]
    check: Callable[[Path, Any], None]
    draw: tuple[Any, tuple[str, ...]] | None


class ProblemFiles(Subject):
    """See the module."""

    def attempt(self, case: Case) -> Tally:
        """A file with one to three damages is refused in one line, or read as it says."""
        random = case.random()
        name = pick(random, list(FORMATS))
        kind = FORMATS[name]
        path = kind.write(case.folder, random)
        damage(case.folder, path, random)
        try:
            outcome = call(kind.read, path)
            if outcome.refusal is None:
                kind.check(path, outcome.value)
            if kind.draw and random.random() < DRAWN:
                _draw(*kind.draw, path, random)
        except Finding as finding:
            raise Finding(f"{name}: {finding.kind}", finding.details) from finding
        return NOTHING


def damage(folder: Path, path: Path, random: np.random.Generator) -> None:
    """Damage one of the files in a folder; arrays in `.npz` before they are packed, half of the time."""
    if path.suffix == ".npz":
        if random.random() < 0.5:
            _damage_arrays(path, random)
            return
        path.write_bytes(mutate_bytes(random, path.read_bytes()))
        return
    paths = sorted(folder.iterdir())
    chosen = pick(random, paths)
    if random.random() < 0.03:
        chosen.unlink()
        return
    chosen.write_bytes(mutate_text(random, chosen.read_bytes()))


EXTREMES = (np.nan, np.inf, -np.inf, -1, 0, 0.5, 1e39, 1e308, 1e-45, 2**31, 2**40, -(2**31) - 1, 10**12)
DTYPES = ("f2", "f4", "f8", "i1", "u8", "i8", "c8", "U5", "S3", "?", "M8[D]", "m8[s]", "f16")


def _damage_arrays(path: Path, random: np.random.Generator) -> None:
    """One array of a `.npz` gets another value, type or shape, is lost or there twice; or its header lies."""
    with np.load(path) as file:
        arrays = dict(file)
    name = pick(random, list(arrays))
    how = int(random.integers(7))
    if how == 5:
        del arrays[name]
    elif how == 6:
        arrays["extra"] = arrays[name]
    else:
        damages = (_with_extreme, _with_extreme, _with_dtype, _with_shape, _with_odd_value)
        with np.errstate(all="ignore"):
            arrays[name] = damages[how](random, arrays[name])
    with path.open("wb") as file:
        np.savez(file, **arrays)
    if random.random() < 0.2:
        _lie_about_a_shape(path, random)


def _with_extreme(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fib" or not array.size:
        return np.array("a")
    value = pick(random, EXTREMES)
    is_whole = isinstance(value, int) and array.dtype.kind != "f"
    array = array.astype(np.int64 if is_whole else np.float64)
    array.flat[int(random.integers(array.size))] = value
    return array


def _with_dtype(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    whole = np.nan_to_num(array.astype(np.float64), posinf=9) if array.dtype.kind in "fib" else np.zeros(3)
    dtype = pick(random, DTYPES)
    return (whole.astype(np.int64) if dtype[0] in "Mm" else whole).astype(dtype)


def _with_shape(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    shapes = (array[None], array.ravel()[:1], array.ravel()[:0], array.reshape(-1), array.T, np.zeros((0, 3)))
    return pick(random, shapes)


def _with_odd_value(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    del array
    value = odd_value(random)
    try:
        odd = np.asarray(value)
    except ValueError:  # rows of several lengths
        odd = np.array(str(value))
    # What is an object would be a pickle in the file.
    return odd.astype(str) if odd.dtype == object else odd


def _lie_about_a_shape(path: Path, random: np.random.Generator) -> None:
    """The header of an array says that it is far larger; the checksums are right again."""
    with zipfile.ZipFile(path) as file:
        parts = {entry: file.read(entry) for entry in file.namelist()}
    entry = pick(random, list(parts))
    size = pick(random, (b"1000000000000", b"100000000", b"-1", b"3.5"))
    changed = re.sub(rb"'shape': \((\d*)", lambda found: b"'shape': (" + size, parts[entry], count=1)
    grown = len(changed) - len(parts[entry])
    header = int.from_bytes(changed[8:10], "little") + grown
    parts[entry] = changed[:8] + header.to_bytes(2, "little") + changed[10:]
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)


def _draw(main: Any, words: tuple[str, ...], path: Path, random: np.random.Generator) -> None:
    if random.random() < 0.3:
        option = "--board" if main is draw_board.main else "--index"
        words = (*words, option, pick(random, NUMBERS))
    Path("plan.json").write_text('{"routes": []}')
    ended = command(main, [str(path), *words, "--out", "picture.png"])
    is_there = Path("picture.png").is_file()
    if is_there != (ended.status == 0):
        raise Finding("the command says that it drew, and did not" if ended.status == 0 else "a picture of a refusal")


# --- what was read against the file ---------------------------------------------------------------------------------


def _check_computed(content: Any, computed: Any, schema: Any) -> None:
    """The arrays that environments compute with say what the file says: nothing wraps around, or becomes infinite."""
    for name, field in schema.items():
        stored, used = np.asarray(getattr(content, name)), np.asarray(getattr(computed, name))
        if field.kind is not float and not np.array_equal(stored, used):
            raise Finding("a whole number is computed with as another", f"{name}: {stored}\n{used}")
        if field.kind is float and not np.array_equal(np.isfinite(stored), np.isfinite(used)):
            raise Finding("a number is beyond float32", f"{name}: {stored}\n{used}")


def _check_instance(instance: darp.Instance) -> None:
    _check_computed(instance, computed_instance(instance), schema_of(INSTANCE_SCHEMA, instance))


def _check_boards(boards: pcb.Board) -> None:
    _check_computed(boards, computed_board(boards), BOARD_SCHEMA)


def _numbers(text: str) -> list[float]:
    words = text.replace(",", " ").replace(";", " ").lower().split()
    return [float(word.replace("d", "e")) for word in words if word != "eof"]


def _check_cordeau(path: Path, instance: darp.Instance) -> None:
    """Written again, it has the numbers of the file, in their order; a depot at the end may be left out."""
    rewritten = path.with_name("again.txt")
    darp.write_cordeau(rewritten, instance)
    text = path.read_text(encoding="utf-8-sig")
    given, again = _numbers(text), _numbers(rewritten.read_text())
    vehicles, requests = int(given[0]), instance.num_nodes // 2
    if (
        again[:2] != [vehicles, requests]
        or given[1] not in (requests, 2 * requests)
        or given[2:] != again[2 : len(given)]
    ):
        raise Finding("read as something else", f"{text}\n{rewritten.read_text()}")
    _check_instance(instance)


def _check_npz(path: Path, content: Any, schema: Any) -> None:
    """The arrays are those of the file, of the kind of numbers that belongs there."""
    with np.load(path, allow_pickle=False) as file:
        for name, field in schema_of(schema, content).items():
            read = np.asarray(getattr(content, name))
            if not np.array_equal(read, file[name], equal_nan=read.dtype.kind == "f"):
                raise Finding("an array is not what the file holds", name)
            if file[name].dtype.kind not in {float: "f", int: "iu", bool: "b"}[field.kind]:
                raise Finding(f"an array of kind '{file[name].dtype.kind}' is taken for numbers", name)


def _check_instances_npz(path: Path, content: darp.Instance) -> None:
    _check_npz(path, content, INSTANCE_SCHEMA)
    _check_instance(content)


def _check_boards_npz(path: Path, content: pcb.Board) -> None:
    _check_npz(path, content, BOARD_SCHEMA)
    _check_boards(content)


def _check_pcb(path: Path, content: pcb.PcbFile) -> None:
    """Written again, and read again, it is the same."""
    rewritten = path.with_name("again.pcb")
    written = call(pcb.write_pcb, rewritten, content)
    if written.refusal is None:
        again = pcb.read_pcb(rewritten)
        for netlist, other in zip(content.boards, again.boards, strict=True):
            if not all(map(np.array_equal, jax.tree.leaves(netlist.board), jax.tree.leaves(other.board))):
                raise Finding("written and read again, it is another board")
    for netlist in content.boards:
        _check_boards(netlist.board)


def _check_bookshelf(path: Path, content: pcb.Netlist) -> None:
    """Sizes in the order of the file; places and offsets are finite and few."""
    rows = [line.split() for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    parts = [row for row in rows if not row[0].startswith(("Num", "#", "UCLA"))]
    sizes = np.array([[float(word.replace(":", "")) for word in row[1:3]] for row in parts])
    if not np.allclose(content.board.size * 10, sizes, rtol=1e-12):
        raise Finding("sizes are not those of the file", f"{content.board.size * 10}\n{sizes}")
    _check_boards(content.board)


def _check_map(path: Path, content: truck_drone.FleetMap) -> None:
    """Written again, it says what the file says; what it is to the simulator is finite, or refused."""
    rewritten = path.with_name("again.json")
    truck_drone.write_map(rewritten, content)
    given, again = (json.loads(each.read_bytes()) for each in (path, rewritten))
    if again != {name: value for name, value in given.items() if value not in ("", {})}:
        raise Finding("read as something else", f"{given}\n{again}")
    instance = content.instance()
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(instance)):
        raise Finding("a number is beyond float32", str(instance))
    if (np.asarray(instance.window_end) < np.asarray(instance.window_start)).any():
        raise Finding("an empty window", str(instance))
    made = call(content.environment, jaxvrp.make("vrpd_tw"))
    if made.refusal is None and (made.value.num_drones, made.value.max_steps) != (
        len(content.drones),
        content.max_steps,
    ):
        raise Finding("an environment of other sizes")


def _check_day(path: Path, days: Any) -> None:
    """What is computed with is finite, and there are as many requests and vehicles as the file has."""
    given = json.loads(path.read_bytes())
    for day in days:
        if (len(day.requests), len(day.vehicles)) != (len(given["requests"]), len(given["vehicles"])):
            raise Finding("read as another day", f"{given}")
        _check_computed(day.instance, computed_day(day.instance), schema_of(DAY_SCHEMA, day.instance))


def _check_moment(path: Path, moments: Any) -> None:
    """The clock is that of the file, and every promise is in a plan."""
    given = json.loads(path.read_bytes())
    (moment,) = moments
    stops = {stop["request"] for vehicle in given["vehicles"] for stop in vehicle["stops"]}
    if {row["request"] for row in planned_rows(moment)} != stops:
        raise Finding("read as another moment", f"{given}")


def _write_day(folder: Path, random: np.random.Generator) -> Path:
    (folder / "day.json").write_text(json.dumps(_day(random)))
    return folder / "day.json"


def _day(random: np.random.Generator) -> dict[str, Any]:
    arrivals = np.sort(np.round(random.uniform(0, 60, int(random.integers(1, 4))), 1))
    requests = [
        {"id": f"r{row}", "arrival": arrival, "pickup": _place(random), "dropoff": _place(random)}
        for row, arrival in enumerate(arrivals.tolist())
    ]
    vehicles = [{"id": f"v{row}", "speed": 30.0, "capacity": 3, "start": _place(random)} for row in range(2)]
    return {"format": DAY_FORMAT, "requests": requests, "vehicles": vehicles}


def _place(random: np.random.Generator) -> list[float]:
    return np.round(random.uniform(0, 5, 2), 2).tolist()


def _write_moment(folder: Path, random: np.random.Generator) -> Path:
    """The first request has been promised a ride by the first vehicle."""
    day = _day(random)
    stops = [{"what": kind, "request": "r0"} for kind in ("pickup", "drop-off")]
    vehicles = [
        {"id": each["id"], "free": 61.0, "place": each["start"], "stops": stops if row == 0 else []}
        for row, each in enumerate(day["vehicles"])
    ]
    content = {"format": MOMENT_FORMAT, "now": 61.0, "day": day, "vehicles": vehicles}
    (folder / "moment.json").write_text(json.dumps(content))
    return folder / "moment.json"


def _save_instances(folder: Path, random: np.random.Generator) -> Path:
    instances = [material.instance(random, uniform=False) for _ in range(int(random.integers(1, 3)))]
    darp.save(folder / "problem.npz", instances[0] if len(instances) == 1 else darp.stack(instances))
    return folder / "problem.npz"


def _save_boards(folder: Path, random: np.random.Generator) -> Path:
    boards = [material.board(random) for _ in range(int(random.integers(1, 3)))]
    pcb.save(folder / "boards.npz", boards[0] if len(boards) == 1 else pcb.stack(boards))
    return folder / "boards.npz"


def _write_cordeau(folder: Path, random: np.random.Generator) -> Path:
    darp.write_cordeau(folder / "problem.txt", material.instance(random))
    return folder / "problem.txt"


def _write_pcb(folder: Path, random: np.random.Generator) -> Path:
    boards = [pcb.make_netlist(material.board(random)) for _ in range(int(random.integers(1, 3)))]
    pcb.write_pcb(folder / "boards.pcb", pcb.PcbFile(tuple(boards), "boards", 12))
    return folder / "boards.pcb"


def _write_map(folder: Path, random: np.random.Generator) -> Path:
    env = jaxvrp.make("vrpd_tw", num_customers=int(random.integers(1, 4)), dynamic_share=0.5)
    problem = env.generate(jax.random.key(int(random.integers(1000))))
    truck_drone.write_map(folder / "map.json", truck_drone.map_of(env, problem, "a map"))
    return folder / "map.json"


FORMATS = {
    "Cordeau": Format(_write_cordeau, darp.read_cordeau, _check_cordeau, (draw_plan.main, PLAN)),
    "darp .npz": Format(_save_instances, darp.load, _check_instances_npz, (draw_plan.main, ("--index", "0", *PLAN))),
    "pcb .npz": Format(_save_boards, pcb.load, _check_boards_npz, (draw_board.main, ())),
    "Bookshelf": Format(material.write_bookshelf, pcb.read_bookshelf, _check_bookshelf, (draw_board.main, ())),
    ".pcb": Format(_write_pcb, pcb.read_pcb, _check_pcb, (draw_board.main, ())),
    "map": Format(_write_map, truck_drone.read_map, _check_map, None),
    "day": Format(_write_day, DISPATCH.read, _check_day, None),
    "moment": Format(_write_moment, DISPATCH.read, _check_moment, None),
}
