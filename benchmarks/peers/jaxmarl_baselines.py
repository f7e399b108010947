"""The published baselines of JaxMARL on its particle environments, re-stated: its wheel has environments alone.

They follow `baselines/IPPO/ippo_ff_mpe.py` and `baselines/MAPPO/mappo_rnn_mpe.py` of github.com/FLAIROx/JaxMARL (commit
014b4f0): all agents in one axis, dicts of agents joined and split at every step, its own log wrapper, steps in a scan,
advantages by a scan backwards (unrolled 8 and 16 times), epochs of permuted minibatches, clipped losses of policy and
value, advantages normalised in each minibatch, Adam behind a clipped norm with a rate that falls linearly. As there,
feedforward actors and critics share one optimiser and shuffle all rows; those with memory have one each, shuffle whole
rollouts of agents and learn from them, and their critic sees the observations of all agents.

Where they differ:

- Widths are arguments, so that both sides can have the same: published are 64 for IPPO and 128 for MAPPO.
- The categorical distribution is written out; distrax does the same, a product with one-hot vectors included.
- Minibatches have only what a loss reads; the published ones also shuffle rewards and logs.
- Nothing is sent to a logging service, which the published ones do from within every update.

Shapes: `N` is agents times environments, agent by agent; `T` steps of a rollout.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.linen.initializers import orthogonal
from flax.training.train_state import TrainState

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Names are those of our own keys where there is one; values are the published ones."""

    num_envs: int
    rollout_length: int
    width: int
    num_updates: int = 1000
    learning_rate: float = 2.5e-4
    num_epochs: int = 4
    num_minibatches: int = 4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_eps: float = 0.2
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5


class Transition(NamedTuple):
    """A step, `[T, N, ...]`; `world` (all observations) and `begins` are of the critic with memory, else None."""

    observation: jax.Array
    world: jax.Array | None
    begins: jax.Array | None
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


class Batch(NamedTuple):
    """What a minibatch is taken from, `[T, N, ...]`; `hidden`, memory before the first step, is `[1, N, H]` each."""

    observation: jax.Array
    world: jax.Array | None
    begins: jax.Array | None
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    target: jax.Array
    hidden: tuple[jax.Array, ...]


class Runner(NamedTuple):
    """Between two updates: networks with their optimisers, environments, what is seen, and the memory."""

    networks: tuple[TrainState, ...]
    env_state: Any
    observation: dict[str, jax.Array]
    begins: jax.Array
    hidden: tuple[jax.Array, ...]
    key: jax.Array


def joined(values: dict[str, jax.Array], agents: list[str]) -> jax.Array:
    """`{agent: [E, ...]}` as `[N, ...]`."""
    stacked = jnp.stack([values[agent] for agent in agents])
    return stacked.reshape(-1, *stacked.shape[2:])


def split(values: jax.Array, agents: list[str]) -> dict[str, jax.Array]:
    """`[N, ...]` as `{agent: [E, ...]}`."""
    return dict(zip(agents, values.reshape(len(agents), -1, *values.shape[1:]), strict=True))


def gae(
    reward: jax.Array, value: jax.Array, done: jax.Array, last_value: jax.Array, settings: Settings, unroll: int = 1
) -> jax.Array:
    """Advantages `f32[T, N]` of rewards, values and ends `[T, N]`, and of the value `[N]` after them."""

    def back(carry: tuple[jax.Array, jax.Array], step: tuple[jax.Array, ...]) -> tuple[Any, jax.Array]:
        trace, next_value = carry
        reward, value, done = step
        goes_on = settings.gamma * (1 - done)
        trace = reward + goes_on * next_value - value + goes_on * settings.gae_lambda * trace
        return (trace, value), trace

    begin = jnp.zeros_like(last_value), last_value
    return jax.lax.scan(back, begin, (reward, value, done), reverse=True, unroll=unroll)[1]


def policy_loss(log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, clip_eps: float) -> jax.Array:
    """Clipped loss (Schulman et al. 2017) of arrays of one shape, `f32[]`; normalises the advantages."""
    ratio = jnp.exp(log_prob - old_log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return -jnp.minimum(ratio * advantage, ratio.clip(1 - clip_eps, 1 + clip_eps) * advantage).mean()


def value_loss(value: jax.Array, old_value: jax.Array, target: jax.Array, clip_eps: float) -> jax.Array:
    """Half the mean of the worse squared error, with and without clipping the change; `f32[]`."""
    near = old_value + (value - old_value).clip(-clip_eps, clip_eps)
    return 0.5 * jnp.maximum((value - target) ** 2, (near - target) ** 2).mean()


def log_prob_of(logits: jax.Array, action: jax.Array) -> jax.Array:
    """Of actions `i32[...]`, under logits `f32[..., A]`."""
    return (jax.nn.log_softmax(logits) * jax.nn.one_hot(action, logits.shape[-1])).sum(-1)


def entropy_of(logits: jax.Array) -> jax.Array:
    """The mean over everything, `f32[]`."""
    return -(jax.nn.softmax(logits) * jax.nn.log_softmax(logits)).sum(-1).mean()


class ActorCritic(nn.Module):
    """Two trunks of two dense layers with tanh: logits `f32[..., actions]` and values `f32[...]`."""

    num_actions: int
    width: int

    @nn.compact
    def __call__(self, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Both, of observations `f32[..., F]`."""
        logits, value = (self._head(observation, size, gain) for size, gain in ((self.num_actions, 0.01), (1, 1.0)))
        return logits, value.squeeze(-1)

    def _head(self, x: jax.Array, size: int, gain: float) -> jax.Array:
        for _ in range(2):
            x = nn.tanh(nn.Dense(self.width, kernel_init=orthogonal(2**0.5))(x))
        return nn.Dense(size, kernel_init=orthogonal(gain))(x)


class Memory(nn.Module):
    """A gated recurrent unit over time: states after the last step `f32[N, H]` and after each, `f32[T, N, H]`."""

    size: int

    @functools.partial(nn.scan, variable_broadcast="params", split_rngs={"params": False}, in_axes=0, out_axes=0)
    @nn.compact
    def __call__(self, hidden: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """One step: the state before it `f32[N, H]`, inputs `f32[N, F]`, and which begin anew, `bool[N]`."""
        x, begins = step
        return nn.GRUCell(self.size)(jnp.where(begins[:, None], 0.0, hidden), x)


class Recurrent(nn.Module):
    """Dense layer, memory, dense layer, head: an actor or a critic."""

    head_size: int
    head_gain: float
    width: int

    @nn.compact
    def __call__(self, hidden: jax.Array, inputs: jax.Array, begins: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The last state `f32[N, H]` and outputs `f32[T, N, head]`, of inputs `f32[T, N, F]` and `bool[T, N]`."""
        x = nn.relu(nn.Dense(self.width, kernel_init=orthogonal(2**0.5))(inputs))
        hidden, x = Memory(self.width)(hidden, (x, begins))
        x = nn.relu(nn.Dense(self.width, kernel_init=orthogonal(2.0))(x))
        return hidden, nn.Dense(self.head_size, kernel_init=orthogonal(self.head_gain))(x)


class Baseline(abc.ABC):
    """What both have in common: `init(key)` makes a runner, `update(runner)` is one update; both are pure.

    Attributes:
        unroll: of the scan that computes the advantages.
    """

    unroll: int

    def __init__(self, settings: Settings, env: Any):
        """`env` is one of JaxMARL, with its log wrapper."""
        self.settings, self.env = settings, env
        self.agents: list[str] = env.agents
        self.num_actions: int = env.action_space(self.agents[0]).n
        self.num_rows = settings.num_envs * len(self.agents)

    @abc.abstractmethod
    def networks(self, key: jax.Array, num_features: int) -> tuple[TrainState, ...]:
        """Fresh networks for observations of so many numbers."""

    def first_hidden(self) -> tuple[jax.Array, ...]:
        """Of the memory, of every network."""
        return ()

    @abc.abstractmethod
    def look(self, networks: Any, hidden: Any, seen: Transition | Batch) -> tuple[Any, jax.Array, jax.Array]:
        """New memory, logits `f32[T, N, A]` and values `f32[T, N]` of what is seen, `[T, N, ...]`."""

    @abc.abstractmethod
    def seen(self, observation: dict[str, jax.Array], begins: jax.Array) -> Any:
        """What the networks see in one step: observations, world and beginnings, `[N, ...]`."""

    @abc.abstractmethod
    def minibatches(self, key: jax.Array, batch: Batch) -> Batch:
        """A batch permuted and split, with a leading axis of minibatches."""

    @abc.abstractmethod
    def gradient_step(self, networks: Any, batch: Batch) -> tuple[tuple[TrainState, ...], Metrics]:
        """Every network after a step on a minibatch."""

    def init(self, key: jax.Array) -> Runner:
        """Fresh networks and environments."""
        key, network_key, env_key = jax.random.split(key, 3)
        observation, env_state = jax.vmap(self.env.reset)(jax.random.split(env_key, self.settings.num_envs))
        networks = self.networks(network_key, observation[self.agents[0]].shape[-1])
        begins = jnp.zeros(self.num_rows, bool)
        return Runner(networks, env_state, observation, begins, self.first_hidden(), key)

    def update(self, runner: Runner) -> tuple[Runner, Metrics]:
        """Rollout, advantages, epochs of minibatches."""
        first_hidden = runner.hidden
        runner, (steps, info) = jax.lax.scan(self._step, runner, length=self.settings.rollout_length)
        seen = _with_time(self.seen(runner.observation, runner.begins))
        last_value = self.look(runner.networks, runner.hidden, seen)[2][0]
        advantage = gae(steps.reward, steps.value, steps.done, last_value, self.settings, self.unroll)
        batch = Batch(*steps[:6], advantage, advantage + steps.value, tuple(state[None] for state in first_hidden))
        key, epochs_key = jax.random.split(runner.key)
        keys = jax.random.split(epochs_key, self.settings.num_epochs)
        networks, losses = jax.lax.scan(lambda networks, k: self._epoch(networks, k, batch), runner.networks, keys)
        metrics = jax.tree.map(lambda leaf: leaf.mean(), losses | info)
        return runner._replace(networks=networks, key=key), metrics

    def _step(self, runner: Runner, _: None) -> tuple[Runner, tuple[Transition, Metrics]]:
        """All agents act once."""
        key, act_key, env_key = jax.random.split(runner.key, 3)
        seen = self.seen(runner.observation, runner.begins)
        hidden, logits, value = self.look(runner.networks, runner.hidden, _with_time(seen))
        action = jax.random.categorical(act_key, logits[0])
        log_prob = log_prob_of(logits[0], action)
        keys = jax.random.split(env_key, self.settings.num_envs)
        observation, env_state, reward, done, info = jax.vmap(self.env.step)(
            keys, runner.env_state, split(action, self.agents)
        )
        ended = joined(done, self.agents)
        paid = joined(reward, self.agents)
        transition = seen._replace(action=action, log_prob=log_prob, value=value[0], reward=paid, done=ended)
        return Runner(runner.networks, env_state, observation, ended, hidden, key), (transition, info)

    def _epoch(self, networks: Any, key: jax.Array, batch: Batch) -> tuple[Any, Metrics]:
        return jax.lax.scan(self.gradient_step, networks, self.minibatches(key, batch))

    def _train_state(self, network: nn.Module, params: Any) -> TrainState:
        """A network with Adam, behind a clipped norm and with a rate that falls linearly, update by update."""
        settings = self.settings
        steps = settings.num_epochs * settings.num_minibatches

        def rate(count: Any) -> Any:
            return settings.learning_rate * (1.0 - (count // steps) / settings.num_updates)

        tx = optax.chain(optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(rate, eps=1e-5))
        return TrainState.create(apply_fn=network.apply, params=params, tx=tx)


class IPPO(Baseline):
    """As `ippo_ff_mpe`: actors and critics without memory, which see their own observation."""

    unroll = 8

    def networks(self, key: jax.Array, num_features: int) -> tuple[TrainState, ...]:
        """One network with two trunks."""
        network = ActorCritic(self.num_actions, self.settings.width)
        return (self._train_state(network, network.init(key, jnp.zeros((1, num_features)))),)

    def look(self, networks: Any, hidden: Any, seen: Transition | Batch) -> tuple[Any, jax.Array, jax.Array]:
        """See `Baseline`."""
        return hidden, *networks[0].apply_fn(networks[0].params, seen.observation)

    def seen(self, observation: dict[str, jax.Array], begins: jax.Array) -> Any:
        """See `Baseline`."""
        del begins
        return _seen(joined(observation, self.agents), None, None)

    def minibatches(self, key: jax.Array, batch: Batch) -> Batch:
        """All rows of all steps are shuffled: `[minibatches, rows, ...]`."""
        rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batch)
        order = jax.random.permutation(key, rows.action.shape[0])
        shuffled = jax.tree.map(lambda leaf: jnp.take(leaf, order, axis=0), rows)
        return jax.tree.map(lambda leaf: leaf.reshape(self.settings.num_minibatches, -1, *leaf.shape[1:]), shuffled)

    def gradient_step(self, networks: Any, batch: Batch) -> tuple[tuple[TrainState, ...], Metrics]:
        """Of the sum of all losses."""
        settings, (state,) = self.settings, networks

        def loss(params: Any) -> tuple[jax.Array, Metrics]:
            logits, value = state.apply_fn(params, batch.observation)
            policy, entropy = _policy_terms(logits, batch, settings)
            error = value_loss(value, batch.value, batch.target, settings.clip_eps)
            total = policy + settings.value_coef * error - settings.entropy_coef * entropy
            return total, {"policy_loss": policy, "value_loss": error, "entropy": entropy}

        grads, metrics = jax.grad(loss, has_aux=True)(state.params)
        return (state.apply_gradients(grads=grads),), metrics


class MAPPO(Baseline):
    """As `mappo_rnn_mpe`: actors and critics with memory, and critics that see all observations."""

    unroll = 16

    def networks(self, key: jax.Array, num_features: int) -> tuple[TrainState, ...]:
        """An actor and a critic."""
        width, begins, hidden = self.settings.width, jnp.zeros((1, 1), bool), jnp.zeros((1, self.settings.width))
        actor, critic = Recurrent(self.num_actions, 0.01, width), Recurrent(1, 1.0, width)
        actor_key, critic_key = jax.random.split(key)
        actor_params = actor.init(actor_key, hidden, jnp.zeros((1, 1, num_features)), begins)
        critic_params = critic.init(critic_key, hidden, jnp.zeros((1, 1, num_features * len(self.agents))), begins)
        return self._train_state(actor, actor_params), self._train_state(critic, critic_params)

    def first_hidden(self) -> tuple[jax.Array, ...]:
        """Zeros `f32[N, H]` for actor and critic."""
        return tuple(jnp.zeros((self.num_rows, self.settings.width)) for _ in range(2))

    def look(self, networks: Any, hidden: Any, seen: Transition | Batch) -> tuple[Any, jax.Array, jax.Array]:
        """See `Baseline`."""
        actor, critic = networks
        actor_hidden, logits = actor.apply_fn(actor.params, hidden[0], seen.observation, seen.begins)
        critic_hidden, value = critic.apply_fn(critic.params, hidden[1], seen.world, seen.begins)
        return (actor_hidden, critic_hidden), logits, value.squeeze(-1)

    def seen(self, observation: dict[str, jax.Array], begins: jax.Array) -> Any:
        """See `Baseline`."""
        world = jnp.concatenate([observation[agent] for agent in self.agents], axis=-1)
        return _seen(joined(observation, self.agents), jnp.tile(world, (len(self.agents), 1)), begins)

    def minibatches(self, key: jax.Array, batch: Batch) -> Batch:
        """Agents of environments are shuffled, whole rollouts each: `[minibatches, T, rows, ...]`."""
        order = jax.random.permutation(key, self.num_rows)

        def taken(leaf: jax.Array) -> jax.Array:
            parts = jnp.take(leaf, order, axis=1)
            parts = parts.reshape(parts.shape[0], self.settings.num_minibatches, -1, *parts.shape[2:])
            return parts.swapaxes(0, 1)

        return jax.tree.map(taken, batch)

    def gradient_step(self, networks: Any, batch: Batch) -> tuple[tuple[TrainState, ...], Metrics]:
        """Of each loss for itself."""
        settings, (actor, critic) = self.settings, networks

        def actor_loss(params: Any) -> tuple[jax.Array, Metrics]:
            _, logits = actor.apply_fn(params, batch.hidden[0][0], batch.observation, batch.begins)
            policy, entropy = _policy_terms(logits, batch, settings)
            return policy - settings.entropy_coef * entropy, {"policy_loss": policy, "entropy": entropy}

        def critic_loss(params: Any) -> tuple[jax.Array, Metrics]:
            _, value = critic.apply_fn(params, batch.hidden[1][0], batch.world, batch.begins)
            error = value_loss(value.squeeze(-1), batch.value, batch.target, settings.clip_eps)
            return settings.value_coef * error, {"value_loss": error}

        actor_grads, metrics = jax.grad(actor_loss, has_aux=True)(actor.params)
        critic_grads, critic_metrics = jax.grad(critic_loss, has_aux=True)(critic.params)
        updated = actor.apply_gradients(grads=actor_grads), critic.apply_gradients(grads=critic_grads)
        return updated, metrics | critic_metrics


def make(kind: Callable[..., Baseline], settings: Settings, scenario: str = "MPE_simple_spread_v3") -> Baseline:
    """A baseline, of the class `kind`, on one of JaxMARL's environments, which must be installed."""
    import jaxmarl
    from jaxmarl.wrappers.baselines import MPELogWrapper

    return kind(settings, MPELogWrapper(jaxmarl.make(scenario)))


def _policy_terms(logits: jax.Array, batch: Batch, settings: Settings) -> tuple[jax.Array, jax.Array]:
    """Loss and entropy, each `f32[]`."""
    log_prob = log_prob_of(logits, batch.action)
    return policy_loss(log_prob, batch.log_prob, batch.advantage, settings.clip_eps), entropy_of(logits)


def _seen(observation: jax.Array, world: jax.Array | None, begins: jax.Array | None) -> Transition:
    """A transition of which nothing but the beginning is known."""
    unknown: Any = None
    return Transition(observation, world, begins, *[unknown] * 5)


def _with_time(seen: Transition) -> Transition:
    """`[1, N, ...]` of `[N, ...]`."""
    return jax.tree.map(lambda leaf: leaf[None], seen)
