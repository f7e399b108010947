"""Pictures are written whole or not at all, show something that moves, and tell truly who served whom."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from jaxvrp.actor import sample_masked
from jaxvrp.environment import select
from jaxvrp.envs.truck_drone import make, played
from jaxvrp.envs.truck_drone.pictures import render_episode, route_map, still
from jaxvrp.envs.truck_drone.played import WAITING
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD, RETURNING, Drones, Instance, initial_world

EPISODES, STEPS = 16, 40
PARAMETERS = {
    "num_drones": 4,
    "num_customers": 3,
    "num_route_nodes": 4,
    "max_steps": STEPS,
    "delivery_threshold": 0.3,
    "truck_speed": 0.2,
}


@pytest.fixture(scope="module")
def env():
    return make(**PARAMETERS)


@pytest.fixture(scope="module")
def recorded(env):
    """Random episodes: states `[EPISODES, STEPS + 1]`, and the drones' legal actions `[EPISODES, STEPS, D]`."""

    # The rules alone: observations and rewards would double the time to compile.
    def step(state, uniform):
        action = {role: sample_masked(uniform[: len(mask)], mask) for role, mask in env.action_mask(state).items()}
        return select(env.is_terminal(state), state, env.transition(state, action, jnp.int32(0))), action["drone"]

    def body(states, uniform):
        after, actions = jax.vmap(step)(states, uniform)
        return after, (states, actions)

    @jax.jit
    def play(key):
        first = jax.vmap(lambda key: env.init_state(env.generate(key)))(jax.random.split(key, EPISODES))
        uniform = jax.random.uniform(key, (STEPS, EPISODES, env.num_drones))
        last, (states, actions) = jax.lax.scan(body, first, uniform)
        states = jax.tree.map(lambda before, end: jnp.concatenate([before, end[None]]), states, last)
        return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (states, actions))

    return jax.tree.map(np.asarray, play(jax.random.key(1)))


@pytest.fixture(scope="module")
def states(recorded):
    """One episode in which somebody is served."""
    served = recorded[0].customers.served[:, -1].sum(axis=1)
    return _pick(recorded[0], served.argmax())


def _pick(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _rules(is_terminal=lambda state: jnp.zeros_like(state.step, bool)):
    """What there is to know of an environment; its episodes go on for ever by default."""
    return SimpleNamespace(delivery_threshold=0.05, is_terminal=is_terminal, is_truncated=is_terminal)


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_animation_moves(env, states, tmp_path):
    path = tmp_path / "episode.gif"
    render_episode(env, states, path)
    with Image.open(path) as picture:
        frames = [np.asarray((picture.seek(index), picture.convert("RGB"))[1]) for index in range(picture.n_frames)]
    length = played.from_states(env, states).length
    assert 1 < len(frames) <= length
    assert frames[0].shape[0] > 400 and 700 <= frames[0].shape[1] <= 900
    assert (frames[0] != frames[-1]).any(axis=2).mean() > 0.005
    assert {tuple(colour) for colour in frames[0][::7, ::7].reshape(-1, 3)} > {(255, 255, 255)}
    assert path.stat().st_size < 3_000_000


@pytest.mark.parametrize(("suffix", "head"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%PDF")])
def test_still(env, states, tmp_path, suffix, head):
    path = tmp_path / f"episode.{suffix}"
    path.write_text("an older picture")
    render_episode(env, states, str(path))
    assert path.read_bytes().startswith(head) and path.stat().st_size > 10_000
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.slow
def test_many_of_everything_and_a_single_state(tmp_path):
    env = make(num_drones=20, num_customers=30, num_route_nodes=1)
    state = jax.jit(lambda key: env.init_state(env.generate(key)))(jax.random.key(0))
    for suffix in ("gif", "png"):
        render_episode(env, jax.tree.map(lambda leaf: leaf[None], state), tmp_path / f"start.{suffix}")
        assert (tmp_path / f"start.{suffix}").stat().st_size > 10_000


def test_a_window_is_drawn_as_a_deadline(env, states):
    """Its start does not bound a delivery, so that one before it must not look as if it came too early."""
    assert (states.instance.window_start[0] > 0).any()
    figure = still.draw_episode(env, states)
    axes = next(axes for axes in figure.axes if "deadlines" in axes.get_title(loc="left"))
    bars = axes.containers[0].patches
    assert {bar.get_x() for bar in bars} == {0}
    assert sorted(bar.get_width() for bar in bars) == sorted(states.instance.window_end[0])


@pytest.mark.parametrize("name", ["episode.mp4", "episode"])
def test_unknown_suffix(env, states, tmp_path, name):
    with pytest.raises(ValueError, match=rf"'{name}': use \.gif \(animation\), \.png, \.svg or \.pdf \(still\)$"):
        render_episode(env, states, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_states_of_several_episodes(env, recorded, tmp_path):
    with pytest.raises(ValueError, match=rf"shape \({EPISODES}, {STEPS + 1}\); it needs \[T\+1\]"):
        render_episode(env, recorded[0], tmp_path / "episode.png")


@pytest.mark.slow("episode.gif")
@pytest.mark.parametrize("name", ["episode.gif", "episode.png"])
def test_no_half_file(env, states, tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_text("an older picture")

    def fail(self, path, *args, **kwargs):
        with open(path, "wb") as file:
            file.write(b"half")
        raise RuntimeError("disk full")

    monkeypatch.setattr("PIL.Image.Image.save" if name.endswith("gif") else "matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        render_episode(env, states, path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert path.read_text() == "an older picture"


# --- what an episode tells ------------------------------------------------------------------------------------------


def _world(num_drones, num_customers=1):
    """A world at step 0 with customers in a row to the right of the truck; windows end at step 3."""
    count = (num_customers,)
    customers = np.stack([0.5 + 0.2 * np.arange(num_customers), np.zeros(num_customers)], axis=1)
    instance = Instance(
        truck_position=np.zeros(2, np.float32),
        node_position=np.zeros((1, 2), np.float32),
        customer_position=customers.astype(np.float32),
        demand=np.ones(count, np.float32),
        window_start=np.zeros(count, np.int32),
        window_end=np.full(count, 3, np.int32),
    )
    return jax.tree.map(np.array, initial_world(instance, num_drones, 1.0))


def _served_states(before, after, steps=1):
    """Two states: customer 0 is served between them, with fields of the drones as given."""
    first, second = _world(len(after["status"])), _world(len(after["status"]))
    first = first.replace(drones=first.drones.replace(**_arrays(first.drones, before)))
    second = second.replace(
        drones=second.drones.replace(**_arrays(second.drones, after)),
        customers=second.customers.replace(
            served=np.array([True]), just_served=np.array([True]), arrival_step=np.array([steps])
        ),
        step=np.int32(steps),
    )
    first = first.replace(step=np.int32(steps - 1))
    return jax.tree.map(lambda *leaves: np.stack(leaves), first, second)


def _arrays(drones: Drones, fields):
    return {name: np.asarray(value, getattr(drones, name).dtype) for name, value in fields.items()}


def test_the_one_that_carried_the_parcel_served():
    # Drone 0 is nearer but on its way home; drone 1 hovers at the customer, drone 2 has just delivered.
    after = {
        "position": [[0.5, 0.0], [0.5, 0.01], [0.5, 0.04]],
        "status": [RETURNING, FLYING, FLYING],
        "velocity": [[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]],
        "battery_used": [0.1, 0.001, 0.1],
        "has_target": [True, False, False],
    }
    episode = played.from_states(_rules(), _served_states({"carrying": [-1, 0, 0]}, after))
    assert episode.server.tolist() == [2] and episode.served_at.tolist() == [1] and episode.steps_late.tolist() == [0]


def test_of_two_at_once_the_one_without_a_target_served():
    # The rules give a tie to the lower index; the other one keeps its target, even where it is nearer.
    after = {"position": [[0.5, 0.03], [0.5, 0.0]], "status": [FLYING, FLYING], "has_target": [False, True]}
    states = _served_states({"carrying": [0, 0]}, after, steps=8)
    episode = played.from_states(_rules(), states)
    assert episode.server.tolist() == [0] and episode.steps_late.tolist() == [5]


def test_under_foreign_rules_the_nearest_served():
    after = {"position": [[-0.5, 0.0], [0.4, 0.0]], "status": [FLYING, RETURNING]}
    assert played.from_states(_rules(), _served_states({}, after)).server.tolist() == [1]


def test_servers_of_random_episodes(env, recorded):
    """Against the rule itself, with the actions that were played."""
    everything, actions = recorded
    deliveries = 0
    for index in range(EPISODES):
        states, action = _pick(everything, index), actions[index]
        episode = played.from_states(env, states)
        for customer, at in enumerate(episode.served_at):
            expected = played.NOBODY if at < 0 else _server(states, action[at - 1], customer, at)
            assert episode.server[customer] == expected
            deliveries += at >= 0
        assert (episode.served_at >= 0).tolist() == states.customers.served[-1].tolist()
    assert deliveries > 10


def _server(states, action, customer, at):
    drones, carried = _pick(states.drones, at), states.drones.carrying[at - 1]
    gap = np.linalg.norm(drones.position - states.instance.customer_position[at, customer], axis=1)
    # A drone that the battery guard sent home has status RETURNING.
    serves = (action == 2 + customer) & (drones.status == FLYING) & np.isin(carried, (-1, customer)) & (gap < 0.3)
    return serves.argmax() if serves.any() else "nobody"


def test_cut_at_the_end_or_where_the_step_stands_still_or_falls_back():
    def length(steps, is_terminal=lambda state: state.step < 0):
        worlds = [_world(1).replace(step=np.int32(step)) for step in steps]
        states = jax.tree.map(lambda *leaves: np.stack(leaves), *worlds)
        return played.from_states(_rules(is_terminal), states).length

    assert length([0, 1, 2]) == 3
    assert length([0, 1, 2, 2, 2]) == 3
    assert length([0, 1, 2, 0, 1]) == 3
    assert length([0, 1, 2, 3], lambda state: state.step >= 1) == 2


def test_runs_and_flights():
    assert played.runs(np.array([0, 0, 1, 3, 3])) == [(0, 2, 0), (2, 3, 1), (3, 5, 3)]
    status = [ONBOARD, ONBOARD, FLYING, ONBOARD, ONBOARD, ONBOARD]
    worlds = [_world(1).replace(step=np.int32(step)) for step in range(len(status))]
    worlds = [
        world.replace(drones=world.drones.replace(status=np.array([s])))
        for world, s in zip(worlds, status, strict=True)
    ]
    episode = played.from_states(_rules(), jax.tree.map(lambda *leaves: np.stack(leaves), *worlds))
    assert np.isnan(played.flight_path(episode, 0)[:, 0]).tolist() == [True, False, False, False, True, True]
    assert episode.activities(0) == [(0, 1, ONBOARD), (1, 2, FLYING), (2, 5, ONBOARD)]


def test_drones_differ():
    styles = [tuple(route_map.drone_style(drone).values()) for drone in range(24)]
    assert len(set(styles)) == 24
    assert route_map.STATUS_WORDS.keys() == route_map.SHADES.keys() == {ONBOARD, FLYING, WAITING, RETURNING, CRASHED}
