"""Boards: what is refused, padding, trimming and stacking, and files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.envs.pcb.problem.board import (
    SCHEMA,
    Board,
    agent_components,
    as_float32,
    check,
    load,
    make_board,
    pad,
    save,
    stack,
    trim,
)

KINDS = {float: "float64", int: "int32", bool: "bool"}


def at(batch, index):
    return jax.tree.map(lambda leaf: leaf[index], batch)


@pytest.fixture
def exact(make):
    """Numbers that use every digit."""
    rng = np.random.default_rng(0)
    return make(
        outline=20 + rng.random(2),
        size=rng.random((3, 2)),
        pin_offset=rng.normal(size=(6, 2)),
        position=10 * rng.random((3, 2)),
        side=[0, 1, 1],
        target_wirelength=[np.inf, 1 / 3, 2 / 3],
        target_hpwl=[np.inf, *rng.random(2)],
    )


def test_the_fields_are_those_of_the_layout_in_order():
    assert tuple(Board.__dataclass_fields__) == tuple(SCHEMA)


def test_defaults_and_types():
    board = make_board([20, 10], [[1, 2], [3, 4]], [0, 1], [[0, 0], [1, 1]], [0, 0], [0])
    assert {name: getattr(board, name).dtype.name for name in SCHEMA} == {n: KINDS[s.kind] for n, s in SCHEMA.items()}
    assert (board.num_components, board.num_pins, board.num_nets) == (2, 2, 1)
    assert board.position.tolist() == [[10, 5], [10, 5]]
    assert board.exists.all() and not (board.fixed.any() or board.side.any() or board.orientation.any())
    assert np.isinf([board.target_wirelength, board.target_hpwl]).all()
    assert board.movable.tolist() == [True, True]


NAN_ROW = [np.nan, 1]
REFUSED = {
    "a flat outline": ({"outline": [20, 0]}, r"outline is \[20.0, 0.0\]; give"),
    "an endless outline": ({"outline": [20, np.inf]}, r"outline is \[20.0, inf\]; give"),
    "three outlines": ({"outline": [20, 20, 20]}, r"outline has shape \(3,\); it needs \(2,\)"),
    "a negative size": ({"size": [[6, 4], [2, -1], [3, 1]]}, "size of component 1 .* 0 or more"),
    "an unknown size": ({"size": [[6, 4], [2, 1], NAN_ROW]}, "size of component 2 .* finite"),
    "an unknown place": ({"position": [[10, 7], NAN_ROW, [5, 5]]}, "position of component 1 .* give its centre"),
    "a short position": ({"position": [[1, 1]]}, r"position has shape \(1, 2\); it needs \(3, 2\)"),
    "five turns": ({"orientation": [0, 0, 5]}, "orientation of component 2 is none of"),
    "half a turn": ({"orientation": [0, 0.5, 0]}, "orientation holds a fraction; give whole"),
    "a third side": ({"side": [0, 0, 2]}, "side of component 2 is neither 0 nor 1"),
    "all fixed": ({"fixed": [1, 1, 1]}, "every component is fixed; a board needs one"),
    "a negative target": ({"target_hpwl": [1, 1, -1]}, "target_hpwl of component 2 .* give inf"),
    "no number for a target": ({"target_wirelength": [1, np.nan, 1]}, "target_wirelength of component 1 .* give inf"),
    "a pin of nothing": ({"pin_component": [0, 0, 1, 1, 2, 3]}, "pin 5: component is none"),
    "a pin of less than nothing": ({"pin_component": [0, -1, 1, 1, 2, 2]}, "pin 1: component is none"),
    "an endless offset": ({"pin_offset": [[0, 0]] * 4 + [[np.inf, 0]] * 2}, "offset of pin 4 is not finite; give"),
    "an unknown net": ({"pin_net": [0, 1, 3, 2, 1, 2]}, "pin 2: net is none .* give its index"),
    "a net below none": ({"pin_net": [0, -2, 0, 2, 1, 2]}, "pin 1: net is none"),
    "a power rail below padding": ({"power_rail": [1, 0, -2]}, "power_rail of net 2 is below -1"),
    "a pin on padding": ({"power_rail": [1, -1, 0]}, "pin 1 is on a net of padding .* give it a net"),
    "no pins": ({"pin_component": [], "pin_offset": [], "pin_net": []}, "a board without pins has no wire"),
    "no nets": ({"power_rail": []}, "a board without nets has no wire"),
    "no components": ({"size": [], "position": [], "orientation": [], "fixed": []}, "a board without components"),
    "letters": ({"size": [["a", "b"]] * 3}, "a board needs arrays of numbers"),
    "ragged": ({"size": [[1, 2], [1], [1, 2]]}, "a board needs arrays of numbers"),
    "nothing": ({"size": None}, "a board needs arrays of numbers: size holds object"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_board_is_refused_by_name_and_remedy(make, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


PADDING = {
    "movable": ({"fixed": np.array([1, 0, 0, 0], bool)}, "component 3 is padding, but not fixed"),
    "large": ({"size": np.ones((4, 2))}, "component 3 is padding, but has a size"),
    "with a pin": ({"pin_component": np.array([0, 0, 1, 1, 2, 3])}, "pin 5 belongs to a component of padding"),
}


@pytest.mark.parametrize(("changes", "message"), PADDING.values(), ids=PADDING)
def test_wrong_padding_is_refused(make, changes, message):
    with pytest.raises(ValueError, match=message):
        check(pad(make(), 4, 6, 3).replace(**changes))


def test_a_part_without_area_and_a_pin_without_net_are_legal(make):
    board = make(size=[[6, 4], [0, 0], [3, 1]], pin_net=[-1, 1, 0, 2, 1, 2])
    assert board.size[1].tolist() == [0, 0]
    assert board.signal_pin.tolist() == [False, True, False, False, True, False]


def test_padding_counts_for_nothing_and_passes_the_check(make):
    board = make()
    padded = pad(board, 5, 8, 6)
    check(padded)
    assert (padded.num_components, padded.num_pins, padded.num_nets) == (5, 8, 6)
    assert (
        padded.exists.tolist() == [True] * 3 + [False] * 2
        and padded.movable.tolist() == [False, True, True] + [False] * 2
    )
    assert padded.pin_net[6:].tolist() == [-1, -1] and padded.power_rail[3:].tolist() == [-1] * 3
    assert not padded.signal_pin[6:].any() and padded.signal_pin[:6].tolist() == board.signal_pin.tolist()
    for name, layout in SCHEMA.items():
        before, after = getattr(board, name), getattr(padded, name)
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after[: len(before)], before, err_msg=name)
        rest = after[len(before) :]
        assert (rest == layout.padding).all()


def test_padding_to_the_same_size_changes_nothing_and_to_a_smaller_is_an_error(make, assert_same):
    assert_same(pad(make(), 3, 6, 3), make())
    for sizes in ((2, 6, 3), (3, 5, 3), (3, 6, 2)):
        with pytest.raises(ValueError, match=r"3 components, 6 pins and 3 nets does not fit .* at least its sizes"):
            pad(make(), *sizes)


def test_padding_jax_arrays_of_a_batch_equals_padding_each(make, assert_same):
    single = [as_float32(make()), as_float32(make(outline=[30, 30], side=[1, 0, 1]))]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *single)
    whole, mapped = pad(batch, 4, 9, 5), jax.jit(jax.vmap(lambda board: pad(board, 4, 9, 5)))(batch)
    for index, board in enumerate(single):
        for result in (whole, mapped):
            assert_same(at(result, index), pad(board, 4, 9, 5))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(whole))


def test_trimming_takes_padding_off(make, assert_same):
    assert_same(trim(pad(make(), 6, 9, 8)), make())
    assert_same(trim(as_float32(make())), jax.tree.map(np.asarray, as_float32(make())))


def test_trimming_renumbers_what_lay_behind_padding(make, assert_same):
    board = make()
    behind = make_board(
        board.outline,
        np.insert(board.size, 1, 0, axis=0),
        [0, 0, 0, 2, 2, 3, 3],
        np.insert(board.pin_offset, 1, 0, axis=0),
        [0, -1, 2, 0, 3, 2, 3],
        [1, 0, 0, 2],
        position=np.insert(board.position, 1, 0, axis=0),
        orientation=np.insert(board.orientation, 1, 0),
        fixed=[1, 1, 0, 0],
    ).replace(exists=np.array([1, 0, 1, 1], bool), power_rail=np.array([1, -1, 0, 2], np.int32))
    check(behind)
    assert_same(trim(behind), board)


def test_stacking_pads_to_the_largest(make, assert_same):
    small = make_board([9, 9], [[1, 2], [3, 4]], [0, 1], [[0, 0], [1, 1]], [0, 0], [0])
    wide = make_board([9, 9], [[1, 2]], [0] * 7, np.zeros((7, 2)), [0, 1, 2, 3, 4, 4, -1], [0] * 5)
    batch = stack([small, make(), wide])
    assert (batch.num_components, batch.num_pins, batch.num_nets, batch.exists.shape) == (3, 7, 5, (3, 3))
    for index, board in enumerate((small, make(), wide)):
        assert_same(at(batch, index), pad(board, 3, 7, 5))
    np.testing.assert_array_equal(batch.signal_pin, [at(batch, index).signal_pin for index in range(3)])
    np.testing.assert_array_equal(as_float32(batch).signal_pin, batch.signal_pin)


def test_agents_are_the_movable_components_in_order(make):
    boards = as_float32(stack([make(), make(fixed=[0, 1, 0]), make(fixed=[1, 1, 0])]))
    component, exists = jax.jit(jax.vmap(lambda board: agent_components(board, 2)))(boards)
    assert component.tolist() == [[1, 2], [0, 2], [2, 0]] and component.dtype == jnp.int32
    assert exists.tolist() == [[True, True], [True, True], [True, False]]


def test_float32_keeps_integers_and_flags(make):
    board = as_float32(make())
    kinds = KINDS | {float: "float32"}
    assert {name: getattr(board, name).dtype.name for name in SCHEMA} == {n: kinds[s.kind] for n, s in SCHEMA.items()}
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(board))


def test_saving_and_loading_is_exact(tmp_path, exact, make, assert_same):
    for board in (exact, jax.tree.map(np.asarray, as_float32(exact)), stack([exact, make(), pad(make(), 5, 9, 4)])):
        save(tmp_path / "board.npz", board)
        assert_same(load(tmp_path / "board.npz"), board)
    assert [path.name for path in tmp_path.iterdir()] == ["board.npz"]


FOREIGN = {
    "another format": ({"format": np.array("jaxvrp-pcb-0")}, "not a board; give a file that"),
    "no format": ({"format": None}, "not a board; give a file that"),
    "a missing field": ({"side": None}, "not a board; give a file that"),
    "a surplus field": ({"speed": np.ones(3)}, "not a board; give a file that"),
    "nothing": (None, "holds nothing, not a board"),
    "objects": ({"size": np.array([None])}, "is no readable .npz file"),
    "another batch": ({"size": np.zeros((2, 3, 2))}, "size has shape .* give a file that"),
    "another length": ({"side": np.zeros(4, np.int32)}, r"side has shape \(4,\); it needs \(3,\)"),
    "another dtype": ({"pin_net": np.zeros(6)}, "pin_net has dtype float64; give a file that"),
    "another flag": ({"fixed": np.zeros(3, np.int32)}, "fixed has dtype int32; give a file that"),
    "a negative size": ({"size": -np.ones((3, 2))}, "size of component 0"),
}


@pytest.mark.parametrize(("changes", "message"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_by_name(tmp_path, make, changes, message):
    path, board = tmp_path / "foreign.npz", make()
    arrays = {name: getattr(board, name) for name in SCHEMA} | {"format": np.array("jaxvrp-pcb-1")} | (changes or {})
    np.savez(path, **{} if changes is None else {name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_a_damaged_batch_names_the_board(tmp_path, make):
    batch = stack([make(), make(), make()])
    batch.orientation[2, 1] = 7
    save(tmp_path / "batch.npz", batch)
    with pytest.raises(ValueError, match=r"batch\.npz \(board 2\): orientation of component 1"):
        load(tmp_path / "batch.npz")
