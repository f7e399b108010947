"""What the placement tests share: the published boards, where they are stored, and small hand-made ones."""

import dataclasses

import numpy as np
import pytest

from jaxvrp.envs.pcb.problem.board import make_board

SIMPLE = {
    "outline": [20, 15],
    "size": [[6, 4], [2, 1], [3, 1.5]],
    "pin_component": [0, 0, 1, 1, 2, 2],
    "pin_offset": [[-2.5, 1], [2.5, 1], [-0.5, 0], [0.5, 0], [-1, 0], [1, 0]],
    "pin_net": [0, 1, 0, 2, 1, 2],
    "power_rail": [1, 0, 2],
    "position": [[10, 7], [3, 4], [15, 12]],
    "orientation": [0, 1, 3],
    "fixed": [True, False, False],
}


@pytest.fixture(scope="session")
def data_folder(published_folder):
    """The folder with the published boards."""
    return published_folder("pcb/rl_pcb", "pcb/cypress") / "pcb"


@pytest.fixture(scope="session")
def make():
    """`make(**changes)`: a board of an IC and two parts on three nets (ground, signal, supply)."""
    return lambda **changes: make_board(**SIMPLE | changes)


@pytest.fixture(scope="session")
def signal_hpwl():
    """`signal_hpwl(board, position, orientation)`: total half perimeter of the signal nets, mm, in plain NumPy."""

    def total(board, position, orientation, power_too=False):
        turned = np.array([[[1, 0], [0, 1]], [[0, 1], [-1, 0]], [[-1, 0], [0, -1]], [[0, -1], [1, 0]]])
        part = board.pin_component
        pads = position[part] + np.einsum("pij,pj->pi", turned[orientation[part]], board.pin_offset)
        nets = [net for net, rail in enumerate(board.power_rail) if power_too or rail == 0]
        return sum(np.ptp(pads[board.pin_net == net], axis=0).sum() for net in nets)

    return total


@pytest.fixture
def assert_same_file(assert_same):
    """`assert_same_file(file, other)`: the same boards, to the last bit, and the same names."""

    def compare(file, other):
        assert (file.filename, file.timestamp) == (other.filename, other.timestamp)
        for first, second in zip(file.boards, other.boards, strict=True):
            assert_same(first.board, second.board)
            assert dataclasses.replace(first, board=None) == dataclasses.replace(second, board=None)

    return compare


@pytest.fixture(scope="session")
def boxes():
    """`boxes(collection)`: `[N, 4]` of what a collection of rectangles draws."""

    def corners(collection):
        drawn = np.array([path.vertices[:4] for path in collection.get_paths()]).reshape(-1, 4, 2)
        return np.concatenate([drawn.min(axis=1), drawn.max(axis=1)], axis=1)

    return corners


@pytest.fixture(scope="session")
def shown():
    """`shown(axes)`: what is drawn of a board, by name."""
    names = ("parts", "fixed", "notches", "faults", "wires", "pads")

    def by_name(axes):
        in_order = sorted(axes.collections, key=lambda collection: collection.get_zorder())
        return dict(zip(names, in_order, strict=True))

    return by_name
