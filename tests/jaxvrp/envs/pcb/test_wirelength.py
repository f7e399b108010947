"""Wirelengths and nearest pads against plain Python, and cases that can be worked out by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp.envs.pcb import wirelength

NUM_PARTS, NUM_NETS, NUM_PADS = 5, 4, 20


def random_pads(seed, count=NUM_PADS):
    """Positions, part, net and signal of pads; some nets touch one part only or have no signal pad at all."""
    rng = np.random.default_rng(seed)
    pads = rng.uniform(0, 20, (count, 2)).astype(np.float32)
    component, net = rng.integers(0, NUM_PARTS, count), rng.integers(0, NUM_NETS, count)
    return pads, component.astype(np.int32), net.astype(np.int32), (net != 3) & (rng.random(count) < 0.9)


def measured(pads, component, net, signal):
    """Everything the module measures, as one dictionary; with pads that do not count behind, up to `NUM_PADS`."""
    of_pads = [np.asarray(v) for v in (pads, component, net, signal)]
    void = NUM_PADS - len(of_pads[0])
    return measure(*(np.concatenate([v, np.zeros((void, *v.shape[1:]), v.dtype)]) for v in of_pads))


@jax.jit
def measure(pads, component, net, signal):
    part_pads = wirelength.part_pads(component, signal, NUM_PARTS, NUM_PADS)
    groups = wirelength.pad_groups(component, net, signal, NUM_PADS)
    nets = wirelength.part_nets(component, net, signal, NUM_PARTS, NUM_NETS)
    pads = wirelength.Pads(pads, component, net, signal)
    hpwl = wirelength.net_hpwl(pads, NUM_NETS)
    return {
        "wirelength": wirelength.part_wirelengths(pads, NUM_PARTS),
        "wirelength_by_part": jax.vmap(lambda of: wirelength.pad_wirelengths(pads, pads.at(of)).sum())(part_pads),
        "net_hpwl": hpwl,
        "hpwl": wirelength.part_hpwl(hpwl, nets),
        "contact": jax.vmap(lambda of: wirelength.mean_contact(pads, pads.at(of), groups))(part_pads),
        "neighbours": wirelength.shared_nets(nets),
    }


def brute_force(pads, component, net, signal):
    """The same, pad by pad in plain Python."""
    at = [tuple(map(float, pad)) for pad in pads]
    counted = [p for p in range(len(at)) if signal[p]]
    found = {
        "wirelength": np.zeros(NUM_PARTS),
        "net_hpwl": np.zeros(NUM_NETS),
        "hpwl": np.zeros(NUM_PARTS),
        "contact": np.zeros((NUM_PARTS, 2)),
        "neighbours": np.zeros((NUM_PARTS, NUM_PARTS), bool),
    }
    for k in range(NUM_NETS):
        here = [at[p] for p in counted if net[p] == k]
        if here:
            x, y = zip(*here, strict=True)
            found["net_hpwl"][k] = max(x) - min(x) + max(y) - min(y)
    for i in range(NUM_PARTS):
        pads_of_part = [p for p in counted if component[p] == i]
        found["hpwl"][i] = sum(found["net_hpwl"][k] for k in {net[p] for p in pads_of_part})
        vectors = []
        for p in pads_of_part:
            wired = [r for r in counted if net[r] == net[p] and component[r] != i]
            found["wirelength"][i] += min((math.dist(at[p], at[r]) for r in wired), default=0.0)
            for other in {component[r] for r in wired}:
                found["neighbours"][i, other] = True
                near = min((r for r in wired if component[r] == other), key=lambda r: math.dist(at[p], at[r]))
                vectors.append((at[near][0] - at[p][0], at[near][1] - at[p][1]))
        if vectors:
            found["contact"][i] = np.mean(vectors, axis=0)
    found["wirelength_by_part"] = found["wirelength"]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_all_measures_are_those_of_plain_python(seed):
    of_pads = random_pads(seed)
    found, exact = measured(*of_pads), brute_force(*of_pads)
    assert exact["wirelength"].max() > 0
    for name, value in exact.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_of_half_perimeters_are_one_to_the_last_bit(seed):
    pads, _, net, signal = random_pads(seed)
    net = np.where(signal, net, NUM_NETS)
    forms = (wirelength._hpwl_by_segments, wirelength._hpwl_compared)
    by_segments, compared = (form(jnp.asarray(pads), jnp.asarray(net), NUM_NETS) for form in forms)
    assert by_segments.max() > 0
    np.testing.assert_array_equal(by_segments, compared)


def test_two_parts_by_hand():
    """Net 0 joins parts 0 and 1; net 1 has two pads of part 0 only; the pad on net 2 is alone; net 3 is power."""
    pads = np.array([(0, 0), (3, 4), (9, 12), (1, 1), (2, 5), (7, 7), (0, 1), (0, 2)], np.float32)
    component, net = np.array([0, 1, 1, 0, 0, 1, 0, 1]), np.array([0, 0, 0, 1, 1, 2, 3, 3])
    found = measured(pads, component, net, net != 3)
    np.testing.assert_allclose(found["wirelength"][:2], (5, 5 + 15), rtol=1e-6)
    np.testing.assert_allclose(found["net_hpwl"], (21, 5, 0, 0), rtol=1e-6)
    np.testing.assert_allclose(found["hpwl"][:2], (26, 21), rtol=1e-6)
    np.testing.assert_allclose(found["contact"][:2], [(3, 4), (-6, -8)], rtol=1e-6)
    assert found["neighbours"].sum() == 2


def test_of_equally_near_pads_the_first_counts():
    pads = np.array([(5, 5), (6, 5), (4, 5), (5, 6)], np.float32)
    found = measured(pads, np.array([0, 1, 1, 1]), np.zeros(4, int), np.ones(4, bool))
    np.testing.assert_array_equal(found["contact"][0], (1, 0))


@pytest.mark.parametrize("quarters", range(4))
def test_turning_or_moving_the_board_changes_no_length(quarters):
    pads, *rest = random_pads(1)
    turned = np.stack([pads[:, 0], pads[:, 1]], axis=1)
    for _ in range(quarters):
        turned = np.stack([turned[:, 1], -turned[:, 0]], axis=1)
    before, after = measured(pads, *rest), measured(turned + np.float32(7), *rest)
    for name in ("wirelength", "net_hpwl", "hpwl"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5)


def test_padding_changes_nothing():
    """Padding may name any part and net, or -1 for none."""
    of_pads = random_pads(2, 12)
    before = jax.jit(measure)(*of_pads)
    padding = (np.full((8, 2), 1e6, np.float32), np.arange(8) % 6 - 1, np.arange(8) % 5 - 1, np.zeros(8, bool))
    after = measured(*(np.concatenate(both) for both in zip(of_pads, padding, strict=True)))
    assert before["wirelength"].max() > 0
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-6, err_msg=name)


def test_tables_of_just_the_width_that_is_needed_say_the_same():
    pads, component, net, signal = random_pads(4)
    most_pads, most_on_net = wirelength.table_widths(component, net, signal)
    counts = np.bincount(component[signal])
    assert most_pads == counts.max() < NUM_PADS
    part_pads = wirelength.part_pads(component, signal, NUM_PARTS, most_pads)
    groups = np.asarray(wirelength.pad_groups(component, net, signal, most_on_net))
    np.testing.assert_array_equal((part_pads >= 0).sum(axis=1), np.bincount(component[signal], minlength=NUM_PARTS))
    assert sorted(groups[groups >= 0].tolist()) == np.flatnonzero(signal).tolist()
    assert most_on_net == (groups >= 0).sum(axis=1).max() < most_pads
    wide = measured(pads, component, net, signal)["contact"]
    pads = wirelength.Pads(*map(jnp.asarray, (pads, component, net, signal)))
    contacts = jax.jit(jax.vmap(lambda of: wirelength.mean_contact(pads, pads.at(of), groups)))
    np.testing.assert_allclose(contacts(part_pads), wide, rtol=1e-6, atol=1e-6)


def test_the_widths_of_a_batch_are_the_most_of_any_board():
    boards = [random_pads(seed) for seed in range(5)]
    each = [wirelength.table_widths(*board[1:]) for board in boards]
    together = wirelength.table_widths(*(np.stack(v) for v in list(zip(*boards, strict=True))[1:]))
    assert together == tuple(np.max(each, axis=0))
    assert wirelength.table_widths(np.zeros(3, int), np.zeros(3, int), np.zeros(3, bool)) == (1, 1)


def test_a_batch_of_boards_is_the_boards_one_by_one():
    boards = [random_pads(seed) for seed in range(3)]
    batched = jax.jit(jax.vmap(measure))(*(np.stack(v) for v in zip(*boards, strict=True)))
    for index, board in enumerate(boards):
        for name, value in measured(*board).items():
            np.testing.assert_allclose(batched[name][index], value, rtol=1e-6, atol=1e-6)


coordinate = st.sampled_from([0.0, 5.0, 1e4, -1e4]) | st.floats(-30, 30, width=32)
pad = st.tuples(coordinate, coordinate, st.integers(-1, NUM_PARTS), st.integers(-1, NUM_NETS), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(pad, min_size=NUM_PADS, max_size=NUM_PADS))
def test_whatever_the_pads_every_number_is_finite(rows):
    x, y, component, net, signal = (np.array(column) for column in zip(*rows, strict=True))
    exists = signal & (component >= 0) & (component < NUM_PARTS) & (net >= 0) & (net < NUM_NETS)
    pads = np.stack([x, y], axis=1).astype(np.float32)
    found = {name: np.asarray(value) for name, value in measured(pads, component, net, exists).items()}
    assert all(np.isfinite(value).all() for value in found.values())
    for name in ("wirelength", "net_hpwl", "hpwl"):
        assert (found[name] >= 0).all()
    # A pad's nearest is no farther than the half perimeter of their net, in each of the part's pads.
    pads_of_part = np.bincount(component[exists], minlength=NUM_PARTS)
    assert (found["wirelength"] <= (found["hpwl"] * pads_of_part) * (1 + 1e-5) + 1e-3).all()
