"""A day as data: requests in the order of their arrival, and the fleet; checking, padding, stacking, files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from numpy.typing import ArrayLike

from jaxvrp.geography.streets import check_streets, closed_streets
from jaxvrp.io import arrays
from jaxvrp.io.arrays import ArrayField, refuse_where
from jaxvrp.io.limits import LEAST
from jaxvrp.io.problems.origin import FAR_IN_TIME, origin_of

MINUTES_PER_HOUR = 60.0

USUAL = {"trips": 480.0, "rides": 180.0}
"""Minutes of a generated day, with a depot and without, in which numbers with a unit of time were chosen."""

MOST_PAIRS = 2_000_000
"""Of a request and a vehicle: each is compared with each."""


class Spot(NamedTuple):
    """A place: where it is, `f[2]`, and its row of `travel_time`; -1 for a place that has none."""

    place: Any
    row: int = -1


def row_of_end(request: Any, is_pickup: Any, sizes: tuple[int, int] | None) -> Any:
    """The row of `Instance.travel_time` of a request's pickup or drop-off.

    `sizes` are V and R, with padding; None with a depot, where all pickups are.
    """
    if sizes is None:
        return 1 + request
    vehicles, requests = sizes
    return vehicles + request + requests * (1 - is_pickup)


def count_places(requests: int, vehicles: int, has_depot: bool) -> int:
    """L, how many places `Instance.travel_time` is of."""
    return 1 + requests if has_depot else vehicles + 2 * requests


class Instance(struct.PyTreeNode):
    """One day of R requests and V vehicles. Leading axes make it a batch.

    Arrays are NumPy (`float64`, from `make_instance` and files) or JAX (`float32`, from the generators and in an
    environment's state). Places in km, times in minutes since the day began, speeds in km/h.

    Attributes:
        arrival: `f[R]`, when a request becomes known, in ascending order; inf is padding.
        pickup, dropoff: `f[R, 2]`; with a depot every pickup is there.
        load: `i32[R]`, at least 1; 0 is padding.
        pickup_earliest, dropoff_earliest: `f[R]`, service does not start before; with a depot, a parcel is not loaded
            before the former.
        pickup_deadline, dropoff_deadline: `f[R]`, latest start of service; with a depot, the former is no earlier.
        value: `f[R]`, of serving it.
        start: `f[V, 2]`, where a vehicle begins; the depot if there is one.
        speed: `f[V]`, km/h.
        detour: `f[V]`, kilometres to travel for each straight one.
        capacity: `i32[V]`, the load that it can hold; 0 is padding.
        stop_time: `f[V]`, of each pickup and drop-off, and of loading at the depot without `loading_time`.
        turnaround: `f[V]`, at the depot after a trip, before it loads again; without one, 0.
        max_trip: `f[V]`, longest time from leaving the depot to being back; inf for none, and without a depot.
        is_drone: `bool[V]`, whether it carries its parcels one after the other.
        horizon: `f[]`, the end of the day; vehicles with a depot are home by then, unless `home_by` says otherwise.
        area: `f[2, 2]`, the least and the greatest corner of the region that is served.
        depot: `f[2]`, where all trips begin and end; None where passengers are moved between places.
        travel_seed: `i32[]`, what `travel_noise` draws times of legs from, at least 0; None is 0.
        loading_time: `f[V]`, of loading at the depot, however many parcels; None is `stop_time`.
        home_by: `f[V]`, when each vehicle with a depot is home at the latest; None is the horizon.
        travel_time: `f[L, L]`, minutes along streets between each two of L places, closed (`jaxvrp.geography.streets`):
            what vehicles that are no drones take, whatever their speed and detour. Places are the depot and the
            drop-offs; without a depot, where vehicles start, the pickups and the drop-offs. None where all travel
            straight.
        travel_distance: `f[L, L]`, kilometres along these; None if only times are known.
    """

    arrival: Any
    pickup: Any
    dropoff: Any
    load: Any
    pickup_earliest: Any
    pickup_deadline: Any
    dropoff_earliest: Any
    dropoff_deadline: Any
    value: Any
    start: Any
    speed: Any
    detour: Any
    capacity: Any
    stop_time: Any
    turnaround: Any
    max_trip: Any
    is_drone: Any
    horizon: Any
    area: Any
    depot: Any = None
    travel_seed: Any = None
    loading_time: Any = None
    home_by: Any = None
    travel_time: Any = None
    travel_distance: Any = None

    @property
    def minutes_to_load(self) -> Any:
        """`f[V]`, of loading at the depot."""
        return self.stop_time if self.loading_time is None else self.loading_time

    @property
    def latest_return(self) -> Any:
        """`f[V]`, when each vehicle with a depot is home at the latest."""
        if self.home_by is not None:
            return self.home_by
        xp = np if isinstance(self.capacity, np.ndarray) else jnp
        return xp.broadcast_to(self.horizon[..., None], self.capacity.shape)

    @property
    def max_requests(self) -> int:
        """R, with padding."""
        return self.load.shape[-1]

    @property
    def num_vehicles(self) -> int:
        """V, with padding."""
        return self.capacity.shape[-1]

    @property
    def num_places(self) -> int:
        """L, with padding."""
        return count_places(self.max_requests, self.num_vehicles, self.depot is not None)

    def row_of(self, request: Any, is_pickup: Any = False) -> Any:
        """The row of `travel_time` of a request's pickup or drop-off; numbers or arrays."""
        sizes = None if self.depot is not None else (self.num_vehicles, self.max_requests)
        return row_of_end(request, is_pickup, sizes)

    def spot_of(self, request: int, is_pickup: bool = False) -> Spot:
        """The pickup or the drop-off of a request."""
        return Spot((self.pickup if is_pickup else self.dropoff)[request], self.row_of(request, is_pickup))

    def start_of(self, v: int) -> Spot:
        """Where vehicle v begins its day, and its trips if there is a depot."""
        return Spot(self.start[v], v) if self.depot is None else Spot(self.depot, 0)


SCHEMA: arrays.Schema = {
    "arrival": ArrayField("requests", padding=np.inf, origin="clock"),
    "pickup": ArrayField("requests", (2,), origin="map"),
    "dropoff": ArrayField("requests", (2,), origin="map"),
    "load": ArrayField("requests", kind=int),
    "pickup_earliest": ArrayField("requests", origin="clock"),
    "pickup_deadline": ArrayField("requests", origin="clock"),
    "dropoff_earliest": ArrayField("requests", origin="clock"),
    "dropoff_deadline": ArrayField("requests", origin="clock"),
    "value": ArrayField("requests"),
    "start": ArrayField("vehicles", (2,), padding="first row", origin="map"),
    "speed": ArrayField("vehicles", padding="first row"),
    "detour": ArrayField("vehicles", padding="first row"),
    "capacity": ArrayField("vehicles", kind=int),
    "stop_time": ArrayField("vehicles"),
    "turnaround": ArrayField("vehicles"),
    "max_trip": ArrayField("vehicles", padding=np.inf),
    "is_drone": ArrayField("vehicles", kind=bool),
    "horizon": ArrayField(origin="clock"),
    "area": ArrayField(None, (2, 2), origin="map"),
    "depot": ArrayField(None, (2,), optional=True, origin="map"),
    "travel_seed": ArrayField(kind=int, optional=True),
    "loading_time": ArrayField("vehicles", optional=True),
    "home_by": ArrayField("vehicles", padding="first row", optional=True, origin="clock"),
    "travel_time": ArrayField("places", ("places",), padding="first row", optional=True),
    "travel_distance": ArrayField("places", ("places",), padding="first row", optional=True),
}
"""Places are those of `travel_time`; those of padding lie at the first place."""

DEFAULTS: dict[str, Any] = {
    "load": 1,
    "value": 1,
    "pickup_earliest": 0,
    "dropoff_earliest": 0,
    "detour": 1,
    "stop_time": 0,
    "turnaround": 0,
    "max_trip": np.inf,
    "is_drone": False,
}
"""Numbers of requests and of vehicles that `make_instance` need not be given."""

ONE_FOR_ALL = (*DEFAULTS, "speed", "loading_time", "home_by")
"""What may be given once for all requests or vehicles."""


def make_instance(
    arrival: ArrayLike,
    dropoff: ArrayLike,
    dropoff_deadline: ArrayLike,
    *,
    capacity: ArrayLike,
    speed: ArrayLike,
    horizon: float,
    pickup: ArrayLike | None = None,
    pickup_deadline: ArrayLike | None = None,
    start: ArrayLike | None = None,
    depot: ArrayLike | None = None,
    **others: Any,
) -> Instance:
    """A checked day of one's own, as NumPy arrays; of `others`, fields of `Instance`, each has a default.

    Args:
        arrival: `[R]`, ascending.
        dropoff: `[R, 2]`.
        dropoff_deadline: `[R]`.
        capacity: `[V]`, whole numbers.
        speed: `[V]`, or one for all; so are all other numbers of vehicles.
        horizon: end of the day.
        pickup: `[R, 2]`, and `start`, `[V, 2]`: both the depot, if there is one.
        pickup_deadline: `[R]`; by default, that of the drop-off.
        depot: `[2]`, or None.
        others: `load` (1), `value` (1), `pickup_earliest`, `dropoff_earliest` (0), `detour` (1), `stop_time` (0),
            `turnaround` (0), `max_trip` (inf), `is_drone` (false), `area` (around the vehicles' starts, 5 km each way),
            `travel_seed`, `loading_time`, `home_by`, `travel_time`, `travel_distance` (none). Travel times are closed:
            a way that is quicker by way of another place is driven so, and a warning says how many are.

    Raises:
        ValueError: what is wrong, of which request or vehicle, and the remedy; see `check`.
    """
    counts = {"requests": np.size(arrival), "vehicles": np.size(capacity)}
    home = np.zeros(2) if depot is None else np.asarray(depot, np.float64)
    start = np.broadcast_to(home, (counts["vehicles"], 2)) if start is None else start
    middle = np.asarray(start, np.float64).reshape(-1, 2).mean(axis=0) if counts["vehicles"] else home
    time, length = (others.pop(name, None) for name in ("travel_time", "travel_distance"))
    defaults = DEFAULTS | {
        "area": [middle - 5.0, middle + 5.0],
        "travel_seed": None,
        "loading_time": None,
        "home_by": None,
    }
    if unknown := sorted(others.keys() - defaults.keys()):
        raise ValueError(f"a day has no field '{unknown[0]}'; give those of jaxvrp.envs.dispatch.Instance")
    values = {
        "arrival": arrival,
        "pickup": np.broadcast_to(home, (counts["requests"], 2)) if pickup is None else pickup,
        "dropoff": dropoff,
        "pickup_deadline": dropoff_deadline if pickup_deadline is None else pickup_deadline,
        "dropoff_deadline": dropoff_deadline,
        "start": start,
        "speed": speed,
        "capacity": capacity,
        "horizon": horizon,
        "depot": depot,
        **defaults,
        **others,
    }
    values = {name: value for name, value in values.items() if value is not None or not SCHEMA[name].optional}
    for name in (each for each in ONE_FOR_ALL if each in values):
        values[name] = np.broadcast_to(values[name], (counts[SCHEMA[name].axis or ""],))
    values |= closed_streets(time, length, count_places(counts["requests"], counts["vehicles"], depot is not None))
    numbers = arrays.number_arrays(values, "a day")
    instance = Instance(**arrays.stored_arrays(SCHEMA, numbers, "has a fraction; loads are counted in whole numbers"))
    check(instance)
    return instance


def check(instance: Instance) -> None:
    """Check one day (no leading axes); padding is legal, and so is a day without requests.

    Warns of a request that no vehicle can hold: it is legal, but can never be served.

    Raises:
        ValueError: one line with what is wrong, of which request or vehicle, and the remedy.
    """
    counts = {"requests": np.size(instance.arrival), "vehicles": np.size(instance.capacity)}
    if math.prod(counts.values()) > MOST_PAIRS:
        most = MOST_PAIRS // counts["vehicles"]
        raise ValueError(
            f"a day of {counts['requests']} requests; with {counts['vehicles']} vehicles, give up to {most}"
        )
    arrays.check_shapes(SCHEMA, instance, {**counts, "places": instance.num_places})
    check_streets(instance.travel_time, instance.travel_distance, instance.num_places)
    instance = jax.tree.map(np.asarray, instance)
    _check_fleet(instance)
    _check_requests(instance)
    most = instance.capacity.max(initial=0)
    oversized = np.flatnonzero(instance.load > most)
    if oversized.size:
        warnings.warn(
            f"{oversized.size} of {np.count_nonzero(instance.load)} requests exceed every vehicle's capacity ({most}), "
            f"the first is request {oversized[0]}; they can never be served",
            stacklevel=2,
        )


def _check_fleet(instance: Instance) -> None:
    if not (instance.capacity > 0).any():
        raise ValueError("a day has no vehicle; give at least one, with a capacity of at least 1")
    refuse_where(instance.capacity < 0, "capacity of vehicle {} is negative; give at least 1, or 0 for padding")
    refuse_where(~np.isfinite(instance.start).all(axis=1), "start of vehicle {} is not finite; give two coordinates")
    for name in ("speed", "detour", "max_trip"):
        number = getattr(instance, name)
        valid = (number >= LEAST) & (np.isfinite(number) | (name == "max_trip"))
        refuse_where(~valid, f"{name} of vehicle {{}} is not above 0")
    for name in ("stop_time", "turnaround", "loading_time", "home_by"):
        if (number := getattr(instance, name)) is not None:
            wrong = ~(np.isfinite(number) & (number >= 0))
            refuse_where(wrong, f"{name} of vehicle {{}} is not 0 or more; give 0 for none")
    if instance.depot is None:
        _refuse_trips(instance)
    if not (np.isfinite(instance.horizon) and instance.horizon >= LEAST):
        raise ValueError(f"horizon is {instance.horizon}; it must be a number above 0, in minutes")
    if instance.travel_seed is not None and instance.travel_seed < 0:
        raise ValueError(f"travel_seed is {instance.travel_seed}; give 0 or more")
    if not (np.isfinite(instance.area).all() and (instance.area[0] < instance.area[1]).all()):
        raise ValueError("area is not two corners, the least and the greatest; give [[x, y], [x, y]]")


def _refuse_trips(instance: Instance) -> None:
    """Refuse limits of trips on a day without a depot."""
    remedy = "of trips from a depot, and there is none; leave it out, or give a depot"
    refuse_where(instance.turnaround > 0, f"turnaround of vehicle {{}} is {remedy}")
    refuse_where(np.isfinite(instance.max_trip), f"max_trip of vehicle {{}} is {remedy}")
    for name in ("loading_time", "home_by"):
        if getattr(instance, name) is not None:
            raise ValueError(f"{name} is {remedy}")
    if instance.travel_time is not None:
        _refuse_drones(instance)


def _refuse_drones(instance: Instance) -> None:
    """Refuse drones where all vehicles drive along streets."""
    is_drone = np.asarray(instance.is_drone, bool) & (instance.capacity > 0)
    refuse_where(is_drone, "vehicle {} is a drone, and without a depot all drive along streets; leave is_drone out")


def _check_requests(instance: Instance) -> None:
    arrival, load = instance.arrival, instance.load
    refuse_where(load < 0, "load of request {} is negative; give at least 1, or 0 for padding")
    refuse_where((load > 0) & ~(np.isfinite(arrival) & (arrival >= 0)), "arrival of request {} is not 0 or more")
    refuse_where(
        (load == 0) & (arrival != np.inf), "request {} has load 0; give at least 1, or arrival inf for padding"
    )
    too_early = arrival[1:] < arrival[:-1]
    if too_early.any():
        second = int(np.argmax(too_early)) + 1
        before, after = arrival[second - 1], arrival[second]
        raise ValueError(
            f"request {second} arrives at {after:g}, before request {second - 1} at {before:g}; sort by arrival"
        )
    refuse_where(~np.isfinite(instance.value), "value of request {} is not finite")
    for end in ("pickup", "dropoff"):
        place, earliest = getattr(instance, end), getattr(instance, f"{end}_earliest")
        deadline = getattr(instance, f"{end}_deadline")
        refuse_where(~np.isfinite(place).all(axis=1), f"{end} of request {{}} is not finite; give two coordinates")
        refuse_where(~np.isfinite(earliest), f"{end}_earliest of request {{}} is not finite; give 0 for none")
        refuse_where(np.isnan(deadline), f"{end}_deadline of request {{}} is no number; give inf for none")
        refuse_where(deadline < earliest, f"{end}_deadline of request {{}} lies before its earliest time")
    if instance.depot is not None:
        elsewhere = ((instance.pickup != instance.depot).any(axis=1)) & (load > 0)
        refuse_where(elsewhere, "pickup of request {} is not the depot; leave the depot out, or pickups")
        too_strict = (instance.pickup_deadline < instance.dropoff_deadline) & (load > 0)
        refuse_where(
            too_strict, "pickup_deadline of request {} can't be kept: parcels have none at the depot; leave it out"
        )


def minute_of(instance: Instance) -> Any:
    """`f[...]`, minutes that are on this day, by its horizon, what one is on a generated day."""
    return instance.horizon / USUAL["rides" if instance.depot is None else "trips"]


def requests_known(instance: Instance) -> tuple[int, int]:
    """How many requests of one day are known when it begins, and how many arrive later."""
    later = int(arrives_later(instance).sum())
    return int((np.asarray(instance.load) > 0).sum()) - later, later


def arrives_later(instance: Instance) -> np.ndarray:
    """`bool[R]`: requests of one day that are not known when it begins."""
    return (np.asarray(instance.load) > 0) & (np.asarray(instance.arrival) > slack_of(instance))


def minutes_along(instance: Instance, v: int, origin: Spot, target: Spot) -> float:
    """Minutes of vehicle v, on average, between places of one day of NumPy arrays, along its streets if it has some."""
    if instance.travel_time is not None and not instance.is_drone[v]:
        return float(instance.travel_time[origin.row, target.row])
    return MINUTES_PER_HOUR * float(instance.detour[v] / instance.speed[v]) * math.dist(origin.place, target.place)


def with_streets(instance: Instance) -> Instance:
    """The same day, its straight ways as a matrix where it has none; NumPy or JAX arrays, no leading axes.

    These are the ways of its first vehicle that is no drone.

    Raises:
        ValueError: a vehicle without a depot is a drone; of NumPy arrays.
    """
    if instance.travel_time is not None:
        return instance
    if instance.depot is None and isinstance(instance.is_drone, np.ndarray):
        _refuse_drones(instance)
    pace = MINUTES_PER_HOUR * instance.detour / instance.speed
    return instance.replace(travel_time=_straight(instance) * pace[instance.is_drone.argmin()])


def street_pace(instance: Instance) -> Any:
    """`f[]`, minutes along streets for a straight kilometre, on average, of one day that has them."""
    xp = np if isinstance(instance.load, np.ndarray) else jnp
    exists = is_place(instance)
    is_way = exists[:, None] & exists
    kilometres = xp.where(is_way, _straight(instance), 0.0).sum()
    return xp.where(is_way, instance.travel_time, 0.0).sum() / (kilometres + (kilometres == 0))


def is_place(instance: Instance) -> Any:
    """`bool[L]`, the places of `travel_time` that are no padding, of one day."""
    xp = np if isinstance(instance.load, np.ndarray) else jnp
    asked = instance.load > 0
    first = [instance.capacity > 0, asked] if instance.depot is None else [xp.ones(1, bool)]
    return xp.concatenate([*first, asked])


def places_of_day(instance: Instance) -> Any:
    """`f[L, 2]`, the places of `travel_time`, of one day."""
    xp = np if isinstance(instance.dropoff, np.ndarray) else jnp
    first = [instance.start, instance.pickup] if instance.depot is None else [instance.depot[None]]
    return xp.concatenate([*first, instance.dropoff])


def _straight(instance: Instance) -> Any:
    """`f[L, L]`, straight kilometres between all places."""
    places = places_of_day(instance)
    gap = places[:, None] - places
    return (gap * gap).sum(axis=-1) ** 0.5


def slack_of(instance: Instance) -> Any:
    """`f[...]`, minutes that are granted on every comparison of times.

    On a generated day a thousandth: float32 resolves 3e-5 at a clock of 480.
    """
    return instance.horizon / (1000.0 * USUAL["rides" if instance.depot is None else "trips"])


def as_float32(instance: Instance) -> Instance:
    """The same day as JAX arrays of the dtypes that environments compute with."""
    return arrays.computed_arrays(SCHEMA, instance)


def origins_of(instance: Instance) -> dict[str, Any]:
    """Where the clock (`f64[]`, minutes) and the map (`f64[2]`, km) of one day without padding begin.

    On a clock that is far from 0, the day begins with its first request; see `jaxvrp.io.problems.origin`.
    """
    places = np.concatenate([instance.start, instance.pickup, instance.dropoff])
    times = [*instance.arrival[:1], instance.horizon]
    return {"clock": origin_of(times, FAR_IN_TIME) if len(times) > 1 else np.zeros(()), "map": origin_of(places)}


def from_origin(instance: Instance, origins: Mapping[str, ArrayLike]) -> Instance:
    """The same day, its numbers counted from these origins, so that `as_float32` keeps them."""
    return arrays.from_origin(SCHEMA, instance, origins)


def pad(instance: Instance, max_requests: int, num_vehicles: int) -> Instance:
    """Add void requests and vehicles at the end, up to the given sizes; works on batches and under `vmap`.

    Raises:
        ValueError: the instance is larger.
    """
    if max_requests < instance.max_requests or num_vehicles < instance.num_vehicles:
        raise ValueError(
            f"a day of {instance.max_requests} requests and {instance.num_vehicles} vehicles does not fit into "
            f"max_requests {max_requests} and {num_vehicles} vehicles; make the environment with at least its sizes"
        )
    lengths = {"requests": max_requests, "vehicles": num_vehicles}
    without = {name: field for name, field in SCHEMA.items() if field.axis != "places"}
    padded = arrays.pad_arrays(without, instance, lengths)
    if instance.travel_time is None or padded is instance:
        return padded
    requests = np.arange(instance.max_requests)
    first = [np.zeros(1, int)]
    if instance.depot is None:
        first = [np.arange(instance.num_vehicles), padded.row_of(requests, True)]
    rows = np.zeros(padded.num_places, np.int32)
    rows[np.concatenate([*first, padded.row_of(requests)])] = np.arange(instance.num_places)
    ways = instance.travel_time, instance.travel_distance
    time, length = jax.tree.map(lambda matrix: matrix[..., rows[:, None], rows], ways)
    return padded.replace(travel_time=time, travel_distance=length)


def void_vehicles_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The day with its first `count` vehicles (`i32[]`) that are no drones, and all drones; traceable."""
    rank = jnp.cumsum(~instance.is_drone, axis=-1, dtype=jnp.int32)
    return instance.replace(capacity=jnp.where(instance.is_drone | (rank <= count), instance.capacity, 0))


def void_drones_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The day with its first `count` drones (`i32[]`), and all other vehicles; traceable."""
    rank = jnp.cumsum(instance.is_drone, axis=-1, dtype=jnp.int32)
    return instance.replace(capacity=jnp.where(~instance.is_drone | (rank <= count), instance.capacity, 0))


def void_requests_beyond(instance: Instance, count: jax.Array) -> Instance:
    """The day with its first `count` requests (`i32[]`) only; traceable."""
    exists = jnp.arange(instance.max_requests, dtype=jnp.int32) < count
    return instance.replace(
        arrival=jnp.where(exists, instance.arrival, jnp.inf), load=jnp.where(exists, instance.load, 0)
    )


def stack(instances: Sequence[Instance]) -> Instance:
    """A batch `[E]` of days of any sizes, padded to the largest, as NumPy arrays.

    If one has streets, straight ways of the others are written as matrices, too; distances are left out.
    """
    if any(instance.travel_time is not None for instance in instances):
        instances = [with_streets(instance).replace(travel_distance=None) for instance in instances]
        most = (max(instance.max_requests for instance in instances), max(i.num_vehicles for i in instances))
        instances = [pad(instance, *most) for instance in instances]
    if any(instance.travel_seed is not None for instance in instances):
        instances = [i if i.travel_seed is not None else i.replace(travel_seed=np.int32(0)) for i in instances]
    return arrays.stack_arrays(SCHEMA, instances)


FILES = arrays.ArrayFiles("jaxvrp-dispatch-1", "a day", "jaxvrp.envs.dispatch", SCHEMA, Instance, check)

save = FILES.save
"""Write a day, or a batch, as `.npz`: `save(path, day)`; see `jaxvrp.io.arrays.ArrayFiles`."""

load = FILES.load
"""Read what `save` wrote, as NumPy arrays: `load(path)`; see `jaxvrp.io.arrays.ArrayFiles`."""
