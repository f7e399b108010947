"""What the environment promises: padding, numbering and scale change nothing, and the reward is the makespan."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs.truck_and_drone.instance import as_float32, void_beyond
from jaxvrp.envs.truck_and_drone.observation import DYNAMIC
from jaxvrp.envs.truck_and_drone.operations import FIRST_SERVE, MEET
from jaxvrp.envs.tsp_drone import generate_dataset, make, make_instance, pad
from jaxvrp.episodes import record_episodes

NODES = 6
PRESENT = [feature.name for feature in DYNAMIC].index("present")


@functools.partial(jax.jit, static_argnames="env")
def play(env, instances, actions):
    """States and timesteps `[T, E, ...]`, by actions `{role: [T, E]}`."""

    def advance(state, action):
        after = jax.vmap(env.step)(state, jax.tree.map(lambda chosen: chosen[:, None], action))
        return after[0], after

    first, _ = jax.vmap(env.reset_to)(instances)
    return jax.lax.scan(advance, first, actions)[1]


@pytest.fixture(scope="module")
def env():
    return make(num_nodes=NODES)


def random_play(env, instances):
    """Random legal play: actions `{role: [T, E]}`, states and timesteps `[T, E]`, each after the action."""
    keep = lambda action, state, timestep: (action, state, timestep)  # noqa: E731
    record = jax.jit(lambda batch: record_episodes(env, RandomActor(env), batch, jax.random.key(0), keep)[1])
    actions, states, timesteps = jax.device_get(record(instances))
    return {role: chosen[..., 0] for role, chosen in actions.items()}, states, timesteps


@pytest.fixture(scope="module")
def episodes(env):
    """Instances `[E]`, and `random_play` on them."""
    instances = generate_dataset(env.replace(max_flight=120.0, launch_time=1.0, recovery_time=2.0), 0, 32)
    return instances, *random_play(env, instances)


def test_rewards_sum_to_the_makespan(env, episodes):
    instances, actions, states, timesteps = episodes
    assert states.done[-1].all() and not states.totals.invalid_actions.any()
    np.testing.assert_allclose(timesteps.reward["truck"].sum(axis=0)[:, 0], -states.clock[-1], rtol=1e-5)
    sparse, paid = play(env.replace(reward="sparse"), instances, actions)
    np.testing.assert_array_equal(sparse.clock, states.clock)
    np.testing.assert_allclose(paid.reward["drone"].sum(axis=0)[:, 0], -states.clock[-1], rtol=1e-6)
    assert ((paid.reward["drone"] != 0).sum(axis=0) == 1).all()


def test_one_of_the_two_chooses(episodes):
    _, _, states, timesteps = episodes
    mask = {role: allowed[:, :, 0] for role, allowed in timesteps.action_mask.items()}
    for role, waits in (("drone", ~states.is_drones_turn), ("truck", states.is_drones_turn)):
        assert (mask[role].sum(axis=-1)[waits] == 1).all() and mask[role][waits][:, 0].all()
        assert mask[role].any(axis=-1).all()
    assert states.totals.sorties[-1].sum() > 32, "else little was tried"


@pytest.mark.slow
def test_numbers_of_customers_mean_nothing(env, episodes):
    instances, actions, states, _ = episodes
    order = np.array([0, 3, 1, 5, 2, 4])  # node i is what node order[i] was
    number = np.argsort(order)
    renamed = instances.replace(locs=instances.locs[:, order], no_fly=instances.no_fly[:, order])
    truck = np.where(actions["truck"] == 0, 0, number[actions["truck"]])
    drone = np.where(actions["drone"] < 2, actions["drone"], 2 + number[np.maximum(actions["drone"] - 2, 0)])
    again, _ = play(env, renamed, {"drone": drone, "truck": truck})
    np.testing.assert_allclose(again.clock, states.clock, rtol=1e-5)
    np.testing.assert_array_equal(again.served[:, :, number], states.served)


def test_the_makespan_scales_with_the_map(env, episodes):
    instances, actions, states, timesteps = episodes
    larger = instances.replace(
        locs=4 * instances.locs,
        max_flight=4 * instances.max_flight,
        launch_time=4 * instances.launch_time,
        recovery_time=4 * instances.recovery_time,
    )
    again, seen = play(env, larger, actions)
    np.testing.assert_array_equal(again.clock, 4 * states.clock)
    for role in env.roles:
        np.testing.assert_allclose(seen.observation[role], timesteps.observation[role], atol=1e-5)
    np.testing.assert_allclose(seen.entities["node"], timesteps.entities["node"], atol=1e-5)


def test_padding_changes_nothing(env, episodes):
    instances, actions, states, timesteps = episodes
    large = env.replace(num_nodes=NODES + 2)
    again, seen = play(large, pad(instances, NODES + 2), actions)
    for name in ("clock", "done", "truck_node"):
        np.testing.assert_array_equal(getattr(again, name), getattr(states, name))
    np.testing.assert_array_equal(seen.action_mask["truck"][..., :NODES], timesteps.action_mask["truck"])
    assert not seen.action_mask["truck"][..., NODES:].any()
    np.testing.assert_allclose(seen.entities["node"][..., :NODES], timesteps.entities["node"], atol=1e-6)
    assert not seen.entities["node"][..., NODES:].any()
    np.testing.assert_allclose(seen.observation["drone"], timesteps.observation["drone"], atol=1e-6)


def test_with_revisits_every_node_is_shown(episodes):
    instances, _, _, timesteps = episodes
    shown = timesteps.entities["node"][:, :, PRESENT]
    np.testing.assert_array_equal(shown, np.broadcast_to(instances.exists, shown.shape))


@pytest.mark.slow
def test_without_revisits_a_node_is_shown_until_it_is_left_for_good(env):
    """By who goes where in the episode: of two agents' places, served nodes, and the way home."""
    env = env.replace(allow_revisits=False)
    actions, _, timesteps = random_play(env, generate_dataset(env, 0, 8))
    dynamic = timesteps.entities["node"]
    steps, count = actions["truck"].shape
    left = 0
    for episode in range(count):
        truck, drone, unserved, is_drones_turn = 0, None, set(range(1, NODES)), True
        for step in range(steps):
            if not unserved and drone is None and truck == 0:
                break
            flies, drives = actions["drone"][step, episode], actions["truck"][step, episode]
            if is_drones_turn and flies == MEET:
                drone = None
            elif is_drones_turn:
                drone = flies - FIRST_SERVE if flies >= FIRST_SERVE else drone
                is_drones_turn = False
            else:
                truck, is_drones_turn = drives, True
            unserved -= {truck, drone}
            expected = unserved | {0, truck} | ({drone} - {None})
            planes = dynamic[step, episode]
            assert set(np.flatnonzero(planes[PRESENT])) == expected
            assert not planes[:, planes[PRESENT] == 0].any()
            left += NODES - len(expected)
    assert left > 8 * NODES, "else nothing was left"


def test_voiding_is_padding():
    matrices = np.arange(25.0).reshape(5, 5) * (1 - np.eye(5))
    for times in ({}, {"truck_time": matrices, "drone_time": matrices}):
        whole = as_float32(make_instance(np.arange(10.0).reshape(5, 2), no_fly=[0, 1, 0, 0, 1], **times))
        kept = {name: value[:3, :3] for name, value in times.items()}
        small = as_float32(make_instance(np.arange(6.0).reshape(3, 2), no_fly=[0, 1, 0], **kept))
        jax.tree.map(np.testing.assert_array_equal, void_beyond(whole, jnp.int32(3)), pad(small, 5))


def test_matrices_of_distances_are_distances(env, episodes):
    instances, actions, states, _ = episodes
    locs = np.asarray(instances.locs, np.float64)
    between = np.linalg.norm(locs[:, :, None] - locs[:, None], axis=-1).astype(np.float32)
    limit = instances.max_flight * instances.drone_pace  # of the drone's time
    given = instances.replace(truck_time=between, drone_time=between / 2, max_flight=limit)
    again, _ = play(env, given, actions)
    np.testing.assert_allclose(again.clock, states.clock, rtol=1e-5)
    assert not again.totals.invalid_actions.any()


@pytest.mark.parametrize(
    ("allow_revisits", "turns"),
    [
        (
            True,
            [
                # (whose turn, what is allowed, what is done); the drone's: 0 ride or fly on, 1 meet, 2 + i serve i
                ("drone", {0, 3, 4}, 4),  # to 3 and on to 2: 10 + 6
                ("truck", {0, 1, 3}, 3),  # also staying: 4 + 4 is just within the limit
                ("drone", {0}, 0),  # 4 + 6 is too far to meet
                ("truck", {0, 1}, 0),  # not 2, where the drone is, nor 3
                ("drone", {1}, 1),  # the truck came back
                ("drone", {0, 3}, 0),
                ("truck", {1}, 1),
                ("drone", {0}, 0),
                ("truck", {0}, 0),
            ],
        ),
        (
            False,
            [
                ("drone", {0, 3, 4}, 4),
                ("truck", {1, 3}, 3),
                ("drone", {0}, 0),
                ("truck", {1}, 1),
                ("drone", {0, 1}, 0),  # to meet at the depot
                ("truck", {0}, 0),
                ("drone", {1}, 1),
            ],
        ),
    ],
)
def test_masks_by_hand(allow_revisits, turns):
    """Depot and customers on a line, at 0, 3, 4 and 10; a sortie may be 8 long."""
    env = make(num_nodes=4, allow_revisits=allow_revisits)
    step = jax.jit(env.step)
    state, timestep = jax.jit(env.reset_to)(make_instance([[0, 0], [3, 0], [4, 0], [10, 0]], max_flight=8))
    for role, allowed, chosen in turns:
        assert not timestep.terminated
        assert set(np.flatnonzero(timestep.action_mask[role][0]).tolist()) == allowed
        action = {other: jnp.array([chosen if other == role else 0], jnp.int32) for other in env.roles}
        state, timestep = step(state, action)
    assert timestep.terminated and timestep.metrics["invalid_actions"] == 0


def test_a_forbidden_action_is_replaced_and_counted(env, episodes):
    instances, actions, _, _ = episodes
    wrong = jax.tree.map(np.array, actions)
    # To serve the depot; a node that there is not, while the truck goes somewhere although it is not its turn.
    wrong["drone"][0, :2], wrong["truck"][0, :2] = (2, NODES + 2), (0, 3)
    states, _ = play(env, instances, wrong)
    assert states.totals.invalid_actions[0, :2].tolist() == [1, 2]
    assert not states.is_away[0, :2].any() and not states.is_drones_turn[0, :2].any()
    assert (states.truck_node[0, :2] == 0).all()


def test_an_instance_without_customers_is_over(env, episodes):
    instances, actions, _, _ = episodes
    alone = instances.replace(exists=instances.exists & (np.arange(NODES) == 0))
    states, timesteps = play(env, alone, actions)
    assert timesteps.terminated.all() and not states.clock.any() and not states.step.any()
    assert all(mask.any(axis=-1).all() for mask in timesteps.action_mask.values())


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"num_nodes": 0}, "num_nodes is 0; it must be ≥ 1"),
        ({"layout": "ring"}, "layout is 'ring'; it must be one of: corner, uniform, singlecenter, doublecenter"),
        ({"alpha": 0}, "alpha is 0.0; it must be > 0"),
        ({"reward": "late"}, "reward is 'late'; it must be one of: dense, sparse"),
        ({"speed": 2}, "unknown parameter of 'tsp_drone': 'speed'"),
    ],
)
def test_a_wrong_parameter_is_one_line(parameters, says):
    with pytest.raises(ValueError, match="(?s)" + says.split("≥")[0]):
        jaxvrp.make("tsp_drone", **parameters)


@pytest.mark.parametrize(("name", "context", "planes"), [("tsp_drone", 18, 17), ("truck_drone_tours", 22, 22)])
def test_flat_is_the_context_and_then_the_nodes(name, context, planes):
    as_entities = jaxvrp.make(name, num_nodes=NODES)
    instance = as_entities.generate(jax.random.key(0))
    state, seen = as_entities.reset_to(instance)
    _, flat = jaxvrp.make(name, num_nodes=NODES, observation="flat").reset_to(instance)
    whole = [seen.observation["truck"][0], as_entities.static_entities(state)["node"].ravel(), seen.entities["node"]]
    np.testing.assert_allclose(flat.global_observation, np.concatenate([np.ravel(part) for part in whole]), atol=1e-6)
    assert flat.observation["drone"].shape == (1, context + planes * NODES)


def test_an_instance_that_is_too_large_is_refused(env):
    with pytest.raises(ValueError, match=f"an instance of {NODES + 1} nodes does not fit into num_nodes {NODES}"):
        env.init_state(make_instance(np.zeros((NODES + 1, 2))))
