"""`VecEnv`: a batch in lockstep against a loop over `env.step` without auto-reset, and its pool of instances."""

import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from jaxvrp import VecEnv, make
from jaxvrp.actor import RandomActor
from tests.toy_environments import Reach

KEY = jax.random.key(5)
NUM_ENVS, POOL_STEPS, NUM_STEPS = 4, 6, 16


@pytest.fixture(scope="module")
def vec(reach):
    return VecEnv(reach, NUM_ENVS, pool_steps=POOL_STEPS)


def any_action(random):
    """Of all agents of all environments; some are illegal."""
    return {
        "mover": random.uniform(-1.2, 1.2, (NUM_ENVS, 2, 2)).astype(np.float32),
        "caller": random.integers(0, 3, (NUM_ENVS, 1)).astype(np.int32),
    }


@pytest.fixture(scope="module")
def played(vec):
    """States and timesteps from reset on, and the actions between them; some are illegal."""
    step, random = jax.jit(vec.step), np.random.default_rng(0)
    state, timestep = jax.jit(vec.reset)(KEY)
    states, timesteps, actions = [state], [timestep], []
    for _ in range(NUM_STEPS):
        action = any_action(random)
        state, timestep = step(state, action)
        states.append(state)
        timesteps.append(timestep)
        actions.append(action)
    return jax.device_get((states, timesteps, actions))


def row(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def close(a, b):
    chex.assert_trees_all_close(a, b, rtol=1e-5, atol=1e-6)


def test_it_plays_what_a_loop_of_env_step_plays(reach, played):
    states, timesteps, actions = played
    step, begin = jax.jit(reach.step), jax.jit(reach.reset_to)
    for i in range(NUM_ENVS):
        state, _ = begin(row(states[0].env.course, i))
        total, length = 0.0, 0
        for time, action in enumerate(actions):
            state, single = step(state, row(action, i))
            seen = row(timesteps[time + 1], i)
            counted = [*single.reward["mover"][single.valid["mover"]], *single.reward["caller"]]
            total, length = total + np.mean(counted), length + 1
            close(seen.final_observation, single.observation)
            close(seen.final_global_observation, single.global_observation)
            for field in ("reward", "duration", "terminated", "truncated"):
                close(getattr(seen, field), getattr(single, field))
            statistics = {"episode_return": np.float32(total), "episode_length": np.float32(length)}
            close(seen.metrics, {**single.metrics, **statistics})
            if single.done:
                state, single = begin(row(states[time + 1].env.course, i))
                total, length = 0.0, 0
            now = (seen.observation, seen.global_observation, seen.action_mask, seen.valid)
            close(now, (single.observation, single.global_observation, single.action_mask, single.valid))


def test_it_saw_both_kinds_of_end_and_none_at_times(played):
    terminated = np.stack([timestep.terminated for timestep in played[1]])
    truncated = np.stack([timestep.truncated for timestep in played[1]])
    assert terminated.any()
    assert truncated.any()
    assert any(0 < done.sum() < NUM_ENVS for done in terminated | truncated)


def test_environments_that_end_together_get_different_instances_of_the_pool(played):
    states, timesteps, _ = played
    begun = 0
    for state, timestep in zip(states[1:], timesteps[1:], strict=True):
        done = timestep.terminated | timestep.truncated
        new = state.env.course.target[done]
        assert len(np.unique(new, axis=0)) == done.sum()
        assert all((target == state.pool.course.target).all(axis=1).any() for target in new)
        begun += done.sum()
    assert begun > 2 * NUM_ENVS


def test_groups_that_end_together_get_the_same_instances(reach):
    vec = VecEnv(reach, 6, pool_steps=POOL_STEPS, group_size=3)
    step, still = jax.jit(vec.step), {"mover": np.zeros((6, 2, 2), np.float32), "caller": np.zeros((6, 1), np.int32)}
    state, _ = jax.jit(vec.reset)(KEY)
    targets = [state.env.course.target]
    for _ in range(NUM_STEPS):
        state, timestep = step(state, still)
        assert timestep.done[0] == timestep.done[1:3].all() == timestep.done[1:3].any()
        if timestep.done[0]:
            targets.append(state.env.course.target)
    assert len(targets) > 3
    for target in np.array(targets):
        assert (target[:3] == target[0]).all() and (target[3:] == target[3]).all()
    starts = np.array(targets)[:, ::3].reshape(2 * len(targets), -1)
    assert len(np.unique(starts, axis=0)) > len(targets), "groups and episodes differ"


@pytest.mark.parametrize("length", [1, 5, 9, 10, 20])
def test_episodes_of_one_length_begin_on_many_instances_of_the_pool(reach, length):
    """Also where as many steps lead around the pool: nine instances can be read first."""
    starts = [int(VecEnv(reach, 8)._start(jnp.int32(step))) for step in range(length - 1, 128, length)]
    drawn = np.random.default_rng(0).integers(0, 9, (200, len(starts)))
    assert len(set(starts)) >= np.quantile([len(set(row)) for row in drawn], 0.1)


def test_groups_divide_the_batch(reach):
    with pytest.raises(ValueError, match=r"^num_envs is 4, which group_size \(3\) does not divide$"):
        VecEnv(reach, 4, group_size=3)


def test_the_pool_is_redrawn_when_it_is_due_and_only_then(played):
    targets = [state.pool.course.target for state in played[0]]
    changes = [i for i in range(NUM_STEPS) if not np.array_equal(targets[i], targets[i + 1])]
    assert changes == [POOL_STEPS, 2 * POOL_STEPS]
    assert [int(state.cursor) for state in played[0]] == [0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4]
    assert not np.isin(targets[0], targets[-1]).any()


def test_without_refresh_the_pool_stays_until_it_is_asked_for(vec, played):
    step = jax.jit(lambda state, action: vec.step(state, action, refresh=False))
    start = state = jax.jit(vec.reset)(KEY)[0]
    for action in played[2]:
        state, _ = step(state, action)
    chex.assert_trees_all_equal(state.pool, start.pool)
    assert state.cursor == NUM_STEPS
    assert jnp.array_equal(jax.random.key_data(state.key), jax.random.key_data(start.key))
    refreshed = jax.jit(vec.refresh_pool)(state, jax.random.key(8))
    assert not np.isin(refreshed.pool.course.target, start.pool.course.target).any()
    assert refreshed.cursor == 0
    chex.assert_trees_all_equal(refreshed.pool, vec.refresh_pool(start, jax.random.key(8)).pool)


class Counted(Reach):
    """`Reach` whose functions each sort a list of their own length, which no compiler merges, drops or repeats."""

    def observation(self, state):
        return {name: seen + sorted_zero(state, 11) for name, seen in super().observation(state).items()}

    def global_observation(self, state):
        return super().global_observation(state) + sorted_zero(state, 12)

    def action_mask(self, state):
        return {name: mask & (sorted_zero(state, 13) < 1) for name, mask in super().action_mask(state).items()}

    def metrics(self, state):
        return {name: value + sorted_zero(state, 14) for name, value in super().metrics(state).items()}


def sorted_zero(state, length):
    """0 (`f32[]`), by way of a sort of `length` numbers that depend on the state."""
    numbers = jnp.sin(state.position[0, 0] * jnp.arange(1, length + 1))
    return jnp.where(jnp.sort(numbers)[0] > 2.0, 1.0, 0.0)


@pytest.mark.parametrize(("final_observations", "observed"), [(False, 1), (True, 2)])
def test_a_step_computes_nothing_twice(final_observations, observed):
    """Counted in the compiled program: masks are carried, and only states that live on are observed."""
    vec = VecEnv(Counted(), 3, final_observations=final_observations)
    state, _ = jax.eval_shape(vec.reset, KEY)
    action = {"mover": jnp.zeros((3, 2, 2)), "caller": jnp.zeros((3, 1), jnp.int32)}
    step = jax.jit(functools.partial(vec.step, refresh=False))
    program = step.lower(state, action).compile().as_text()
    sorts = {length: len(re.findall(rf"= f32\[3,{length}\]\S* sort\(", program)) for length in (11, 12, 13, 14)}
    assert sorts == {11: observed, 12: observed, 13: 1, 14: 1}


def equations(jaxpr):
    """All operations, also inside of nested programs."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


@pytest.mark.parametrize("refresh", [True, False])
def test_a_step_generates_only_to_refresh_the_pool(env, refresh):
    vec = VecEnv(env, 3)
    state, _ = jax.eval_shape(vec.reset, KEY)
    action = {"truck": jnp.zeros((3, 1), jnp.int32), "drone": jnp.zeros((3, 2), jnp.int32)}
    program = jax.make_jaxpr(lambda state: vec.step(state, action, refresh=refresh))(state)
    # Those of `lax.platform_dependent` choose by the device that is compiled for, not by a value.
    of_values = (eqn for eqn in equations(program.jaxpr) if eqn.params.get("branches_platforms") is None)
    names = {equation.primitive.name for equation in of_values}
    drawing = {name for name in names if name.startswith(("random_", "threefry"))}
    assert ("cond" in names, bool(drawing)) == (refresh, refresh)


def test_types_are_constant_from_reset_on(env):
    vec = VecEnv(env, 3)
    action = {"truck": jnp.zeros((3, 1), jnp.int32), "drone": jnp.zeros((3, 2), jnp.int32)}
    start = jax.eval_shape(vec.reset, KEY)
    then = jax.eval_shape(vec.step, start[0], action)
    assert jax.tree.structure(start) == jax.tree.structure(then)
    for a, b in zip(jax.tree.leaves(start), jax.tree.leaves(then), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, False)


def test_seeds_reproduce_and_differ(vec):
    reset = jax.jit(vec.reset)
    first, again, other = reset(KEY)[0], reset(KEY)[0], reset(jax.random.key(6))[0]
    chex.assert_trees_all_equal(first.env.course, again.env.course)
    chex.assert_trees_all_equal(first.pool, again.pool)
    assert not np.isin(first.env.course.target, other.env.course.target).any()
    assert not np.isin(first.env.course.target, first.pool.course.target).any()


def test_reset_to_begins_on_the_given_instances(vec):
    instances = vec.generate(jax.random.key(9))
    state, timestep = jax.jit(vec.reset_to)(instances, KEY)
    chex.assert_trees_all_equal(state.env.course, instances)
    assert not timestep.done.any()
    assert vec.generate(KEY, 7).length.shape == (7,)


@pytest.mark.slow
def test_one_environment_is_a_batch_too(reach):
    vec = VecEnv(reach, 1)
    step = jax.jit(vec.step)
    state, timestep = jax.jit(vec.reset)(KEY)
    still = {"mover": np.zeros((1, 2, 2), np.float32), "caller": np.zeros((1, 1), np.int32)}
    ends = 0
    for _ in range(12):
        state, timestep = step(state, still)
        ends += int(timestep.done[0])
    assert ends >= 2


@pytest.mark.parametrize("name", ["num_envs", "pool_steps", "group_size"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, "is 0; it must be >= 1"),
        (-1, ValueError, "is -1; it must be >= 1"),
        (1.5, TypeError, "is 1.5; it must be a whole number"),
        ("a", TypeError, "is 'a'; it must be a whole number"),
        (True, TypeError, "is True; it must be a whole number"),
        (None, TypeError, "is None; it must be a whole number"),
    ],
)
def test_numbers_that_are_no_counts_are_named(reach, vec, name, value, error, message):
    with pytest.raises(error, match=f"^{name} {message}$"):
        VecEnv(reach, **{"num_envs": 2, name: value})
    with pytest.raises(error, match=f"^{name} {message}$"):
        vec.replace(**{name: value})
    if value is not None:
        with pytest.raises(error, match=f"^count {message}$"):
            vec.generate(KEY, value)


def test_any_whole_number_is_a_count(reach):
    assert VecEnv(reach, np.int64(3)).generate(KEY).length.shape == (3,)


def test_too_few_instances_are_named(vec):
    with pytest.raises(ValueError, match=r"instances have a leaf of shape \(3,.*\); all need 4 rows"):
        vec.reset_to(vec.generate(KEY, 3), KEY)


@pytest.mark.slow
def test_an_index_beyond_32_bits_is_counted(vec):
    state, _ = vec.reset(KEY)
    calls = np.array([[0], [2**32], [-(2**40)], [2]], np.int64)
    still = np.zeros((NUM_ENVS, 2, 2), np.float32)
    _, timestep = vec.step(state, {"mover": still, "caller": calls})
    assert timestep.metrics["invalid_actions"].tolist() == [0, 1, 1, 0]


@pytest.fixture(scope="module")
def stood(reach):
    """Start, then states, timesteps and actions, of environments that are not reset, until well after the ends."""
    vec, random = VecEnv(reach, NUM_ENVS, auto_reset=False), np.random.default_rng(1)
    step = jax.jit(vec.step)
    start, _ = jax.jit(vec.reset)(KEY)
    state, states, timesteps, actions = start, [], [], []
    for _ in range(reach.max_steps + 3):
        action = any_action(random)
        state, timestep = step(state, action)
        states.append(state)
        timesteps.append(timestep)
        actions.append(action)
    return start, states, timesteps, actions


@pytest.mark.slow
def test_without_resets_it_plays_every_problem_once(reach, stood):
    """Against each problem by itself; what has ended stands still, pays nothing and is counted no further."""
    start, states, timesteps, actions = jax.device_get(stood)
    assert start.pool == ()
    step, begin = jax.jit(reach.step), jax.jit(reach.reset_to)
    ends = set()
    for i in range(NUM_ENVS):
        state, single = begin(row(start.env.course, i))
        total, length, has_ended = 0.0, 0, False
        for time, action in enumerate(actions):
            state, single = step(state, row(action, i))
            seen, stands = row(timesteps[time], i), row(states[time].env, i)
            counted = [*single.reward["mover"][single.valid["mover"]], *single.reward["caller"]]
            total, length = total + np.mean(counted), length + (not has_ended)
            statistics = {"episode_return": np.float32(total), "episode_length": np.float32(length)}
            shown = {**vars(single), "metrics": {**single.metrics, **statistics}}
            close({name: getattr(seen, name) for name in shown}, shown)
            close((seen.final_observation, stands.position), (single.observation, state.position))
            if has_ended:
                assert seen.terminated or seen.truncated
                assert not any(paid.any() for paid in seen.reward.values())
                close(stands.position, row(states[time - 1].env.position, i))
            elif single.done:
                ends.add(length)
            has_ended = bool(single.done)
        assert has_ended
    assert len(ends) > 1


def test_the_length_of_an_episode_by_events_is_its_time():
    env = make("truck_drone", decide="events", num_drones=1, num_customers=2, num_route_nodes=2, max_steps=12)
    vec = VecEnv(env, NUM_ENVS)
    state, timestep = jax.jit(vec.reset)(KEY)
    step, player, longer = jax.jit(vec.step), RandomActor(env), 0
    for number in range(12):
        action, _ = player.act(jax.random.key(number), (), state.env, timestep)
        state, timestep = step(state, action)
        done = np.asarray(timestep.done)
        lengths, times = (np.asarray(timestep.metrics[name]) for name in ("episode_length", "time_step"))
        np.testing.assert_array_equal(lengths[done], times[done])
        longer += int((lengths[done] > number + 1).sum())
    assert longer, "some decisions took several steps"
