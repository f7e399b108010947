/** Moments of the clock's own way of playing. */
const CLOCK_MOMENTS = 240;

/** Two ways to measure time: by decision, and by the vehicles' own clock. */
VIEWS.darp = (seek) => {
  const { nodes, requests, legs, span, vehicles } = episode;
  const used = [...new Set(legs.map((leg) => leg.vehicle))];
  /** By vehicle, the indices of its legs; by leg, which it is of how many of the same step. */
  const legsOf = new Map(
    used.map((vehicle) => [vehicle, [...legs.keys()].filter((at) => legs[at].vehicle === vehicle)]),
  );
  const turns = legs.map((leg, at) => {
    const twins = [...legs.keys()].filter((other) => legs[other].step === leg.step);
    return [twins.indexOf(at), twins.length];
  });
  const real = [0, ...requests.flatMap(({ request }) => [2 * request - 1, 2 * request])];
  const xs = real.map((node) => nodes[node].position[0]);
  const ys = real.map((node) => nodes[node].position[1]);
  const box = { x: [Math.min(...xs), Math.max(...xs)], y: [Math.min(...ys), Math.max(...ys)] };
  const clockAt = (moment) => lerp(span[0], span[1], moment / CLOCK_MOMENTS);
  const momentAt = (clock) => (CLOCK_MOMENTS * (clock - span[0])) / (span[1] - span[0]);
  const doneAt = new Map();
  legs.forEach((leg, at) => leg.to && !doneAt.has(leg.to) && doneAt.set(leg.to, at));
  let scene = null;

  /** How much of each leg is done, in [0, 1]: by decision, or by the clock. */
  function progress(time, mode) {
    if (mode === "steps") return legs.map((leg, at) => clamp((time - leg.step) * turns[at][1] - turns[at][0], 0, 1));
    const clock = clockAt(time);
    return legs.map((leg) => clamp((clock - leg.leave) / (leg.begin - leg.leave || 1e-9), 0, 1));
  }

  function layout(svg, width, height) {
    const { to } = projection(box.x, box.y, width, height, 36, false);
    draw("rect", { class: "ground", width, height }, svg);
    const places = nodes.map((node) => to(node.position));
    const rides = requests.map(() => draw("path", { class: "line aim", style: "--colour: var(--soft)" }, svg));
    const lines = legs.map((leg) =>
      draw("path", { class: "line recent", style: `--colour: ${colourOf(leg.vehicle)}` }, svg),
    );
    const stops = new Map(real.slice(1).map((node) => [node, stopMark(svg, places[node], node)]));
    const [x, y] = places[0];
    tooltip(
      draw(
        "rect",
        {
          x: x - 9,
          y: y - 9,
          width: 18,
          height: 18,
          rx: 3,
          fill: "var(--ink)",
          stroke: "var(--ground)",
          "stroke-width": 2,
        },
        svg,
      ),
      "depot",
    );
    const marks = used.map((vehicle) => vehicleMark(svg, vehicle));
    scene = { places, lines, rides, stops, marks };
  }

  function drawFrame(time, mode) {
    const done = progress(time, mode);
    legs.forEach((leg, at) => {
      const [from, to] = [scene.places[leg.from], scene.places[leg.to]];
      const tip = between(from, to, done[at]);
      set(scene.lines[at], {
        d: done[at] > 0 ? `M${from[0]} ${from[1]}L${px(tip[0])} ${px(tip[1])}` : "M0 0",
        opacity: done[at] < 1 ? 1 : 0.62,
      });
    });
    const reached = (node) => doneAt.has(node) && done[doneAt.get(node)] >= 1;
    for (const [node, mark] of scene.stops)
      drawStop(mark, node, reached(node), time >= (mode === "clock" ? CLOCK_MOMENTS : LAST));
    const where = new Map(used.map((vehicle) => [vehicle, vehicleAt(vehicle, done)]));
    used.forEach((vehicle, at) => {
      const { place, load, away } = where.get(vehicle);
      set(scene.marks[at].group, {
        transform: `translate(${px(place[0])} ${px(place[1])})`,
        visibility: away ? "visible" : "hidden",
      });
      if (scene.marks[at].text.textContent !== String(load)) scene.marks[at].text.textContent = load;
    });
    requests.forEach(({ request }, at) => {
      const [pickup, dropOff] = [2 * request - 1, 2 * request];
      const aboard = reached(pickup) && !reached(dropOff) && where.get(nodes[pickup].vehicle);
      const goal = scene.places[dropOff];
      set(scene.rides[at], {
        d: aboard?.away ? `M${px(aboard.place[0])} ${px(aboard.place[1])}L${goal[0]} ${goal[1]}` : "M0 0",
      });
    });
  }

  /** Where a vehicle is, in pixels, what it has on board, and whether it is away from the depot. */
  function vehicleAt(vehicle, done) {
    let state = { place: scene.places[0], load: 0, away: false, goal: null };
    legsOf.get(vehicle).forEach((at) => {
      const leg = legs[at];
      if (done[at] <= 0) return;
      const arrived = done[at] >= 1;
      const place = between(scene.places[leg.from], scene.places[leg.to], done[at]);
      state = {
        place,
        load: arrived ? leg.load : leg.load_before,
        away: !(arrived && leg.to === 0),
        goal: arrived ? null : leg.to,
      };
    });
    return state;
  }

  function drawStop(mark, node, reached, over) {
    const own = nodes[node];
    const lost = over && !reached;
    set(mark, {
      class: `stop${reached ? " done" : ""}${reached && own.late > 0 ? " late" : ""}${lost ? " lost" : ""}`,
      style: reached ? `--colour: ${colourOf(own.vehicle)}` : "",
    });
  }

  /** The clock of the vehicle that is under way. */
  function clockOf(time, mode) {
    if (mode === "clock") return clockAt(time);
    const done = progress(time, mode);
    const active = done.findLastIndex((share) => share > 0);
    return active < 0 ? span[0] : lerp(legs[active].leave, legs[active].begin, done[active]);
  }

  function tellVehicle(vehicle, time, mode) {
    const done = progress(time, mode);
    const { load, away, goal } = vehicleAt(vehicle, done);
    const own = legsOf.get(vehicle);
    const stops = own.filter((at) => legs[at].to);
    const finished = own.every((at) => done[at] >= 1);
    const capacity = vehicles[vehicle].capacity;
    return {
      status: finished ? "finished" : goal !== null ? `to ${nodeName(goal)}` : away ? "serving" : "at the depot",
      tone: goal === null ? "" : "go",
      note: `${stops.filter((at) => done[at] >= 1).length}/${stops.length} stops`,
      level: load / capacity,
      levelText: `${load} of ${capacity}`,
    };
  }

  legendEntry("pickup", (svg) => stopMark(svg, [0, 0], 1));
  legendEntry("drop-off", (svg) => stopMark(svg, [0, 0], 2));
  legendEntry("served", (svg) =>
    set(stopMark(svg, [0, 0], 1), { class: "stop done", style: "--colour: var(--agent-0)" }),
  );
  legendEntry("served late", (svg) =>
    set(stopMark(svg, [0, 0], 1), { class: "stop done late", style: "--colour: var(--agent-0)" }),
  );
  legendEntry("never served (in the end)", (svg) => stopMark(svg, [0, 0], 2).setAttribute("class", "stop lost"));
  legendEntry("vehicle, passengers on board", (svg) => set(vehicleMark(svg, 0).group, { transform: "scale(0.8)" }));
  legendEntry("depot", (svg) => draw("rect", { x: -7, y: -7, width: 14, height: 14, rx: 3, fill: "var(--ink)" }, svg));
  legendLine("way of a vehicle, by its colour", { class: "line recent", style: "--colour: var(--agent-0)" });
  legendLine("where a passenger goes", { class: "line aim", style: "--colour: var(--soft)" });

  const agent = agents[0];
  const served = requests.filter((request) => request.delivered).length;
  return {
    aspect: clamp((box.y[1] - box.y[0]) / (box.x[1] - box.x[0] || 1), 0.6, 1),
    label: `Map: ${used.length} vehicles, ${requests.length} requests, a depot`,
    layout,
    draw: drawFrame,
    cards: [
      { title: "decision", colour: "var(--accent)", agent, tell: (time, mode) => tellDecision(time, mode, clockOf) },
      ...used.map((vehicle) => ({
        title: vehicles[vehicle].name,
        colour: colourOf(vehicle),
        agent: null,
        levelName: "on board",
        tell: (time, mode) => tellVehicle(vehicle, time, mode),
      })),
    ],
    charts: [
      requestChart((clock) => seek(momentAt(clock), "clock"), clockOf),
      loadChart((clock) => seek(momentAt(clock), "clock"), clockOf, used),
      rewardChart(seek),
    ],
    ticks: steps.slice(1).map((step, at) => ({ at: at + 1, colour: colourOf(steps[at].vehicle) })),
    events: happenings(momentAt),
    modes: [
      { id: "steps", name: "by decision", length: LAST },
      {
        id: "clock",
        name: "by clock",
        length: CLOCK_MOMENTS,
        span,
        text: (time) => `time ${shown(clockAt(time))}`,
      },
    ],
    note: episode.verdict === "feasible" ? "" : episode.verdict,
    summary: [
      ["distance", shown(steps[LAST].distance)],
      ["served", `${served} of ${requests.length}`],
      ["vehicles", `${used.length} of ${vehicles.filter((one) => one.capacity > 0).length}`],
      ["plan", episode.verdict === "feasible" ? "feasible" : "not feasible"],
    ],
  };
};

const nodeName = (node) => (node === 0 ? "depot" : `${node % 2 ? "pickup" : "drop-off"} ${Math.ceil(node / 2)}`);

/** Vehicles that set out and come back, requests that are brought. */
function happenings(momentAt) {
  const { legs, nodes, vehicles, requests } = episode;
  return legs.flatMap((leg) => {
    const name = vehicles[leg.vehicle].name;
    const arrival = { at: leg.step + 1, moment: momentAt(leg.begin) };
    const found = leg.from === 0 ? [{ at: leg.step, moment: momentAt(leg.leave), text: `${name} sets out` }] : [];
    if (leg.to === 0) return [...found, { ...arrival, text: `${name} is back at the depot` }];
    if (leg.to % 2) return found;
    const late = nodes[leg.to].late > 0 ? `, ${shown(nodes[leg.to].late)} late` : "";
    const long = requests.some((one) => 2 * one.request === leg.to && one.too_long) ? ", ride too long" : "";
    return [...found, { ...arrival, text: `request ${leg.to / 2} delivered by ${name}${late}${long}` }];
  });
}

function tellDecision(time, mode, clockOf) {
  if (mode === "clock") return { status: "all vehicles", note: `clock ${shown(clockOf(time, mode))}` };
  const now = steps[Math.floor(time)];
  return { status: episode.vehicles[now.vehicle].name, tone: "go", note: `at ${nodeName(now.node)}` };
}

function stopMark(svg, [x, y], node) {
  const point = node % 2 ? "M0 -8.5L8 6H-8Z" : "M0 8.5L8 -6H-8Z";
  const mark = draw("path", { d: point, class: "stop", transform: `translate(${x} ${y})` }, svg);
  const own = episode.nodes[node];
  const window = `window ${shown(own.window[0])} to ${shown(own.window[1])}`;
  tooltip(
    mark,
    `${nodeName(node)}: ${window}, ${own.begin === null ? "never served" : `served at ${shown(own.begin)}`}`,
  );
  if (x || y) draw("text", { class: "small halo", x: x + 10, y: y - 6 }, svg, Math.ceil(node / 2));
  return mark;
}

function vehicleMark(svg, vehicle) {
  const group = draw("g", { class: "vehicle", style: `--colour: ${colourOf(vehicle)}` }, svg);
  draw("rect", { x: -13, y: -9.5, width: 26, height: 19, rx: 7 }, group);
  return { group, text: draw("text", { class: "mid", y: 0.5 }, group, "2") };
}

/** A row for each request: the two windows, the ride between, and when service began. */
function requestChart(seek, clockOf) {
  const { nodes, requests, span } = episode;
  const begin = ({ request }) => nodes[2 * request - 1].begin ?? Infinity;
  const order = [...requests].sort((a, b) => begin(a) - begin(b) || a.request - b.request);
  const row = clamp(240 / order.length, 6, 17);
  return timeChart({
    title: "Requests: windows and rides",
    clockOf,
    seek,
    legend: [
      [{ kind: "box", colour: "var(--window)" }, "window of the pickup"],
      [{ kind: "box", colour: "var(--window-2)" }, "of the drop-off"],
      [{ kind: "line", colour: "var(--agent-0)" }, "ride, by the vehicle's colour"],
      [{ kind: "dot", colour: "var(--agent-0)" }, "service begins"],
      [{ kind: "dot", colour: "var(--agent-0)", edge: "var(--bad)" }, "late"],
    ],
    height: () => row * order.length + 24,
    paint(svg, width, x) {
      order.forEach(({ request }, place) => {
        const y = 3 + row * (place + 0.5);
        const ends = [2 * request - 1, 2 * request];
        ends.forEach((node, side) => requestWindow(svg, x, nodes[node], y, row, side, span));
        if (row > 9) draw("text", { class: "tiny end", x: 22, y: px(y), "dominant-baseline": "central" }, svg, request);
        requestRide(
          svg,
          x,
          ends.map((node) => nodes[node]),
          y,
          row,
        );
      });
    },
  });
}

function requestWindow(svg, x, node, y, row, side, span) {
  const [start, end] = [clamp(node.window[0], ...span), clamp(node.window[1] ?? span[1], ...span)];
  const place = {
    x: px(x(start)),
    width: px(Math.max(1, x(end) - x(start))),
    y: px(y - row * 0.36 * (1 - side)),
    height: px(row * 0.36),
    rx: 1.5,
  };
  draw("rect", { ...place, fill: side ? "var(--window-2)" : "var(--window)" }, svg);
}

function requestRide(svg, x, [pickup, dropOff], y, row) {
  const colour = colourOf(pickup.vehicle ?? 7);
  if (pickup.begin !== null && dropOff.begin !== null)
    draw(
      "line",
      { x1: px(x(pickup.begin)), x2: px(x(dropOff.begin)), y1: px(y), y2: px(y), stroke: colour, "stroke-width": 2 },
      svg,
    );
  for (const node of [pickup, dropOff].filter((one) => one.begin !== null)) {
    const edge = node.late > 0 ? "var(--bad)" : "var(--card)";
    draw(
      "circle",
      {
        cx: px(x(node.begin)),
        cy: px(y),
        r: px(clamp(row * 0.28, 2, 4.5)),
        style: `fill: ${colour}; stroke: ${edge}; stroke-width: 1.4`,
      },
      svg,
    );
  }
}

/** A lane for each vehicle, filled by its passengers. */
function loadChart(seek, clockOf, used) {
  const { legs, vehicles } = episode;
  const row = clamp(160 / Math.max(used.length, 1), 14, 34);
  return timeChart({
    title: "Passengers on board",
    clockOf,
    seek,
    height: () => row * used.length + 24,
    paint(svg, width, x) {
      used.forEach((vehicle, place) => {
        const base = 3 + row * (place + 1) - 3;
        const y = (load) => px(base - (load / vehicles[vehicle].capacity) * (row - 5));
        let outline = "";
        for (const leg of legs.filter((one) => one.vehicle === vehicle))
          outline += `${outline ? "L" : `M${px(x(leg.leave))} ${y(0)}L`}${px(x(leg.leave))} ${y(leg.load_before)}L${px(x(leg.begin))} ${y(leg.load_before)}L${px(x(leg.begin))} ${y(leg.load)}`;
        draw("line", { class: "axis", x1: 30, x2: width - 10, y1: base, y2: base }, svg);
        draw(
          "path",
          {
            d: outline,
            style: `fill: ${colourOf(vehicle)}; fill-opacity: 0.22; stroke: ${colourOf(vehicle)}; stroke-width: 1.4; stroke-linejoin: round`,
          },
          svg,
        );
        draw("text", { class: "tiny end", x: 22, y: base - 2 }, svg, vehicle);
      });
    },
  });
}

/** A chart over the clock of the problem. */
function timeChart({ clockOf, ...rest }) {
  const inner = chart({ ...rest, left: 30, range: episode.span, note: (clock) => `clock ${shown(clock)}` });
  return { clocked: true, layout: inner.layout, move: (time, mode) => inner.move(clockOf(time, mode)) };
}
