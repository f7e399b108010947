"""PPO: advantages, the way from a rollout to minibatches, and the losses."""

import dataclasses
import itertools
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic
from jaxvrp.policies.actors import ENCODER
from train.algorithms import make_train
from train.on_policy import ppo
from train.on_policy.imitation import Guidance
from train.on_policy.rollout import Recording, Transition
from train.on_policy.value_norm import ValueNorm

STEPS, AGENTS = 7, 2
CHUNKS, LENGTH, ENVS = 3, 4, 5
ROLES = {"truck": 1, "drone": 2}
NETWORKS = [
    ("mlp", True, "central", {}),
    pytest.param("mlp", False, "local", {}, marks=pytest.mark.slow),
    pytest.param("gru", True, "local", {}, marks=pytest.mark.slow),
    pytest.param("gru", False, "central", {}, marks=pytest.mark.slow),
    pytest.param(
        *("attention", True, "central", {"toy": "deliveries", "attention_encode": "agent"}), marks=pytest.mark.slow
    ),
    ("attention", False, "local", {"toy": "deliveries", "attention_encode": "step"}),
    pytest.param(
        *("attention", True, "local", {"toy": "deliveries", "attention_encode": "instance"}), marks=pytest.mark.slow
    ),
]
REWARD = Guidance(jnp.float32(1), jnp.float32(0), jnp.float32(0.01))
"""The reward alone teaches."""

jitted_gae = jax.jit(ppo.gae, static_argnames=("gamma", "gae_lambda"))


def gae_by_definition(reward, value, next_value, terminated, truncated, gamma, gae_lambda):
    """Equation 16 of Schulman et al. (2016), summed forwards up to the end of the episode; one agent, `[T]`.

    `gamma` is one number, or one for each step.
    """
    advantage, gamma = np.zeros(len(reward)), np.broadcast_to(gamma, len(reward))
    for start in range(len(reward)):
        weight = 1.0
        for t in range(start, len(reward)):
            target = reward[t] if terminated[t] else reward[t] + gamma[t] * next_value[t]
            advantage[start] += weight * (target - value[t])
            weight *= gamma[t] * gae_lambda
            if terminated[t] or truncated[t]:
                break
    return advantage


@settings(max_examples=60, deadline=None)
@given(
    ends=st.lists(st.sampled_from(["", "", "terminated", "truncated"]), min_size=2 * STEPS, max_size=2 * STEPS),
    seed=st.integers(0, 2**20),
    rates=st.sampled_from([(0.9, 0.8), (1.0, 1.0), (0.99, 0.0), (0.0, 0.95)]),
)
def test_gae_is_the_sum_of_its_definition(ends, seed, rates):
    reward, value, following = np.random.default_rng(seed).normal(size=(3, STEPS, AGENTS)).astype(np.float32)
    ends = np.array(ends).reshape(STEPS, AGENTS)
    terminated, truncated = ends == "terminated", ends == "truncated"
    gamma, gae_lambda = rates
    got = jitted_gae(reward, value, following, terminated, truncated, gamma=gamma, gae_lambda=gae_lambda)
    for agent in range(AGENTS):
        series = [array[:, agent].tolist() for array in (reward, value, following, terminated, truncated)]
        np.testing.assert_allclose(got[:, agent], gae_by_definition(*series, *rates), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        # delta = 1 + 0.5 * 8 - 2 = 3 at every step; the trace is 0.5 * 0.5 = 0.25
        ("goes on", [3 + 0.25 * (3 + 0.25 * 3), 3 + 0.25 * 3, 3]),
        # the second step still sees the value 8 behind it, but nothing of the third
        ("truncated", [3 + 0.25 * 3, 3, 3]),
        # the second step gains 1 - 2 = -1 and no more
        ("terminated", [3 + 0.25 * -1, -1, 3]),
    ],
)
def test_gae_at_the_end_of_an_episode(end, expected):
    reward, value, following = np.full((3, 3), [[1.0], [2.0], [8.0]], np.float32)
    second = np.array([False, True, False])
    ends = [second & (end == kind) for kind in ("terminated", "truncated")]
    got = jitted_gae(reward, value, following, *ends, gamma=0.5, gae_lambda=0.5)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_gae_with_steps_of_several_durations():
    random = np.random.default_rng(4)
    reward, value, following = random.normal(size=(3, STEPS, AGENTS)).astype(np.float32)
    ends = np.zeros((2, STEPS, AGENTS), bool)
    ends[0, 2, 0] = ends[1, 4, 1] = True
    gamma = (0.9 ** random.integers(1, 6, (STEPS, AGENTS))).astype(np.float32)
    got = jax.jit(ppo.gae)(reward, value, following, *ends, gamma=gamma, gae_lambda=0.8)
    for agent in range(AGENTS):
        series = [array[:, agent] for array in (reward, value, following, *ends, gamma)]
        np.testing.assert_allclose(got[:, agent], gae_by_definition(*series, 0.8), rtol=1e-5, atol=1e-5)


def test_one_gamma_for_all_steps_or_the_same_for_each():
    reward, value, following = np.random.default_rng(5).normal(size=(3, STEPS, AGENTS)).astype(np.float32)
    never = np.zeros((STEPS, AGENTS), bool)
    single = ppo.gae(reward, value, following, never, never, gamma=0.99, gae_lambda=0.95)
    each = jnp.full((STEPS, AGENTS), 0.99, jnp.float32)
    chex.assert_trees_all_close(ppo.gae(reward, value, following, never, never, gamma=each, gae_lambda=0.95), single)


def random_rollout(seed=0, *, truncates=True, void=True, lasting=False):
    """A rollout of noise, `[K, L, E, ...]`, whose observations, log-probabilities and actions say where they are from.

    The stamp of step t of environment e is `1000 t + e`. With `lasting` steps take 1 to 5 steps of the environment.
    """
    rng = np.random.default_rng(seed)
    shape = (CHUNKS, LENGTH, ENVS)
    stamp = (1000 * np.arange(CHUNKS * LENGTH)[:, None] + np.arange(ENVS)).reshape(shape)

    def by_role(draw):
        return {name: draw((*shape, count)) for name, count in ROLES.items()}

    ends = rng.choice(3, size=shape, p=[0.6, 0.2, 0.2])
    flat = (ends > 0).reshape(-1, ENVS)
    reset = np.concatenate([np.ones((1, ENVS), bool), flat[:-1]]).reshape(shape)
    transitions = Transition(
        observation=by_role(lambda s: np.broadcast_to(stamp[..., None], s)[..., None].astype(np.float32)),
        global_observation=stamp[..., None].astype(np.float32),
        entities={"stop": np.broadcast_to(stamp[..., None, None], (*shape, 2, 3)).astype(np.float32)},
        row=rng.integers(0, 3 * ENVS, shape).astype(np.int32),
        action_mask=by_role(lambda s: np.arange(3) <= rng.integers(0, 3, (*s, 1))),
        action=by_role(lambda s: np.broadcast_to(stamp[..., None], s).astype(np.int32)),
        log_prob=by_role(lambda s: np.broadcast_to(stamp[..., None], s).astype(np.float32)),
        teacher_action={},
        alternative={},
        alternative_gain={},
        value=by_role(lambda s: rng.normal(size=s).astype(np.float32)),
        reward=by_role(lambda s: rng.normal(3.0, 2.0, s).astype(np.float32)),
        duration=rng.integers(1, 6, shape).astype(np.float32) if lasting else None,
        final_value=by_role(lambda s: rng.normal(size=s).astype(np.float32)) if truncates else {},
        terminated=ends == 1,
        truncated=(ends == 2) & truncates,
        reset=reset,
        valid={"drone": rng.random((*shape, 2)) < 0.7} if void else {},
    )
    first_step = 1000 * LENGTH * np.arange(CHUNKS)[:, None] + np.arange(ENVS)
    carry = {"actor": {"drone": first_step[..., None, None].astype(np.float32)}, "critic": {"team": ()}}
    last_value = {name: rng.normal(size=(ENVS, count)).astype(np.float32) for name, count in ROLES.items()}
    static = {"stop": rng.normal(size=(3 * ENVS, 1, 3)).astype(np.float32)}
    return Recording(transitions, carry, last_value, static, statistics={})


def test_minibatches_are_whole_sequences_with_their_carries(config, on_mesh, fresh_norm):
    recording = random_rollout()
    transitions = recording.transitions
    chosen = np.array([3, 0, 4])
    ppo_config = config(value_norm=False, normalize_advantage=False)
    whole = on_mesh(lambda *args: ppo.prepare(ppo_config, *args)[0])(recording, fresh_norm)
    batch = jax.device_get(jax.jit(ppo.take)(whole, chosen))
    stamps = batch.observation["truck"][:, :, 0, 0].astype(int)
    assert stamps.shape == (LENGTH, len(chosen) * CHUNKS)
    begins = []
    for column in stamps.T:
        time, env = np.divmod(column, 1000)
        np.testing.assert_array_equal(env, env[0])
        np.testing.assert_array_equal(time, time[0] + np.arange(LENGTH))
        begins.append((env[0], time[0] // LENGTH, time[0] % LENGTH))
    assert sorted(begins) == [(env, chunk, 0) for env in sorted(chosen) for chunk in range(CHUNKS)]
    np.testing.assert_array_equal(batch.carry["actor"]["drone"][:, 0, 0], stamps[0])
    stamped = (batch.observation, batch.action, batch.log_prob, batch.global_observation, batch.entities)
    for array in jax.tree.leaves(stamped):
        np.testing.assert_array_equal(array.reshape(*stamps.shape, -1)[..., -1], stamps)
    where = [(t // LENGTH, t % LENGTH, e) for t, e in (divmod(stamp, 1000) for stamp in stamps.ravel())]
    for field in ("reset", "action_mask", "value", "valid"):
        kept, old = (getattr(x, field) for x in (batch, transitions))
        kept, old = (x["drone"] if field != "reset" else x for x in (kept, old))
        np.testing.assert_array_equal(kept.reshape(len(where), *old.shape[3:]), [old[w] for w in where])
    planes = recording.static["stop"]
    np.testing.assert_array_equal(
        batch.seen.static["stop"].reshape(len(where), *planes.shape[1:]),
        [planes[transitions.row[w]] for w in where],
    )


def seen_norm(mean, deviation):
    seen = (mean, mean**2 + deviation**2, 1.0)
    return ValueNorm(*(jnp.float32(0.5 * moment) for moment in seen))


@pytest.mark.parametrize("truncates", [True, False])
@pytest.mark.parametrize(("norms", "lasting"), [(True, False), (False, False), (False, True)])
def test_prepare_against_numpy(config, on_mesh, norms, lasting, truncates):
    ppo_config = config(value_norm=norms, normalize_advantage=norms, gamma=0.9, gae_lambda=0.8)
    recording = random_rollout(1, truncates=truncates, lasting=lasting)
    transitions = recording.transitions
    gamma = np.broadcast_to(0.9 ** (transitions.duration if lasting else 1), (CHUNKS, LENGTH, ENVS)).reshape(-1, ENVS)
    scale = {"truck": (5.0, 2.0), "drone": (-4.0, 3.0)}
    old = {name: seen_norm(*pair) for name, pair in scale.items()}
    got, norm, metrics = on_mesh(lambda *args: ppo.prepare(ppo_config, *args))(recording, old)
    for name, count in ROLES.items():
        mean, deviation = scale[name]
        time = (CHUNKS * LENGTH, ENVS, count)
        value = (transitions.value[name] * deviation + mean).reshape(time)
        last = recording.last_value[name] * deviation + mean
        following = np.concatenate([value[1:], last[None]])
        terminated, truncated = (x.reshape(-1, ENVS) for x in (transitions.terminated, transitions.truncated))
        if truncates:
            final = (transitions.final_value[name] * deviation + mean).reshape(time)
            following = np.where(truncated[..., None], final, following)
        reward = transitions.reward[name].reshape(time)
        advantage = np.zeros(time)
        for e, a in itertools.product(range(ENVS), range(count)):
            series = (reward[:, e, a], value[:, e, a], following[:, e, a], terminated[:, e], truncated[:, e])
            advantage[:, e, a] = gae_by_definition(*series, gamma[:, e], 0.8)
        target = advantage + value
        valid = transitions.valid.get(name, np.ones((CHUNKS, LENGTH, ENVS, count))).reshape(time).astype(bool)
        decides = (transitions.action_mask[name].sum(-1) > 1).reshape(time) & valid
        assert 0 < decides.sum() < decides.size
        explained = 1 - np.var((target - value)[valid]) / np.var(target[valid])
        np.testing.assert_allclose(metrics[f"{name}/explained_variance"], explained, rtol=1e-4)
        if norms:
            advantage = (advantage - advantage[decides].mean()) / advantage[decides].std()
            moments = [np.mean(target[valid] ** n) * 0.01 + 0.99 * getattr(old[name], f) for n, f in MOMENTS]
            chex.assert_trees_all_close(norm[name], ValueNorm(*moments, 0.01 + 0.99 * 0.5), rtol=1e-4)
        else:
            chex.assert_trees_all_equal(norm[name], old[name])
        new_mean, new_deviation = norm[name].moments()
        expected = {"advantage": advantage, "decides": decides, "valid": valid}
        expected |= {"target": (target - new_mean) / new_deviation, "value": (value - new_mean) / new_deviation}
        for field, array in expected.items():
            by_env = array.reshape(CHUNKS, LENGTH, ENVS, count).transpose(1, 2, 0, 3)
            np.testing.assert_allclose(getattr(got, field)[name], by_env, rtol=1e-4, atol=1e-4, err_msg=field)


MOMENTS = ((1, "mean"), (2, "mean_square"))


def test_with_a_critic_groups_are_compared_step_by_step(config, on_mesh, fresh_norm):
    alone = config(value_norm=False, normalize_advantage=False)
    recording = random_rollout(2)
    batches = [
        jax.device_get(on_mesh(lambda *args, c=c: ppo.prepare(c, *args)[0])(recording, fresh_norm))
        for c in (alone, dataclasses.replace(alone, group_size=ENVS))
    ]
    for name in ROLES:
        before, after = (batch.advantage[name] for batch in batches)
        valid = batches[0].valid[name] > 0
        assert not valid.all() or name == "truck"
        for step, env, chunk, agent in np.ndindex(before.shape):
            row = before[step, :, chunk, agent]
            others = row[valid[step, :, chunk, agent] & (np.arange(ENVS) != env)]
            expected = row[env] - (others.mean() if others.size else 0.0)
            np.testing.assert_allclose(after[step, env, chunk, agent], expected, rtol=1e-4, atol=1e-5)
        chex.assert_trees_all_equal(batches[0].target[name], batches[1].target[name])


@pytest.mark.slow("attention-False-local-changes5")
@pytest.mark.parametrize(("network", "share", "critic", "changes"), NETWORKS)  # every pair of choices occurs
def test_unchanged_parameters_reproduce_the_rollout(learner, on_mesh, fresh_norm, network, share, critic, changes):
    made = learner(network=network, share_drone_policy=share, critic=critic, value_norm=False, **changes)
    trainer, played, ppo_config = made.trainer, made.played, made.trainer.config

    def first_minibatch(played):
        batch = ppo.take(ppo.prepare(ppo_config, played.recording, fresh_norm)[0], jnp.array([2, 0, 3]))
        seen = trainer.seen(played.params["actor"], batch)
        logits, _ = trainer.actors.apply(played.params["actor"], seen, batch.carry["actor"], batch.reset)
        fields = ("action_mask", "action", "log_prob", "advantage")
        terms = {
            name: ppo.policy_terms(logits[name], **{f: getattr(batch, f)[name] for f in fields}, clip_eps=0.2)
            for name in logits
        }
        inputs = trainer.critics.inputs(batch.seen)
        values, _ = trainer.critics.apply(played.params["critic"], inputs, batch.carry["critic"], batch.reset)
        return batch, terms, values, trainer.loss(played.params, batch, REWARD)

    batch, terms, values, (total, metrics) = jax.device_get(on_mesh(first_minibatch)(played))
    assert 3 <= batch.reset.sum() < batch.reset.size / 2
    expected = 0.0
    for name in ("truck", "drone"):
        np.testing.assert_allclose(terms[name]["ratio"], 1.0, atol=1e-5)
        np.testing.assert_allclose(values[name], batch.value[name], atol=1e-5)
        np.testing.assert_allclose(metrics[f"{name}/ratio"], 1.0, atol=1e-5)
        np.testing.assert_allclose(metrics[f"{name}/approx_kl"], 0.0, atol=1e-6)
        np.testing.assert_array_equal(metrics[f"{name}/clip_fraction"], 0.0)
        decides = batch.decides[name].astype(bool)
        separate = name == "drone" and not ppo_config.share_drone_policy
        rows = [(..., 0), (..., 1)] if separate else [...]
        policy_loss = [-batch.advantage[name][row][decides[row]].mean() for row in rows]
        entropy = [terms[name]["entropy"][row][decides[row]].mean() for row in rows]
        gap = np.abs(batch.target[name] - batch.value[name])
        value_loss = np.where(gap < 10, gap**2 / 2, 10 * gap - 50)[batch.valid[name] > 0].mean()
        assert min(entropy) > 0.1
        for key, wanted in {"policy_loss": policy_loss, "entropy": entropy, "value_loss": value_loss}.items():
            np.testing.assert_allclose(np.atleast_1d(metrics[f"{name}/{key}"]), wanted, rtol=1e-4, atol=1e-5)
        expected += sum(policy_loss) - 0.01 * sum(entropy) + value_loss
    np.testing.assert_allclose(total, expected, rtol=1e-4)


@pytest.fixture(scope="module")
def minibatch(learner, on_mesh, fresh_norm):
    """Trainer, parameters and a minibatch of all environments; and the gradients of its loss, `(params, batch)`.

    The second gradients are those of the loss of every actor and of every critic alone, as an update that treats roles
    one after the other takes them.
    """
    made = learner(network="mlp", share_drone_policy=True, critic="central", value_norm=False)
    trainer, played = made.trainer, made.played
    prepare = on_mesh(lambda *args: ppo.take(ppo.prepare(trainer.config, *args)[0], jnp.arange(4)))
    batch = prepare(played.recording, fresh_norm)

    def gradients(params, batch):
        actor, critic = {}, {}
        for role in trainer.actors.roles:
            grad = jax.grad(ppo.actor_loss, has_aux=True)
            kinds = {"config": trainer.config, "actors": trainer.actors, "guidance": REWARD}
            actor[role] = grad(params["actor"][role], batch, batch.seen, role, **kinds)[0]
        for name in trainer.critics.networks:
            grad = jax.grad(ppo.critic_loss, has_aux=True)
            kinds = {"config": trainer.config, "critics": trainer.critics}
            critic[name] = grad(params["critic"][name], batch, name, **kinds)[0]
        return jax.grad(lambda *args: trainer.loss(*args, REWARD)[0])(params, batch), {"actor": actor, "critic": critic}

    return played.params, batch, on_mesh(gradients)


def test_the_loss_is_a_sum_over_actors_and_critics(minibatch):
    params, batch, gradients = minibatch
    together, apart = gradients(params, batch)
    chex.assert_trees_all_close(together, apart, rtol=1e-5, atol=1e-6)
    assert min(np.abs(leaf).max() for leaf in jax.tree.leaves(together)) > 1e-4
    doubled = {**batch.advantage, "truck": 2 * batch.advantage["truck"]}
    _, other = gradients(params, batch.replace(advantage=doubled))
    chex.assert_trees_all_equal(other["actor"]["drone"], apart["actor"]["drone"])
    chex.assert_trees_all_equal(other["critic"], apart["critic"])
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), other["actor"]["truck"], apart["actor"]["truck"])
    assert max(jax.tree.leaves(moved)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("encode", ["step", "instance"])
def test_what_roles_share_learns_from_all_of_them(learner, on_mesh, fresh_norm, encode):
    """The gradient of the shared encoder is the sum of those of the losses of the roles, each by itself."""
    share = encode == "instance"
    made = learner(
        network="attention",
        toy="deliveries",
        attention_encode=encode,
        share_drone_policy=share,
        critic="local",
        value_norm=False,
    )
    trainer, params = made.trainer, made.played.params
    kinds = {"config": trainer.config, "actors": trainer.actors, "guidance": REWARD}

    def gradients(played):
        batch = ppo.take(ppo.prepare(trainer.config, played.recording, fresh_norm)[0], jnp.array([1, 3, 0]))

        def role_loss(params, role):
            return ppo.actor_loss(params[role], batch, trainer.seen(params, batch), role, **kinds)[0]

        def anew(params):
            """The embeddings of every step, from the planes of that step."""
            return trainer.actors.encoder.apply(params[ENCODER], batch.seen.static, batch.seen.entities)

        def as_learned(params):
            return trainer.seen(params, batch).encoded

        def with_slope(embed):
            """Embeddings, and the gradient of a sum of them with weights of the test's."""
            encoded, pull = jax.vjp(embed, params["actor"])
            return encoded, pull(jnp.cos(jnp.arange(encoded.size, dtype=jnp.float32)).reshape(encoded.shape))[0]

        together = jax.grad(lambda params: trainer.loss(params, batch, REWARD)[0])(params)["actor"]
        by_role = {role: jax.grad(role_loss)(params["actor"], role) for role in trainer.actors.roles}
        return together, by_role, with_slope(anew), with_slope(as_learned)

    together, by_role, anew, as_learned = jax.device_get(on_mesh(gradients)(made.played))
    total = jax.tree.map(np.add, by_role["truck"][ENCODER], by_role["drone"][ENCODER])
    chex.assert_trees_all_close(together[ENCODER], total, rtol=1e-4, atol=1e-6)
    for role, gradient in by_role.items():
        assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient[ENCODER])) > 1e-3
        chex.assert_trees_all_close(together[role], gradient[role], rtol=1e-4, atol=1e-6)
        (other,) = by_role.keys() - {role}
        assert not any(leaf.any() for leaf in jax.tree.leaves(gradient[other]))
    np.testing.assert_allclose(as_learned[0], anew[0], atol=1e-5)
    chex.assert_trees_all_close(as_learned[1], anew[1], rtol=1e-3, atol=1e-3)


def test_forced_decisions_have_no_policy_gradient(minibatch):
    params, batch, gradients = minibatch

    def drone_gradient(batch):
        return gradients(params, batch)[0]["actor"]["drone"]

    plain = drone_gradient(batch)
    forced = np.asarray(batch.action_mask["drone"].sum(-1)) == 1
    assert 0.1 < forced.mean() < 0.9
    loud = {**batch.advantage, "drone": jnp.where(forced, 1e3, batch.advantage["drone"])}
    chex.assert_trees_all_equal(drone_gradient(batch.replace(advantage=loud)), plain)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(plain)) > 1e-3
    silent = {**batch.decides, "drone": jnp.zeros_like(batch.decides["drone"])}
    chex.assert_trees_all_equal(drone_gradient(batch.replace(decides=silent)), jax.tree.map(jnp.zeros_like, plain))


def test_forced_decisions_do_not_count(learner, on_mesh, fresh_norm):
    made = learner(network="mlp", share_drone_policy=True, critic="central", value_norm=False)
    batch = jax.device_get(
        on_mesh(lambda data: ppo.prepare(made.trainer.config, data, fresh_norm)[0])(made.played.recording)
    )
    for role in ("truck", "drone"):
        legal = np.asarray(batch.action_mask[role]).sum(-1)
        np.testing.assert_array_equal(batch.decides[role], (legal > 1) * np.asarray(batch.valid[role]))
    assert (np.asarray(batch.decides["drone"]) != batch.valid["drone"]).any()


def test_policy_terms_against_numpy():
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 2, (6, 20, 5)).astype(np.float32)
    mask = rng.random(logits.shape) < 0.6
    mask[..., 0] = True
    action = np.argmax(mask * rng.random(mask.shape), axis=-1).astype(np.int32)
    advantage = rng.normal(size=action.shape).astype(np.float32)
    names = ("policy_loss", "entropy", "ratio", "approx_kl", "clip_fraction")
    expected = {name: np.zeros(action.shape) for name in names}
    log_prob = np.zeros(action.shape, np.float32)
    cases = set()
    for i in np.ndindex(action.shape):
        weights = {a: math.exp(logits[i][a]) for a in range(5) if mask[i][a]}
        probabilities = {a: weight / sum(weights.values()) for a, weight in weights.items()}
        new = math.log(probabilities[action[i]])
        log_prob[i] = new - rng.uniform(-0.5, 0.5)
        ratio = math.exp(new - log_prob[i])
        gain = advantage[i]
        worth = min(ratio, 1.2) * gain if gain > 0 else max(ratio, 0.8) * gain
        cases.add((ratio > 1.2, ratio < 0.8, gain > 0))
        expected["policy_loss"][i] = -worth
        expected["entropy"][i] = -sum(p * math.log(p) for p in probabilities.values())
        expected["ratio"][i] = ratio
        expected["approx_kl"][i] = ratio - 1 - math.log(ratio)
        expected["clip_fraction"][i] = not 0.8 <= ratio <= 1.2
    assert len(cases) == 6
    given_ = {"action_mask": mask, "action": action, "log_prob": log_prob, "advantage": advantage, "clip_eps": 0.2}
    got = jax.jit(lambda x: ppo.policy_terms(x, **given_))(logits)
    assert got.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_allclose(got[key], array, rtol=1e-4, atol=2e-6, err_msg=key)
    slope = jax.jit(jax.grad(lambda x: ppo.policy_terms(x, **given_)["policy_loss"].sum()))(logits)
    ratio = expected["ratio"]
    held = np.where(advantage > 0, ratio > 1.2, ratio < 0.8) | (mask.sum(-1) == 1)
    np.testing.assert_array_equal(np.abs(slope).max(-1) > 0, ~held)


def test_value_error_against_numpy():
    rng = np.random.default_rng(3)
    value, old, target = rng.normal(0, 12.0, (3, 100)).astype(np.float32)

    def error(prediction, target):
        gap = abs(prediction - target)
        return 0.5 * gap**2 if gap <= 10 else 10 * (gap - 5)

    for v, o, t, got in zip(value, old, target, ppo.value_error(value, old, target, 0.2), strict=True):
        near = min(max(v, o - 0.2), o + 0.2)
        np.testing.assert_allclose(got, max(error(v, t), error(near, t)), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_truncated_episodes_are_valued_at_their_end(learner, on_mesh, fresh_norm):
    made = learner(cut=True, network="gru", critic="local", value_norm=False)
    played, ppo_config = made.played, dataclasses.replace(made.trainer.config, normalize_advantage=False)
    transitions = jax.device_get(played.recording.transitions)
    assert transitions.truncated.sum() >= 2
    assert transitions.terminated.sum() >= 2
    got = on_mesh(lambda *args: ppo.prepare(ppo_config, *args)[0].advantage)(played.recording, fresh_norm)
    for name, advantage in jax.device_get(got).items():
        reward, value, final = (
            getattr(transitions, field)[name].reshape(12, 4, -1) for field in ("reward", "value", "final_value")
        )
        following = np.concatenate([value[1:], np.asarray(played.recording.last_value[name])[None]])
        terminated, truncated = (x.reshape(12, 4) for x in (transitions.terminated, transitions.truncated))
        following[truncated] = final[truncated]
        for e, a in itertools.product(range(4), range(value.shape[2])):
            series = (reward[:, e, a], value[:, e, a], following[:, e, a], terminated[:, e], truncated[:, e])
            expected = gae_by_definition(*series, ppo_config.gamma, ppo_config.gae_lambda)
            np.testing.assert_allclose(advantage[:, e, :, a].T.ravel(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_what_decisions_took_is_recorded_by_the_clock(config, on_mesh, fresh_norm):
    """Where decisions hold for several steps, a recording says for how many, and the advantages are discounted so."""
    env = {"name": "truck_drone", "decide": "events", "num_drones": 1, "num_customers": 1, "num_route_nodes": 1}
    trainer = make_train(config(env={**env, "max_steps": 30, "max_repeat": 4}, normalize_advantage=False))
    state = trainer.init(jax.random.key(1))
    recording = jax.jit(trainer.rollout.play)(state.params, state.players, jax.random.key(2))[1]
    transitions = recording.transitions
    duration = np.asarray(transitions.duration)
    clock = np.round(30 * np.asarray(transitions.global_observation[..., -1])).reshape(-1, duration.shape[-1])
    passed, goes_on = np.diff(clock, axis=0), ~np.asarray(transitions.reset).reshape(clock.shape)[1:]
    np.testing.assert_array_equal(passed[goes_on], duration.reshape(clock.shape)[:-1][goes_on])
    assert duration.min() == 1 and duration.max() == 4
    prepared = on_mesh(lambda *args: ppo.prepare(trainer.config, *args)[0].advantage["truck"])
    constant = recording.replace(transitions=transitions.replace(duration=jnp.ones_like(duration)))
    unknown = recording.replace(transitions=transitions.replace(duration=None))
    discounted, steps, plain = (prepared(each, fresh_norm) for each in (recording, constant, unknown))
    np.testing.assert_allclose(steps, plain, rtol=1e-6)
    assert np.abs(discounted - plain).max() > 1e-3


class CutShort(TruckDroneBasic):
    """A user's scenario: what runs out of steps is truncated, not over."""

    def is_terminal(self, world):
        return world.customers.served.all() | world.drones.is_crashed.all()

    extras = ("is_truncated",)

    def is_truncated(self, world):
        return world.step >= self.max_steps


@pytest.mark.slow
def test_an_update_with_a_scenario_that_truncates(config):
    sizes = {"num_drones": 1, "num_customers": 1, "num_route_nodes": 1, "max_steps": 5}
    trainer = make_train(config(env={"name": "truck_drone", "scenario": CutShort, **sizes}, num_minibatches=1))

    def update(key):
        before = trainer.init(key)
        return before, *trainer.train_chunk(before)

    before, after, metrics = jax.jit(update)(jax.random.key(1))
    assert metrics["episode/episodes"] == 2 * 4
    assert int(after.update) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((after.params, metrics)))
    moved = jax.tree.map(lambda a, b: bool((np.asarray(a) != b).any()), after.params, before.params)
    assert all(jax.tree.leaves(moved))
