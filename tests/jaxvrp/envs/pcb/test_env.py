"""The environment: turns, actions, targets, starts, endings, and boards of every kind."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxvrp
from jaxvrp import VecEnv, registry
from jaxvrp.envs.pcb import from_unscaled, make_board, pad, to_unscaled
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.problem.board import as_float32
from jaxvrp.turns import play

KEY = jax.random.key(3)
SMALL = {"num_boards": 3, "max_parts": 3, "rays": 2, "max_steps": 6}
# Of environments for hand-made boards: the same for all, so that each program is compiled once.
BY_HAND = {"shuffle": False, "rays": 2, "max_steps": 60}
START = np.array([[10, 7], [3, 4], [15, 12]], np.float32), np.array([0, 1, 3], np.int32)
ROLE = "component"
PLACES = st.floats(-30, 50, width=32)


def close(tree, other, atol=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol), tree, other)


@functools.cache
def small_env(mode):
    return jaxvrp.make("pcb", mode=mode, **SMALL)


@pytest.fixture(scope="module", params=["sequential", "simultaneous"])
def env(request):
    return small_env(request.param)


@pytest.fixture(scope="module")
def start(env):
    return jax.device_get(compiled("reset")(env, KEY)[0])


@pytest.fixture(scope="module")
def by_hand(make):
    """`by_hand(mode)`: the environment for boards of up to two agents, as `make()` is one."""
    return functools.cache(lambda mode: jaxvrp.make("pcb", boards=make(), mode=mode, **BY_HAND))


@functools.cache
def compiled(function):
    """Compiled, with the environment as an argument: settings that are leaves do not compile again."""
    return jax.jit(lambda env, *args: getattr(env, function)(*args))


@jax.jit
def asked(env, state, action):
    """One step in which the agents are asked for their rows of `action`."""
    return play(env, state, lambda _, agent: {ROLE: action[agent[ROLE]]})


def begin(env, board, position, orientation):
    """State and timestep with the parts of a board at given places; both boundaries begin alike."""
    env = env.replace(boundary="clamp")
    board = as_float32(pad(board, *env.sizes[:3]))
    return compiled("reset_to")(env, compiled("place")(env, board, position, orientation, KEY))


def actions(env, seed, steps=1):
    shape = (steps, env.sizes.agents, 3)
    return {ROLE: jax.random.uniform(jax.random.key(seed), shape, jnp.float32, -1, 1)}


def row(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


@pytest.mark.parametrize(
    ("mode", "boundary"), [pytest.param("sequential", "terminate", marks=pytest.mark.slow), ("simultaneous", "clamp")]
)
def test_the_contract_is_kept(mode, boundary):
    small = {**SMALL, "num_boards": 1, "max_parts": 2, "rays": 1}
    jaxvrp.check_env(jaxvrp.make("pcb", mode=mode, boundary=boundary, step_fraction=0.5, **small), batch=3)


@pytest.mark.slow
def test_play_is_step_with_actions_asked_for_in_turn(env, start):
    requested = row(actions(env, 1), 0)
    played, timestep, turns = asked(env, start, requested[ROLE])
    stepped, wanted = compiled("step")(env, start, requested)
    close((played.position, played.lowest, timestep), (stepped.position, stepped.lowest, wanted))
    valid = turns.valid[ROLE]
    np.testing.assert_array_equal(valid, timestep.valid[ROLE])
    close(turns.reward, wanted.reward)
    np.testing.assert_array_equal(turns.action[ROLE][valid], requested[ROLE][valid])
    assert np.abs(turns.next_observation[ROLE] - turns.observation[ROLE])[valid].max(axis=1).all()


def test_all_turns_of_a_step_that_ends_the_episode_are_its_end():
    """Also those before the part that leaves: their agents have no other turn."""
    env = small_env("sequential").replace(boundary="terminate", step_fraction=0.6)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(KEY, 40))
    action = jax.random.uniform(KEY, (40, env.sizes.agents, 3), jnp.float32, -1, 1)

    @jax.jit
    @jax.vmap
    def play(state, action):
        return env.take_turns(state, lambda _, agent: {ROLE: action[agent[ROLE]]})

    after, turns = play(states, action)
    left, valid = np.asarray(after.left), np.asarray(turns.valid[ROLE])
    np.testing.assert_array_equal(turns.terminated[ROLE], valid & left.any(axis=1, keepdims=True))
    assert (np.asarray(turns.terminated[ROLE]) & ~left).any() and not left.any(axis=1).all()


@pytest.mark.parametrize("boundary", ["clamp", "terminate"])
def test_agents_that_act_without_a_loop_act_one_after_the_other(boundary):
    """Also where one of them leaves the board, after which nobody moves, and where one does not move."""
    env = small_env("sequential").replace(boundary=boundary, step_fraction=0.6)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(KEY, 40))
    action = jax.random.uniform(KEY, (40, env.sizes.agents, 3), jnp.float32, -1, 1).at[::3, 0].set(jnp.nan)
    at_once, loop = (jax.jit(jax.vmap(act))(states, action) for act in (env._act_in_one, env._act_in_turn))
    for name in ("moved_at", "left", "undone", "orientation"):
        np.testing.assert_array_equal(getattr(at_once, name), getattr(loop, name))
    for name in ("position", "wirelength", "hpwl", "blocked"):
        close(getattr(at_once, name), getattr(loop, name), atol=1e-4)
    assert (at_once.moved_at > 0).any() and np.asarray(at_once.left).any() == (boundary == "terminate")
    assert boundary == "clamp" or not np.asarray(at_once.moved_at > 0)[np.asarray(at_once.left).any(axis=-1)].all()


@pytest.mark.slow
def test_turns_of_a_sequential_step_follow_each_other_in_order():
    """What an agent sees depends on the moves before its turn, and on none after it."""
    env = small_env("sequential")
    state, _ = compiled("reset")(env, KEY)
    action = row(actions(env, 2), 0)[ROLE]
    order = np.asarray(env.order(state))
    assert sorted(order) == list(range(env.sizes.agents))
    wanted, _, turns = asked(env, state, action)
    for place, agent in enumerate(order):
        still = jnp.full_like(action, jnp.nan)
        before, _, _ = asked(env, state, still.at[order[:place]].set(action[order[:place]]))
        close(compiled("observation")(env, before)[ROLE][agent], turns.observation[ROLE][agent])
        after, _, same = asked(env, state, still.at[order[: place + 1]].set(action[order[: place + 1]]))
        close(compiled("observation")(env, after)[ROLE][agent], turns.next_observation[ROLE][agent])
        close(same.reward[ROLE][agent], turns.reward[ROLE][agent], atol=1e-4)
        assert same.valid[ROLE][agent] == turns.valid[ROLE][agent]
    close(after.position, wanted.position)
    np.testing.assert_array_equal(after.orientation, wanted.orientation)
    assert wanted.time == state.time + 1


def test_orders_change_from_step_to_step_only_with_shuffle():
    env = small_env("sequential")
    state, _ = compiled("reset")(env, KEY)
    orders = {tuple(np.asarray(compiled("order")(env, state.replace(time=jnp.int32(t))))) for t in range(12)}
    assert 3 < len(orders) <= 6
    np.testing.assert_array_equal(env.replace(shuffle=False).order(state), np.arange(env.sizes.agents))


@pytest.mark.slow
def test_with_one_agent_both_modes_are_one(make, by_hand):
    board = make(fixed=[True, True, False])
    ends = []
    for mode in ("sequential", "simultaneous"):
        env = by_hand(mode).replace(boundary="terminate")
        state, first = begin(env, board, np.array([[10, 7], [3, 4], [9, 8]], np.float32), np.array([0, 1, 0]))
        assert first.valid[ROLE].tolist() == [True, False]
        timesteps, requested = [], actions(env, 5, steps=30)
        for time in range(30):
            state, timestep = compiled("step")(env, state, row(requested, time))
            timesteps.append(timestep)
        ends.append((state.replace(observation=None, instance=None), timesteps))
    close(*ends)


def test_unscaled_actions_are_inverse():
    scaled = jax.random.uniform(KEY, (500, 3), jnp.float32, -1, 1)
    np.testing.assert_allclose(from_unscaled(to_unscaled(scaled)), scaled, atol=1e-6)
    edges = np.array([[-1.0, -1, -1], [1, 1, 1]], np.float32)
    np.testing.assert_allclose(to_unscaled(edges), [[0, 0, 0], [1, 2 * np.pi, 1]], rtol=1e-6)
    np.testing.assert_allclose(from_unscaled(to_unscaled(edges)), edges, atol=1e-6)


@pytest.mark.slow("sequential")
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_nothing_is_ever_not_finite(env, data):
    parts = env.sizes.components
    place = st.one_of(st.just((5.0, 5.0)), st.tuples(PLACES, PLACES))
    position = np.array(data.draw(st.lists(place, min_size=parts, max_size=parts)), np.float32)
    orientation = np.array(data.draw(st.lists(st.integers(0, 3), min_size=parts, max_size=parts)), np.int32)
    number = st.one_of(st.floats(-2, 2, width=32), st.sampled_from([np.nan, np.inf, -np.inf]))
    shape = env.sizes.agents * 3
    action = np.array(data.draw(st.lists(number, min_size=shape, max_size=shape)), np.float32).reshape(-1, 3)
    state, first = begin(env, row(env.boards, 0), position, orientation)
    for timestep in (first, compiled("step")(env, state, {ROLE: action})[1]):
        for name, leaf in vars(timestep).items():
            assert all(np.isfinite(x).all() for x in jax.tree.leaves(leaf)), name


@pytest.mark.slow
def test_parts_without_neighbours_or_size_are_harmless(by_hand):
    env = by_hand("sequential")
    lonely = make_board([10, 8], [[0, 0], [2, 1]], [0, 1], [[0, 0], [0, 0]], [0, 1], [0, 0])
    state, timestep = begin(env, lonely, np.array([[1, 2], [8, 7]], np.float32), np.array([0, 3]))
    state = state.replace(time=state.time + env.max_steps - 3)
    for _ in range(3):
        observation = timestep.observation[ROLE]
        assert np.isfinite(observation).all() and observation.any(axis=1).all()
        np.testing.assert_array_equal(observation[:, 16:20], 0)
        assert not timestep.truncated
        state, timestep = compiled("step")(env, state, row(actions(env, 1), 0))
        assert np.isfinite(timestep.reward[ROLE]).all()
    assert timestep.truncated


@pytest.mark.slow("sequential")
def test_an_action_that_is_not_finite_moves_and_turns_nothing(env, start):
    wild = jnp.full((env.sizes.agents, 3), jnp.nan).at[:, 1:].set(1.0)
    after, timestep = compiled("step")(env, start, {ROLE: wild})
    np.testing.assert_array_equal(after.position, start.position)
    np.testing.assert_array_equal(after.orientation, start.orientation)
    assert timestep.metrics["invalid_actions"] == timestep.valid[ROLE].sum()


@pytest.mark.slow
def test_hold_keeps_orientations_and_absolute_sets_them():
    env = small_env("simultaneous")
    state, _ = compiled("reset")(env, KEY)
    requested = row(actions(env, 7), 0)
    agents = np.asarray(state.instance.wiring.component)[np.asarray(state.instance.wiring.is_agent)]
    absolute, _ = compiled("step")(env, state, requested)
    turn = np.floor(2 * (np.asarray(requested[ROLE][: len(agents), 2]) + 1)).astype(int)
    np.testing.assert_array_equal(absolute.orientation[agents], turn)
    held, _ = compiled("step")(env.replace(rotation="hold"), state, requested)
    np.testing.assert_array_equal(held.orientation, state.orientation)
    close(held.position, absolute.position)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sequential", pytest.param("simultaneous", marks=pytest.mark.slow)])
def test_padding_changes_no_number(make, by_hand, mode):
    board, tight = make(), by_hand(mode)
    roomy = jaxvrp.make("pcb", boards=[board, pad(board, 9, 20, 7)], mode=mode, **BY_HAND)
    wide = row(jax.tree.map(np.asarray, roomy.boards), 0)
    assert (wide.num_components, roomy.sizes.agents) == (9, 2)
    filled = [np.concatenate([x, np.zeros((6, *x.shape[1:]), x.dtype)]) for x in START]
    first, second = begin(tight, board, *START), begin(roomy, wide, *filled)
    for time in range(3):
        close(first[1].observation, second[1].observation)
        close(first[1].reward, second[1].reward, atol=1e-4)
        close(first[1].metrics, second[1].metrics, atol=1e-4)
        action = row(actions(tight, time), 0)
        first = compiled("step")(tight, first[0], action)
        second = compiled("step")(roomy, second[0], action)


@pytest.mark.slow
def test_targets_lower_themselves_between_episodes_and_are_frozen_within():
    env = jaxvrp.make("pcb", mode="simultaneous", **{**SMALL, "max_parts": 2, "rays": 1})
    vec = VecEnv(env, 8, pool_steps=4)
    state, _ = jax.jit(vec.reset)(KEY)
    step = jax.jit(vec.step)
    frozen = state.env.instance.targets
    lowest_so_far = []
    for time in range(3 * env.max_steps):
        done_before = jax.device_get(state.env.time) == env.max_steps - 1
        draws = jax.random.uniform(jax.random.fold_in(KEY, time), (8, env.sizes.agents, 3), jnp.float32, -1, 1)
        state, _ = step(state, {ROLE: draws})
        lowest_so_far.append(jax.device_get((state.env.instance.row, state.env.lowest)))
        if not done_before.any():
            jax.tree.map(np.testing.assert_array_equal, state.env.instance.targets, frozen)
        frozen = state.env.instance.targets
    memory = jax.device_get(state.memory)
    assert np.isfinite(memory.wirelength).any()
    assert np.isinf(np.asarray(env.targets.wirelength)).all()
    for index in range(len(memory.hpwl)):
        reached = [lowest.wirelength[rows == index] for rows, lowest in lowest_so_far]
        # What was reached in the last step of an episode is gone with the reset, but remembered.
        assert (memory.wirelength[index] <= np.concatenate(reached).min(axis=0)).all()

    @jax.jit
    def draw(env, key):
        instance = env.generate(key)
        return instance.row, instance.targets

    index, targets = draw(env.memory.apply(state.memory), jax.random.key(9))
    jax.tree.map(lambda drawn, all_: np.testing.assert_array_equal(drawn, all_[index]), targets, memory)


@pytest.mark.slow
def test_the_best_legal_placement_is_kept(make, by_hand):
    board, env = make(), by_hand("sequential").replace(step_fraction=0.1)
    (state, _), best = begin(env, board, *START), np.inf
    for time in range(60):
        state, timestep = compiled("step")(env, state, row(actions(env, time), 0))
        if timestep.metrics["legal"]:
            best = min(best, float(timestep.metrics["hpwl"]))
        assert float(state.best.hpwl) == best
        assert timestep.metrics["became_legal"] == np.isfinite(best)
    replayed, _ = begin(env, board, state.best.position, state.best.orientation)
    np.testing.assert_allclose(replayed.board_hpwl, best, rtol=1e-6)
    assert replayed.legal


@pytest.mark.slow
def test_what_is_fixed_is_shifted_turned_and_kept_inside(make):
    outlines = [(20.0, 15.0), (20.0, 20.0)]
    env = jaxvrp.make("pcb", boards=[make(outline=outline) for outline in outlines], rays=1)

    @jax.jit
    def generate(env, keys):
        instances = jax.vmap(env.generate)(keys)
        # Measures are left out, so that they are not compiled either.
        return instances.row, instances.board

    drawn = jax.device_get(generate(env, jax.random.split(KEY, 600)))
    for index, outline in enumerate(outlines):
        boards = jax.tree.map(lambda leaf, chosen=drawn[0] == index: leaf[chosen], drawn[1])
        ic, turns = boards.position[:, 0], boards.orientation[:, 0]
        assert len(turns) > 200 and set(turns) == ({0, 1, 2, 3} if outline[0] == outline[1] else {0, 2})
        half = np.where(turns[:, None] % 2 == 0, [3, 2], [2, 3])
        assert (ic >= half - 1e-5).all()
        assert (ic <= outline - half + 1e-5).all()
        assert np.ptp(ic, axis=0).min() > 5
        share = boards.position[:, 1:] / np.array(outline, np.float32)
        assert share.min() >= 0.05 - 1e-6
        assert share.max() <= 0.95 + 1e-6
        assert share.min() < 0.08
    _, still = generate(env.replace(augment=False), jax.random.split(KEY, 2))
    np.testing.assert_array_equal(still.position[:, 0], np.array([make().position[0]] * 2, np.float32))


def test_leaving_ends_the_episode_at_a_price(make, by_hand):
    board = make(fixed=[True, False, True])
    env = by_hand("sequential").replace(step_fraction=1.0)
    state, _ = begin(env, board, np.array([[10, 7], [1, 4], [15, 12]], np.float32), np.zeros(3, np.int32))
    to_the_left = {ROLE: jnp.array([[1.0, 0.0, 0.0]] * 2, jnp.float32)}
    _, timestep = compiled("step")(env.replace(boundary="terminate"), state, to_the_left)
    assert timestep.terminated
    assert not timestep.truncated
    cost = timestep.metrics["weighted_cost"]
    np.testing.assert_allclose(timestep.reward[ROLE][0], np.tan(np.pi * cost[0] / 2.1) - 15 * 59, rtol=1e-5)
    inside, timestep = compiled("step")(env, state, to_the_left)
    assert inside.position[1, 0] == 0
    assert not timestep.terminated


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"mode": "parallel"}, "mode is 'parallel'; it must be one of: sequential, simultaneous"),
        ({"ray": 4}, "unknown parameter of 'pcb': 'ray'; did you mean 'rays'"),
        ({"step_fraction": 0.0}, "step_fraction is 0.0; it must be > 0"),
        ({"boards": "board.txt"}, "boards 'board.txt' is neither .pcb, .nodes (Bookshelf) nor .npz"),
        ({"boards": "there/is/none.pcb"}, "none.pcb"),
        ({"boards": []}, "boards is"),
        ({"wire_weight": 0, "overlap_weight": 0, "hpwl_weight": 0}, "all 0"),
        ({"num_boards": 2, "max_parts": 1}, "max_parts is 1"),
        (
            {"min_utilisation": np.array([0.1])},
            "min_utilisation is array([0.1]); the boards of an environment are drawn",
        ),
        ({"min_utilisation": np.zeros(0)}, "min_utilisation is array([], dtype=float64); the boards of an environment"),
    ],
)
def test_mistakes_are_one_line(mistake, message):
    few_boards = {} if "boards" in mistake else {"num_boards": SMALL["num_boards"], "max_parts": SMALL["max_parts"]}
    with pytest.raises((ValueError, TypeError, OSError)) as caught:
        jaxvrp.make("pcb", **few_boards | mistake)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("field", "kind"), [("targets", "Targets"), ("boards", "Board"), ("wirings", "Wiring")])
def test_what_was_made_of_the_parameters_is_replaced_only_by_its_like(env, field, kind):
    assert env.replace(**{field: getattr(env, field)}).sizes == env.sizes
    with pytest.raises(TypeError, match=rf"^{field} is 'unknown'; it must be of type {kind}$"):
        env.replace(**{field: "unknown"})


def test_parameters_of_the_generator_do_not_suit_given_boards(make):
    with pytest.raises(ValueError, match="max_parts is of generated boards"):
        jaxvrp.make("pcb", boards=make(), max_parts=4)


def test_parameters_of_the_generator_go_with_generated_boards():
    """Of an environment some of whose keywords are changed; one that is changed itself is left to `make` to refuse."""
    few = {"boards": "generated", "num_boards": 2, "min_parts": 2, "max_parts": 3, "rays": 4}
    changed = registry.card_of(small_env("sequential")).changed
    assert changed(few, {"rays": 8}) == {**few, "rays": 8}
    assert changed(few, {"boards": "a.pcb", "rays": 8}) == {"boards": "a.pcb", "num_boards": 2, "rays": 8}
    assert changed(few, {"boards": ["a.pcb"], "max_parts": 4}).keys() == {"boards", "num_boards", "max_parts", "rays"}
    assert changed({"boards": "a.pcb"}, {"boards": "generated", "max_parts": 4}) == {
        "boards": "generated",
        "max_parts": 4,
    }


def test_a_board_that_does_not_fit_is_refused(make):
    env = small_env("sequential")
    many = 12
    large = make_board([50, 50], np.ones((many, 2)), range(many), np.zeros((many, 2)), np.zeros(many), [0])
    with pytest.raises(ValueError, match="does not fit"):
        env.place(large, large.position, large.orientation, KEY)
    fitting = compiled("place")(env, as_float32(make()), *START, KEY)
    assert fitting.row == SMALL["num_boards"]


@pytest.mark.parametrize("mode", ["sequential", "simultaneous"])
def test_types_are_the_same_where_jax_computes_in_double_precision(mode):
    def types():
        env = jaxvrp.make("pcb", mode=mode, boundary="terminate", **SMALL)
        state, first = jax.eval_shape(env.reset, jax.random.key(0))
        action = {ROLE: jax.ShapeDtypeStruct((env.sizes.agents, 3), jnp.float32)}
        seen = (env.wirings, state, first, *jax.eval_shape(env.step, state, action))
        return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), seen)

    with jax.enable_x64(True):
        double = types()
    assert double == types()


def test_published_boards_are_read_as_they_are(data_folder, signal_hpwl):
    boards = jaxvrp.make("pcb", boards=data_folder / "rl_pcb" / "base" / "evaluation.pcb").boards
    hpwl = jax.jit(jax.vmap(measure_board))(boards, boards.position, boards.orientation).hpwl
    single = [row(jax.tree.map(np.asarray, boards), index) for index in range(3)]
    expected = [signal_hpwl(board, board.position, board.orientation) for board in single]
    np.testing.assert_allclose(hpwl, expected, rtol=1e-5)


@pytest.mark.slow
def test_large_published_boards_are_played(data_folder):
    env = jaxvrp.make("pcb", boards=data_folder / "cypress" / "small-1.nodes", mode="simultaneous", rays=1, max_steps=2)
    draws = jax.random.uniform(KEY, (3, env.sizes.agents, 3), jnp.float32, -1, 1)
    first_step = jax.jit(jax.vmap(lambda key, draw: env.step(env.reset(key)[0], {ROLE: draw})))
    _, timesteps = first_step(jax.random.split(KEY, 3), draws)
    assert np.isfinite(timesteps.observation[ROLE]).all()
    assert (np.asarray(timesteps.metrics["hpwl"]) > 0).all()
