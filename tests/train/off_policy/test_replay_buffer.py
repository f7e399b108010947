"""The replay buffer: rings that overwrite the oldest, rows that are left out, samples that are uniform."""

import collections

import jax
import numpy as np
import pytest

from train.off_policy.replay_buffer import Decisions, ReplayBuffer

ENVS, CAPACITY, WIDTH = 3, 7, 2


@pytest.fixture(scope="module")
def add():
    return jax.jit(lambda buffer, rows, keep: buffer.add(rows, keep))


def contents(buffer):
    """What every ring holds, the oldest first."""
    rows, position, size = (np.asarray(x) for x in (buffer.rows, buffer.position, buffer.size))
    rings = rows.reshape(len(position), CAPACITY, -1)
    oldest = (position - size) % CAPACITY
    return [[tuple(ring[(oldest[e] + i) % CAPACITY]) for i in range(size[e])] for e, ring in enumerate(rings)]


@pytest.mark.parametrize("seed", range(3))
def test_it_holds_the_latest_rows_that_were_kept(seed, add):
    rng = np.random.default_rng(seed)
    buffer, number = ReplayBuffer.create(ENVS, CAPACITY, WIDTH), 1.0
    expected = [collections.deque(maxlen=CAPACITY) for _ in range(ENVS)]
    share = np.array([0.1, 0.5, 1.0])
    for _ in range(9):
        rows = number + np.arange(ENVS * 5 * WIDTH, dtype=np.float32).reshape(ENVS, 5, WIDTH)
        number += rows.size
        keep = rng.random((ENVS, 5)) < share[:, None]
        buffer = add(buffer, rows, keep)
        for e in range(ENVS):
            expected[e].extend(tuple(row) for row in rows[e][keep[e]])
        assert contents(buffer) == [list(ring) for ring in expected]
        np.testing.assert_array_equal(buffer.size, [len(ring) for ring in expected])
    assert buffer.size.max() == CAPACITY > buffer.size.min()


def test_as_many_rows_as_it_holds(add):
    buffer = ReplayBuffer.create(1, CAPACITY, 1)
    for start in (1.0, 101.0):
        rows = start + np.arange(CAPACITY, dtype=np.float32)[None, :, None]
        buffer = add(buffer, rows, np.ones((1, CAPACITY), bool))
        buffer = add(buffer, rows[:, :2] + 1000, np.array([[True, False]]))
        assert contents(buffer) == [[*((x,) for x in rows[0, 1:, 0]), (start + 1000,)]]
    with pytest.raises(AssertionError):
        add(buffer, np.zeros((1, CAPACITY + 1, 1), np.float32), np.ones((1, CAPACITY + 1), bool))


def test_samples_are_uniform_over_what_was_written(add):
    buffer = ReplayBuffer.create(ENVS, CAPACITY, WIDTH)
    rows = 1 + np.arange(ENVS * 5 * WIDTH, dtype=np.float32).reshape(ENVS, 5, WIDTH)
    keep = np.array([[0, 0, 1, 0, 0], [0] * 5, [1, 1, 0, 1, 1]], bool)
    buffer = add(buffer, rows, keep)
    count = 50_000
    drawn = np.asarray(buffer.take(buffer.sample(jax.random.key(0), (2, count // 2))))
    assert drawn.shape == (2, count // 2, WIDTH)
    found, times = np.unique(drawn.reshape(-1, WIDTH), axis=0, return_counts=True)
    np.testing.assert_array_equal(found, rows[keep])
    # Five rows; three standard deviations are 0.0054.
    np.testing.assert_allclose(times / count, 0.2, atol=0.0054)
    full = add(add(buffer, rows, np.ones_like(keep)), rows, np.ones_like(keep))
    _, times = np.unique(np.asarray(full.sample(jax.random.key(1), (count,))), return_counts=True)
    np.testing.assert_allclose(times / count, 1 / (ENVS * CAPACITY), atol=0.0029)


def test_decisions_are_packed_and_unpacked():
    rng = np.random.default_rng(0)
    shapes = {"observation": (4,), "action": (2,), "reward": (), "terminated": (), "next_observation": (4,)}
    decisions = Decisions(**{name: rng.normal(size=(3, 5, *axes)).astype(np.float32) for name, axes in shapes.items()})
    again = Decisions.unpacked(decisions.packed(), 4, 2)
    for name in shapes:
        np.testing.assert_array_equal(getattr(again, name), getattr(decisions, name))
