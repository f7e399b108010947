"""Looking ahead: which choices are tried, what they come to, one episode at a time, and what is learned from that."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.environment import unpaid_timestep
from jaxvrp.envs.darp.baselines.completion import cost_to_go
from train.on_policy import lookahead, ppo
from train.on_policy.actor_critic import PolicyActor, Seen
from train.on_policy.imitation import Guidance
from train.on_policy.trainer import make_train
from train.running.command.prepare import randomized

ENVS, STEPS, LEAST = 4, 8, 0.2
ROLES = ("truck", "drone")
LOOKAHEAD = {
    "network": "attention",
    "toy": "deliveries",
    "rollout": "episodes",
    "rollout_length": STEPS,
    "baseline": "lookahead",
    "lookahead_probability": LEAST,
    "sampling_temperature": 2.0,
}


def flat(leaf):
    """`[K, L, ...] -> [T, ...]`."""
    return np.asarray(leaf).reshape(STEPS, *leaf.shape[2:])


def of_rows(tree, rows):
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def softmax(logits, mask):
    weight = np.where(mask, np.exp(logits - logits.max(axis=-1, keepdims=True)), 0.0)
    return weight / weight.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def made(learner):
    return learner(**LOOKAHEAD)


@pytest.fixture(scope="module")
def walked(made):
    """States and timesteps of the recorded rollout, `[T, E, ...]`, played again, and logits of the policy there."""
    trainer, played = made.trainer, made.played
    pool_key, _ = jax.random.split(played.key)
    action = jax.tree.map(lambda leaf: jnp.asarray(flat(leaf)), played.recording.transitions.action)
    env, actors, params = trainer.env, trainer.actors, played.params["actor"]

    def step(carry, action):
        state, timestep = carry
        static = jax.vmap(env.static_entities)(state)
        seen = Seen(timestep.observation, None, static, timestep.entities, timestep.valid)
        seen = actors.encode(params, jax.tree.map(lambda leaf: leaf[None], seen))
        logits, _ = actors.apply(params, seen, actors.initial_carry(ENVS), jnp.zeros((1, ENVS), bool))
        return jax.vmap(env.step)(state, action), (state, timestep, jax.tree.map(lambda leaf: leaf[0], logits))

    @jax.jit
    def walk(players):
        states = players.vec.env
        first = jax.vmap(lambda state: unpaid_timestep(env, state))(states)
        return jax.lax.scan(step, (states, first), action)[1]

    return jax.device_get(walk(jax.jit(trainer.rollout.reset)(pool_key)))


def test_probabilities_are_of_the_policy_as_it_is(made, walked):
    """Not of what is played at another temperature: only learning moves a policy away from what played."""
    transitions = made.played.recording.transitions
    _, timestep, logits = walked
    for role in ROLES:
        action = flat(transitions.action[role])[..., None]
        probable = softmax(logits[role], timestep.action_mask[role])
        expected = np.take_along_axis(probable, action, axis=-1)[..., 0]
        is_valid = timestep.valid.get(role, np.ones(expected.shape, bool)) & ~timestep.done[..., None]
        found = np.exp(flat(transitions.log_prob[role]))
        np.testing.assert_allclose(found[is_valid], expected[is_valid], rtol=1e-4)
        assert is_valid.sum() > 10


def test_what_is_legal_and_probable_is_tried_where_there_are_two(made, walked):
    outcome = made.played.recording.transitions.outcome
    _, timestep, logits = walked
    tried_at_all = 0
    for role in ROLES:
        mask = timestep.action_mask[role]
        valid = timestep.valid.get(role, np.ones(mask.shape[:-1], bool)) & ~timestep.done[..., None]
        expected = mask & (softmax(logits[role], mask) >= LEAST)
        expected &= (expected.sum(axis=-1, keepdims=True) > 1) & valid[..., None]
        np.testing.assert_array_equal(flat(outcome[role]) > lookahead.NEVER, expected)
        tried_at_all += expected.sum()
        assert not valid.all() and (mask & valid[..., None] & ~expected).any(), "nothing was left out"
    assert tried_at_all > 20


def test_outcomes_are_those_of_episodes_played_on_one_by_one(made, walked):
    """The others do what they did, then all do what is most probable."""
    env, params = made.trainer.env, made.played.params["actor"]
    actor = PolicyActor(env, made.trainer.actors, params)
    transitions = jax.device_get(made.played.recording.transitions)
    states, _, _ = walked

    @jax.jit
    def advance(state, timestep):
        one = jax.tree.map(lambda leaf: leaf[None], (state, timestep))
        action, _ = actor.act(jax.random.key(0), actor.init(1), *one)
        return env.step(state, jax.tree.map(lambda leaf: leaf[0], action))

    step = jax.jit(env.step)

    def played_on(time, e, joint):
        state, timestep = step(jax.tree.map(lambda leaf: leaf[time, e], states), joint)
        total = float(timestep.team_reward)
        while not timestep.done:
            state, timestep = advance(state, timestep)
            total += float(timestep.team_reward)
        return total

    compared = 0
    for role in ROLES:
        outcome = flat(transitions.outcome[role])[:3]
        for place in np.argwhere(outcome > lookahead.NEVER):
            time, e, agent, choice = place
            joint = {name: flat(done)[time, e].copy() for name, done in transitions.action.items()}
            joint[role][agent] = choice
            np.testing.assert_allclose(outcome[tuple(place)], played_on(time, e, joint), rtol=1e-4, atol=1e-5)
            compared += 1
    assert compared > 10


def test_outcomes_fill_several_blocks(made, walked, monkeypatch):
    monkeypatch.setattr(lookahead, "LANES", 8)
    env, transitions = made.trainer.env, made.played.recording.transitions
    go_on = lookahead.by_policy(env, PolicyActor(env, made.trainer.actors, made.played.params["actor"]))

    def merged(leaf):
        return jnp.asarray(leaf).reshape(-1, *leaf.shape[2:])

    states, action = jax.tree.map(merged, (walked[0], jax.tree.map(flat, transitions.action)))
    tried = {role: merged(flat(leaf) > lookahead.NEVER) for role, leaf in transitions.outcome.items()}
    assert all(leaf.sum() > 8 for leaf in tried.values())
    found = jax.jit(lambda *of: lookahead.outcomes(env, go_on, *of))(states, action, tried, jax.random.key(0))
    for role in ROLES:
        expected = merged(flat(transitions.outcome[role]))
        np.testing.assert_allclose(found[role], expected, rtol=1e-4, atol=1e-5)


def test_the_loss_is_what_the_policy_expects_of_all_choices(made, on_mesh, fresh_norm):
    trainer, played = made.trainer, made.played
    guidance = Guidance(jnp.float32(1), jnp.float32(0), jnp.float32(0))

    def body(played):
        plain = dataclasses.replace(trainer.config, normalize_advantage=False)
        batches = [ppo.prepare(each, played.recording, fresh_norm)[0] for each in (plain, trainer.config)]
        whole = ppo.take(batches[0], jnp.arange(ENVS))
        logits, _ = trainer.actors.apply(
            played.params["actor"], trainer.seen(played.params["actor"], whole), whole.carry["actor"], whole.reset
        )
        return whole, batches[1].choice_advantage, logits, trainer.loss(played.params, whole, guidance)[0]

    batch, normalized, logits, loss = jax.device_get(on_mesh(body)(played))
    transitions, expected = jax.device_get(played.recording.transitions), 0.0
    for role in ROLES:
        outcome = np.moveaxis(transitions.outcome[role], 0, 2).reshape(*batch.action_mask[role].shape)
        tried = outcome > lookahead.NEVER
        decides = tried.any(axis=-1)
        np.testing.assert_array_equal(batch.decides[role] > 0, decides)
        outcome, tried = outcome[decides], tried[decides]
        filled = np.where(tried, outcome, np.where(tried, outcome, np.inf).min(axis=-1, keepdims=True))
        policy = softmax(logits[role], batch.action_mask[role])[decides]
        mean = np.where(tried, outcome, 0.0).sum(axis=-1) / tried.sum(axis=-1)
        expected -= ((policy * filled).sum(axis=-1) - mean).mean()
        tried = np.moveaxis(transitions.outcome[role], 0, 2) > lookahead.NEVER
        np.testing.assert_allclose(normalized[role][tried].std(), 1.0, rtol=1e-3)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


@pytest.fixture(scope="module")
def drawn():
    """Small instances of dial-a-ride whose penalty is drawn for each episode."""
    env = jaxvrp.make("darp", num_nodes=8, num_agents=2, reward="dense")
    return randomized(env, {"penalty_unvisited": [10.0, 200.0]}, {}, 1)


def test_a_search_goes_on_by_what_was_drawn_for_the_episode(drawn):
    """After each choice, what it says of the state there, in the environment with the penalty of this episode."""
    states, timestep = jax.jit(jax.vmap(drawn.reset))(jax.random.split(jax.random.key(3), 6))
    tried = {"vehicle": timestep.action_mask["vehicle"]}
    action = {"vehicle": jnp.zeros((6, 1), jnp.int32)}
    go_on = lookahead.by_completion(drawn, "short search")
    outcome = jax.jit(lambda *of: lookahead.outcomes(drawn, go_on, *of))(states, action, tried, jax.random.key(0))
    found, mask = np.asarray(outcome["vehicle"])[:, 0], np.asarray(tried["vehicle"])[:, 0]
    np.testing.assert_array_equal(found > lookahead.NEVER, mask)
    row, choice = (jnp.asarray(index, jnp.int32) for index in np.nonzero(mask))
    after, there = jax.vmap(drawn.step)(of_rows(states, row), {"vehicle": choice[:, None]})
    cost = cost_to_go(after.base, jax.random.key(1), rounds=100, penalty=states.drawn["penalty_unvisited"][row])
    np.testing.assert_allclose(found[mask], there.team_reward - cost, rtol=1e-4)
    assert len(row) > 20


def test_who_goes_on_is_known_to_the_environment(config, drawn):
    assert lookahead.by_completion(drawn, "policy") is None
    says = "lookahead_by is 'insight', which is nothing that goes on here; there is 'policy', 'search', 'short search'$"
    with pytest.raises(ValueError, match=says):
        lookahead.by_completion(drawn, "insight")
    with pytest.raises(ValueError, match="lookahead_by is 'search', but nobody looks ahead; leave it out, or set base"):
        make_train(config(lookahead_by="search"))
    with pytest.raises(ValueError, match=r"^lookahead_by is 'search', which is nothing that goes on here; there is"):
        make_train(config(**LOOKAHEAD, lookahead_by="search"))


def test_a_policy_that_remembers_and_rollouts_that_cut_episodes_are_refused(config):
    with pytest.raises(ValueError, match="network 'gru' would have to remember"):
        make_train(config(**{**LOOKAHEAD, "toy": "errands", "network": "gru"}))
    with pytest.raises(ValueError, match="baseline is 'lookahead', which needs whole episodes"):
        make_train(config(**{**LOOKAHEAD, "rollout": "continuing"}))
