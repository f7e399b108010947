"""Simulated annealing of placements on exact geometry: the baseline of the placement environment.

Minimises the half perimeters of the signal nets in many restarts at once. A move changes one part, and its cost is
computed from the overlaps and nets of that part. All restarts move the same part, each in its own way: so tables and
poses of the part are rows of arrays with the restarts along the last axis. x and y are separate arrays, because arrays
of two keep a CPU from working on many restarts at once. `N` parts, `R` restarts; lengths in mm.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxvrp.envs.pcb import geometry, rules, wirelength
from jaxvrp.envs.pcb.baselines.random_placement import CLEARANCE, uniform_poses
from jaxvrp.envs.pcb.env import Pcb
from jaxvrp.envs.pcb.measure import measure_board
from jaxvrp.envs.pcb.observation import measure_agents
from jaxvrp.envs.pcb.problem.board import Board, as_float32
from jaxvrp.envs.pcb.problem.instance import Instance, obstructing
from jaxvrp.envs.pcb.rules import State
from jaxvrp.episodes import Episode, from_states
from jaxvrp.players import Searched
from jaxvrp.search.annealing import Cycle, geometric
from jaxvrp.search.loop import anytime
from jaxvrp.search.stop import Stop

BLOCK = 128
"""Moves for which the random numbers are drawn at once; after each such block the placements are measured anew."""

# From the first move to the last, geometrically; lengths in units of the mean size of the movable parts, so that boards
# of any scale are annealed alike.
TEMPERATURE = (0.4, 0.005)  # a longer wire is accepted with probability exp(-mm / temperature)
WEIGHT = (1.0, 30.0)  # of the overlap: wire per common area
REACH = (3.0, 0.03)  # largest shift of a part along an axis

SETTLING, SETTLING_WEIGHT = 0.1, 100.0
"""For this share of the moves, the last ones, the weight is so many times as much: parts on many nets are pulled into
each other with more force than a good last weight holds back."""

JUMP, CONTACT, TURN = 0.1, 0.2, 0.5
"""Shares of the moves that put a part anywhere on the board, and beside another part; the rest are shifts. Share of the
moves of any kind that also turn the part."""

RESTARTS, BLOCKS = 32, 8
"""For annealing by the clock: restarts side by side, and blocks of moves in one call."""

CYCLES = (Cycle(0.0, 0.15), Cycle(0.15, 1.0))
"""A hasty annealing, so that there is a placement early, then a slow one."""


class Poses(NamedTuple):
    """Centres in mm and quarter turns: `f32[N, R]`, `f32[N, R]`, `i32[N, R]` of all parts; `[R]` each of one part."""

    x: jax.Array
    y: jax.Array
    quarters: jax.Array

    def of_part(self, part: jax.Array) -> Poses:
        """Those of one part (`i32[]`), `[R]` each."""
        return jax.tree.map(lambda leaf: leaf[part], self)

    def with_part(self, part: jax.Array, pose: Poses) -> Poses:
        """All poses, with another one (`[R]` each) of one part (`i32[]`)."""
        return jax.tree.map(lambda leaf, new: leaf.at[part].set(new), self, pose)


class Tables(NamedTuple):
    """The constants of a board."""

    board: Board  # as `as_float32` makes it
    unit: jax.Array  # f32[], mean size of the movable parts
    half_width: jax.Array  # f32[N], at 0 quarters
    half_height: jax.Array
    obstructs: jax.Array  # bool[N, N]
    pin: jax.Array  # i32[N, M, D], the pads of each signal net that the part is on; -1 for none
    owner: jax.Array  # i32[N, M, D], their parts
    offset_x: jax.Array  # f32[N, M, D], their offsets at 0 quarters
    offset_y: jax.Array

    def half(self, part: jax.Array, quarters: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Half width and height of a part (`i32[]`) at these quarter turns, `[R]` each."""
        return _half_as_turned(self.half_width[part], self.half_height[part], quarters)


class Move(NamedTuple):
    """A move, drawn without regard to where the parts are; the first two are the same in all placements."""

    part: jax.Array  # i32[], the part that moves
    other: jax.Array  # i32[], a part that it may be put beside
    jumps: jax.Array  # bool[R], whether it jumps anywhere; a move that neither jumps nor touches is a shift
    touches: jax.Array  # bool[R], whether it is put beside the other part
    turn: jax.Array  # i32[R], quarters added
    shift: tuple[jax.Array, jax.Array]  # f32[R] along x and y, mm
    place: tuple[jax.Array, jax.Array]  # f32[R] along x and y, where it jumps to, as a share of the outline
    # f32[R] along x and y, from the centre of the other part; 1 is the distance at which the two touch.
    beside: tuple[jax.Array, jax.Array]
    margin: jax.Array  # f32[R], the least increase of the cost, in mm of wire, for which the move is refused


class BestPlacements(struct.PyTreeNode):
    """The best placement of each restart; the last one, where none was legal."""

    position: jax.Array  # f32[R, N, 2], centres
    orientation: jax.Array  # i32[R, N], quarter turns
    hpwl: jax.Array  # f32[R], half perimeters of the signal nets, summed; inf where no legal placement was found
    legal: jax.Array  # bool[R]


class Annealing(struct.PyTreeNode):
    """Where an annealing stands: the present placements, and the best so far."""

    poses: Poses
    best: BestPlacements


def net_widths(board: Board) -> tuple[int, int]:
    """The most signal nets of a movable part, and the most pads of a signal net, of any board of a batch; NumPy."""
    signal = np.asarray(board.signal_pin).reshape(-1, board.num_pins)
    row, pin = np.nonzero(signal)
    component = np.asarray(board.pin_component).reshape(signal.shape)[row, pin]
    net = np.asarray(board.pin_net).reshape(signal.shape)[row, pin]
    movable = np.asarray(board.movable).reshape(len(signal), -1)[row, component]
    nets_of_part = np.unique(np.stack([row, component, net])[:, movable], axis=1)
    return wirelength.most_alike(*nets_of_part[:2]), wirelength.most_alike(row, net)


def anneal(
    board: Board, key: jax.Array, *, widths: tuple[int, int], num_moves: int = 400_000, num_restarts: int = 32
) -> BestPlacements:
    """Anneal random placements; works under `jit` (`widths`, `num_moves`, `num_restarts` static) and `vmap`.

    Fixed parts stay, no part leaves the board, and overlap costs more and more. Once a block of moves, every restart
    compares its placement with its best legal one.

    Args:
        board: without leading axes.
        key: a typed key.
        widths: from `net_widths`; smaller ones mislead the search, but not what is returned about its placements.
        num_moves: of each restart, rounded up to a multiple of `BLOCK`.
        num_restarts: R.

    Raises:
        ValueError: `num_moves` or `num_restarts` is less than 1.
    """
    for name, value in (("num_moves", num_moves), ("num_restarts", num_restarts)):
        if value < 1:
            raise ValueError(f"{name} is {value}; give at least 1")
    board, num_blocks = as_float32(board), math.ceil(num_moves / BLOCK)
    start_key, move_key = jax.random.split(key)
    annealing = begin(board, start_key, num_restarts)
    block = jnp.arange(num_blocks, dtype=jnp.int32)
    keys, shares = jax.vmap(lambda block: jax.random.fold_in(move_key, block))(block), block / max(num_blocks - 1, 1)
    return advance(board, annealing, keys, shares, widths=widths).best


def anneal_episode(env: Pcb, instance: Instance, key: jax.Array, stop: Stop | float) -> Iterator[Searched]:
    """Anneal one board, see `jaxvrp.toolbox.Search`; episodes are one step long."""
    board = as_float32(instance.board)
    play_blocks = jax.jit(functools.partial(advance, board, widths=net_widths(board)))
    start = jax.jit(functools.partial(begin, board, num_restarts=RESTARTS))

    def play(annealing: Annealing, key: jax.Array, progress: np.ndarray) -> Annealing:
        return play_blocks(annealing, jax.random.split(key, BLOCKS), jnp.asarray(progress, jnp.float32))

    def renew(annealing: Annealing, key: jax.Array) -> Annealing:
        return start(key).replace(best=annealing.best)

    key, start_key = jax.random.split(key)
    for spent, annealing in anytime(play, start(start_key), key, stop, rounds=BLOCKS, cycles=CYCLES, renew=renew):
        found = jax.device_get(annealing.best)
        row = int(found.hpwl.argmin())
        episode = functools.partial(_placed, env, instance, found.position[row], found.orientation[row])
        yield Searched(spent.seconds, float(found.hpwl[row]), {}, episode)


def _placed(env: Pcb, instance: Instance, position: np.ndarray, orientation: np.ndarray) -> Episode:
    return from_states(env, _place(env, instance, position, orientation), instance=instance)


@jax.jit
def _place(env: Pcb, instance: Instance, position: jax.Array, orientation: jax.Array) -> State:
    start, is_agent = env.init_state(instance), instance.wiring.is_agent
    placed = start.replace(position=position, orientation=orientation)
    measures, _ = measure_agents(*placed.placement, env.rays)
    placed = rules.record_turns(placed, is_agent, measures, jnp.zeros_like(is_agent), clamp=True)
    return jax.tree.map(lambda first, last: jnp.stack([first, last]), start, rules.settle(placed))


def begin(board: Board, key: jax.Array, num_restarts: int) -> Annealing:
    """Random placements of a board as `as_float32` makes it."""
    draws = jax.random.uniform(key, (num_restarts, board.num_components, 3), jnp.float32)
    position, orientation = uniform_poses(board, draws)
    no_hpwl, illegal = jnp.full(num_restarts, jnp.inf, jnp.float32), jnp.zeros(num_restarts, bool)
    start = BestPlacements(position, orientation, no_hpwl, illegal)
    return Annealing(Poses(position[..., 0].T, position[..., 1].T, orientation.T), start)


def advance(
    board: Board, annealing: Annealing, keys: jax.Array, shares: jax.Array, *, widths: tuple[int, int]
) -> Annealing:
    """Play blocks of moves, on a board as `as_float32` makes it, with a typed key and a share for each block.

    The shares (`f32[blocks]`) are those of all moves that are made before each block: how cool it is.
    """
    tables = make_tables(board, widths)

    def play_block(annealing: Annealing, drawn: tuple[jax.Array, jax.Array]) -> tuple[Annealing, None]:
        key, share = drawn
        temperature, weight, reach = (geometric(*ends, share) for ends in (TEMPERATURE, WEIGHT, REACH))
        weight = weight / tables.unit * jnp.where(share > 1 - SETTLING, SETTLING_WEIGHT, 1.0)
        num_restarts = annealing.best.hpwl.shape[0]
        moves = _draw_moves(key, board, tables.unit * temperature, tables.unit * reach, num_restarts)

        def try_move(poses: Poses, move: Move) -> tuple[Poses, None]:
            proposed, present = propose(tables, poses, move), poses.of_part(move.part)
            wire = wire_change(tables, poses, move.part, proposed)
            overlap = overlap_change(tables, poses, move.part, proposed)
            half_width, half_height = tables.half(move.part, proposed.quarters)
            fits = (2 * half_width <= board.outline[0]) & (2 * half_height <= board.outline[1])
            accepted = (wire + weight * overlap < move.margin) & fits & board.movable[move.part]
            pose = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposed, present)
            return poses.with_part(move.part, pose), None

        poses, _ = jax.lax.scan(try_move, annealing.poses, moves)
        return Annealing(poses, _better(board, annealing.best, poses)), None

    return jax.lax.scan(play_block, annealing, (keys, shares))[0]


def _draw_moves(key: jax.Array, board: Board, temperature: jax.Array, reach: jax.Array, num_restarts: int) -> Move:
    """A block of moves: `Move` with a leading axis."""
    # One draw for everything: the random generator is the greater part of what has to be compiled.
    draws = jax.random.uniform(key, (BLOCK * (5 * num_restarts + 2),), jnp.float32)
    part_draw, other_draw = draws[: 2 * BLOCK].reshape(2, BLOCK)
    kind, turn, x, y, accept = draws[2 * BLOCK :].reshape(5, BLOCK, num_restarts)
    # How far `kind` is into its share says on which of four sides the parts touch.
    side = jnp.floor(4 * (kind - JUMP) / CONTACT).astype(jnp.int32)
    above_or_below, sign = (side & 1) == 1, 1.0 - (side & 2)
    quarters = 1 + jnp.floor(3 * turn / TURN).astype(jnp.int32)
    return Move(
        part=_pick(part_draw, board.movable),
        other=_pick(other_draw, board.exists),
        jumps=kind < JUMP,
        touches=(kind >= JUMP) & (kind < JUMP + CONTACT),
        turn=jnp.where(turn < TURN, quarters, 0),
        shift=((2 * x - 1) * reach, (2 * y - 1) * reach),
        place=(x, y),
        beside=(jnp.where(above_or_below, 2 * x - 1, sign), jnp.where(above_or_below, sign, 2 * y - 1)),
        margin=-temperature * jnp.log(accept),
    )


def _pick(share: jax.Array, candidates: jax.Array) -> jax.Array:
    """`i32[...]`: indices of the true values of `bool[N]`, all as likely, from `f32[...]` uniform in [0, 1)."""
    (index,) = jnp.nonzero(candidates, size=candidates.shape[0], fill_value=0)
    return index[jnp.floor(share * candidates.sum()).astype(jnp.int32)].astype(jnp.int32)


def _better(board: Board, best: BestPlacements, poses: Poses) -> BestPlacements:
    """For each restart the better of its best placement and the present one."""
    position, orientation = jnp.stack([poses.x, poses.y], axis=-1).swapaxes(0, 1), poses.quarters.T
    measures = jax.vmap(measure_board, (None, 0, 0))(board, position, orientation)
    hpwl, legal = measures.hpwl, geometry.is_legal(measures.overlap).all(axis=-1)
    better = jnp.where(legal, hpwl < best.hpwl, ~best.legal)
    return BestPlacements(
        position=jnp.where(better[:, None, None], position, best.position),
        orientation=jnp.where(better[:, None], orientation, best.orientation),
        hpwl=jnp.where(better & legal, hpwl, best.hpwl),
        legal=best.legal | legal,
    )


def make_tables(board: Board, widths: tuple[int, int]) -> Tables:
    """Those of a board as `as_float32` makes it; `widths` from `net_widths`."""
    component, net, signal = board.pin_component, board.pin_net, board.signal_pin
    part_has_net = wirelength.part_nets(component, net, signal, board.num_components, board.num_nets)
    nets_of_part = jax.vmap(lambda has_net: jnp.nonzero(has_net, size=widths[0], fill_value=-1)[0])(part_has_net)
    # The table of pads by part, with nets in place of parts.
    pads_of_net = wirelength.part_pads(net, signal, board.num_nets, widths[1])
    pin = jnp.where(nets_of_part[..., None] >= 0, pads_of_net[nets_of_part], -1)
    size = jnp.where(board.movable, board.size.mean(axis=-1), 0.0).sum() / jnp.maximum(board.movable.sum(), 1)
    return Tables(
        board=board,
        # Where all parts are points, a hundredth of the board takes the place of their size.
        unit=jnp.where(size > 0, size, 0.01 * board.outline.max()),
        half_width=0.5 * board.size[:, 0],
        half_height=0.5 * board.size[:, 1],
        obstructs=obstructing(board),
        pin=pin,
        owner=component[pin],
        offset_x=board.pin_offset[pin, 0],
        offset_y=board.pin_offset[pin, 1],
    )


def propose(tables: Tables, poses: Poses, move: Move) -> Poses:
    """Where the move takes its part, `[R]` each: wholly on the board, if it fits on it at all."""
    pose, other_pose = poses.of_part(move.part), poses.of_part(move.other)
    quarters = (pose.quarters + move.turn) & 3
    half = tables.half(move.part, quarters)
    other_half = tables.half(move.other, other_pose.quarters)
    clearance = CLEARANCE * tables.board.outline.max()
    touches = move.touches & tables.obstructs[move.part, move.other]

    def along(axis: int) -> jax.Array:
        touching = other_pose[axis] + move.beside[axis] * (half[axis] + other_half[axis] + clearance)
        goal = jnp.where(touches, touching, pose[axis] + move.shift[axis])
        goal = jnp.where(move.jumps, move.place[axis] * tables.board.outline[axis], goal)
        least = half[axis] + clearance
        return jnp.maximum(jnp.minimum(goal, tables.board.outline[axis] - least), least)

    return Poses(along(0), along(1), quarters)


def overlap_change(tables: Tables, poses: Poses, part: jax.Array, new_pose: Poses) -> jax.Array:
    """`f32[R]`: growth of the areas (mm²) in common with obstructing parts if a part (`i32[]`) gets a new pose."""
    halves = _half_as_turned(tables.half_width[:, None], tables.half_height[:, None], poses.quarters)

    def common_areas(pose: Poses) -> jax.Array:
        half = tables.half(part, pose.quarters)
        return geometry.common_area(poses.x - pose.x, poses.y - pose.y, half, halves)

    growth = common_areas(new_pose) - common_areas(poses.of_part(part))
    return jnp.sum(jnp.where(tables.obstructs[part][:, None], growth, 0.0), axis=0)


def wire_change(tables: Tables, poses: Poses, part: jax.Array, new_pose: Poses) -> jax.Array:
    """`f32[R]`: growth of the half perimeters (mm) of a part's nets, from the pads `[M, D, R]` of these nets."""
    owner, exists = tables.owner[part], tables.pin[part][..., None] >= 0
    is_own = (owner == part)[..., None]
    offset_x, offset_y = tables.offset_x[part][..., None], tables.offset_y[part][..., None]
    old_offset_x, old_offset_y = _turned(offset_x, offset_y, poses.quarters[owner])
    new_offset_x, new_offset_y = _turned(offset_x, offset_y, new_pose.quarters)
    old_x, old_y = poses.x[owner] + old_offset_x, poses.y[owner] + old_offset_y
    new_x = jnp.where(is_own, new_pose.x + new_offset_x, old_x)
    new_y = jnp.where(is_own, new_pose.y + new_offset_y, old_y)
    # The largest of v and of -v over the pads of a net: its right side, and minus its left one.
    # One reduction of all eight sides: separate ones would each compute the pads again.
    signed = (new_x, -new_x, new_y, -new_y, old_x, -old_x, old_y, -old_y)
    new_right, new_left, new_bottom, new_top, old_right, old_left, old_bottom, old_top = jax.lax.reduce(
        tuple(jnp.where(exists, value, -jnp.inf) for value in signed),
        (np.float32(-np.inf),) * len(signed),
        lambda values, others: tuple(jnp.where(a > b, a, b) for a, b in zip(values, others, strict=True)),
        dimensions=(1,),
    )
    new_hpwl = new_right + new_left + (new_bottom + new_top)
    old_hpwl = old_right + old_left + (old_bottom + old_top)
    return jnp.sum(jnp.where(exists[:, 0], new_hpwl - old_hpwl, 0.0), axis=0)


def _half_as_turned(width: jax.Array, height: jax.Array, quarters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Half width and height as turned, from those at 0 quarters."""
    odd = (quarters & 1) == 1
    return jnp.where(odd, height, width), jnp.where(odd, width, height)


def _turned(x: jax.Array, y: jax.Array, quarters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`geometry.turned` for offsets whose x and y are arrays of their own."""
    sign, odd = 1.0 - (quarters & 2), (quarters & 1) == 1
    return jnp.where(odd, sign * y, sign * x), jnp.where(odd, -sign * x, sign * y)
