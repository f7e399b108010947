"""Environments whose parameters are drawn for each episode, against the environments that they are made of."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp import VecEnv, randomized, registry
from jaxvrp.actor import RandomActor
from jaxvrp.envs.truck_drone.baselines.greedy import greedy_action
from jaxvrp.envs.truck_drone.course import course_of
from jaxvrp.episodes import from_states, record_episode, record_episodes
from jaxvrp.players import Players
from jaxvrp.show import export_episode
from jaxvrp.testing import check_shapes
from jaxvrp.turns import TurnBasedEnvironment

TINY = {"num_drones": 1, "num_customers": 2, "num_route_nodes": 2, "max_steps": 6}
RANGES = {"battery_rate": [0.1, 0.5], "delivery_bonus": [5, 20], "num_customers": [1, 2]}
ENVS, STEPS = 8, 14


@pytest.fixture(scope="module")
def base():
    return jaxvrp.make("truck_drone", **TINY)


@pytest.fixture(scope="module")
def env(base):
    return jaxvrp.randomize(base, RANGES)


def played(env):
    """Timesteps and states of random play with resets, `[STEPS, ENVS, ...]`."""
    vec = VecEnv(env, ENVS, pool_steps=7)

    def advance(before, key):
        state, timestep = before
        action, _ = RandomActor(env).act(key, (), state.env, timestep)
        after = vec.step(state, action)
        return after, (after[1], after[0].env)

    def play(key):
        start_key, key = jax.random.split(key)
        return jax.lax.scan(advance, vec.reset(start_key), jax.random.split(key, STEPS))[1]

    return jax.device_get(jax.jit(play)(jax.random.key(3)))


@pytest.mark.slow
def test_it_keeps_the_contract(env):
    jaxvrp.check_env(env)


@pytest.mark.slow
def test_a_range_of_one_point_is_the_environment_itself_bit_for_bit(base):
    fixed = base.replace(battery_rate=jnp.float32(0.7))
    wanted, states = played(fixed)
    got, randomized = played(jaxvrp.randomize(base, {"battery_rate": [0.7, 0.7]}))
    jax.tree.map(np.testing.assert_array_equal, got, wanted)
    jax.tree.map(np.testing.assert_array_equal, randomized.base, states)


def test_an_episode_keeps_its_parameters_and_the_next_has_others(env):
    timestep, states = played(env)
    ended, step = timestep.done, states.base.step
    assert ended.any()
    for name, (low, high) in RANGES.items():
        values = states.drawn[name]
        assert values.dtype == np.float32
        assert ((values >= np.float32(low)) & (values <= np.float32(high))).all()
        changes = values[1:] != values[:-1]
        assert not changes[~ended[1:]].any()
        assert changes[ended[1:]].any()
        first = values[step == 0]
        assert first.max() - first.min() > 0.5 * (high - low)
        assert (len(set(first)) > ENVS) == (name != "num_customers")
    np.testing.assert_array_equal(states.base.instance.exists.sum(axis=-1), states.drawn["num_customers"])


@pytest.mark.slow
def test_the_base_plays_an_episode_with_what_was_drawn(base, env):
    """By rules, rewards, and what agents and a baseline do."""
    instance = jax.jit(env.generate)(jax.random.key(5))
    state, timestep = jax.jit(env.reset_to)(instance)
    fixed = base.replace(**{name: value for name, value in instance.drawn.items() if name != "num_customers"})
    other, expected = jax.jit(fixed.reset_to)(instance.problem)
    step, fixed_step = jax.jit(env.step), jax.jit(fixed.step)
    baseline = registry.players_of(env).baselines["greedy"](env)
    act = jax.jit(lambda *batch: baseline.act(jax.random.key(0), baseline.init(1), *batch)[0])
    wanted = jax.jit(lambda state, other: greedy_action(env.of(state), other))
    for _ in range(TINY["max_steps"]):
        batch = jax.tree.map(lambda leaf: leaf[None], jax.device_get((state, timestep)))
        action = jax.tree.map(lambda leaf: leaf[0], jax.device_get(act(*batch)))
        jax.tree.map(np.testing.assert_array_equal, action, wanted(state, other))
        (state, timestep), (other, expected) = step(state, action), fixed_step(other, action)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), timestep, expected)
    assert timestep.metrics["battery_used"] > 0


@pytest.mark.slow
def test_agents_that_move_in_turn_keep_their_turns_and_their_memory():
    """By types alone: compiling it takes long."""
    base = jaxvrp.make("pcb", min_parts=2, max_parts=2, max_steps=2, rays=1)
    env = jaxvrp.randomize(base, {"step_fraction": [0.02, 0.1]})
    assert isinstance(env, TurnBasedEnvironment)
    vec = VecEnv(env, 2)

    def play(key):
        state, _ = vec.reset(key)
        asked = []

        def choose(observation, agent, given):
            asked.append({name: index.shape for name, index in agent.items()})
            return {name: jnp.zeros((1, 3)) for name in agent}

        after, _, _ = vec.play(state, choose, jnp.zeros(2))
        assert set(asked[0].values()) == {(1,)}, "one at a time"
        return state, after

    before, after = jax.eval_shape(play, jax.random.key(0))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert jax.tree.structure(before.memory) == jax.tree.structure((base.memory.initial, 0))
    assert jaxvrp.randomize(base, {}) is base


def test_forms_are_those_of_the_base(env):
    forms = registry.players_of(env).forms(env)
    assert [form.base.decide for form in forms] == ["steps", "events"]
    assert all(form.ranges == env.ranges for form in forms)


def test_searches_plan_the_problem_with_what_was_drawn(env, monkeypatch):
    """Those of the base knew nothing of either."""
    remembering = Players(searches={"given": lambda *given: iter([given])}, tidied=lambda episode: episode.instance)
    monkeypatch.setattr(randomized, "players_of", lambda base: remembering)
    players, instance = registry.players_of(env), env.generate(jax.random.key(0))
    ((played, problem, _, stop),) = players.searches["given"](env, instance, jax.random.key(1), 2.0)
    assert problem is instance.problem and stop == 2.0
    assert not isinstance(played, randomized.Randomized) and played.battery_rate is instance.drawn["battery_rate"]
    states = jax.tree.map(lambda leaf: leaf[None], env.init_state(instance))
    assert players.tidied(from_states(env, states, instance=instance)) is instance.problem
    assert players.searches_all == {}


def of_three_customers(problems):
    names = ("customer_position", "demand", "window_start", "window_end", "known_from")
    numbers = {name: leaf for name in names if (leaf := getattr(problems, name)) is not None}
    return problems.replace(**{name: leaf[:, :3] for name, leaf in numbers.items()})


def of_three_requests_and_two_vehicles(problems):
    names = ("locs", "demand", "earliest", "deadline", "service_time")
    return problems.replace(
        **{name: getattr(problems, name)[:, :7] for name in names}, capacity=problems.capacity[:, :2]
    )


def of_five_nodes(problems):
    return problems.replace(**{name: getattr(problems, name)[:, :5] for name in ("locs", "exists", "no_fly")})


FEWER = {"num_customers": 3}
SMALLER = {
    "truck_drone": ({**TINY, "num_customers": 5, "max_steps": 25}, FEWER, of_three_customers),
    "vrpd_tw": ({**TINY, "num_customers": 5, "max_steps": 60, "dynamic_share": 0.5}, FEWER, of_three_customers),
    "darp": (
        {"num_nodes": 10, "num_agents": 3},
        {"num_nodes": 6, "num_agents": 2},
        of_three_requests_and_two_vehicles,
    ),
    "tsp_drone": ({"num_nodes": 7}, {"num_nodes": 5}, of_five_nodes),
}


BASELINES = [
    ("truck_drone", "greedy"),
    ("vrpd_tw", "greedy"),
    ("darp", "nearest neighbour"),
    ("tsp_drone", "nearest neighbour"),
]


def recorded(env, baseline, instances):
    """Rewards and metrics, entities and masks of episodes that a baseline plays, `[T, ENVS, ...]`."""
    actor = registry.players_of(env).baselines[baseline](env)

    def keep(action, state, timestep):
        return (timestep.team_reward, timestep.metrics), (timestep.entities, timestep.action_mask)

    def play(instances):
        return record_episodes(env, actor, instances, jax.random.key(0), keep)[1]

    return jax.device_get(jax.jit(play)(instances))


@pytest.mark.parametrize(("name", "baseline"), BASELINES)
@pytest.mark.slow("vrpd_tw-greedy", "tsp_drone-nearest neighbour", "darp-nearest neighbour", "truck_drone-greedy")
def test_what_is_beyond_a_size_that_was_drawn_does_not_exist(name, baseline):
    """The same episodes as in an environment of that size, by rewards, metrics, masks and what is seen."""
    sizes, small, cut = SMALLER[name]
    env = jaxvrp.make(name, **sizes, observation="entities")
    smaller = env.replace(**small)
    problems = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(1), ENVS))
    smaller_problems = cut(problems)
    for size, padding in registry.card_of(env).paddings.items():
        problems = jax.vmap(lambda problem: padding.void_beyond(problem, jnp.int32(small[size])))(problems)  # noqa: B023
    padded, (seen, mask) = recorded(env, baseline, problems)
    wanted, (expected, expected_mask) = recorded(smaller, baseline, smaller_problems)
    length = len(wanted[0])  # larger ones may take longer
    padded, seen, mask = jax.tree.map(lambda leaf: leaf[:length], (padded, seen, mask))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), padded, wanted)
    for kind in smaller.entity_kinds:
        planes = seen[kind.name]
        np.testing.assert_allclose(planes[..., : kind.count], expected[kind.name], rtol=1e-5, atol=1e-6)
        assert not planes[..., kind.count :].any()
    for role, rows in expected_mask.items():
        np.testing.assert_array_equal(mask[role][..., : rows.shape[-1]], rows)
        assert not mask[role][..., rows.shape[-1] :].any()
    assert padded[0].any()


@pytest.mark.slow
def test_planners_plan_the_problems_of_the_sizes_that_were_drawn():
    env = jaxvrp.randomize(jaxvrp.make("tsp_drone", num_nodes=6), {"num_nodes": [2, 6]})
    planner = registry.players_of(env).planners["TSP-ep"](env)
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), ENVS))
    play = jax.jit(lambda batch: record_episodes(env, planner, batch, jax.random.key(0), lambda *_: None)[0])
    last = play(instances)
    assert len(set(instances.drawn["num_nodes"].tolist())) > 2
    assert last.base.done.all() and not last.base.totals.invalid_actions.any()


@pytest.mark.slow
def test_pictures_and_replays_of_an_episode_leave_out_who_does_not_exist(base):
    env = jaxvrp.randomize(base, {"num_customers": [1, 1]})
    actor = registry.players_of(env).baselines["greedy"](env)
    instance = jax.jit(env.generate)(jax.random.key(0))
    episode = jax.jit(lambda: record_episode(env, actor, instance, jax.random.key(0)))()
    states = episode.states
    shown = export_episode(episode)
    assert [place["kind"] for place in shown["story"]["places"]].count("customer") == 1
    assert shown["kind"] == "truck_drone"
    assert {len(row) for step in shown["steps"] for row in step["mask"]["drone"]} == {len(shown["actions"]["drone"])}
    assert course_of(from_states(base, states.base)).num_customers == 1
    last = jax.tree.map(lambda leaf: leaf[-1], states.base)
    assert " of 1 customers served" in registry.toolbox_of(base).still(last).caption


def test_sizes_that_come_in_pairs():
    env = jaxvrp.make("darp", num_nodes=8, num_agents=2)
    nodes = jaxvrp.randomize(env, {"num_nodes": [4, 8]})
    drawn = jax.jit(jax.vmap(nodes.generate))(jax.random.split(jax.random.key(0), 64)).drawn["num_nodes"]
    assert set(drawn.tolist()) == {4.0, 6.0, 8.0}
    with pytest.raises(
        ValueError, match=r"^randomize.num_nodes is \[3, 8\]; it must be two multiples of 2, 2 or more$"
    ):
        jaxvrp.randomize(env, {"num_nodes": [3, 8]})


def test_a_curriculum_moves_the_ranges_with_the_steps_that_are_played(base):
    """Parameters, of which none overlap at first and in the end, and sizes; pools are drawn every 4 steps."""
    first, last = (
        {"battery_rate": [0.1, 0.2], "num_customers": [1, 1]},
        {"battery_rate": [1.1, 1.4], "num_customers": [2, 2]},
    )
    env = jaxvrp.randomize(base, {**last, "dt": [0.1, 0.3]}, first_ranges=first, num_steps=8)
    vec = VecEnv(env, ENVS, pool_steps=4)
    stay = {"truck": jnp.zeros((ENVS, 1), jnp.int32), "drone": jnp.zeros((ENVS, 1), jnp.int32)}

    def play(key):
        def advance(state, _):
            state, _ = vec.step(state, stay)
            return state, (state.memory[1], state.pool.drawn)

        state, _ = vec.reset(key)
        return (state.memory[1], state.env.drawn, state.pool.drawn), jax.lax.scan(advance, state, length=13)[1]

    (memory, started, pool), (steps, pools) = jax.device_get(jax.jit(play)(jax.random.key(0)))
    assert memory == 0
    np.testing.assert_array_equal(steps, np.arange(1, 14))
    moved = {0: (0.1, 0.2), 4: (0.6, 0.8), 8: (1.1, 1.4), 12: (1.1, 1.4)}
    for step, (low, high) in moved.items():
        of_pools = [started, pool] if step == 0 else [jax.tree.map(lambda leaf, step=step: leaf[step], pools)]
        for drawn in of_pools:
            rate = drawn["battery_rate"]
            assert ((rate >= np.float32(low) - 1e-6) & (rate <= np.float32(high) + 1e-6)).all()
            assert rate.max() - rate.min() > 0.5 * (high - low)
            assert set(drawn["num_customers"].tolist()) <= ({1.0} if step == 0 else {1.0, 2.0} if step == 4 else {2.0})
            assert drawn["dt"].min() >= np.float32(0.1)
            assert drawn["dt"].max() > 0.2


@pytest.mark.slow
def test_a_curriculum_keeps_the_contract_and_goes_beside_a_memory(base):
    check_shapes(jaxvrp.randomize(base, {"dt": [0.1, 0.2]}, first_ranges={"dt": [0.1, 0.1]}, num_steps=3))
    placing = jaxvrp.make("pcb", min_parts=2, max_parts=2, max_steps=2, rays=1)
    ranges = {"step_fraction": [0.02, 0.1]}
    memory = jaxvrp.randomize(placing, ranges, first_ranges={"step_fraction": [0.05, 0.05]}, num_steps=4).memory
    targets = jax.tree.map(lambda leaf: leaf - 1, placing.memory.initial)
    env = memory.apply((targets, jnp.int32(2)))
    assert env.progress == 0.5
    jax.tree.map(np.testing.assert_array_equal, env.base.targets, targets)
    assert jaxvrp.randomize(base, {"dt": [0.1, 0.2]}).memory is None


def test_a_first_range_without_the_range_itself_is_one_line(base):
    says = r"^randomize_from\.dt is a range to begin with, and randomize\.dt, where it ends, is missing; give both$"
    with pytest.raises(ValueError, match=says):
        jaxvrp.randomize(base, {"battery_rate": [1, 2]}, first_ranges={"dt": [0.1, 0.1]})
    with pytest.raises(ValueError, match=r"^randomize_from\.dt is -1\.0; it must be > 0$"):
        jaxvrp.randomize(base, {"dt": [1, 2]}, first_ranges={"dt": [-1, 0.1]})


def test_what_must_not_be_above_another_parameter_is_not_drawn_above_it():
    env = jaxvrp.make("truck_drone_tours", num_nodes=4)
    jaxvrp.randomize(env, {"max_demand": [4, 5], "truck_capacity": [5, 9]})
    says = r"^max_demand is 7, above truck_capacity 5; give them in order$"
    with pytest.raises(ValueError, match=says):
        jaxvrp.randomize(env, {"max_demand": [4, 7], "truck_capacity": [5, 9]})


@pytest.mark.parametrize("num_steps", [0, -100, float("nan"), float("inf"), "many", True])
def test_a_number_of_steps_that_is_none_is_one_line(base, num_steps):
    with pytest.raises(ValueError, match=r"^num_steps is .*; it must be a finite number above 0$"):
        jaxvrp.randomize(base, {"dt": [1, 2]}, first_ranges={"dt": [0.5, 1]}, num_steps=num_steps)


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ({"batery_rate": [0, 1]}, "unknown parameter 'randomize.batery_rate'; did you mean 'battery_rate'"),
        (
            {"decide": [0, 1]},
            "randomize.decide cannot be drawn: it is no number, but says of what kind the environment ",
        ),
        (
            {"num_drones": [1, 1]},
            "randomize.num_drones cannot be drawn: it is a size, and no instance is padded up to ",
        ),
        (
            {"num_customers": [1, 5]},
            "randomize.num_customers is [1, 5], and instances are padded up to env.num_customers, which is 2; set "
            "env.num_customers to 5, or lower the range",
        ),
        ({"num_customers": [0, 2]}, "randomize.num_customers is [0, 2]; it must be two whole numbers, 1 or more"),
        ({"num_customers": [1.5, 2]}, "randomize.num_customers is [1.5, 2]; it must be two whole numbers, 1 or more"),
        ({"dt": [-1, 1]}, "randomize.dt is -1.0; it must be > 0"),
        ({"dt": [0.5, 0.1]}, "randomize.dt is [0.5, 0.1]; it must be two finite numbers in order, for example [0.5, "),
        ({"dt": 0.5}, "randomize.dt is 0.5; it must be two finite numbers in order"),
        ({"dt": [0.5]}, "randomize.dt is [0.5]; it must be two finite numbers in order"),
        ({"dt": [0.5, True]}, "randomize.dt is [0.5, True]; it must be two"),
        ({"dt": [0.5, float("inf")]}, "randomize.dt is [0.5, inf]; it must be two finite"),
        ({"dt": ["a", "b"]}, "randomize.dt is ['a', 'b']; it must be two"),
        ({"dt": None}, "randomize.dt is None; it must be two"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(base, ranges, says):
    with pytest.raises(ValueError, match=f"^{re.escape(says)}") as refusal:
        jaxvrp.randomize(base, ranges)
    assert "\n" not in str(refusal.value)
