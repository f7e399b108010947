"""Truck and drone: baselines and a trained policy on the same instances, every plan checked by `solution_report`.

python -m benchmarks.quality --env tsp_drone                                        # generated instances
python -m benchmarks.quality --env tsp_drone --sets random_n11,random_n20,uniform_n11
python -m benchmarks.quality --env tsp_drone --run DIR --sets random_n20 --best_of 1280
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measuring import measure
from benchmarks.measuring.measure import Seconds, timed
from benchmarks.published.data import VARIABLE, data_folder, read_table
from benchmarks.quality import contest
from benchmarks.quality.contest import SEED, Plans, Standings
from benchmarks.reference.tsp_drone_exact import exact_makespan
from jaxvrp import TimeStep
from jaxvrp.actor import Actor
from jaxvrp.envs.flying_sidekicks.murray_raj import LOCATIONS
from jaxvrp.envs.flying_sidekicks.plan import row_of
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.tsp_drone import (
    Instance,
    TspDrone,
    actions_to_operations,
    solution_report,
    stack,
)
from jaxvrp.envs.tsp_drone.baselines.annealing import plan_annealed
from jaxvrp.envs.tsp_drone.baselines.partition import make_times, partition_cost
from jaxvrp.envs.tsp_drone.baselines.planners import plan_actions
from jaxvrp.envs.tsp_drone.baselines.tours import Planned, plan_tours
from jaxvrp.envs.tsp_drone.plan import PROBLEMS
from jaxvrp.envs.tsp_drone.problem.murray_chu import ENDURANCES, NODES
from jaxvrp.episodes import record_episodes
from jaxvrp.io.command_line import UserError, above_zero, positive
from jaxvrp.io.text_lines import read_lines
from jaxvrp.spaces import ByRole
from train import Evaluator, baseline_actors

FOLDERS, WINDOWS, SIDEKICKS = "fstsp_murray_chu/FSTSP_10", "vrptwd_kuo", "mfstsp_murray_raj"
LINES, FILES = "tspd_bogyrbayeva", "tspd_agatz"
"""Folders of the published instances, within `data_folder()`."""

HEAD = ("player", "instances", "makespan", "gap", "feasible", "s/instance", "CPU s/instance")

PLANNERS: dict[str, Callable[[Instance, jax.Array], Planned]] = {
    "TSP-ep": functools.partial(plan_tours, method="ep"),
    "TSP-ep-all": functools.partial(plan_tours, method="ep_all"),
    "annealing": plan_annealed,
}
"""Plans of a batch of instances."""

SYMMETRIES = 8
"""Ways to turn and mirror a map without changing a distance."""

NOTES = """makespan: mean over instances, by solution_report
gap: summed makespans against {reference}
feasible: share of plans that solution_report finds nothing wrong with
s/instance, CPU s/instance: by the clock, and of all cores; all instances are played at once, compiled before
policy, best of K: sampled, every try on the map in another position; its orders: the best partition of any of these
  tries into operations"""


class Published(NamedTuple):
    """A published instance: its name, its file, which instance of the file it is (None: the only one), a makespan."""

    name: str
    path: pathlib.Path
    row: int | None
    makespan: float


def published(name: str, option: str, *, proven: bool = True) -> tuple[list[Published], str]:
    """The instances of a set, the value of an option, and what their makespans are.

    `random_n20` and the like (Bogyrbayeva et al.); `uniform_n11`, `singlecenter-alpha_3_n9` and the like: those of
    Agatz et al. that have a proven optimum; `fstsp_20` and `fstsp_40`: those of Murray and Chu with that endurance in
    minutes, whose optimum `exact_makespan` proves, in a second each; unless `proven`, it is NaN.

    Raises:
        UserError: there is no such set, or it is damaged.
    """
    with _said_in_a_line(name, option, "random_n20, uniform_n11, fstsp_20", f"{LINES}, {FILES} and {FOLDERS}"):
        if name.startswith("fstsp_"):
            return _of_folders(name, proven)
        return _of_lines(name) if name.startswith("random_n") else _of_files(name)


@contextlib.contextmanager
def _said_in_a_line(name: str, option: str, examples: str, folders: str) -> Iterator[None]:
    """What is wrong with a set or its files is a `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{option}: cannot read '{name}' ({error}); take {examples} or the like, and set {VARIABLE} to the folder "
            f"that holds {folders}"
        ) from None
    except ValueError as error:
        raise UserError(str(error)) from None


def tours(name: str, option: str) -> list[Published]:
    """Instances with time windows of Kuo et al., `kuo_n50` and the like, with the least published cost, in two digits.

    Raises:
        UserError: there is no such set, or it is damaged.
    """
    with _said_in_a_line(name, option, "kuo_n50", WINDOWS):
        path = data_folder() / WINDOWS / "published_results.csv"
        costs_of = "mip_z", "vns_best", "alns_best"
        rows = read_table(path, "a table of published costs", ("instance", "n", *costs_of))
        found = [
            Published(f"kuo-{row['instance']}", path.with_name(f"instance-{row['instance']}.csv"), None, min(costs))
            for line, row in rows
            if f"kuo_n{row['n']}" == name
            if (costs := [line.real(key, row[key]) for key in costs_of if row[key]])
        ]
    if not found:
        raise UserError(f"{option}: no instances '{name}'; take kuo_n5, kuo_n10, kuo_n15, kuo_n20, kuo_n30 or the like")
    return found


def sidekicks(name: str, option: str) -> list[Published]:
    """Problems of Murray & Raj, `mfstsp_n8_101_2` and the like: 8 customers, vehicles 101, 2 drones.

    With the least published makespan. It is of drones with a battery, and so are the problems, unless the name ends in
    `_fixed`, of a fixed endurance.

    Raises:
        UserError: there is no such set, or it is damaged.
    """
    found: dict[str, Published] = {}
    with _said_in_a_line(name, option, "mfstsp_n8_101_2", SIDEKICKS):
        path = data_folder() / SIDEKICKS / "published_results.csv"
        columns = "problemName", "numCustomers", "vehicleFileID", "numUAVs", "ofv"
        for line, row in read_table(path, "a table of published makespans", columns):
            vehicles, drones = row["vehicleFileID"], line.whole("numUAVs", row["numUAVs"], minimum=1)
            if f"mfstsp_n{row['numCustomers']}_{vehicles}_{drones}" != name.removesuffix("_fixed"):
                continue
            problem, makespan = row["problemName"], line.real("ofv", row["ofv"])
            number = row_of(f"tbl_vehicles_{vehicles}.csv", drones, battery=not name.endswith("_fixed"))
            if problem not in found or makespan < found[problem].makespan:
                file = path.parent / problem / LOCATIONS
                found[problem] = Published(f"{problem} {vehicles} {drones}", file, number, makespan)
    if not found:
        raise UserError(f"{option}: no problems '{name}'; take mfstsp_n8_101_2, mfstsp_n25_104_4_fixed or the like")
    return list(found.values())


def _of_lines(name: str) -> tuple[list[Published], str]:
    path = data_folder() / LINES / f"{name}.txt"
    lines = read_lines(path.with_name(f"{name}_tsp_ep_all.txt"), "a makespan in each line")
    count = len(read_lines(path, "an instance in each line"))
    lines[-1].expect(len(lines) == count, f"{count} makespans, found {len(lines)}")
    makespans = [line.real("a makespan", line.text) for line in lines]
    return [
        Published(f"{name}#{row}", path, row, each) for row, each in enumerate(makespans)
    ], "the published TSP-ep-all"


def _of_folders(name: str, proven: bool) -> tuple[list[Published], str]:
    folders = sorted(path.parent for path in (data_folder() / FOLDERS).glob(f"*/{NODES}"))
    endurances = [f"fstsp_{endurance:g}" for endurance in ENDURANCES]
    if name not in endurances or not folders:
        raise FileNotFoundError(f"no such set in {FOLDERS}; known: {', '.join(endurances)}")
    row = endurances.index(name)

    def makespan(path: pathlib.Path) -> float:
        return exact_makespan(PROBLEMS.read(path)[row]) if proven else math.nan

    files = [folder / NODES for folder in folders]
    return [Published(path.parent.name, path, row, makespan(path)) for path in files], "the proven optimum"


def _of_files(name: str) -> tuple[list[Published], str]:
    folder = data_folder() / FILES
    columns = "best_makespan", "instance", "status"
    family, _, size = name.rpartition("_")
    found = []
    for line, row in read_table(folder / "best_known.csv", "a table of best known makespans", columns):
        # A name is that of the family, a number, and the size: uniform-alpha_1-45-n9.
        if row["instance"].rsplit("-", 2)[::2] == [family, size] and row["status"] == "optimal":
            path = folder / family.partition("-")[0] / f"{row['instance']}.txt"
            makespan = line.real("best_makespan", row["best_makespan"])
            found.append(Published(row["instance"], path, None, makespan))
    if not found:
        raise FileNotFoundError(f"no optimum of such instances in {folder / 'best_known.csv'}")
    return found, "the proven optimum"


class Batch(NamedTuple):
    """Published instances of one size, a batch `[E]`; known makespans, `f64[E]`, and what these are."""

    instances: Instance
    makespans: np.ndarray
    reference: str


def find(name: str, rows: int | None) -> Batch:
    """A set of `published`, the first so many of it.

    Raises:
        UserError: as `published`.
    """
    found, reference = published(name, "--sets")
    try:
        read = {path: PROBLEMS.read(path) for path in {each.path for each in found}}
    except (OSError, ValueError) as error:
        raise UserError(f"--sets: {error}") from None
    instances = [read[each.path][each.row or 0] for each in found[:rows]]
    return Batch(stack(instances), np.array([each.makespan for each in found[:rows]]), reference)


def turned(locs: jax.Array, symmetry: jax.Array) -> jax.Array:
    """Places `f32[..., 2]` on a map that is mirrored and turned in one of `SYMMETRIES` ways, `i32[]`."""
    mirrored = jnp.where(symmetry % 2 == 1, locs * jnp.array([-1.0, 1.0], jnp.float32), locs)
    mirrored = jnp.where(symmetry // 2 % 2 == 1, -mirrored, mirrored)
    return jnp.where(symmetry // 4 % 2 == 1, mirrored[..., ::-1], mirrored)


def play(env: TspDrone, actor: Actor, instances: Instance, key: jax.Array) -> tuple[ByRole, jax.Array, jax.Array]:
    """Whole episodes: actions `{role: i32[E, T]}`, makespans `f32[E]`, and the orders of service, `i32[n + 1, E]`."""

    def kept(action: ByRole, state: Any, timestep: TimeStep) -> tuple[ByRole, jax.Array]:
        del timestep
        return {role: chosen[:, 0] for role, chosen in action.items()}, state.served

    last, (actions, served) = record_episodes(env, actor, instances, key, kept)
    nodes = served.shape[-1]
    # How long a node was unserved; the depot and padding never were.
    waited = jnp.sum(~served, axis=0, dtype=jnp.int32)
    is_customer = instances.exists & (jnp.arange(nodes) > 0)
    order = jnp.argsort(jnp.where(is_customer, waited, served.shape[0] + 1), axis=1)[:, : nodes - 1]
    order = jnp.where(jnp.take_along_axis(is_customer, order, axis=1), order, 0).astype(jnp.int32)
    return jax.tree.map(jnp.transpose, actions), last.clock, jnp.pad(order, [(0, 0), (1, 1)]).T


def attempted(
    env: TspDrone, actor: Actor, instances: Instance, number: jax.Array, key: jax.Array
) -> dict[str, tuple[jax.Array, Any]]:
    """One try, an `attempt` of `contest.best_of`, on the map in another position: its `plan`, and its order of service.

    The cost of the `order` is that of its best partition into operations.
    """
    moved = instances.replace(locs=turned(instances.locs, number % SYMMETRIES))
    actions, makespan, tours = play(env, actor, moved, key)
    times = make_times(instances)
    of = jnp.arange(tours.shape[1], dtype=jnp.int32)
    return {"plan": (makespan, actions), "order": (partition_cost(times, tours, of, times.num_nodes)[0], tours.T)}


def planned(instances: Instance, name: str) -> ByRole:
    """The actions `{role: i32[E, T]}` of a planner, of the names of `PLANNERS`."""
    found = PLANNERS[name](instances, jax.random.key(SEED))
    return plan_actions(found.times, found.tours)


def standings(
    env: TspDrone, instances: Instance, known: np.ndarray | None, policies: dict[str, Any], without: Sequence[str]
) -> contest.Table:
    """The table of all players, but for those that are left out.

    Args:
        env: what is played.
        instances: a batch `[E]`.
        known: `f64[E]`, makespans to compare with; None for none.
        policies: by name, an actor and how many tries it has.
        without: names.
    """
    computed, problems = as_float32(instances), contest.singles(instances)

    def checked(actions: ByRole, seconds: Seconds) -> Plans:
        actions = jax.device_get(actions)
        plans = ({role: chosen[row] for role, chosen in actions.items()} for row in range(len(problems)))
        pairs = zip(problems, plans, strict=True)
        reports = [solution_report(problem, actions_to_operations(plan)) for problem, plan in pairs]
        return Plans(reports, seconds.per(len(problems)))

    def act(actor: Actor, tries: int) -> list[Plans]:
        """What an actor plays and, if it is a policy, the best partition of its orders."""
        attempt = functools.partial(attempted, env, actor, computed)
        best, seconds = timed(lambda: contest.best_of(attempt, jax.random.key(SEED), tries))
        orders = jnp.asarray(best["order"][1]).T
        partitioned = plan_actions(make_times(computed), orders)
        return [checked(best["plan"][1], seconds), checked(partitioned, seconds)]

    def plan(name: str) -> list[Plans]:
        return [checked(*timed(functools.partial(planned, computed, name)))]

    turns: dict[str, Callable[[], list[Plans]]] = {}
    for name, actor in baseline_actors(env).items():
        turns[name] = functools.partial(act, actor, 1)
    for name in PLANNERS:
        turns[name] = functools.partial(plan, name)
    turns |= {name: functools.partial(act, *player) for name, player in policies.items()}
    rows = [list(HEAD)]
    turns = {name: turn for name, turn in turns.items() if name not in without}
    for name, played in contest.take_turns(turns).items():
        rows.append(_row(name, played[0], known))
        if name in policies:
            order = "its order" if policies[name][1] == 1 else "its orders"
            rows.append(_row(f"{name}, {order}", played[1], known))
    return rows


def _row(name: str, plans: Plans, known: np.ndarray | None) -> list[str]:
    cost, feasible = plans.cost, f"{100 * plans.feasible.mean():.1f} %"
    makespan = f"{cost.mean():.2f}"
    return [name, str(len(cost)), makespan, contest.gap(cost, known), feasible, *contest.times(plans.seconds)]


def tables(args: argparse.Namespace) -> Iterator[Standings]:
    """A table for each set of published instances; without sets, one of generated instances."""
    for name in args.sets.split(",") if args.sets else [None]:
        found = find(name, args.rows) if name else None
        sizes = {"num_nodes": found.instances.num_nodes} if found else {}
        run = contest.load(args.run, TspDrone, "tsp_drone", args, sizes) if args.run else None
        env: Any = run.learner.env if run else contest.made("tsp_drone", sizes)
        best = f"policy, best of {args.best_of}"
        policies = (
            {
                "policy": (contest.actor_of(run), 1),
                best: (contest.actor_of(run, args.temperature), args.best_of),
            }
            if run
            else {}
        )
        if found:
            title, reference = f"{name}, {len(found.makespans)} instances", found.reference
            yield Standings(title, standings(env, found.instances, found.makespans, policies, args.without), reference)
        else:
            count = args.rows or 128
            instances = Evaluator(env, count, SEED).instances()
            title = f"{count} generated instances of {env.num_nodes} nodes"
            yield Standings(title, standings(env, instances, None, policies, args.without), "nothing")


def main(argv: Sequence[str]) -> None:
    """The command line."""
    parser = contest.parser("tsp_drone", "Truck and drone: baselines and a policy, side by side.")
    parser.add_argument("--run", help="run folder of train.mappo on tsp_drone: plays its policy, greedy and sampled")
    parser.add_argument("--best_of", type=positive, default=128, help="samples of the policy (default: 128)")
    parser.add_argument("--temperature", type=above_zero, default=1.0, help="of these (default: 1)")
    parser.add_argument("--sets", help="published instances: random_n20,uniform_n11, ... (default: generated ones)")
    parser.add_argument("--rows", type=positive, help="so many instances of each (default: all; 128 generated ones)")
    players = (*PLANNERS, "nearest neighbour", "random")
    parser.add_argument("--without", nargs="+", default=(), choices=players, help="players that are left out")
    args = parser.parse_args(argv)
    measure.check_result_file(args.out, [args.run])
    contest.show(args, argv, tables(args), NOTES)
