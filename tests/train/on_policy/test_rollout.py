"""What a rollout records, against a replay by hand; and the playing of whole episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.episodes import play_episodes
from jaxvrp.policies.actors import PolicyActor, Seen
from train.on_policy import ppo

ENVS, STEPS = 4, 12
CHUNKS, LENGTH = 3, 4
"""Of the recordings of learners with memory; the others have one chunk of all steps."""

KINDS = {
    "separate drones, central critic": {"network": "gru", "share_drone_policy": False, "critic": "central"},
    "truncated episodes, local critic": {"network": "gru", "critic": "local", "cut": True},
    "entities, central critic": {
        "network": "attention",
        "critic": "central",
        "toy": "deliveries",
        "cut": True,
        "attention_encode": "step",
    },
    "entities, separate drones": {
        "network": "attention",
        "critic": "local",
        "toy": "deliveries",
        "share_drone_policy": False,
        "attention_encode": "instance",
    },
}


SLOW = {name: pytest.mark.slow for name in KINDS if name != "entities, central critic"}


@pytest.fixture(
    scope="module", params=[pytest.param(kind, id=name, marks=SLOW.get(name, ())) for name, kind in KINDS.items()]
)
def recorded(request, learner):
    """A learner, and its rollout as NumPy arrays whose time is one axis, `[T, E, ...]`."""
    made = learner(**{"value_norm": False, **request.param})
    raw = jax.device_get(made.played.recording.transitions)
    assert raw.reset.shape == ((CHUNKS, LENGTH, ENVS) if remembers(made) else (1, STEPS, ENVS))
    return made, jax.tree.map(lambda leaf: leaf.reshape(STEPS, *leaf.shape[2:]), raw)


def remembers(made):
    """Whether the networks of a learner have memory."""
    return bool(jax.tree.leaves(made.played.start.carry))


@pytest.fixture(scope="module")
def instances(recorded):
    """The problem that environment `e` works on at step `t`, as `instances(t)[e]`, from a `VecEnv` run alongside."""
    made, transitions = recorded
    vec, played = made.trainer.rollout.vec_env, made.played
    refresh = jax.jit(lambda state, key: vec.refresh_pool(state, jax.random.split(key)[0]))
    state = refresh(played.start.vec, played.key)
    step = jax.jit(lambda state, action: vec.step(state, action, refresh=False)[0])
    problems = [jax.device_get(state.env.errand)]
    for t in range(STEPS):
        state = step(state, {name: action[t] for name, action in transitions.action.items()})
        problems.append(jax.device_get(state.env.errand))
    return problems


def pick(tree, e):
    return jax.tree.map(lambda leaf: leaf[e], tree)


def team(timestep):
    """Mean reward of the agents that are there: a drone may be void."""
    return np.concatenate([timestep.reward["truck"], timestep.reward["drone"][timestep.valid["drone"]]]).mean()


def looked(env, state):
    """What the agents see in a state of one environment."""
    static, dynamic = env.static_entities(state), env.entities(state)
    return Seen(env.observation(state), env.global_observation(state), static, dynamic, env.valid(state))


@pytest.fixture(scope="module")
def replay(recorded, instances):
    """Every environment played by itself with the recorded actions: `[E][T]` of what was seen before and after a step.

    Only `reset_to` and `step` of the environment, and what its states look like, are used. Each entry: what is seen
    before the step, the mask, the timestep after it, what is seen then, return and length of the episode so far.
    """
    made, transitions = recorded
    env, start = made.trainer.env, jax.device_get(made.played.start.vec)
    step, reset_to = jax.jit(env.step), jax.jit(env.reset_to)
    look, mask_of = jax.jit(lambda state: looked(env, state)), jax.jit(env.action_mask)
    histories = []
    for e in range(ENVS):
        state, history = pick(start.env, e), []
        total, length = float(start.episode_return[e]), int(start.episode_length[e])
        for t in range(STEPS):
            before, mask = jax.device_get((look(state), mask_of(state)))
            state, after = jax.device_get(step(state, {n: a[t, e] for n, a in transitions.action.items()}))
            total += team(after)
            length += 1
            history.append((before, mask, after, jax.device_get(look(state)), total, length))
            if after.terminated or after.truncated:
                state, total, length = reset_to(pick(instances[t + 1], e))[0], 0.0, 0
        histories.append(history)
    return histories


def test_the_recording_is_what_happened(recorded, replay):
    made, transitions = recorded
    static = made.played.recording.static
    for e, t in np.ndindex(ENVS, STEPS):
        seen, mask, after, _, _, _ = replay[e][t]
        for name in ("truck", "drone"):
            np.testing.assert_array_equal(transitions.action_mask[name][t, e], mask[name])
            np.testing.assert_allclose(transitions.observation[name][t, e], seen.observation[name], atol=1e-5)
            np.testing.assert_allclose(transitions.reward[name][t, e], after.reward[name], atol=1e-5)
        if transitions.global_observation is not None:
            np.testing.assert_allclose(transitions.global_observation[t, e], seen.global_observation, atol=1e-5)
        assert transitions.entities.keys() == static.keys() == seen.entities.keys()
        for name, planes in seen.entities.items():
            np.testing.assert_allclose(transitions.entities[name][t, e], planes, atol=1e-5)
            np.testing.assert_array_equal(static[name][transitions.row[t, e]], seen.static[name])
        assert transitions.terminated[t, e] == after.terminated
        assert transitions.truncated[t, e] == after.truncated
        ended = transitions.terminated[t, e] or transitions.truncated[t, e]
        follows = transitions.reset[t + 1, e] if t + 1 < STEPS else made.played.end.reset[e]
        assert follows == ended
    flat = not made.trainer.env.entity_kinds
    assert (transitions.global_observation is None) == (not (flat and made.trainer.critics.is_central))
    assert (transitions.row is None) == flat == (not static)
    assert transitions.truncated.any() == made.trainer.env.cut
    assert transitions.duration is None
    np.testing.assert_array_equal(transitions.reset[0], made.played.start.reset)
    assert transitions.reset[1:].any(axis=0).all()
    assert not transitions.reset[0].all()
    if remembers(made):
        begins = transitions.reset.reshape(CHUNKS, LENGTH, ENVS)
        assert begins[1:, 0].any()
        assert begins[:, 1:].any(axis=(0, 1)).all()


def test_actions_are_legal(recorded):
    made, transitions = recorded
    for name, mask in transitions.action_mask.items():
        assert np.take_along_axis(mask, transitions.action[name][..., None], -1).all()
        assert 0 < mask[..., 1:].mean() < 1
        assert len(np.unique(transitions.action[name])) >= 3
    assert float(made.played.recording.statistics["invalid_actions"]) == 0


def test_statistics_are_those_of_the_finished_episodes(recorded, replay):
    made, _ = recorded
    wanted = {
        "episodes": 0.0,
        "episode_return": 0.0,
        "episode_length": 0.0,
        "invalid_actions": 0.0,
        "place": np.zeros(2),
    }
    for history in replay:
        for _, _, after, _, total, length in history:
            if after.terminated or after.truncated:
                wanted["episodes"] += 1
                wanted["episode_return"] += total
                wanted["episode_length"] += length
                wanted["place"] = wanted["place"] + after.metrics["place"]
    assert wanted["episodes"] >= 2 * ENVS
    statistics = made.played.recording.statistics
    assert statistics.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(statistics[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


def decide(actors, params, seen, carry, reset):
    """Logits of a step, and the recurrent states afterwards; what is seen is encoded as it is."""
    return actors.apply(params, actors.encode(params, seen), carry, reset)


def assert_kept(carries, chunk, reset, carry):
    """The recurrent states at the beginning of a chunk are `carry`, apart from those of episodes that begin there."""
    kept = jax.tree.map(lambda leaf: np.array(leaf[chunk]), carries)
    for leaf in jax.tree.leaves(kept):
        leaf[reset] = 0.0
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), kept, carry)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(carry)) > 0.1


def test_memory_values_and_probabilities_are_those_of_playing_on(recorded, replay):
    made, transitions = recorded
    trainer, played = made.trainer, made.played
    never = jnp.zeros((1, ENVS), bool)
    act = jax.jit(lambda seen, carry: decide(trainer.actors, played.params["actor"], seen, carry, never))
    judge = jax.jit(
        lambda seen, carry: trainer.critics.apply(played.params["critic"], trainer.critics.inputs(seen), carry, never)
    )

    def stacked(seen):
        """What each environment sees, as one step of a sequence, `[1, E, ...]`."""
        return jax.tree.map(lambda *leaves: np.stack(leaves)[None], *seen)

    carry = jax.tree.map(np.array, jax.device_get(played.start.carry))
    for t in range(STEPS):
        for leaf in jax.tree.leaves(carry):
            leaf[transitions.reset[t]] = 0.0
        if t % LENGTH == 0 and remembers(made):
            assert_kept(played.recording.carries, t // LENGTH, transitions.reset[t], carry)
        before = stacked([replay[e][t][0] for e in range(ENVS)])
        logits, actor_carry = act(before, carry["actor"])
        values, critic_carry = judge(before, carry["critic"])
        for name in logits:
            masked = np.where(transitions.action_mask[name][t], logits[name][0], -np.inf)
            odds = np.exp(masked - masked.max(-1, keepdims=True))
            chosen = np.take_along_axis(odds, transitions.action[name][t][..., None], -1)[..., 0] / odds.sum(-1)
            np.testing.assert_allclose(transitions.log_prob[name][t], np.log(chosen), atol=1e-4)
            np.testing.assert_allclose(transitions.value[name][t], values[name][0], atol=1e-4)
        if transitions.final_value:
            final, _ = judge(stacked([replay[e][t][3] for e in range(ENVS)]), critic_carry)
            for name, value in transitions.final_value.items():
                np.testing.assert_allclose(value[t], final[name][0], atol=1e-4)
        carry = jax.tree.map(np.array, jax.device_get({"actor": actor_carry, "critic": critic_carry}))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), played.end.carry, carry)
    for leaf in jax.tree.leaves(carry):
        leaf[np.asarray(played.end.reset)] = 0.0
    end = jax.jit(jax.vmap(lambda state: looked(trainer.env, state)))(played.end.vec.env)
    values, _ = judge(jax.tree.map(lambda leaf: leaf[None], jax.device_get(end)), carry["critic"])
    for name, value in played.recording.last_value.items():
        np.testing.assert_allclose(value, values[name][0], atol=1e-4)


@pytest.mark.slow
def test_the_update_reads_the_entities_of_the_problem_that_was_played(learner, on_mesh, fresh_norm):
    """In three rollouts, each with a pool of its own, against a `VecEnv` that plays the same actions."""
    made = learner(network="attention", critic="central", toy="deliveries", cut=True, value_norm=False)
    trainer, params = made.trainer, made.played.params
    vec, chosen = trainer.rollout.vec_env, [2, 0]

    def play(start, key):
        end, recording = trainer.rollout.play(params, start, key)
        batch, _, _ = ppo.prepare(trainer.config, recording, fresh_norm)
        return end, (batch, batch.seen, ppo.take(batch, jnp.array(chosen)).seen)

    start, keys = jax.jit(trainer.rollout.reset)(jax.random.key(3)), jax.random.split(jax.random.key(4), 3)
    rollouts = jax.device_get(on_mesh(lambda start: jax.lax.scan(play, start, keys)[1])(start))
    look = jax.jit(jax.vmap(lambda state: looked(trainer.env, state)))
    step = jax.jit(lambda state, action: vec.step(state, action, refresh=False)[0])
    refresh = jax.jit(lambda state, key: vec.refresh_pool(state, jax.random.split(key)[0]))
    state, problems = start.vec, []
    for number, key in enumerate(keys):
        state = refresh(state, key)
        batch, seen, taken = (pick(tree, number) for tree in rollouts)
        for t in range(STEPS):
            wanted = jax.device_get(look(state.env))
            for name in ("customer", "drone"):
                np.testing.assert_array_equal(seen.static[name][t, :, 0], wanted.static[name])
                np.testing.assert_allclose(seen.entities[name][t, :, 0], wanted.entities[name], atol=1e-6)
                np.testing.assert_array_equal(taken.static[name][t], wanted.static[name][chosen])
                np.testing.assert_allclose(taken.entities[name][t], wanted.entities[name][chosen], atol=1e-6)
            state = step(state, {name: actions[t, :, 0] for name, actions in batch.action.items()})
        assert batch.reset[1:].sum() >= 2 * ENVS
        problems.append({reach.tobytes() for reach in seen.static["drone"].reshape(-1, 2)})
    assert min(map(len, problems)) >= 2 * ENVS
    assert 1 <= len(problems[0] & problems[1]) <= ENVS, "what is under way goes on, and all else is new"


PLAYED = ("separate drones, central critic", "entities, central critic")


@pytest.fixture(scope="module", params=[pytest.param(name, marks=SLOW.get(name, ())) for name in PLAYED])
def evaluation(request, learner):
    """A learner, parameters and six problems, of several lengths; and the figures of playing them."""
    made = learner(value_norm=False, **KINDS[request.param])
    trainer, params = made.trainer, made.played.params["actor"]
    # Decided, so that the memory can change a decision.
    params = jax.tree.map(lambda leaf: 2 * leaf, jax.device_get(params))
    problems = jax.jit(jax.vmap(trainer.env.generate))(jax.random.split(jax.random.key(11), 6))
    assert len(set(problems.length.tolist())) > 2
    play = jax.jit(
        lambda key, deterministic: play_episodes(
            trainer.env, PolicyActor(trainer.env, trainer.actors, params, deterministic), problems, key
        ),
        static_argnums=1,
    )
    return made, params, problems, play


def best_legal(logits, mask):
    """The most probable legal action of every agent, from logits `[1, 1, agents, actions]`."""
    return {name: np.where(mask[name], rows[0, 0], -np.inf).argmax(-1) for name, rows in logits.items()}


def test_evaluation_is_a_loop_over_whole_episodes(evaluation):
    made, params, problems, play = evaluation
    trainer = made.trainer
    step, reset_to = jax.jit(trainer.env.step), jax.jit(trainer.env.reset_to)
    look, problems = jax.jit(lambda state: looked(trainer.env, state)), jax.device_get(problems)
    act = jax.jit(lambda seen, carry: decide(trainer.actors, params, seen, carry, jnp.zeros((1, 1), bool)))
    figures, swayed = jax.device_get(play(jax.random.key(0), True)), 0
    for e in range(6):
        state, timestep = reset_to(pick(problems, e))
        carry, total, length = trainer.actors.initial_carry(1), 0.0, 0
        while not (timestep.terminated or timestep.truncated):
            seen = jax.tree.map(lambda leaf: leaf[None, None], jax.device_get(look(state)))
            forgetful_logits, _ = act(seen, trainer.actors.initial_carry(1))
            logits, carry = act(seen, carry)
            best = best_legal(logits, timestep.action_mask)
            forgetful = best_legal(forgetful_logits, timestep.action_mask)
            swayed += any((forgetful[name] != best[name]).any() for name in best)
            state, timestep = step(state, {name: choice.astype(np.int32) for name, choice in best.items()})
            total += team(timestep)
            length += 1
        assert length == problems.length[e]
        np.testing.assert_allclose(figures["return"][e], total, rtol=1e-4, atol=1e-4)
        assert figures["length"][e] == length
        np.testing.assert_allclose(figures["place"][e], timestep.metrics["place"], rtol=1e-4, atol=1e-4)
        assert figures["invalid_actions"][e] == 0
    assert (swayed > 0) == remembers(made)


def test_evaluation_draws_nothing_unless_told_to(evaluation):
    play = evaluation[-1]
    figures, again, other = (play(jax.random.key(seed), True) for seed in (0, 0, 1))
    for name, figure in figures.items():
        np.testing.assert_array_equal(figure, again[name])
        np.testing.assert_array_equal(figure, other[name])
    sampled, same, different = (play(jax.random.key(seed), False)["return"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(sampled, same)
    assert (np.asarray(sampled) != np.asarray(different)).any()
    assert (np.asarray(sampled) != np.asarray(figures["return"])).any()
