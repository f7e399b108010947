"""The figure of a dial-a-ride plan: a map, the vehicles' loads over time, a row for each request, and the legends.

Everything that happened is drawn as an artist of its own, with the moment at which it had happened: a still shows all,
an animation what was before. matplotlib is imported inside the functions; nothing goes through pyplot.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxvrp import pictures
from jaxvrp.envs.darp.played import Leg, Plan, verdict
from jaxvrp.io.messages import shown_cost
from jaxvrp.pictures import INK, place_labels
from jaxvrp.show.palette import EDGE, FRAME, GRID, NOTE, PALE, RIGHT, SERIES, WRONG

# Red is kept for what went wrong. The dashes tell vehicles apart in grey.
COLOURS = SERIES
DASHES: tuple[Any, ...] = (
    *("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5))),
    *((0, (10, 2)), (0, (3, 1)), (0, (6, 1.2, 1.2, 1.2, 1.2, 1.2)), (0, (2, 2))),
)
PICKUP_WINDOW, DROP_OFF_WINDOW = "#BCD6EC", "#E2D8C3"
MARKERS = ("v", "^")  # by the node's parity: drop-offs point down, pickups up
SMALLEST_LETTERS = 6.5  # pixels; smaller letters are left out
MANY = 24  # from so many requests on, the map has smaller symbols


@dataclasses.dataclass
class PlanFigure:
    """The figure of a plan, and when its artists appear."""

    plan: Plan
    figure: Any
    map: Any
    loads: Any
    rows: Any  # axes with a row for each request
    headline: Any
    events: list[tuple[int, Any]] = dataclasses.field(default_factory=list)  # legs driven when it appears, artist

    @property
    def end(self) -> int:
        """The moment after all legs."""
        return len(self.plan.legs)

    def add(self, moment: int, *artists: Any) -> None:
        """Let artists appear at `moment`."""
        self.events += [(moment, artist) for artist in artists]

    def legible(self, size: float) -> float:
        """The size of letters, in points: `size`, or 0 (none) if they would be too small to read."""
        return size if size * self.figure.dpi / 72 >= SMALLEST_LETTERS else 0.0


def line_style(vehicle: int) -> dict[str, Any]:
    """Colour and dashes; fleets larger than the palette repeat its colours with other dashes."""
    dashes = DASHES[(vehicle + vehicle // len(COLOURS)) % len(DASHES)]
    return {"color": COLOURS[vehicle % len(COLOURS)], "linestyle": dashes}


def colour_of(vehicle: int) -> str:
    """The colour of a vehicle wherever it is drawn."""
    return line_style(vehicle)["color"]


def lay_out(plan: Plan, dpi: float = 120.0, width: float | None = None, fig: Any = None) -> PlanFigure:
    """Draw the whole plan into `fig`, or a new figure, of `dpi` pixels per inch; its size grows with the plan.

    For screens, `width` is given in pixels instead of `dpi`, and the size grows less.
    """
    count, used = len(plan.requests), len(plan.used)
    # Inches.
    side = float(np.clip(4.9 + 0.05 * count, 5.2, 6.4 if width else 9.4))
    loads = float(np.clip(0.55 * used, 0.7, max(2.2, (0.22 if width else 0.33) * used)))
    rows = float(np.clip(0.27 * count, 0.5, max(4.2, (0.05 if width else 0.072) * count)))
    columns = int(side / 1.05)
    keys = 0.2 * (2 + -(-used // columns))
    across, up = side + 6.5, max(side + keys + 0.95, loads + rows + 1.95)
    spare = up - (loads + rows + 1.95)
    rows += min(spare, 0.1 * count)
    sheet = pictures.new_paper(across, up, width / across if width else dpi, fig)
    left = side + 1.05
    picture = PlanFigure(
        plan,
        sheet.figure,
        map=sheet.axes(0.2, up - 0.75 - side, side, side),
        loads=sheet.axes(left, up - 0.95 - loads, 5.0, loads),
        rows=sheet.axes(left, up - 1.5 - loads - rows, 5.0, rows),
        headline=sheet.text(0.2, up - 0.25, "", fontsize=12.5, va="center", color=INK, weight="bold"),
    )
    draw_map(picture)
    draw_loads(picture)
    draw_rows(picture)
    _draw_keys(picture, sheet, (0.15, up - 0.82 - side), columns)
    picture.headline.set_text(summary(plan))
    colour = RIGHT if plan.report.feasible else WRONG
    text = sheet.text(0.2, up - 0.53, verdict(plan.report), fontsize=10, va="center", color=colour)
    picture.add(picture.end, text)
    return picture


def panel(plan: Plan, axes: Any) -> PlanFigure:
    """A figure of one panel, of which only that is drawn."""
    return PlanFigure(plan, axes.figure, map=axes, loads=axes, rows=axes, headline=None)


def summary(plan: Plan) -> str:
    """The headline of the whole plan."""
    served, count = int(plan.delivered.sum()), len(plan.requests)
    share = f" ({served / count:.0%})" if count else ""
    vehicles = f"{len(plan.used)} of {plan.num_vehicles} vehicles used"
    return f"cost {shown_cost(plan.report.cost)}   |   {served} of {count} requests served{share}   |   {vehicles}"


def _draw_keys(picture: PlanFigure, sheet: pictures.Paper, corner: tuple[float, float], columns: int) -> None:
    """Vehicles and symbols below the map; `corner` is the upper left one, in inches."""
    entry = pictures.legend_entry
    symbols = [
        *node_keys(),
        entry(marker="o", color=WRONG, label="late, ride too long, overload"),
        entry(marker="X", color=WRONG, label="bad return (late, passengers on board)"),
        entry(marker="s", color=PICKUP_WINDOW, markersize=9, label="pickup window"),
        entry(marker="s", color=DROP_OFF_WINDOW, markersize=9, label="drop-off window"),
    ]
    style = {"loc": "upper left", "fontsize": 8, "frameon": False, "columnspacing": 1.2, "borderaxespad": 0.1}
    vehicles = vehicle_keys(picture.plan)
    if vehicles:
        # One row of vehicles after the other: legends fill columns first.
        upper = {"bbox_to_anchor": sheet.place(*corner), "ncols": columns, "handlelength": 2.6}
        picture.figure.legend(handles=vehicles, **upper, **style)
    below = sheet.place(corner[0], corner[1] - 0.2 * -(-len(vehicles) // columns))
    pictures.legend(picture.figure, symbols, ncols=4, bbox_to_anchor=below, **style)


def vehicle_keys(plan: Plan) -> list[Any]:
    """Legend entries of the vehicles that drove."""
    return [
        pictures.legend_entry(**{**line_style(vehicle), "linewidth": 2, "label": f"vehicle {vehicle}"})
        for vehicle in plan.used
    ]


def node_keys() -> list[Any]:
    """Legend entries of what nodes look like."""
    lost = {"color": "white", "markeredgecolor": WRONG, "markeredgewidth": 1.6}
    looks = {"pickup": "^", "drop-off": "v", "depot": "s"}
    entries = [pictures.legend_entry(marker=marker, color=INK, label=name) for name, marker in looks.items()]
    return [*entries, pictures.legend_entry(marker="^", label="not served", **lost)]


def draw_map(picture: PlanFigure) -> None:
    """Nodes, their numbers, the legs and the scale."""
    axes, plan = picture.map, picture.plan
    side = pictures.inches_square(axes)
    nodes = [node for request in plan.requests.tolist() for node in (2 * request - 1, 2 * request)]
    places = plan.instance.locs[[0, *nodes]]
    centre = (places.max(axis=0) + places.min(axis=0)) / 2
    half = 1.07 * max(float((places.max(axis=0) - places.min(axis=0)).max()) / 2, 1e-9)
    axes.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half), xticks=[], yticks=[])
    axes.set(facecolor=pictures.GROUND, aspect="equal")
    axes.spines[:].set(visible=True, color=FRAME, linewidth=0.8)
    pictures.scale_bar(axes, "units")
    many = len(plan.requests) >= MANY
    for moment, leg in enumerate(plan.legs, 1):
        picture.add(moment, *_draw_leg(axes, plan, leg, many, 2 * half / side))
    size = 6.5 if many else 10.0
    _draw_nodes(picture, nodes, size)
    edge = {"markeredgecolor": "white", "markeredgewidth": 1.2}
    picture.add(0, *axes.plot(*plan.instance.locs[0], "s", color=INK, markersize=size + 3, **edge, zorder=7))
    _label_nodes(picture, nodes, centre, half, size, 2 * half / side / 72)


def _draw_leg(axes: Any, plan: Plan, leg: Leg, many: bool, inch: float) -> list[Any]:
    """A line, and an arrowhead in its middle unless it is short."""
    from matplotlib.markers import MarkerStyle
    from matplotlib.path import Path as Shape
    from matplotlib.transforms import Affine2D

    ends = plan.instance.locs[[leg.origin, leg.node]]
    width = 1.2 if many else 1.8
    lines = axes.plot(*ends.T, **line_style(leg.vehicle), linewidth=width, alpha=0.85, zorder=3)
    gap = ends[1] - ends[0]
    if np.hypot(*gap) < (0.22 if many else 0.4) * inch:
        return lines
    dart = Shape([(-1, -0.9), (1, 0), (-1, 0.9), (-0.45, 0), (-1, -0.9)], closed=True)
    head = MarkerStyle(dart, transform=Affine2D().rotate(np.arctan2(gap[1], gap[0])))
    look = {"color": colour_of(leg.vehicle), "markeredgecolor": "white", "markeredgewidth": 0.5}
    return lines + axes.plot(*(ends[0] + 0.55 * gap), marker=head, markersize=6 if many else 8, zorder=4, **look)


def _draw_nodes(picture: PlanFigure, nodes: list[int], size: float) -> None:
    """Hollow symbols, filled once visited; red in the end for requests that were not delivered."""
    axes, plan = picture.map, picture.plan
    for node in nodes:
        place, marker = plan.instance.locs[node], MARKERS[node % 2]
        hollow = {"markerfacecolor": "white", "markersize": size - 1, "markeredgewidth": 1.3}
        picture.add(0, *axes.plot(*place, marker, markeredgecolor=EDGE, **hollow, zorder=5))
        if plan.moment[node]:
            late = plan.late[node] > 0
            edge = {"markeredgecolor": WRONG if late else "white", "markeredgewidth": 1.6 if late else 0.7}
            colour = colour_of(plan.visited_by[node])
            picture.add(plan.moment[node], *axes.plot(*place, marker, color=colour, markersize=size, **edge, zorder=6))
        elif not plan.delivered[(node + 1) // 2]:
            picture.add(picture.end, *axes.plot(*place, marker, markeredgecolor=WRONG, **hollow, zorder=6))
    for request in plan.requests[~plan.delivered[plan.requests]].tolist():
        ends = plan.instance.locs[[2 * request - 1, 2 * request]]
        dots = {"color": WRONG, "linewidth": 0.11 * size, "linestyle": (0, (1, 2.5)), "alpha": 0.7}
        picture.add(picture.end, *axes.plot(*ends.T, **dots, zorder=2))


def _label_nodes(
    picture: PlanFigure, nodes: list[int], centre: np.ndarray, half: float, size: float, point: float
) -> None:
    """The number of the request beside each node."""
    axes, plan = picture.map, picture.plan
    font = picture.legible(5.8 if len(plan.requests) >= MANY else 8.5)
    if not font:
        return
    locs = plan.instance.locs - centre
    texts = [str((node + 1) // 2) for node in nodes]
    legs = np.array([locs[[leg.origin, leg.node]] for leg in plan.legs]).reshape(-1, 2, 2)
    share = np.linspace(0.0, 1.0, 12)[:, None, None]
    crowd = ((1 - share) * legs[:, 0] + share * legs[:, 1]).reshape(-1, 2)
    sizes = np.array([[0.62 * font * len(text), font] for text in texts]).reshape(-1, 2) * point
    around = {"markers": locs[[0, *nodes]], "radius": size / 2 * point, "crowd": crowd}
    places = place_labels(locs[nodes], sizes, limit=half, **around)
    for node, text, place in zip(nodes, texts, places, strict=True):
        lost = not plan.delivered[(node + 1) // 2]
        outlined = {"path_effects": pictures.outline(1.8), "zorder": 8}
        for moment, colour, weight in ((0, INK, "normal"), (picture.end, WRONG, "bold"))[: 1 + lost]:
            look = {"weight": weight, **pictures.centred(font, colour), **outlined}
            picture.add(moment, axes.text(*(place + centre), text, **look))


def draw_loads(picture: PlanFigure) -> None:
    """A lane for each vehicle that drove, with its load as steps, and its capacity."""
    axes, plan = picture.loads, picture.plan
    used = plan.used
    _time_axis(picture, axes, "passengers on board (dashed: capacity)")
    if picture.rows is not axes:  # which has the same times, right below
        axes.tick_params(axis="x", labelbottom=False)
    if not used:
        axes.text(0.5, 0.5, "no vehicle left the depot", transform=axes.transAxes, **pictures.centred(8.5, WRONG))
        axes.set_yticks([])
        return
    most = max([1, *(leg.load for leg in plan.legs), *(plan.capacity(vehicle) or 0 for vehicle in used)])
    base = {vehicle: float(lane) for lane, vehicle in enumerate(reversed(used))}
    beside = {"transform": axes.get_yaxis_transform(), "fontsize": picture.legible(7.5), "color": NOTE, "va": "center"}
    for vehicle in used:
        axes.axhline(base[vehicle], color=FRAME, linewidth=0.8, zorder=1)
        capacity = plan.capacity(vehicle)
        if capacity is not None:
            level = base[vehicle] + 0.8 * capacity / most
            axes.axhline(level, color="#7A828A", linewidth=0.9, linestyle=(0, (4, 2.5)), zorder=2)
            axes.text(1.01, level, str(capacity) if beside["fontsize"] else "", **beside)
    since = 0.0
    for moment, leg in enumerate(plan.legs, 1):
        since = leg.leave if leg.origin == 0 else since
        picture.add(moment, *_draw_load(axes, plan, leg, since, base[leg.vehicle], 0.8 / most))
        since = leg.begin
    font = min(8.0, 0.85 * pictures.points_high(axes) / len(used))
    axes.set_ylim(-0.06, len(used))
    axes.set_yticks([base[vehicle] + 0.4 for vehicle in used], [f"vehicle {vehicle}" for vehicle in used])
    for tick, vehicle in zip(axes.get_yticklabels(), used, strict=True):
        tick.set(color=pictures.text_colour(colour_of(vehicle)), fontsize=font, weight="bold")


def _draw_load(axes: Any, plan: Plan, leg: Leg, since: float, base: float, unit: float) -> list[Any]:
    """The load from the last stop to this one, and its change here."""
    capacity = plan.capacity(leg.vehicle)
    colour = colour_of(leg.vehicle)
    before, after = base + unit * leg.load_before, base + unit * leg.load
    lines = axes.plot([since, leg.begin, leg.begin], [before, before, after], color=colour, linewidth=1.4, zorder=4)
    lines[0].set_solid_joinstyle("miter")
    bars = axes.bar(since, before - base, leg.begin - since, base, align="edge", color=colour, alpha=0.28, zorder=3)
    if capacity is not None and leg.load_before > capacity:
        level = base + unit * capacity
        bars = [*bars, *axes.bar(since, before - level, leg.begin - since, level, align="edge", color=WRONG, zorder=5)]
    if leg.wrong:
        lines += axes.plot(leg.begin, before, "X", color=WRONG, markersize=7, markeredgecolor="white", zorder=6)
    return [*bars, *lines]


def _time_axis(picture: PlanFigure, axes: Any, title: str) -> None:
    first, last = picture.plan.span()
    axes.set_xlim(first - 0.015 * (last - first), last + 0.015 * (last - first))
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize=9.5, loc="left", color=INK, pad=5)


def draw_rows(picture: PlanFigure) -> None:
    """A row for each request, vehicle after vehicle in the order of pickups; those never picked up last."""
    axes, plan = picture.rows, picture.plan
    longest = float(plan.instance.max_ride_time)
    limit = f" (at most {longest:.4g})" if np.isfinite(longest) else ""
    _time_axis(picture, axes, f"requests: time windows (none: any time), service, ride{limit}")
    axes.set_xlabel("time", fontsize=8, labelpad=1)
    pickups = 2 * plan.requests - 1
    order = plan.requests[np.lexsort((plan.moment[pickups], plan.moment[pickups] == 0))]
    row_points = pictures.points_high(axes) / max(len(order), 1)
    font = picture.legible(min(8.0, 0.92 * row_points))
    for row, request in enumerate(order.tolist()):
        _draw_request(picture, row, request, float(np.clip(0.5 * row_points, 2.6, 6.5)))
        if font:
            _write_request(picture, row, request, font)
    first_rows = np.flatnonzero(np.diff(plan.visited_by[2 * order - 1])) + 0.5
    for line in first_rows:
        axes.axhline(line, color=PALE, linewidth=0.7, zorder=1)
    axes.set_ylim(max(len(order), 1) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_ylabel("request", fontsize=8, labelpad=18)


def _draw_request(picture: PlanFigure, row: int, request: int, size: float) -> None:
    """Windows, the pickup's above and the drop-off's below, where others than the depot's bind; marks, and the ride."""
    axes, plan = picture.rows, picture.plan
    pickup, drop_off = 2 * request - 1, 2 * request
    first, last = plan.span()
    early, late = plan.instance.earliest, plan.instance.deadline
    for node, y, colour in ((pickup, row - 0.2, PICKUP_WINDOW), (drop_off, row + 0.2, DROP_OFF_WINDOW)):
        start, end = max(float(early[node]), first), float(late[node])
        if (early[node] > early[0] or late[node] < late[0]) and start < last:
            axes.barh(y, min(end, last) - start, left=start, height=0.36, color=colour, linewidth=0, zorder=2)
        if plan.moment[node]:
            is_late = plan.late[node] > 0
            look: dict[str, Any] = {"color": WRONG if is_late else colour_of(plan.visited_by[node])}
            look |= {"markersize": size * (1.25 if is_late else 1.0), "markeredgewidth": 0.1 * size}
            look |= {"markeredgecolor": "white", "zorder": 4 + is_late}
            picture.add(plan.moment[node], *axes.plot(plan.begin[node], y, MARKERS[node % 2], **look))
    if plan.delivered[request]:
        bad = plan.too_long[request]
        colour, width = (WRONG, 0.5 * size) if bad else (colour_of(plan.visited_by[pickup]), 0.3 * size)
        ends = [plan.begin[pickup], plan.begin[drop_off]], [row - 0.2, row + 0.2]
        picture.add(plan.moment[drop_off], *axes.plot(*ends, color=colour, linewidth=width, zorder=3))


def _write_request(picture: PlanFigure, row: int, request: int, font: float) -> None:
    """The number of the request, red in the end if it was not delivered, and what went wrong beside its marks."""
    axes, plan = picture.rows, picture.plan
    beside = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center_baseline", "fontsize": font}
    axes.text(-0.012, row, str(request), color=INK, **beside)
    moment = plan.moment[2 * request]
    if not plan.delivered[request]:
        moment = picture.end
        picture.add(moment, axes.text(-0.012, row, str(request), color=WRONG, **beside))
    if not plan.trouble(request):
        return
    # After the last mark, or before the first if there is no room.
    first, last = plan.span()
    visits = plan.begin[[2 * request - 1, 2 * request]]
    visits = visits[~np.isnan(visits)].tolist()
    fits = max(visits, default=first) < first + 0.66 * (last - first)
    mark = max(visits, default=first) if fits else min(visits)
    place = {"xytext": (7 if fits else -7, 0), "textcoords": "offset points", "ha": "left" if fits else "right"}
    look = {"va": "center", "fontsize": font - 0.5, "color": WRONG, "path_effects": pictures.outline(2.0), "zorder": 7}
    picture.add(moment, axes.annotate(plan.trouble(request), (mark, row), **place, **look))
