"""What is collected, against the walk of every agent by hand: own observations, own moves, phases, nothing void."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp import VecEnv, turns
from jaxvrp.episodes import play_episodes
from jaxvrp.spaces import Box
from train.off_policy import collect
from train.off_policy.collect import Collector, TurnActor
from train.off_policy.replay_buffer import Decisions

ENVS, TIME, AGENTS, STEPS, STRIDE, LOW, HIGH = 4, 19, 3, 8, 0.25, -0.5, 1.5
UNRECORDED, RANDOM = 3, 6


@dataclasses.dataclass(frozen=True)
class Stub:
    """Acts by what it sees and by the noise, sometimes beyond the box; NaN where it sees little of its goal."""

    fails_below: float = -9.0

    def act(self, actor, observation, noise):
        chosen = actor * observation[:, :1] + 0.3 * observation[:, 2:3] + 0.1 * noise
        return jnp.where(observation[:, :1] < self.fails_below, jnp.nan, chosen)


SURE = Stub()


def collector(env, stub=SURE, **changes):
    vec_env = VecEnv(env, ENVS, pool_steps=128)
    return Collector(**{"vec_env": vec_env, "policies": {"walker": stub}, "num_steps": TIME, **changes})


def play(made, jitted_play, step=0):
    """States before and after, rows `[E, T, agents]`, which are kept, and statistics; keys are taken out of states."""
    vec, _ = made.vec_env.reset(jax.random.key(0))
    after, rows, episodes = jitted_play({"walker": jnp.float32(0.8)}, vec, jnp.int32(step), jax.random.key(1))
    rows, keep = rows["walker"]
    rows = Decisions.unpacked(rows.reshape(ENVS, TIME, AGENTS, -1), 4, 1)
    return jax.device_get((vec.replace(key=0), after.replace(key=0), rows, keep.reshape(ENVS, TIME, AGENTS), episodes))


@pytest.fixture(scope="module")
def explorer(line_walk):
    """`explorer(in_turn)`: a collector that plays at random at first, and its jitted `play`; compiled once."""

    @functools.cache
    def make(in_turn):
        made = collector(line_walk(in_turn, cut=False), unrecorded_steps=UNRECORDED, random_steps=RANDOM)
        return made, jax.jit(made.play)

    return make


@pytest.fixture(scope="module", params=[True, False], ids=["in turn", "at once"])
def played(request, explorer):
    """Whether agents act in turn, and what was collected from the first step of a run on."""
    return request.param, *play(*explorer(request.param))


def walk(rows, e, in_turn):
    """Every agent's step in environment `e`, by hand: `(t, agent, seen before, seen after)` from actions and goals."""
    for t in range(TIME):
        if t % STEPS == 0:
            place = np.zeros(AGENTS)
            goal = rows.observation[e, t, :, 0] + rows.observation[e, t, :, 1]
        moves = STRIDE * (rows.action[e, t, :, 0] * (HIGH - LOW) / 2)

        def look(agent, place=place, goal=goal, time=t % STEPS):
            before = place[agent - 1] if agent else 0.0
            return goal[agent] - place[agent], place[agent], before

        first = [look(agent) for agent in range(AGENTS)]
        for agent in range(AGENTS):
            if in_turn:
                first[agent] = look(agent)
            place[agent] += moves[agent]
            if in_turn:
                yield t, agent, first[agent], look(agent)
        if not in_turn:
            yield from ((t, agent, first[agent], look(agent)) for agent in range(AGENTS))


def test_what_every_agent_saw_before_and_after_its_move(played):
    in_turn, _, _, rows, _, _ = played
    for e in range(ENVS):
        for t, agent, before, after in walk(rows, e, in_turn):
            np.testing.assert_allclose(rows.observation[e, t, agent, :3], before, atol=1e-5)
            np.testing.assert_allclose(rows.next_observation[e, t, agent, :3], after, atol=1e-5)
            np.testing.assert_allclose(rows.reward[e, t, agent], -abs(after[0]), atol=1e-5)


def test_the_end_is_seen_before_the_reset(played):
    in_turn, _, _, rows, _, episodes = played
    last = np.arange(TIME) % STEPS == STEPS - 1
    np.testing.assert_array_equal(rows.terminated, np.broadcast_to(last[:, None], (ENVS, TIME, AGENTS)))
    time = (np.arange(TIME) % STEPS + (not in_turn)) / STEPS
    np.testing.assert_allclose(rows.next_observation[..., 3], np.broadcast_to(time[:, None], (ENVS, TIME, AGENTS)))
    assert episodes["episodes"] == 2 * ENVS
    assert episodes["episode_length"] == 2 * ENVS * STEPS


def test_a_truncated_episode_is_bootstrapped(line_walk):
    made = collector(line_walk(cut=True), unrecorded_steps=0, random_steps=0)
    _, _, rows, keep, _ = play(made, jax.jit(made.play))
    assert (rows.terminated == 0).all()
    assert keep[:, STEPS - 1].any()


def test_void_rows_and_unrecorded_steps_are_not_kept(played):
    _, first, after, _, keep, _ = played
    counts = first.env.task.count
    for e in range(ENVS):
        np.testing.assert_array_equal(keep[e, :UNRECORDED], False)
        wanted = np.broadcast_to(np.arange(AGENTS) < counts[e], (STEPS - UNRECORDED, AGENTS))
        np.testing.assert_array_equal(keep[e, UNRECORDED:STEPS], wanted)
        after_all = np.broadcast_to(np.arange(AGENTS) < after.env.task.count[e], (TIME - 2 * STEPS, AGENTS))
        np.testing.assert_array_equal(keep[e, 2 * STEPS :], after_all)
    assert len(set(counts.tolist())) > 1


def test_random_play_first_then_the_policy(played):
    _, _, _, rows, _, _ = played
    saw, did = rows.observation, rows.action[..., 0]
    by_policy = 0.8 * saw[..., 0] + 0.3 * saw[..., 2]
    off = did - np.clip(by_policy, -1, 1)
    assert np.abs(off[:, UNRECORDED + RANDOM :]).max() < 0.5  # five standard deviations of the noise
    early = did[:, : UNRECORDED + RANDOM].ravel()
    assert np.abs(off[:, : UNRECORDED + RANDOM]).max() > 0.9
    # Uniform in [-1, 1]: mean 0, variance 1/3; 108 numbers.
    assert abs(early.mean()) < 0.2 and abs(early.var() - 1 / 3) < 0.12
    assert np.abs(early).max() <= 1 and len(np.unique(early)) == early.size


def test_the_environment_remembers_from_the_first_step(played):
    _, first, after, rows, _, _ = played
    left = np.abs(rows.next_observation[..., 0]).min(axis=(0, 1))
    np.testing.assert_allclose(after.memory, left, atol=1e-6)
    assert (first.memory == 9).all()


def test_later_in_a_run_the_policy_plays_at_once(explorer):
    _, _, rows, keep, _ = play(*explorer(True), step=UNRECORDED + RANDOM)
    by_policy = np.clip(0.8 * rows.observation[..., 0] + 0.3 * rows.observation[..., 2], -1, 1)
    assert np.abs(rows.action[..., 0] - by_policy).max() < 0.5
    assert keep[:, 0].any()


def test_a_move_that_was_refused_is_not_kept(line_walk):
    made = collector(line_walk(), Stub(fails_below=0.0), unrecorded_steps=0, random_steps=0)
    _, after, rows, keep, _ = play(made, jax.jit(made.play))
    failed = rows.observation[..., 0] < 0
    np.testing.assert_array_equal(np.isnan(rows.action[..., 0]), failed)
    assert not keep[failed].any() and keep[~failed].any()
    assert np.isfinite(after.env.place).all()


def test_actions_fill_the_box():
    box = Box(LOW, HIGH, (2, 1))
    action = np.array([[-1.0, 1.0], [0.0, 0.5]], np.float32)
    there = collect.to_box(box, action)
    np.testing.assert_allclose(there[..., 0], [[LOW, HIGH], [0.5, 1.0]])
    np.testing.assert_allclose(collect.from_box(box, there)[..., 0], action, atol=1e-6)


def test_draws_are_independent_and_normal(line_walk):
    uniform = collect.draw_uniform(jax.random.key(0), line_walk().roles, 20_000)["walker"][..., 0]
    noise = np.asarray(collect.to_normal(uniform))
    assert np.isfinite(noise).all()
    assert np.isfinite(collect.to_normal(jnp.nextafter(jnp.float32(-1), jnp.float32(0))))
    np.testing.assert_allclose(np.cov(noise.T), np.eye(AGENTS), atol=0.04)
    np.testing.assert_allclose((noise < 1).mean(axis=0), 0.8413, atol=0.01)


@pytest.mark.parametrize("in_turn", [True, False])
def test_an_actor_chooses_what_it_would_in_turn(in_turn, line_walk):
    """`step` with the actions of `act` makes the moves that `play` makes."""
    env = line_walk(in_turn)
    actor = TurnActor(env, {"walker": Stub()}, {"walker": jnp.float32(0.8)}, deterministic=True)

    def both(key):
        state, timestep = jax.vmap(env.reset)(jax.random.split(key, ENVS))
        action, _ = actor.act(key, (), state, timestep)

        def choose(observation, agent):
            chosen = Stub().act(0.8, observation["walker"], jnp.zeros((agent["walker"].shape[0], 1)))
            return {"walker": collect.to_box(env.roles["walker"].action, chosen)}

        return jax.vmap(env.step)(state, action), jax.vmap(lambda s: turns.play(env, s, choose))(state)[:2]

    stepped, expected = jax.jit(both)(jax.random.key(2))
    jax.tree.map(np.testing.assert_array_equal, stepped, expected)
    assert np.abs(stepped[0].place).max() > 0.1


def test_samples_of_an_actor_spread_with_the_temperature(line_walk):
    env = line_walk()
    state, timestep = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2))

    def spread(temperature, *, deterministic=False):
        actor = TurnActor(env, {"walker": Stub()}, {"walker": jnp.float32(0.0)}, deterministic, temperature)
        keys = jax.random.split(jax.random.key(1), 500)
        return jax.vmap(lambda k: actor.act(k, (), state, timestep)[0]["walker"][0, 0, 0])(keys).std()

    spread, still = jax.jit(spread), jax.jit(functools.partial(spread, deterministic=True))
    assert still(1.0) == 0
    np.testing.assert_allclose(spread(1.0), 0.1, rtol=0.15)  # the stub's noise, in a box of half width 1
    np.testing.assert_allclose(spread(4.0), 0.2, rtol=0.15)


def test_whole_episodes_with_an_actor(line_walk):
    env = line_walk(in_turn=False)
    actor = TurnActor(env, {"walker": Stub()}, {"walker": jnp.float32(0.0)})
    instances = jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(0), 5))
    figures = jax.jit(lambda i: play_episodes(env, actor, i, jax.random.key(0)))(instances)
    goal, count = np.abs(np.asarray(instances.goal)), np.asarray(instances.count)
    idle = [-STEPS * goal[e, : count[e]].mean() for e in range(5)]  # nobody moves, padding is not counted
    np.testing.assert_allclose(figures["return"], idle, rtol=1e-5)
