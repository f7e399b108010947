"""The environments that tests make up: small, compiled at once, and each with what its tests ask about."""

import jax
import jax.numpy as jnp
from flax import struct

import jaxvrp
from jaxvrp import Environment, Role
from jaxvrp.memory import Memory, RememberingEnvironment
from jaxvrp.spaces import Box, Discrete, EntityKind, Feature, Place, Pointer
from jaxvrp.turns import TurnBasedEnvironment, Turns

UNBOUNDED = (-float("inf"), float("inf"))

AGENTS, STEPS, STRIDE = 3, 8, 0.25
LOW, HIGH = -0.5, 1.5
MIDDLE = (LOW + HIGH) / 2
"""Of `LineWalk`: its size, and the box of its actions."""

TINY = {
    "env": {"name": "toy_of_the_tests"},
    "num_envs": 4,
    "num_devices": 1,
    "rollout_length": 8,
    "num_minibatches": 2,
    "num_epochs": 1,
    "hidden_sizes": (8,),
    "total_steps": 32,
    "eval_episodes": 4,
}
"""Keys of the smallest training by MAPPO or IPPO, of an update."""


# --- the contract ----------------------------------------------------------------------------------------------------


@struct.dataclass
class Course:
    """`target` `f32[2]`, `length` `i32[]` steps."""

    target: jax.Array
    length: jax.Array


@struct.dataclass
class Track:
    """`position` `f32[2, 2]`, `call` `f32[]`, counts `i32[]`, and a typed key: its dynamics are stochastic."""

    course: Course
    position: jax.Array
    call: jax.Array
    step: jax.Array
    invalid: jax.Array
    key: jax.Array


class Reach(Environment):
    """All that the contract allows, in little: a continuous and a discrete role, void rows, noise, both kinds of end.

    Two movers slide towards a target by `Box(-1, 1)`; a caller with `Discrete(3)` makes them faster. Instances last 2
    to 7 steps; after `max_steps` an episode is truncated.
    """

    speed: float = 0.1
    noise: float = 0.01
    max_steps: int = struct.field(pytree_node=False, default=5)

    @property
    def roles(self):
        return {
            "mover": Role(2, Box(-jnp.inf, jnp.inf, (4,)), Box(-1.0, 1.0, (2,))),
            "caller": Role(1, Box(0.0, 1.0, (1,)), Discrete(3)),
        }

    @property
    def max_episode_steps(self):
        return self.max_steps

    def generate(self, key):
        target, length = jax.random.split(key)
        return Course(
            target=jax.random.uniform(target, (2,), jnp.float32, -1.0, 1.0),
            length=jax.random.randint(length, (), 2, 8, jnp.int32),
        )

    def init_state(self, instance):
        zero = jnp.zeros((), jnp.int32)
        call = jnp.zeros((), jnp.float32)
        return Track(instance, jnp.zeros((2, 2), jnp.float32), call, zero, zero, jax.random.key(0))

    def transition(self, state, action, num_invalid):
        key, noise_key = jax.random.split(state.key)
        call = action["caller"][0].astype(jnp.float32)
        noise = self.noise * jax.random.normal(noise_key, (2, 2), jnp.float32)
        position = state.position + self.speed * (1 + call) * action["mover"] + noise
        return Track(state.course, position, call, state.step + 1, state.invalid + num_invalid, key)

    def observation(self, state):
        target = jnp.broadcast_to(state.course.target, (2, 2))
        clock = state.step.astype(jnp.float32) / self.max_steps
        return {"mover": jnp.concatenate([state.position, target], axis=1), "caller": clock.reshape(1, 1)}

    def global_observation(self, state):
        return jnp.concatenate([state.position.ravel(), state.course.target])

    def action_mask(self, state):
        return {"caller": jnp.stack([jnp.array(True), state.step % 2 == 0, jnp.array(True)])[None]}

    def reward(self, state):
        gap = jnp.abs(state.position - state.course.target).sum(axis=1)
        return {"mover": -gap, "caller": -state.call[None]}

    def is_terminal(self, state):
        return state.step >= state.course.length

    extras = ("is_truncated",)

    def is_truncated(self, state):
        return state.step >= self.max_steps

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32), "place": state.position[:, 0]}

    def valid(self, state):
        return {"mover": jnp.stack([jnp.array(True), state.course.length % 2 == 0])}


# --- adapters --------------------------------------------------------------------------------------------------------


@struct.dataclass
class TeamState:
    """`goal` `f32[agents]`, `present` `bool[agents]`, `place` `f32[agents]`, counts `i32[]`."""

    goal: jax.Array
    present: jax.Array
    place: jax.Array
    step: jax.Array
    invalid: jax.Array


class Team(Environment):
    """Agents of one role walk to a goal each: by `Discrete(3)` (left, stay, right) or `Box(-1, 1)`; some are void.

    Left is forbidden at the beginning. Agents that are there end the episode; after `max_steps` it is truncated.
    """

    num_agents: int = struct.field(pytree_node=False, default=3)
    discrete: bool = struct.field(pytree_node=False, default=True)
    max_steps: int = struct.field(pytree_node=False, default=6)

    @property
    def roles(self):
        action = Discrete(3) if self.discrete else Box(-1.0, 1.0, (1,))
        return {"walker": Role(self.num_agents, Box(-20.0, 20.0, (2,)), action)}

    @property
    def max_episode_steps(self):
        return self.max_steps

    def generate(self, key):
        goal = jax.random.uniform(key, (self.num_agents,), jnp.float32, 1.5, 9.0)
        present = jnp.arange(self.num_agents) < 1 + (goal[0] * 1e4).astype(jnp.int32) % self.num_agents
        return goal, present

    def init_state(self, instance):
        zero = jnp.zeros((), jnp.int32)
        return TeamState(*instance, jnp.zeros(self.num_agents, jnp.float32), zero, zero)

    def transition(self, state, action, num_invalid):
        walk = action["walker"].reshape(self.num_agents).astype(jnp.float32) - (1.0 if self.discrete else 0.0)
        return state.replace(place=state.place + walk, step=state.step + 1, invalid=state.invalid + num_invalid)

    def observation(self, state):
        return {"walker": jnp.stack([state.place, state.goal - state.place], axis=1)}

    def global_observation(self, state):
        return jnp.concatenate([state.place, state.goal])

    def action_mask(self, state):
        left = jnp.broadcast_to(state.step > 0, (self.num_agents,))
        always = jnp.ones(self.num_agents, bool)
        return {"walker": jnp.stack([left, always, always], axis=1)} if self.discrete else {}

    def fallback(self, mask):
        stay = jnp.ones(self.num_agents, jnp.int32) if self.discrete else jnp.zeros((self.num_agents, 1), jnp.float32)
        return {"walker": stay}

    def reward(self, state):
        return {"walker": -jnp.abs(state.goal - state.place)}

    def is_terminal(self, state):
        return (jnp.abs(state.goal - state.place) < 1.0).any()

    extras = ("is_truncated",)

    def is_truncated(self, state):
        return state.step >= self.max_steps

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32), "gap": state.goal - state.place}

    def valid(self, state):
        return {"walker": state.present}


# --- on-policy learners ----------------------------------------------------------------------------------------------


@struct.dataclass
class Errand:
    """`length` `i32[]` steps, 3 to 6; `wind` `f32[]` in [-1, 1)."""

    length: jax.Array
    wind: jax.Array


@struct.dataclass
class OnErrand:
    """`position` `f32[3]` of truck and drones; `step` and `invalid` `i32[]`."""

    errand: Errand
    position: jax.Array
    step: jax.Array
    invalid: jax.Array


class Ragged(Environment):
    """Episodes of `state.errand.length` steps.

    Attributes:
        cut: those of odd length are truncated.
    """

    cut: bool = struct.field(pytree_node=False, default=False)

    def _over(self, state):
        return state.step >= state.errand.length

    def is_terminal(self, state):
        return self._over(state) & ~self.is_truncated(state)

    extras = ("is_truncated",)

    def is_truncated(self, state):
        return self._over(state) & self.cut & (state.errand.length % 2 == 1)


class Errands(Ragged):
    """Compiles at once, and yet no two agents or steps are alike: own rewards, moving masks, void rows, ragged ends."""

    @property
    def roles(self):
        return {
            "truck": Role(1, Box(*UNBOUNDED, (3,)), Discrete(4)),
            "drone": Role(2, Box(*UNBOUNDED, (4,)), Discrete(3)),
        }

    @property
    def max_episode_steps(self):
        return 6

    def generate(self, key):
        length, wind = jax.random.split(key)
        return Errand(jax.random.randint(length, (), 3, 7, jnp.int32), jax.random.uniform(wind, (), minval=-1.0))

    def init_state(self, instance):
        zero = jnp.zeros((), jnp.int32)
        return OnErrand(instance, jnp.array([0.0, 0.5, -0.5], jnp.float32), zero, zero)

    def transition(self, state, action, num_invalid):
        push = jnp.concatenate([action["truck"], action["drone"]]).astype(jnp.float32)
        position = 0.7 * state.position + push + state.errand.wind
        return OnErrand(state.errand, position, state.step + 1, state.invalid + num_invalid)

    def observation(self, state):
        around = jnp.stack([state.errand.wind, state.step.astype(jnp.float32)])
        drones = state.position[1:]
        drone = jnp.concatenate([drones[:, None], drones[::-1, None], jnp.tile(around, (2, 1))], axis=1)
        return {"truck": jnp.concatenate([state.position[:1], around])[None], "drone": drone}

    def global_observation(self, state):
        return jnp.concatenate([state.position, jnp.stack([state.errand.wind, state.step.astype(jnp.float32)])])

    def action_mask(self, state):
        def rows(first, agents, actions):
            numbers = first + jnp.arange(agents)[:, None] + jnp.arange(actions) * (1 + state.errand.length)
            return ((numbers + state.step) % 3 == 1).at[:, 0].set(True)

        return {"truck": rows(0, 1, 4), "drone": rows(1, 2, 3)}

    def reward(self, state):
        return {"truck": -state.position[:1], "drone": state.position[1:] * jnp.array([0.5, 2.0])}

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32), "place": state.position[1:]}

    def valid(self, state):
        return {"drone": jnp.stack([jnp.array(True), state.errand.wind > -0.5])}


class CountedErrands(Errands, RememberingEnvironment):
    """`Errands` whose episodes leave behind how many steps were played."""

    @property
    def memory(self):
        return Memory(
            initial=jnp.zeros((), jnp.int32), update=lambda count, states: count + 1, apply=lambda count: self
        )


# --- entities --------------------------------------------------------------------------------------------------------


@struct.dataclass
class Delivery:
    """`place` `f32[customers, 2]` and `weight` `f32[customers]`, `reach` `f32[2]` of drones, `length` `i32[]` steps."""

    place: jax.Array
    weight: jax.Array
    reach: jax.Array
    length: jax.Array


@struct.dataclass
class OnDelivery:
    """`waiting` `bool[customers]`; `position` `f32[3, 2]` of truck and drones; `paid` `f32[3]`; counts `i32[]`."""

    errand: Delivery
    waiting: jax.Array
    position: jax.Array
    paid: jax.Array
    step: jax.Array
    invalid: jax.Array


def features(*names):
    """Features that are called so."""
    return tuple(Feature(name, f"the {name} of a toy") for name in names)


class Deliveries(Ragged):
    """A truck and two drones visit customers: entities of two kinds, one that stays where it is and one that moves.

    A problem lasts 3 to 6 steps and has numbers of its own, which only the static entities show. Drone 1 is void where
    the reach of drone 0 is small. Action 0 stays; the truck may also drive to a drone.

    Attributes:
        num_customers: of a problem.
    """

    num_customers: int = struct.field(pytree_node=False, default=3)

    @property
    def roles(self):
        context, customers = features("x", "y", "clock"), Pointer("customer", 1)
        places = (("x", "y"),)
        truck, drone = Discrete(1 + self.num_customers + 2), Discrete(1 + self.num_customers)
        box, stay = Box(*UNBOUNDED, (3,)), Pointer(None, 1)
        return {
            "truck": Role(1, box, truck, context, (stay, customers, Pointer("drone", 1)), places),
            "drone": Role(2, box, drone, context, (stay, customers), places),
        }

    @property
    def entity_kinds(self):
        customer_place, drone_place = Place("waiting", "x", "y"), Place("there", "x", "y")
        return (
            EntityKind(
                "customer",
                self.num_customers,
                features("x", "y", "weight"),
                features("waiting", "patience"),
                (customer_place,),
            ),
            EntityKind("drone", 2, features("reach"), features("there", "x", "y"), (drone_place,)),
        )

    @property
    def max_episode_steps(self):
        return 6

    def generate(self, key):
        place, weight, reach, length = jax.random.split(key, 4)
        return Delivery(
            jax.random.uniform(place, (self.num_customers, 2), minval=-1.0),
            jax.random.uniform(weight, (self.num_customers,)),
            jax.random.uniform(reach, (2,)),
            jax.random.randint(length, (), 3, 7, jnp.int32),
        )

    def init_state(self, instance):
        zero = jnp.zeros((), jnp.int32)
        start = jnp.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]], jnp.float32)
        return OnDelivery(instance, jnp.ones(self.num_customers, bool), start, jnp.zeros(3, jnp.float32), zero, zero)

    def transition(self, state, action, num_invalid):
        chosen = jnp.concatenate([action["truck"], action["drone"]])
        places = jnp.concatenate([state.errand.place, state.position[1:]])
        goal = jnp.where(chosen[:, None] > 0, places[chosen - 1], state.position)
        position = 0.5 * (state.position + goal)
        is_goal = (chosen[:, None] == 1 + jnp.arange(self.num_customers)).any(axis=0)
        paid = -jnp.abs(position - state.position).sum(axis=1) * jnp.array([1.0, 0.5, 2.0])
        return state.replace(
            waiting=state.waiting & ~is_goal,
            position=position,
            paid=paid,
            step=state.step + 1,
            invalid=state.invalid + num_invalid,
        )

    def observation(self, state):
        clock = jnp.full((3, 1), state.step.astype(jnp.float32) / 6)
        seen = jnp.concatenate([state.position, clock], axis=1)
        return {"truck": seen[:1], "drone": seen[1:]}

    def static_entities(self, state):
        errand = state.errand
        return {"customer": jnp.stack([*errand.place.T, errand.weight]), "drone": errand.reach[None]}

    def entities(self, state):
        patience = 1 - state.step.astype(jnp.float32) / 8
        there = self._there(state)
        return {
            "customer": jnp.stack([state.waiting, state.waiting * patience]).astype(jnp.float32),
            "drone": jnp.concatenate([jnp.ones((1, 2)), state.position[1:].T]).astype(jnp.float32) * there,
        }

    def action_mask(self, state):
        stay, waiting = jnp.ones((1, 1), bool), state.waiting[None]
        drone = jnp.concatenate([stay, waiting], axis=1)
        return {
            "truck": jnp.concatenate([stay, waiting, self._there(state)[None]], axis=1),
            "drone": jnp.concatenate([drone, drone & (jnp.arange(1 + self.num_customers) != 2)]),
        }

    def _there(self, state):
        """Which drones there are, `bool[2]`."""
        return jnp.stack([jnp.array(True), state.errand.reach[0] > 0.3])

    def reward(self, state):
        return {"truck": state.paid[:1], "drone": state.paid[1:]}

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32), "place": state.position[1:, 0]}

    def valid(self, state):
        return {"drone": self._there(state)}


# --- off-policy learners ---------------------------------------------------------------------------------------------


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


class LineWalk(RememberingEnvironment):
    """Agents on a line walk to their goals, all at once, and see the place of the agent before them.

    A move is STRIDE times (action - MIDDLE), so that neither 0 nor the bounds of the box are special; the reward is
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
        by = jnp.nan_to_num(STRIDE * (action[0] - MIDDLE))
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

    extras = ("is_truncated",)

    def is_truncated(self, state):
        return (state.step >= STEPS) & self.cut

    def metrics(self, state):
        return {"invalid_actions": state.invalid.astype(jnp.float32)}

    def valid(self, state):
        return {"walker": jnp.arange(AGENTS) < state.task.count}


class LineWalkInTurn(LineWalk, TurnBasedEnvironment):
    """As `LineWalk`, but the agents move one after the other."""

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


jaxvrp.register("toy_of_the_tests", Errands)
jaxvrp.register("line_walk_of_the_tests", LineWalkInTurn)
jaxvrp.register("deliveries_of_the_tests", Deliveries)
