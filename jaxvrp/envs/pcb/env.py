"""`pcb`: component placement seen through the environment contract."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxvrp import fields
from jaxvrp.actions import judge
from jaxvrp.envs.pcb import reward, rules
from jaxvrp.envs.pcb.measure import measure_agent, measure_board
from jaxvrp.envs.pcb.observation import OBSERVATION_SIZE, board_vector, measure_agents, observe
from jaxvrp.envs.pcb.problem import instance as problem
from jaxvrp.envs.pcb.problem.board import Board
from jaxvrp.envs.pcb.problem.instance import BY_AGENT, Instance, Sizes, Targets, Wiring
from jaxvrp.envs.pcb.reward import Weights
from jaxvrp.envs.pcb.rules import State
from jaxvrp.envs.pcb.wirelength import Pads
from jaxvrp.memory import Memory, RememberingEnvironment
from jaxvrp.spaces import Box, ByRole, Role
from jaxvrp.turns import Choose, TurnBasedEnvironment, Turns, act_at_once

ROLE = "component"
MADE_FIELDS = ("boards", "wirings", "targets", "sizes", "source")
"""Fields of `Pcb` that `make` fills in; the others are its keywords."""


class Pcb(TurnBasedEnvironment, RememberingEnvironment):
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

    Metrics: `docs/pcb.md`. What the keywords of `make` are stands beside their defaults.
    """

    # `[B]`, padded; problems are drawn from these uniformly.
    boards: Board = struct.field(
        metadata={"help": "what is played: generated, a file (.pcb, .nodes or .npz), or a list of files"}
    )
    wirings: Wiring  # `[B]`, tables of the boards
    targets: Targets  # `[B, A]`
    sizes: Sizes = struct.field(pytree_node=False)
    source: tuple[tuple[str, Any], ...] = struct.field(pytree_node=False, default=())  # keywords of the boards
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
        """The keywords of `make` with their values."""
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
        augment_key, scatter_key, turn_key = jax.random.split(start_key, 3)
        board = problem.augment(board, augment_key) if self.augment else board
        return self._instance(problem.scatter(board, scatter_key), wiring, targets, row, turn_key)

    def place(self, board: Board, position: jax.Array, orientation: jax.Array, key: jax.Array) -> Instance:
        """A given board, with its own targets, and its parts at given places.

        `position`: `f32[n, 2]`, centres; `orientation`: `i32[n]`, quarter turns; `key`: of the orders of turns.

        Raises:
            ValueError: the board is larger than the environment's sizes.
        """
        board = problem.fit_board(board, self.sizes)
        missing = board.num_components - len(position)
        position = jnp.pad(jnp.asarray(position, jnp.float32), ((0, missing), (0, 0)))
        orientation = jnp.pad(jnp.asarray(orientation, jnp.int32), (0, missing))
        board = board.replace(position=position, orientation=orientation)
        wiring, row_beyond = problem.wire(board, self.sizes), jnp.asarray(self.targets.hpwl.shape[0], jnp.int32)
        return self._instance(board, wiring, problem.board_targets(board, wiring), row_beyond, key)

    def _instance(
        self, board: Board, wiring: Wiring, targets: Targets, row: jax.Array, turn_key: jax.Array
    ) -> Instance:
        """The instance of a board whose parts lie at their start, with the start measured."""
        start = measure_board(board, board.position, board.orientation, wiring)
        agents, observation = measure_agents(board, wiring, board.position, board.orientation, self.rays)
        return Instance(
            board=board,
            wiring=wiring,
            targets=targets,
            row=row,
            key=turn_key,
            start_wirelength=jnp.where(wiring.is_agent, agents.wirelength, 0.0),
            start_hpwl=jnp.where(wiring.is_agent, agents.hpwl, 0.0),
            start_board_hpwl=start.hpwl,
            start_overlap=start.overlap,
            start_observation=observation if self.mode == "simultaneous" else None,
        )

    def init_state(self, instance: Instance) -> State:
        """All parts at their start."""
        return rules.begin(instance)

    def order(self, state: State) -> jax.Array:
        """`i32[A]`, the agents in the order of their turns in the coming step."""
        turn, agents = self._turns(state), jnp.arange(self.sizes.agents, dtype=jnp.int32)
        return jnp.where(turn == agents[:, None], agents, 0).sum(axis=1, dtype=jnp.int32)

    def _turns(self, state: State) -> jax.Array:
        """`i32[A]`, the place of each agent in that order."""
        return rules.draw_turns(state) if self.shuffle else jnp.arange(self.sizes.agents, dtype=jnp.int32)

    def _act(self, state: State, agent: jax.Array, action: jax.Array) -> State:
        """One agent moves by `action` (`f32[3]` in [-1, 1], NaN for no move), if it may, and measures."""
        may = rules.may_act(state, agent)
        part = state.instance.wiring.component[agent]
        position, orientation, undone = self._pose_after(state, part, jnp.where(may, action, jnp.nan))
        moved = rules.put_part(state, agent, position, orientation)
        measures = measure_agent(*moved.placement_of(agent), moved.pads, self.rays)
        acted = may & (jnp.arange(state.left.shape[0]) == agent)
        return rules.record_turns(moved, acted, measures, undone, clamp=self.boundary == "clamp")

    def _pose_after(self, state: State, part: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        clamp, rotate = self.boundary == "clamp", self.rotation == "absolute"
        return rules.pose_after(state, part, action, self.step_fraction, clamp=clamp, rotate=rotate)

    def _poses_after(self, state: State, action: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The poses of all agents (`[A]`), each as if it alone moved; `action`: `f32[A, 3]`."""
        return jax.vmap(self._pose_after, (None, 0, 0))(state, state.instance.wiring.component, action)

    def take_turns(self, state: State, choose: Choose) -> tuple[State, Turns]:
        """See `TurnBasedEnvironment`; one agent after the other in sequential mode."""
        if self.mode == "simultaneous":
            return act_at_once(self, state, choose)
        single_role = {ROLE: Role(1, self.roles[ROLE].observation, self.roles[ROLE].action)}

        def take_turn(state: State, agent: jax.Array) -> tuple[State, Turns]:
            observation, valid = observe(state, agent, self.rays), rules.may_act(state, agent)
            requested = choose({ROLE: observation[None]}, {ROLE: agent[None]})
            is_agent = {ROLE: state.instance.wiring.is_agent[agent][None]}
            executed, num_invalid = judge(single_role, requested, {}, {ROLE: _no_moves(1)}, is_agent)
            state = self._act(state, agent, executed[ROLE][0])
            state = state.replace(invalid_actions=state.invalid_actions + num_invalid)
            rewards = reward.rewards(state, self._weights, state.time + 1, self.max_steps)
            return state, Turns(
                observation={ROLE: observation},
                action={ROLE: executed[ROLE][0]},
                next_observation={ROLE: observe(state, agent, self.rays)},
                reward={ROLE: jnp.where(valid, rewards[agent], 0.0)},
                terminated={ROLE: valid},  # if the step ends the episode, see below
                valid={ROLE: valid},
            )

        order = self.order(state)
        state, turns = jax.lax.scan(take_turn, state, order)
        turns = turns.replace(terminated={ROLE: turns.terminated[ROLE] & state.left.any()})
        place_in_order = jnp.argmax(order == jnp.arange(self.sizes.agents)[:, None], axis=1)
        return rules.settle(state), jax.tree.map(lambda leaf: leaf[place_in_order], turns)

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """All agents move, one after the other or at once."""
        state = state.replace(invalid_actions=state.invalid_actions + num_invalid)
        if self.mode == "simultaneous":
            wiring = state.instance.wiring
            position, orientation, undone = self._poses_after(state, action[ROLE])
            state = rules.put_parts(state, wiring.is_agent, position, orientation)
            measures, observations = measure_agents(*state.placement, self.rays)
            state = rules.record_turns(state, wiring.is_agent, measures, undone, clamp=self.boundary == "clamp")
            return rules.settle(state.replace(observation=observations))

        # A loop starts its kernels anew for every agent, which takes an accelerator longer than what they do.
        acted = jax.lax.platform_dependent(state, action[ROLE], cpu=self._act_in_turn, default=self._act_in_one)
        return rules.settle(acted)

    def _act_in_turn(self, state: State, action: jax.Array) -> State:
        """All agents act by `action` (`f32[A, 3]`), one after the other."""

        def take_turn(state: State, agent: jax.Array) -> tuple[State, None]:
            return self._act(state, agent, action[agent]), None

        return jax.lax.scan(take_turn, state, self.order(state))[0]

    def _act_in_one(self, state: State, action: jax.Array) -> State:
        """The same without a loop: each agent is measured among the parts as they lie after its turn.

        Where it goes depends on no other one, but for those that left the board before its turn.
        """
        position, orientation, undone = self._poses_after(state, action)
        turn = self._turns(state)
        acted = state.instance.wiring.is_agent & ~state.left.any()
        if self.boundary == "terminate":
            acted &= turn <= rules.first_departure(state, acted, turn, position, orientation)
        moved = rules.put_parts(state, acted, position, orientation)
        *placed, place = rules.seen_in_turn(state, moved, acted, turn)
        of_pads = Pads._make((0, None, None, None))
        measure: Any = jax.vmap(measure_agent, (None, BY_AGENT, 0, 0, of_pads, None))
        measures = measure(*state.placement[:2], *placed, state.pads._replace(place=place), self.rays)
        return rules.record_turns(moved, acted, measures, undone, clamp=self.boundary == "clamp")

    def observation(self, state: State) -> ByRole:
        """`{"component": f32[A, 31]}`, see the class."""
        if self.mode == "simultaneous":
            assert state.observation is not None
            return {ROLE: state.observation}
        return {ROLE: measure_agents(*state.placement, self.rays)[1]}

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
        return {ROLE: reward.rewards(state, self._weights, state.time, self.max_steps)}

    @property
    def _weights(self) -> Weights:
        return Weights(self.wire_weight, self.overlap_weight, self.hpwl_weight)

    def is_terminal(self, state: State) -> jax.Array:
        """A part has left the board."""
        return state.left.any()

    extras = ("is_truncated",)

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
