"""`pcb`: component placement seen through the environment contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp import fields
from jaxvrp.actions import judge
from jaxvrp.envs.pcb import reward, rules, turns
from jaxvrp.envs.pcb.observation import OBSERVATION_SIZE
from jaxvrp.envs.pcb.problem import start_placement
from jaxvrp.envs.pcb.problem.board import Board, as_float32, pad
from jaxvrp.envs.pcb.problem.instance import Instance, Sizes, Targets, Wiring, agent_targets, wire
from jaxvrp.envs.pcb.reward import Weights
from jaxvrp.envs.pcb.rules import State
from jaxvrp.envs.pcb.turns import Physics, Transition
from jaxvrp.memory import Memory
from jaxvrp.spaces import Box, ByRole, Role
from jaxvrp.turns import Choose, TurnBasedEnvironment, Turns, act_at_once

ROLE = "component"
MODES = ("sequential", "simultaneous")
BOUNDARIES = ("clamp", "terminate")
ROTATIONS = ("absolute", "hold")


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

    Global observation, `f32[9 N]`, a row for each part: exists, is fixed, side, x / w, y / h, orientation / 4, width
    / w, height / h (at orientation 0), overlap ratio.

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
        mode: agents act one after the other, each seeing the moves before it, or all at once.
        boundary: centres are kept on the board, or parts may leave it.
        rotation: see above.
        shuffle: a new order of turns in every step; else that of the parts.
        augment: shift and turn what is fixed in every episode.
        max_steps: of an episode.
        rays: rays of a sector; 4 is faster, 8 more exact.
        step_fraction, wire_weight, overlap_weight, hpwl_weight: see above.
    """

    boards: Board
    wirings: Wiring
    targets: Targets
    sizes: Sizes = struct.field(pytree_node=False)
    source: tuple[tuple[str, Any], ...] = struct.field(pytree_node=False, default=())
    mode: str = struct.field(pytree_node=False, default="sequential", metadata={"choices": MODES})
    boundary: str = struct.field(pytree_node=False, default="clamp", metadata={"choices": BOUNDARIES})
    rotation: str = struct.field(pytree_node=False, default="absolute", metadata={"choices": ROTATIONS})
    shuffle: bool = struct.field(pytree_node=False, default=True)
    augment: bool = struct.field(pytree_node=False, default=True)
    max_steps: int = fields.size(200)
    rays: int = fields.size(8)
    step_fraction: float = fields.parameter(0.05, above=0.0)
    wire_weight: float = fields.parameter(4.0, minimum=0.0)
    overlap_weight: float = fields.parameter(2.0, minimum=0.0)
    hpwl_weight: float = fields.parameter(4.0, minimum=0.0)

    def check_fields(self) -> None:
        """Refuse weights that are all 0, with a ValueError; see `jaxvrp.fields.build`."""
        weights = [self.wire_weight, self.overlap_weight, self.hpwl_weight]
        if all(isinstance(weight, int | float) for weight in weights) and not sum(weights):
            raise ValueError("wire_weight, overlap_weight and hpwl_weight are all 0; one of them must be above")

    @property
    def roles(self) -> dict[str, Role]:
        """The movable parts."""
        box = Box(-jnp.inf, jnp.inf, (OBSERVATION_SIZE,))
        return {ROLE: Role(self.sizes.agents, box, Box(-1.0, 1.0, (3,)))}

    @property
    def parameters(self) -> dict[str, Any]:
        """By keyword of `make`."""
        made = {"boards", "wirings", "targets", "sizes", "source"}
        return {**dict(self.source), **{name: v for name, v in super().parameters.items() if name not in made}}

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
        pick, key = jax.random.split(key)
        row = jax.random.randint(pick, (), 0, self.targets.hpwl.shape[0], jnp.int32)
        board, wiring, targets = jax.tree.map(lambda leaf: leaf[row], (self.boards, self.wirings, self.targets))
        return self._begin(board, wiring, targets, row, key)

    def instance(self, board: Board, key: jax.Array) -> Instance:
        """A given board with its own targets; parts are placed as in `generate`.

        Raises:
            ValueError: the board is larger than the environment's sizes.
        """
        board = self._fitted(board)
        wiring = wire(board, self.sizes)
        return self._begin(board, wiring, agent_targets(board, wiring), self._foreign, key)

    def place(self, board: Board, position: jax.Array, orientation: jax.Array, key: jax.Array) -> Instance:
        """A given board with its parts at given places: `f32[n, 2]` centres and `i32[n]` quarter turns.

        Raises:
            ValueError: the board is larger than the environment's sizes.
        """
        board = self._fitted(board)
        beyond = ((0, board.num_components - len(position)), (0, 0))
        position = jnp.pad(jnp.asarray(position, jnp.float32), beyond)
        orientation = jnp.pad(jnp.asarray(orientation, jnp.int32), beyond[:1])
        board = board.replace(position=position, orientation=orientation)
        wiring = wire(board, self.sizes)
        return self._instance(board, wiring, agent_targets(board, wiring), self._foreign, key)

    @property
    def _foreign(self) -> jax.Array:
        return jnp.asarray(self.targets.hpwl.shape[0], jnp.int32)

    def _fitted(self, board: Board) -> Board:
        leaves, sizes = jax.tree.leaves(board), self.sizes
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            own = Sizes.of(jax.tree.map(lambda leaf: np.asarray(leaf)[None], board))
            if any(a > b for a, b in zip(own[3:], sizes[3:], strict=True)):
                raise ValueError(
                    f"a board of {own.agents} movable parts, {own.part_pads} signal pads of one part and "
                    f"{own.shared_pads} on one net does not fit into {sizes.agents}, {sizes.part_pads} and "
                    f"{sizes.shared_pads}; make the environment with it, make('pcb', boards=[...])"
                )
        return pad(as_float32(board), sizes.components, sizes.pins, sizes.nets)

    def _begin(self, board: Board, wiring: Wiring, targets: Targets, row: jax.Array, key: jax.Array) -> Instance:
        shift, place, turns = jax.random.split(key, 3)
        board = start_placement.augment(board, shift) if self.augment else board
        return self._instance(start_placement.scatter(board, place), wiring, targets, row, turns)

    def _instance(self, board: Board, wiring: Wiring, targets: Targets, row: jax.Array, key: jax.Array) -> Instance:
        pose, nothing = (board.position, board.orientation), jnp.zeros(self.sizes.agents, jnp.float32)
        _, nets, overlap = rules.measure_board(board, wiring, *pose)
        instance = Instance(board, wiring, targets, row, key, nothing, nothing, nets.sum(), overlap, None)
        seen, observation = turns.look_around(instance, *pose, self.rays)
        return instance.replace(
            start_wirelength=jnp.where(wiring.is_agent, seen.wirelength, 0.0),
            start_hpwl=jnp.where(wiring.is_agent, seen.hpwl, 0.0),
            start_observation=observation if self.mode == "simultaneous" else None,
        )

    def init_state(self, instance: Instance) -> State:
        """All parts at their start."""
        return rules.begin(instance)

    def order(self, state: State) -> jax.Array:
        """`i32[A]`, the agents in the order of their turns in the coming step."""
        agents = jnp.arange(self.sizes.agents, dtype=jnp.int32)
        if not self.shuffle:
            return agents
        draws = jax.random.uniform(jax.random.fold_in(state.instance.key, state.time), agents.shape, jnp.float32)
        earlier = (draws < draws[:, None]) | ((draws == draws[:, None]) & (agents < agents[:, None]))
        rank = earlier.sum(axis=1, dtype=jnp.int32)
        return jnp.where(rank == agents[:, None], agents, 0).sum(axis=1, dtype=jnp.int32)

    def move(self, state: State, agent: jax.Array, action: jax.Array) -> tuple[State, Transition]:
        """One agent's turn; `step` is the turns of all in their `order`, and the clock.

        Args:
            state: with the moves before it.
            agent: `i32[]`.
            action: `f32[3]` in [-1, 1]; clipped, no move if it is not finite, and counted.
        """
        return self._turn(state, agent, lambda _: action)

    def _turn(
        self, state: State, agent: jax.Array, choose: Callable[[jax.Array], jax.Array]
    ) -> tuple[State, Transition]:
        observation, valid = turns.observe(state, agent, self.rays), turns.may_act(state, agent)
        alone = {ROLE: Role(1, self.roles[ROLE].observation, self.roles[ROLE].action)}
        asked = {ROLE: choose(observation)[None]}
        is_agent = state.instance.wiring.is_agent[agent][None]
        executed, num_invalid = judge(alone, asked, {}, {ROLE: _no_move(1)}, {ROLE: is_agent})
        state = turns.act(state, agent, executed[ROLE][0], self._physics)
        state = state.replace(invalid_actions=state.invalid_actions + num_invalid)
        return state, Transition(
            obs=observation,
            action=executed[ROLE][0],
            next_obs=turns.observe(state, agent, self.rays),
            reward=jnp.where(valid, self._rewards(state, state.time + 1)[agent], 0.0),
            terminated=valid & state.left[agent],
            valid=valid,
        )

    @property
    def _physics(self) -> Physics:
        return Physics(self.step_fraction, self.boundary == "clamp", self.rotation == "absolute", self.rays)

    def take_turns(self, state: State, choose: Choose) -> tuple[State, Turns]:
        """See `TurnBasedEnvironment`; one agent after the other in sequential mode."""
        if self.mode == "simultaneous":
            return act_at_once(self, state, choose)

        def turn(state: State, agent: jax.Array) -> tuple[State, Transition]:
            own = {ROLE: agent[None]}
            return self._turn(state, agent, lambda seen: choose({ROLE: seen[None]}, own)[ROLE][0])

        order = self.order(state)
        state, taken = jax.lax.scan(turn, state, order)
        by_agent = jnp.argmax(order == jnp.arange(self.sizes.agents)[:, None], axis=1)
        rows = (taken.obs, taken.action, taken.next_obs, taken.reward, taken.terminated, taken.valid)
        return rules.settle(state), Turns(*({ROLE: row[by_agent]} for row in rows))

    def transition(self, state: State, action: ByRole, num_invalid: jax.Array) -> State:
        """All agents move, one after the other or at once."""
        state = state.replace(invalid_actions=state.invalid_actions + num_invalid)
        if self.mode == "simultaneous":
            return rules.settle(turns.act_at_once(state, action[ROLE], self._physics))

        def turn(state: State, agent: jax.Array) -> tuple[State, None]:
            return turns.act(state, agent, action[ROLE][agent], self._physics), None

        return rules.settle(jax.lax.scan(turn, state, self.order(state))[0])

    def observation(self, state: State) -> ByRole:
        """`{"component": f32[A, 31]}`, see the class."""
        if self.mode == "simultaneous":
            assert state.observation is not None
            return {ROLE: state.observation}
        return {ROLE: turns.look_around(state.instance, state.position, state.orientation, self.rays)[1]}

    def global_observation(self, state: State) -> jax.Array:
        """`f32[9 N]`, see the class."""
        board = state.instance.board
        columns = [
            *(flag.astype(jnp.float32)[:, None] for flag in (board.exists, board.fixed & board.exists, board.side)),
            state.position / board.outline,
            (state.orientation / 4).astype(jnp.float32)[:, None],
            board.size / board.outline,
            state.overlap[:, None],
        ]
        return jnp.where(board.exists[:, None], jnp.concatenate(columns, axis=1), 0.0).ravel()

    def action_mask(self, state: State) -> ByRole:
        """None: actions are continuous."""
        del state
        return {}

    def fallback(self, mask: ByRole) -> ByRole:
        """Actions that are not finite are no moves: NaN, as `transition` understands it."""
        del mask
        return {ROLE: _no_move(self.sizes.agents)}

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


def _no_move(agents: int) -> jax.Array:
    return jnp.full((agents, 3), jnp.nan, jnp.float32)


def _lowered_targets(targets: Targets, states: State) -> Targets:
    """Lowered to what the parts of a batch of states reached while legal."""
    row = states.instance.row
    return jax.tree.map(lambda old, new: old.at[row].min(new, mode="drop"), targets, states.lowest)
