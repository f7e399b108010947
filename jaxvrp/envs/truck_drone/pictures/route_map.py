"""What the still and the animation of an episode share: colours, the map, the lanes of batteries, legends."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.truck_drone.played import WAITING, Episode
from jaxvrp.envs.truck_drone.problem.fleet_map import FleetMap
from jaxvrp.envs.truck_drone.world import CRASHED, FLYING, ONBOARD, RETURNING, STATUS_NAMES
from jaxvrp.io.messages import cut
from jaxvrp.pictures import GROUND, INK, centred, legend, legend_entry, outline, palette, points_high, scale_bar
from jaxvrp.show.palette import BESIDE_STATUS, EDGE, FRAME, LATE, LOST, ON_TIME

# Green, orange, grey and red are kept for customers and crashes.
DRONE_COLOURS = BESIDE_STATUS
DRONE_LINES = ("-", "--", ":", "-.")
FAINT = "#E4E7EA"
SHADES = {ONBOARD: "#F1F3F5", FLYING: "#C9E1F4", WAITING: "#F5E3A8", RETURNING: "#A9BBD8", CRASHED: "#E2938A"}
"""What a drone was doing, as a ground behind its battery."""

STATUS_WORDS = {**dict(enumerate(STATUS_NAMES)), ONBOARD: "on board", WAITING: "waiting"}
"""The names of what drones do, in pictures."""

PARCEL = INK
"""The colour of packages on their way."""

UNSERVED = {"marker": "o", "color": palette.WAITING, "markeredgecolor": EDGE}
"""The marker of a customer that was not served."""

FEW_CUSTOMERS = 12
"""Up to so many, customers are labelled in full."""

LengthUnit = tuple[str, float]
"""The unit of lengths, and how many of these a map unit has."""

MAP_UNITS: LengthUnit = ("map units", 1.0)


@dataclasses.dataclass(frozen=True)
class Labels:
    """What a picture calls drones, customers and nodes; its unit of time, how long a step is, when the first begins."""

    drones: tuple[str, ...]
    customers: tuple[str, ...]
    nodes: tuple[str, ...]
    step: float = 1.0
    time_unit: str = "step"
    clock: float = 0.0

    @property
    def are_names(self) -> bool:
        """Whether the customers have names, which do not fit into their circles."""
        return not self.customers[0].isdecimal()

    @property
    def signs(self) -> tuple[str, ...]:
        """What fits into the mark of a drone: its initial where these tell drones apart, or its number."""
        initials = tuple(name[0].upper() for name in self.drones)
        are_distinct = len(set(initials)) == len(initials) > 1
        return initials if are_distinct else tuple(map(str, range(len(initials))))

    def time(self, step: ArrayLike) -> str:
        """When a step ends."""
        return _shown(self.clock + int(np.asarray(step)) * self.step)

    def lasting(self, steps: ArrayLike) -> str:
        """How long so many steps are."""
        return _shown(int(np.asarray(steps)) * self.step)


def _shown(time: float) -> str:
    return f"{time:.6g}" if abs(time) < 1e6 else f"{time:.12g}"


LONGEST = 16
"""Letters of a name in a picture."""


def numbered(episode: Episode) -> Labels:
    """Labels of a problem without names: numbers."""
    return Labels(
        tuple(f"drone_{drone}" for drone in range(episode.num_drones)),
        tuple(str(customer) for customer in range(episode.num_customers)),
        (),
    )


def labels_of_map(fleet_map: FleetMap) -> Labels:
    """Names and unit of time of a map; long names are cut."""
    drones, customers, nodes = (
        tuple(cut(name, LONGEST) for name in fleet_map.names(field)) for field in ("drones", "customers", "nodes")
    )
    scale, unit = fleet_map.whole_scale, fleet_map.units.get("time", "time")
    return Labels(drones, customers, nodes, scale.time, unit, scale.clock)


def draw_nodes(axes: Any, episode: Episode, labels: Labels) -> None:
    """The names of the nodes, below them."""
    for place, name in zip(episode.instance.node_position, labels.nodes, strict=False):
        below = {"xytext": (0, -8.5), "textcoords": "offset points", "path_effects": outline()}
        axes.annotate(name, place, **{**centred(6.5, palette.NOTE), **below}, zorder=2.5)


def draw_ground(axes: Any, episode: Episode, unit: LengthUnit = MAP_UNITS) -> None:
    """What never changes: the service area, the route nodes, the scale."""
    from matplotlib.patches import Rectangle

    limit = map_limit(episode)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
    scale_bar(axes, *unit)
    axes.add_patch(Rectangle((-1, -1), 2, 2, facecolor=GROUND, edgecolor=FRAME, linewidth=0.8, zorder=0))
    node = episode.instance.node_position
    axes.scatter(*node.T, s=55, marker="s", facecolor=FAINT, edgecolor=EDGE, linewidth=0.8, zorder=2)


def map_limit(episode: Episode) -> float:
    """Half the side of the map: the service area, or more if something lies outside it."""
    places = (episode.world.truck.position, episode.instance.node_position, episode.instance.customer_position)
    return 1.05 * max(1.0, *(float(np.abs(place).max(initial=0.0)) for place in places))


def time_axis(axes: Any, last: int, title: str, labels: Labels) -> None:
    """Times from 0 to `last` along the bottom, with room for a marker at either end."""
    last = max(1, last)
    axes.set_xlim(-0.03 * last, 1.03 * last)
    if labels.step != 1.0:
        from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

        ticks = MaxNLocator(8).tick_values(0, last * labels.step)
        axes.xaxis.set_major_locator(FixedLocator([tick / labels.step for tick in ticks if tick <= last * labels.step]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: _shown(labels.clock + step * labels.step)))
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(labels.time_unit, fontsize=8, labelpad=1)
    axes.set_title(title, fontsize=9.5, loc="left", color=INK, pad=4)


def draw_batteries(axes: Any, episode: Episode, max_battery: float, labels: Labels, **legend_place: Any) -> None:
    """A lane for each drone, empty at its bottom and full at its top, shaded by what the drone was doing.

    A line above it shows when the drone carried a package.
    """
    step, count = episode.world.step, episode.num_drones
    for drone in range(count):
        for begin, end, activity in episode.activities(drone):
            axes.barh(drone, end - begin, left=begin, height=0.84, color=SHADES[activity], linewidth=0)
        for begin, end, _ in episode.parcels(drone):
            axes.plot([begin, end], [drone - 0.46] * 2, color=PARCEL, linewidth=1.8, solid_capstyle="butt")
        level = drone + 0.42 - 0.84 * episode.world.drones.battery[:, drone] / max_battery
        axes.plot(step, level, **drone_style(drone), linewidth=1.6, solid_joinstyle="round", clip_on=False)
    time_axis(axes, int(step[-1]), "battery", labels)
    axes.set_ylim(count - 0.5, -0.5)
    font = min(8.0, 0.8 * points_high(axes) / count)
    axes.set_yticks(range(count), labels.drones, fontsize=font)
    never = set() if (episode.activity == WAITING).any() else {WAITING}
    keys = [
        legend_entry(marker="s", color=shade, markersize=9, label=STATUS_WORDS[activity])
        for activity, shade in SHADES.items()
        if activity not in never
    ]
    legend(axes, keys, **{"ncols": len(keys), **legend_place})


def drone_style(drone: int) -> dict[str, Any]:
    """Colour and line; fleets larger than the palette repeat its colours with another line."""
    line = DRONE_LINES[drone // len(DRONE_COLOURS) % len(DRONE_LINES)]
    return {"color": DRONE_COLOURS[drone % len(DRONE_COLOURS)], "linestyle": line}


def service_colour(episode: Episode, customer: int) -> str:
    """The colour of a customer that was served: whether it was on time."""
    return LATE if episode.steps_late[customer] > 0 else ON_TIME


def truck_marker() -> Any:
    """A marker (a matplotlib path) that shows a truck from its side."""
    from matplotlib.path import Path as Shape

    cargo = Shape([(-1.3, -0.45), (0.35, -0.45), (0.35, 0.75), (-1.3, 0.75), (-1.3, -0.45)], closed=True)
    cab = Shape([(0.45, -0.45), (1.3, -0.45), (1.3, 0.0), (0.95, 0.4), (0.45, 0.4), (0.45, -0.45)], closed=True)
    return Shape.make_compound_path(cargo, cab, Shape.circle((-0.75, -0.6), 0.27), Shape.circle((0.8, -0.6), 0.27))


def map_keys(labels: Labels) -> list[Any]:
    """Legend entries of what both pictures show on the map."""
    return [
        legend_entry(marker=truck_marker(), color=INK, markersize=12, label="truck"),
        legend_entry(marker="s", color=FAINT, markeredgecolor=EDGE, markersize=7, label="route node"),
        legend_entry(marker="o", color=ON_TIME, label=f"served on time @ {labels.time_unit}"),
        legend_entry(marker="o", color=LATE, label="served late"),
        legend_entry(marker="X", color=LOST, label="crashed drone"),
    ]


def summary(episode: Episode, index: int, labels: Labels) -> str:
    """The headline of the state `index`."""
    world = episode.world
    now, last = (labels.time(world.step[at]) for at in (index, -1))
    served, clock = int(world.customers.served[index].sum()), f"{now:>{len(last)}}/{last}"
    clock = f"{clock} {labels.time_unit}" if labels.are_names else f"step {clock}"
    return (
        f"{clock}    served {served}/{episode.num_customers}"
        f" ({world.totals.on_time[index]} on time)    battery used {world.totals.battery_used[index]:.2f}"
    )
