"""`pcb`: component placement seen through the environment contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import fields
from jaxvrp.actions import judge
from jaxvrp.environment import Memory
from jaxvrp.envs.pcb import reward, rules
from jaxvrp.envs.pcb.measure import measure_agent, measure_board
from jaxvrp.envs.pcb.observation import OBSERVATION_SIZE, board_vector, measure_agents, observe
from jaxvrp.envs.pcb.problem import instance as problem
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.instance import Instance, Sizes, Targets, Wiring
from jaxvrp.envs.pcb.reward import Weights
from jaxvrp.envs.pcb.rules import State
from jaxvrp.spaces import Box, ByRole, Role
from jaxvrp.turns import Choose, TurnBasedEnvironment, Turns, act_at_once

ROLE = "component"
MADE_FIELDS = ("boards", "wirings", "targets", "sizes", "source")
"""Fields of `Pcb` that `make` fills in; the others are its keywords."""


class Turn(struct.PyTreeNode):
    """The turn of one agent.

    Attributes:
        obs, next_obs: `f32[31]`, when its turn came and right after it.
        action: `f32[3]` as executed; NaN for no move.
        reward: `f32[]`.
        terminated: `bool[]`, the part has left the board.
        valid: `bool[]`, there is such an agent, and no earlier turn ended the episode.
    """

    obs: jax.Array
    action: jax.Array
    next_obs: jax.Array
    reward: jax.Array
    terminated: jax.Array
    valid: jax.Array


class Pcb(TurnBasedEnvironment):
    """Each movable part of a circuit board is an agent that moves and turns it, to shorten the wires without overlap.

    One role, `"component"`, of A agents in the order of the parts; on boards with fewer the last rows are void (zeros,
    `valid` false). After the public system RL_PCB (Vassallo & Bajada, DATE 2024). Lengths in mm, y points down.

    Action, `Box(-1, 1, (3,))`: m0, m1, m2 stand for the share (m0 + 1) / 2 of the longest step (`step_fraction` of the
    board's shorter side), the direction (m1 + 1) pi, counter-clockwise on screen, and the turn (m2 + 1) / 2, which
    makes the orientation min(floor(4 turn), 3) quarters (`rotation="absolute"`) or nothing (`"hold"`). One that is not
    finite is no move.

    Observation, `f32[31]`: los[8], occupied share of the eight sectors around the part's centre; ol[8], of its own body
    within them; mean vector to the nearest pads on its nets (length / diagonal, angle / pi); vector to the mean of its
    neighbours' centres, likewise; position / board; orientation / 4; boardmask[8], share of its own body that is off
    the board. Sector k is at 45 k degrees, in the frame of the part.

    Global observation, `f32[9 N]`, a row for each part: exists, is fixed, side, x / w, y / h,
    orientation / 4, width / w, height / h (at orientation 0), overlap ratio.

    Reward: tan(pi c / 2.1), c the weighted mean of how far W and H have come from the start to the targets, in [-1, 1],
    and of the share of the body that is free. A part that leaves the board (`boundary="terminate"`) ends the episode
    and pays 15 for every step that was left. After `max_steps` the episode is truncated.

    Metrics of a board: hpwl, overlap (mean overlap ratio of the parts), legal, became_legal, best_hpwl (the shortest
    legal one at the end of a step so far, 0 before there is one), best_ratio (to the start's, 1 before there is one),
    invalid_actions. Of an agent, as measured after its turn: raw_W, raw_HPWL (mm), Wi, HPWLi (at the start), W, HPWL
    (divided by these), raw_We, raw_HPWLe, We, HPWLe (targets, 0 for unknown), ol (mean of eight), weighted_cost (c),
    undone_moves.

    Attributes:
        boards: `Board`, leading axis `[B]`, padded; problems are drawn from these uniformly.
        wirings: `Wiring`, their tables.
        targets: `Targets`, `[B, A]`.
        sizes: static sizes of boards and tables.
        source: what the boards were made from, by keyword of `make`.
        the others: keywords of `make`; what each is stands beside its default.
    """

    boards: Board = struct.field(
        metadata={"help": "what is played: generated, a file (.pcb, .nodes or .npz), or a list of files"}
    )
    wirings: Wiring
    targets: Targets
    sizes: Sizes = struct.field(pytree_node=False)
    source: tuple[tuple[str, Any], ...] = struct.field(pytree_node=False, default=())
    mode: str = fields.choice(
        "sequential",
        ("sequential", "simultaneous"),
        help="agents act one after the other, each seeing the moves before it, or all at once",
    )
    boundary: str = fields.choice(
        "clamp",
        ("clamp", "terminate"),
        help="centres are kept on the board, or parts may leave it, which ends the episode",
    )
    rotation: str = fields.choice(
        "absolute",
        ("absolute", "hold"),
        help="the third number of an action is the part's new orientation, or means nothing",
    )
    shuffle: bool = fields.switch(True, help="a new order of turns in every step; else that of the parts")
    augment: bool = fields.switch(True, help="shift and turn what is fixed, in every episode")
    max_steps: int = fields.size(200, help="steps of an episode")
    rays: int = fields.size(8, maximum=1000, help="rays of a sector of what an agent sees; 4 is faster, 8 more exact")
    step_fraction: float = fields.parameter(
        0.05, above=0.0, help="longest step of a part, as a share of the board's shorter side"
    )
    wire_weight: float = fields.parameter(4.0, minimum=0.0, help="weight of the wirelength W in the reward")
    overlap_weight: float = fields.parameter(2.0, minimum=0.0, help="weight of the freedom from overlap in the reward")
    hpwl_weight: float = fields.parameter(4.0, minimum=0.0, help="weight of the half perimeters H in the reward")

    def check_fields(self) -> None:
        """Refuse weights that are all 0, with a ValueError; see `jaxvrp.fields.build`."""
        weights = [self.wire_weight, self.overlap_weight, self.hpwl_weight]
        if all(isinstance(weight, int | float) for weight in weights) and not sum(weights):
            raise ValueError("wire_weight, overlap_weight and hpwl_weight are all 0; one of them must be above")

    @property
    def roles(self) -> dict[str, Role]:
        """The movable parts."""
        return {ROLE: Role(self.sizes.agents, Box(-jnp.inf, jnp.inf, (OBSERVATION_SIZE,)), Box(-1.0, 1.0, (3,)))}

    @property
    def parameters(self) -> dict[str, Any]:
        """By keyword of `make`."""
        settings = {name: value for name, value in super().parameters.items() if name not in MADE_FIELDS}
        return {**dict(self.source), **settings}

    @property
    def max_episode_steps(self) -> int:
        """`max_steps`."""
        return self.max_steps

    @property
    def memory(self) -> Memory:
        """The targets, which improve themselves: the lowest that any part of any board reached while legal."""
        return Memory(
            initial=self.targets,
            update=_lowered_targets,
            apply=lambda targets: self.replace(targets=targets),
            merge=lambda targets, axis: jax.tree.map(lambda leaf: jax.lax.pmin(leaf, axis), targets),
        )

    def generate(self, key: jax.Array) -> Instance:
        """One of the boards, what is fixed augmented (if `augment`), the other parts anywhere."""
        row_key, start_key = jax.random.split(key)
        row = jax.random.randint(row_key, (), 0, self.targets.hpwl.shape[0], jnp.int32)
        board, wiring, targets = jax.tree.map(lambda leaf: leaf[row], (self.boards, self.wirings, self.targets))
        board, turn_key = self._random_start(board, start_key)
        return self._instance(board, wiring, targets, row, turn_key)

    def instance(self, board: Board, key: jax.Array) -> Instance:
        """A given board with its own targets; parts are placed as in `generate`.

        Raises:
            ValueError: the board is larger than the environment's sizes.
        """
        board, turn_key = self._random_start(problem.fit_board(board, self.sizes), key)
        return self._instance_of_guest(board, turn_key)

    def place(self, board: Board, position: jax.Array, orientation: jax.Array, key: jax.Array) -> Instance:
        """A given board with its parts at given places: `f32[n, 2]` centres and `i32[n]` quarter turns.

        Raises:
            ValueError: the board is larger than the environment's sizes.
        """
        board = problem.fit_board(board, self.sizes)
        missing = board.num_components - len(position)
        position = jnp.pad(jnp.asarray(position, jnp.float32), ((0, missing), (0, 0)))
        orientation = jnp.pad(jnp.asarray(orientation, jnp.int32), (0, missing))
        return self._instance_of_guest(board.replace(position=position, orientation=orientation), key)

    def _random_start(self, board: Board, key: jax.Array) -> tuple[Board, jax.Array]:
        """The board with its parts at a random start, and the key of the orders of turns."""
        augment_key, scatter_key, turn_key = jax.random.split(key, 3)
        board = problem.augment(board, augment_key) if self.augment else board
        return problem.scatter(board, scatter_key), turn_key

    def _instance_of_guest(self, board: Board, turn_key: jax.Array) -> Instance:
        """The instance of a board that is none of the environment's own: its row is beyond the last of them."""
        wiring = problem.wire(board, self.sizes)
        row_beyond = jnp.asarray(self.targets.hpwl.shape[0], jnp.int32)
        return self._instance(board, wiring, problem.board_targets(board, wiring), row_beyond, turn_key)

    def _instance(
        self, board: Board, wiring: Wiring, targets: Targets, row: jax.Array, turn_key: jax.Array
    ) -> Instance:
        """The instance of a board whose parts lie at their start, with the start measured."""
        start = measure_board(board, board.position, board.orientation, wiring)
        unmeasured = jnp.zeros(self.sizes.agents, jnp.float32)
        instance = Instance(
            board=board,
            wiring=wiring,
            targets=targets,
            row=row,
            key=turn_key,
            start_wirelength=unmeasured,
            start_hpwl=unmeasured,
            start_board_hpwl=start.hpwl,
            start_overlap=start.overlap,
            start_observation=None,
        )
        measures, observation = measure_agents(instance, board.position, board.orientation, self.rays)
        return instance.replace(
            start_wirelength=jnp.where(wiring.is_agent, measures.wirelength, 0.0),
            start_hpwl=jnp.where(wiring.is_agent, measures.hpwl, 0.0),
            start_observation=observation if self.mode == "simultaneous" else None,
        )

    def init_state(self, instance: Instance) -> State:
        """All parts at their start."""
        return rules.begin(instance)

    def order(self, state: State) -> jax.Array:
        """`i32[A]`, the agents in the order of their turns in the coming step."""
        return rules.draw_order(state) if self.shuffle else jnp.arange(self.sizes.agents, dtype=jnp.int32)

    def move(self, state: State, agent: jax.Array, action: jax.Array) -> tuple[State, Turn]:
        """One agent's turn; `step` is the turns of all in their `order`, and the clock.

        Args:
            state: with the moves before it.
            agent: `i32[]`.
            action: `f32[3]` in [-1, 1]; clipped, no move if it is not finite, and counted.
        """
        return self._take_turn(state, agent, lambda _: action)

    def _take_turn(
        self, state: State, agent: jax.Array, choose: Callable[[jax.Array], jax.Array]
    ) -> tuple[State, Turn]:
        """One agent's turn with the action that it chooses by its observation."""
        observation, valid = observe(state, agent, self.rays), rules.may_act(state, agent)
        single_role = {ROLE: Role(1, self.roles[ROLE].observation, self.roles[ROLE].action)}
        requested = {ROLE: choose(observation)[None]}
        is_agent = {ROLE: state.instance.wiring.is_agent[agent][None]}
        executed, num_invalid = judge(single_role, requested, {}, {ROLE: _no_moves(1)}, is_agent)
        action = executed[ROLE][0]
        state = self._act(state, agent, action)
        state = state.replace(invalid_actions=state.invalid_actions + num_invalid)
        return state, Turn(
            obs=observation,
            action=action,
            next_obs=observe(state, agent, self.rays),
            reward=jnp.where(valid, self._rewards(state, state.time + 1)[agent], 0.0),
            terminated=valid & state.left[agent],
            valid=valid,
        )

    def _act(self, state: State, agent: jax.Array, action: jax.Array) -> State:
        """One agent moves by `action` (`f32[3]` in [-1, 1], NaN for no move), if it may, and measures."""
        may = rules.may_act(state, agent)
        position, orientation, undone = self._pose_after(state, agent, jnp.where(may, action, jnp.nan))
        moved = rules.put_part(state, agent, position, orientation)
        measures = measure_agent(moved.instance, moved.position, moved.orientation, agent, rays=self.rays)
        acted = may & (jnp.arange(state.left.shape[0]) == agent)
        return rules.record_turns(moved, acted, measures, undone, clamp=self.boundary == "clamp")

    def _act_at_once(self, state: State, action: jax.Array) -> State:
        """All agents move by `action` (`f32[A, 3]`, likewise), then all measure."""
        agents = jnp.arange(action.shape[0], dtype=jnp.int32)
        position, orientation, undone = jax.vmap(self._pose_after, (None, 0, 0))(state, agents, action)
        state = rules.put_parts(state, position, orientation)
        measures, observations = measure_agents(state.instance, state.position, state.orientation, self.rays)
        is_agent = state.instance.wiring.is_agent
        state = rules.record_turns(state, is_agent, measures, undone, clamp=self.boundary == "clamp")
        return state.replace(observation=observations)

    def _pose_after(self, state: State, agent: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        clamp, rotate = self.boundary == "clamp", self.rotation == "absolute"
        return rules.pose_after(state, agent, action, self.step_fraction, clamp=clamp, rotate=rotate)

    def take_turns(self, state: State, choose: Choose) -> tuple[State, Turns]:
        """See `TurnBasedEnvironment`; one agent after the other in sequential mode."""
        if self.mode == "simultaneous":
            return act_at_once(self, state, choose)

        def take_turn(state: State, agent: jax.Array) -> tuple[State, Turn]:
            agents = {ROLE: agent[None]}
            return self._take_turn(state, agent, lambda observation: choose({ROLE: observation[None]}, agents)[ROLE][0])

        order = self.order(state)
        state, turns = jax.lax.scan(take_turn, state, order)
        place_in_order = jnp.argmax(order == jnp.arange(self.sizes.agents)[:, None], axis=1)
        turns = jax.tree.map(lambda leaf: leaf[place_in_order], turns)
        return rules.settle(state), Turns(
            observation={ROLE: turns.obs},
            action={ROLE: turns.action},
            next_observation={ROLE: turns.next_obs},
            reward={ROLE: turns.reward},
            terminated={ROLE: turns.terminated},
            valid={ROLE: turns.valid},
        )

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """All agents move, one after the other or at once."""
        state = state.replace(invalid_actions=state.invalid_actions + num_invalid)
        if self.mode == "simultaneous":
            return rules.settle(self._act_at_once(state, action[ROLE]))

        def take_turn(state: State, agent: jax.Array) -> tuple[State, None]:
            return self._act(state, agent, action[ROLE][agent]), None

        return rules.settle(jax.lax.scan(take_turn, state, self.order(state))[0])

    def observation(self, state: State) -> ByRole:
        """`{"component": f32[A, 31]}`, see the class."""
        if self.mode == "simultaneous":
            assert state.observation is not None
            return {ROLE: state.observation}
        return {ROLE: measure_agents(state.instance, state.position, state.orientation, self.rays)[1]}

    def global_observation(self, state: State) -> jax.Array:
        """`f32[9 N]`, see the class."""
        return board_vector(state)

    def action_mask(self, state: State) -> ByRole:
        """None: actions are continuous."""
        del state
        return {}

    def fallback(self, mask: ByRole) -> ByRole:
        """Actions that are not finite are no moves: NaN, as `transition` understands it."""
        del mask
        return {ROLE: _no_moves(self.sizes.agents)}

    def valid(self, state: State) -> dict[str, jax.Array]:
        """The agents that the board has."""
        return {ROLE: state.instance.wiring.is_agent}

    def reward(self, state: State) -> ByRole:
        """`{"component": f32[A]}` of the last step, see the class."""
        return {ROLE: self._rewards(state, state.time)}

    def _rewards(self, state: State, step: jax.Array) -> jax.Array:
        return reward.rewards(state, self._weights, step, self.max_steps)

    @property
    def _weights(self) -> Weights:
        return Weights(self.wire_weight, self.overlap_weight, self.hpwl_weight)

    def is_terminal(self, state: State) -> jax.Array:
        """A part has left the board."""
        return state.left.any()

    def is_truncated(self, state: State) -> jax.Array:
        """After `max_steps`."""
        return state.time >= self.max_steps

    def metrics(self, state: State) -> dict[str, jax.Array]:
        """See the class."""
        return reward.metrics(state, self._weights)


def _no_moves(num_agents: int) -> jax.Array:
    """`f32[A, 3]`, the actions of agents that stay: NaN."""
    return jnp.full((num_agents, 3), jnp.nan, jnp.float32)


def _lowered_targets(targets: Targets, states: State) -> Targets:
    """The targets `[B, A]` lowered to what the parts of a batch of states reached while legal."""
    row = states.instance.row
    return jax.tree.map(lambda target, lowest: target.at[row].min(lowest, mode="drop"), targets, states.lowest)
