"""The JAX environment against the plain NumPy reference, which was written from the specification alone.

JAX plays, the reference replays; after every step all of state, turns, timestep and metrics must agree.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.pcb import NumpyPCB, Turns
from jaxvrp.envs.pcb import Board, generate, make_board, make_parameters, stack
from jaxvrp.envs.pcb.problem.board import as_float32
from jaxvrp.turns import play as play_step

# Boards, steps, parameters; one program each.
CASES = {
    "one after the other": (16, 28, {"mode": "sequential", "boundary": "terminate", "step_fraction": 0.1, "rays": 4}),
    "all at once": (12, 28, {"mode": "simultaneous", "rotation": "hold", "hpwl_weight": 1.5}),
}
PARTS = make_parameters(min_parts=2, max_parts=6)
STATE = ("position", "orientation", "time", "wirelength", "hpwl", "blocked", "board_hpwl", "overlap", "invalid_actions")
# Float32 places of up to 30 mm, summed up over 28 steps; every length and share is continuous in them. A reward is not
# better known than its c, 5e-5, times a slope of up to 266.
ABSOLUTE, REWARD = {"rtol": 0, "atol": 1e-4}, {"rtol": 1e-3, "atol": 2e-4}


def odd_board(rng: np.random.Generator, components: int = 7, pins: int = 16, nets: int = 6) -> Board:
    """Both sides, several fixed parts, test points, pads beside their parts, lonely and unconnected pins, all kinds of
    targets; of random size up to the given one.
    """
    components = int(rng.integers(2, components + 1))
    pins = int(rng.integers(4, pins + 1))
    fixed = rng.random(components) < 0.3
    fixed[rng.integers(components)] = False
    outline, size = rng.uniform(14, 30, 2), rng.uniform(0.8, 7, (components, 2))
    size[rng.random((components, 2)) < 0.04] = 0
    part = rng.integers(0, components, pins)
    targets = rng.uniform(0, 40, (2, components))
    targets[rng.random((2, components)) < 0.4] = np.inf
    return make_board(
        outline,
        size,
        part,
        (rng.random((pins, 2)) - 0.5) * (size[part] + 0.4),
        rng.integers(-1, nets, pins),
        rng.choice([0, 0, 0, 1, 2], nets),
        position=rng.uniform(-0.02, 1.02, (components, 2)) * outline,
        orientation=rng.integers(0, 4, components),
        fixed=fixed,
        side=rng.integers(0, 2, components),
        target_wirelength=targets[0],
        target_hpwl=targets[1],
    )


@functools.cache
def generated_boards() -> list[Board]:
    keys = jax.random.split(jax.random.key(0), 12)
    drawn = jax.device_get(jax.jit(jax.vmap(lambda key: generate(key, PARTS)))(keys))
    return [at(drawn, row) for row in range(len(keys))]


def mixed_boards(seed: int, count: int) -> Board:
    """A batch of odd boards and of generated ones, padded to one size, in float32."""
    rng = np.random.default_rng(seed)
    return as_float32(stack([*generated_boards()[: count // 2], *(odd_board(rng) for _ in range(count - count // 2))]))


def random_actions(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """`f32[..., 3]` with one in twenty outside the box, at its corners, or not finite."""
    rng = np.random.default_rng(seed)
    action = rng.uniform(-1, 1, (*shape, 3))
    odd = rng.choice([-1.0, 1.0, -1.5, 3.0, np.nan, np.inf, -np.inf], (*shape, 3))
    return np.where(rng.random((*shape, 3)) < 0.05, odd, action).astype(np.float32)


@jax.jit
def begin(env: jaxvrp.Environment, boards: Board, keys: jax.Array) -> Any:
    """States `[E]` with the parts where the boards have them."""
    return jax.vmap(lambda board, key: env.init_state(env.place(board, board.position, board.orientation, key)))(
        boards, keys
    )


@jax.jit
def step(env: jaxvrp.Environment, state: Any, action: jax.Array) -> Any:
    """State, timestep, turns and order of one step of a batch."""

    def advance(state: Any, action: jax.Array) -> Any:
        order = env.order(state)
        return *play_step(env, state, lambda _, agents: {"component": action[agents["component"]]}), order

    return jax.vmap(advance)(state, action)


def play(env: jaxvrp.Environment, boards: Board, actions: np.ndarray, seed: int) -> Any:
    """State, timestep, turns and order of every step, `[T, E, ...]`."""
    state, played = begin(env, boards, jax.random.split(jax.random.key(seed), actions.shape[1])), []
    for action in actions:
        # A scan over the steps would take longer to compile than they take.
        state, *rest = step(env, state, action)
        played.append(jax.device_get((state.replace(instance=state.instance.targets), *rest)))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *played)


def flat(observation: np.ndarray) -> np.ndarray:
    """Vectors by x and y instead of an angle, which may jump between -1 and 1 and means nothing at length 0."""
    flat = np.array(observation, np.float64)
    for at in (16, 18):
        length, angle = flat[..., at].copy(), np.pi * flat[..., at + 1]
        flat[..., at], flat[..., at + 1] = length * np.cos(angle), length * np.sin(angle)
    return flat


def observed(state: Any, timestep: Any, turns: Any) -> dict[str, np.ndarray]:
    """What is compared of the environment, `[T, E, ...]`."""
    finished = np.concatenate([np.zeros_like(timestep.done[:1]), timestep.done[:-1]])
    valid = turns.valid["component"] & ~finished[..., None]
    shown = {name: getattr(state, name) for name in STATE} | {"undone_moves": state.undone}
    shown |= {name: getattr(timestep, name) for name in ("terminated", "truncated")}
    shown |= {"reward": timestep.reward["component"], "observation": flat(timestep.observation["component"])}
    shown |= {"best_hpwl": state.best.hpwl, "turns/valid": valid}
    shown |= {f"turns/{name}": getattr(turns, name)["component"] * valid for name in ("reward", "terminated")}
    for name in ("observation", "next_observation"):
        shown[f"turns/{name}"] = flat(getattr(turns, name)["component"]) * valid[..., None]
    for name in ("wirelength", "hpwl"):
        target, lowest = getattr(state.instance, name), getattr(state.lowest, name)
        shown |= {f"target_{name}": target, f"improved_{name}": np.minimum(target, lowest)}
    return shown | {f"metrics/{name}": value for name, value in timestep.metrics.items()}


def expected(reference: NumpyPCB, turns: Turns, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Copies of the same of the reference, after one step."""
    metrics, shown = reference.metrics(), {"reward": turns.reward, "observation": flat(reference.observation())}
    for name in names:
        kind, _, inner = name.rpartition("/")
        if kind == "metrics":
            shown[name] = metrics[inner]
        elif kind == "turns":
            row = getattr(turns, inner)
            shown[name] = flat(row) if row.ndim == 2 else row
        elif name not in shown:
            shown[name] = getattr(reference, name)
    return {name: np.array(value) for name, value in shown.items()}


def replay(reference: NumpyPCB, board: Board, actions: np.ndarray, orders: np.ndarray, names: Iterable[str]) -> dict:
    """What the reference shows after each of T steps, `{name: [T, ...]}`."""
    reference.reset(board.position, board.orientation)
    steps = [expected(reference, reference.step(*step), names) for step in zip(actions, orders, strict=True)]
    return {name: np.stack([step[name] for step in steps]) for name in names}


@functools.cache
def made(name: str) -> tuple[jaxvrp.Environment, Board]:
    """The environment of a case, and its boards `[E]`."""
    count, steps, parameters = CASES[name]
    boards = mixed_boards(len(name), count)
    return jaxvrp.make("pcb", boards=jax.device_get(boards), max_steps=steps - 3, **parameters), boards


def case(name: str) -> tuple[jaxvrp.Environment, Board, np.ndarray, list[NumpyPCB]]:
    """Environment, boards `[E]`, actions `[T, E, A, 3]`, and a reference for each board."""
    (env, boards), (count, steps, parameters) = made(name), CASES[name]
    agents, parameters = env.sizes.agents, {**parameters, "max_steps": steps - 3}
    references = [NumpyPCB(at(boards, row), num_agents=agents, **parameters) for row in range(count)]
    return env, boards, random_actions(len(name), (steps, count, agents)), references


def at(boards: Board, row: int) -> Board:
    """One of a batch, as NumPy arrays."""
    return jax.tree.map(lambda leaf: np.asarray(leaf[row]), boards)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow("all at once")
def test_every_step_agrees_with_the_reference(name: str) -> None:
    env, boards, actions, references = case(name)
    state, timestep, turns, orders = play(env, boards, actions, seed=len(name))
    got = observed(state, timestep, turns)
    for row, reference in enumerate(references):
        wanted = replay(reference, at(boards, row), actions[:, row], orders[:, row], got)
        for field, values in wanted.items():
            tolerance = REWARD if "reward" in field else ABSOLUTE
            np.testing.assert_allclose(got[field][:, row], values, **tolerance, err_msg=f"{field} of board {row}")
        there_are = np.arange(env.sizes.agents) < len(reference.placement.agents)
        assert (timestep.valid["component"][:, row] == there_are).all()
        assert_best(reference, jax.tree.map(lambda leaf, row=row: leaf[-1, row], state.best))
    assert timestep.done[-1].all()
    assert timestep.terminated[-1].any() == (env.boundary == "terminate")
    assert 0 < timestep.metrics["became_legal"][-1].sum() < len(references)


@pytest.mark.slow("all at once")
@pytest.mark.parametrize("name", CASES)
def test_moves_that_lead_nowhere_are_undone_and_counted(name: str) -> None:
    env, boards, actions, references = case(name)
    # Kept on the board, a part may be sent to its edge, but not 0 times infinity away.
    actions[0, :, 0, 0] = -1
    # `env.replace` would refuse it.
    endless = dataclasses.replace(env, step_fraction=jnp.asarray(np.inf))
    state, timestep, _, orders = play(endless, boards, actions[:1], seed=0)
    for row, reference in enumerate(references):
        reference.step_length = np.inf
        reference.reset(boards.position[row], boards.orientation[row])
        reference.step(actions[0, row], orders[0, row])
        np.testing.assert_allclose(state.position[0, row], reference.position, rtol=1e-6)
        np.testing.assert_array_equal(state.orientation[0, row], reference.orientation)
        np.testing.assert_array_equal(state.undone[0, row], reference.undone_moves)
        assert timestep.metrics["invalid_actions"][0, row] == reference.invalid_actions
    assert state.undone.any()


def assert_best(reference: NumpyPCB, best: Any) -> None:
    """The best placement is legal and as good as it says; which of equally good ones it is, rounding decides."""
    assert np.isfinite(best.hpwl) == np.isfinite(reference.best_hpwl)
    if np.isfinite(best.hpwl):
        reference.reset(best.position, best.orientation)
        assert reference.board_hpwl == pytest.approx(best.hpwl, abs=1e-4)
        assert (reference.overlap < 2e-5).all()
