"""What the tests of TD3 and SAC share: a tiny environment with known best play, tiny trainers, quick compilation."""

import warnings

import jax
import jax.numpy as jnp
import pytest
from flax import struct

import jaxvrp
from jaxvrp import Environment, Role
from jaxvrp.memory import Memory
from jaxvrp.spaces import Box
from jaxvrp.turns import TurnBasedEnvironment, Turns

with warnings.catch_warnings():
    # distrax brings TensorFlow Probability, which reads names that JAX has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import distrax  # noqa: F401

from train.algorithms import ALGORITHMS

AGENTS, STEPS, REACH = 3, 8, 0.25
LOW, HIGH = -0.5, 1.5
MIDDLE = (LOW + HIGH) / 2


@struct.dataclass
class Task:
    """`goal` `f32[agents]` in [-1, 1), `count` `i32[]` agents that are no padding, 1 to 3."""

    goal: jax.Array
    count: jax.Array


@struct.dataclass
class Places:
    """`place` `f32[agents]`, `paid` `f32[agents]`, `best` `f32[]` so far anywhere; `step`, `invalid` `i32[]`."""

    task: Task
    place: jax.Array
    paid: jax.Array
    step: jax.Array
    invalid: jax.Array


class Reach(Environment):
    """Agents on a line walk to their goals, all at once, and see the place of the agent before them.

    A move is REACH times (action - MIDDLE), so that neither 0 nor the bounds of the box are special; the reward is
    minus the distance that is left. An episode ends after STEPS steps.

    Attributes:
        cut: the end is a truncation.
        remembers: whether `nearest` is carried on.
        merges: whether several devices can agree on it.
        nearest: `f32[agents]`, least distances that anyone came to.
    """

    cut: bool = struct.field(pytree_node=False, default=True)
    remembers: bool = struct.field(pytree_node=False, default=True)
    merges: bool = struct.field(pytree_node=False, default=False)
    nearest: jax.Array = struct.field(default_factory=lambda: jnp.full(AGENTS, 9.0, jnp.float32))

    @property
    def roles(self):
        return {"walker": Role(AGENTS, Box(-float("inf"), float("inf"), (4,)), Box(LOW, HIGH, (1,)))}

    @property
    def max_episode_steps(self):
        return STEPS

    @property
    def truncates(self):
        return self.cut

    @property
    def parameters(self):
        return {"cut": self.cut, "remembers": self.remembers, "merges": self.merges}

    @property
    def memory(self):
        if not self.remembers:
            return None

        def update(nearest, states):
            return jnp.minimum(nearest, jnp.abs(states.place - states.task.goal).min(axis=0))

        return Memory(
            initial=self.nearest,
            update=update,
            apply=lambda nearest: self.replace(nearest=nearest),
            merge=jax.lax.pmin if self.merges else None,
        )

    def generate(self, key):
        goal, count = jax.random.split(key)
        return Task(
            jax.random.uniform(goal, (AGENTS,), minval=-1.0), jax.random.randint(count, (), 1, AGENTS + 1, jnp.int32)
        )

    def init_state(self, instance):
        zeros, zero = jnp.zeros(AGENTS, jnp.float32), jnp.zeros((), jnp.int32)
        return Places(instance, zeros, zeros, zero, zero)

    def fallback(self, mask):
        return {"walker": jnp.full((AGENTS, 1), jnp.nan, jnp.float32)}

    def moved(self, state, agent, action):
        """One agent's move, `action` `f32[1]`; NaN is none."""
        by = jnp.nan_to_num(REACH * (action[0] - MIDDLE))
        place = state.place.at[agent].add(by)
        left = jnp.abs(place[agent] - state.task.goal[agent])
        return state.replace(place=place, paid=state.paid.at[agent].set(-left))

    def transition(self, state, action, num_invalid):
        state, _ = jax.lax.scan(
            lambda s, xs: (self.moved(s, *xs), None), state, (jnp.arange(AGENTS, dtype=jnp.int32), action["walker"])
        )
        return state.replace(step=state.step + 1, invalid=state.invalid + num_invalid)

    def observation(self, state):
        before = jnp.roll(state.place, 1).at[0].set(0.0)
        time = jnp.full(AGENTS, state.step / STEPS, jnp.float32)
        return {"walker": jnp.stack([state.task.goal - state.place, state.place, before, time], axis=1)}

    def global_observation(self, state):
        return jnp.concatenate([state.place, state.task.goal])

    def action_mask(self, state):
        return {}

    def reward(self, state):
        return {"walker": state.paid}

    def is_terminal(self, state):
        return (state.step >= STEPS) & (not self.cut)

    def is_truncated(self, state):
        return (state.step >= STEPS) & self.cut

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32)}

    def valid(self, state):
        return {"walker": jnp.arange(AGENTS) < state.task.count}


class ReachInTurn(Reach, TurnBasedEnvironment):
    """As `Reach`, but the agents move one after the other."""

    def take_turns(self, state, choose):
        def take_turn(state, agent):
            before = self.observation(state)["walker"][agent]
            action = choose({"walker": before[None]}, {"walker": agent[None]})["walker"]
            finite = jnp.isfinite(action).all()
            action = jnp.where(finite, jnp.clip(action, LOW, HIGH), jnp.nan)[0]
            state = self.moved(state, agent, action)
            after = self.observation(state)["walker"][agent]
            return state, (before, action, after, state.paid[agent], ~finite)

        state, taken = jax.lax.scan(take_turn, state, jnp.arange(AGENTS, dtype=jnp.int32))
        before, action, after, paid, refused = taken
        valid = self.valid(state)
        num_refused = jnp.sum(refused & valid["walker"], dtype=jnp.int32)
        state = state.replace(step=state.step + 1, invalid=state.invalid + num_refused)
        return state, Turns(
            observation={"walker": before},
            action={"walker": action},
            next_observation={"walker": after},
            reward={"walker": paid},
            terminated={"walker": jnp.broadcast_to(self.is_terminal(state), (AGENTS,))},
            valid=valid,
        )


jaxvrp.register("reach_of_the_tests", ReachInTurn)


@pytest.fixture(scope="session")
def make():
    """`make(algorithm, env={...}, **changes)`: a tiny trainer, made and compiled once per configuration."""
    made = {}

    def make_trainer(algorithm, env=None, **changes):
        tiny = {"num_envs": 4, "num_devices": 1, "rollout_length": 4, "hidden_sizes": (8,), "batch_size": 80}
        tiny |= {"gradient_steps": 2, "buffer_size": 400, "target_exploration_steps": 16, "random_steps": 32}
        tiny |= {"total_steps": 160, "log_interval": 1, "eval_interval": 2, "save_interval": 3, "eval_episodes": 4}
        tiny["env"] = {"name": "reach_of_the_tests", **(env or {})}
        config = ALGORITHMS[algorithm].config_class(**{**tiny, **changes})
        if repr(config) not in made:
            made[repr(config)] = ALGORITHMS[algorithm].make_train(config)
        return made[repr(config)]

    return make_trainer


@pytest.fixture(scope="session")
def reach():
    """`reach(in_turn=True, **fields)`: the environment."""

    def build(in_turn=True, **fields):
        return (ReachInTurn if in_turn else Reach)(**fields)

    return build
