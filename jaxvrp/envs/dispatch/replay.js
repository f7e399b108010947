/** Moments of the clock's own way of playing. */
const DAY_MOMENTS = 480;
/** Minutes of its way that a vehicle leaves behind on the map. */
const RECENT_MINUTES = 20;

/** Two ways to measure time: by decision, and by the clock of the day. */
VIEWS.dispatch = (seek) => {
  const { requests, vehicles, end } = episode;
  const clocks = steps.map((step, at) => (at === LAST ? end : step.clock));
  const start = Math.min(clocks[0], end);
  const span = [start, end];
  const clockOf = (time, mode) => {
    if (mode === "clock") return lerp(start, end, time / DAY_MOMENTS);
    const at = Math.min(Math.floor(time), LAST);
    return lerp(clocks[at], clocks[Math.min(at + 1, LAST)], time - at);
  };
  const momentAt = (clock) => (DAY_MOMENTS * (clock - start)) / (end - start || 1);
  /** The decision that was the last one to be taken, or is at hand, at a clock. */
  const stepAt = (time, mode) =>
    mode === "steps" ? Math.min(Math.floor(time), LAST) : clocks.findLastIndex((clock) => clock <= clockOf(time, mode));
  const places = [
    ...episode.area,
    ...requests.flatMap((request) => [request.pickup, request.dropoff]),
    ...vehicles.flatMap(({ track }) => track.map(([, x, y]) => [x, y])),
  ];
  const bounds = (axis) => [
    Math.min(...places.map((place) => place[axis])),
    Math.max(...places.map((place) => place[axis])),
  ];
  const box = { x: bounds(0), y: bounds(1) };
  let scene = null;

  function layout(svg, width, height) {
    const { to } = projection(box.x, box.y, width, height, 24, false);
    draw("rect", { class: "ground", width, height }, svg);
    drawZones(svg, to);
    const colours = vehicles.map((_, vehicle) => `--colour: ${colourOf(vehicle)}`);
    const trails = colours.map((style) => draw("path", { class: "line recent", style }, svg));
    const ahead = colours.map((style) => draw("path", { class: "line aim", style }, svg));
    if (episode.depot) depotMark(svg, to(episode.depot));
    const marks = requests.map((request, at) => requestMarks(svg, to, request, at));
    scene = { to, trails, ahead, marks, rovers: vehicles.map((_, vehicle) => roverMark(svg, vehicle)) };
  }

  function drawFrame(time, mode) {
    const clock = clockOf(time, mode);
    const at = stepAt(time, mode);
    requests.forEach((request, index) => drawRequest(scene.marks[index], request, clock, index === at && at < LAST));
    vehicles.forEach((vehicle, index) => {
      const here = scene.to(placeAt(vehicle.track, clock));
      set(scene.rovers[index].group, { transform: `translate(${px(here[0])} ${px(here[1])})` });
      const load = String(loadAt(vehicle, clock));
      if (scene.rovers[index].text.textContent !== load) scene.rovers[index].text.textContent = load;
      const behind = vehicle.track.filter(([when]) => when > clock - RECENT_MINUTES && when < clock);
      const first = placeAt(vehicle.track, Math.max(clock - RECENT_MINUTES, 0));
      set(scene.trails[index], { d: pathOf([first, ...behind.map(([, x, y]) => [x, y]), null], here) });
      const next = requests
        .filter((request) => request.vehicle === index && request.arrival <= clock && request.dropped > clock)
        .flatMap((request) => [
          ...(episode.depot || request.picked <= clock ? [] : [[request.picked, request.pickup]]),
          [request.dropped, request.dropoff],
        ])
        .sort((a, b) => a[0] - b[0]);
      set(scene.ahead[index], { d: next.length ? pathOf(next.map(([, place]) => place), null, here) : "M0 0" });
    });
  }

  /** Path data through places, from or to a pixel. */
  function pathOf(way, last, first) {
    const points = [first, ...way.filter(Boolean).map(scene.to), last].filter(Boolean);
    return points.map((point, at) => `${at ? "L" : "M"}${px(point[0])} ${px(point[1])}`).join("");
  }

  function drawRequest(mark, request, clock, isAsked) {
    const known = request.arrival <= clock;
    const taken = request.vehicle !== null;
    const style = taken ? `--colour: ${colourOf(request.vehicle)}` : "";
    const over = taken && request.dropped <= clock;
    const states = { asked: isAsked, taken: taken && !isAsked, done: over };
    const name = ["call", ...Object.keys(states).filter((state) => states[state])].join(" ");
    const lost = known && !taken && !isAsked;
    set(mark.cross, { visibility: lost ? "visible" : "hidden" });
    for (const [end, when] of [
      ["pickup", request.picked],
      ["dropoff", request.dropped],
    ])
      if (mark[end])
        set(mark[end], {
          visibility: known && !lost ? "visible" : "hidden",
          class: taken && !isAsked && when > clock ? "call" : name,
          style: taken && !isAsked && when > clock ? `stroke: ${colourOf(request.vehicle)}` : style,
        });
  }

  function tellDispatcher(time, mode) {
    const at = stepAt(time, mode);
    const step = steps[Math.max(at, 0)];
    const clock = `clock ${shown(clockOf(time, mode))}`;
    if (step.request === null) return { status: "all answered", note: clock };
    const takers = step.offers.filter(Boolean).length;
    return {
      status: requestName(step.request),
      tone: takers ? "go" : "bad",
      note: `${takers} of ${vehicles.length} can take it · ${clock}`,
    };
  }

  function tellVehicle(index, time, mode) {
    const clock = clockOf(time, mode);
    const step = steps[Math.max(stepAt(time, mode), 0)];
    const offer = step.request === null ? null : step.offers[index];
    const load = loadAt(vehicles[index], clock);
    const capacity = vehicles[index].capacity;
    const moving = isMoving(vehicles[index].track, clock);
    const words = offer
      ? `yes: +${shown(offer[0])} min`
      : step.request === null
        ? ""
        : `no: ${reasonOf(step, index)}`;
    return {
      status: moving ? "driving" : load ? "serving" : "waiting",
      tone: moving ? "go" : "",
      note: words,
      level: load / capacity,
      levelText: `${load} of ${capacity}`,
    };
  }

  legendEntry("asked now", (svg) => callMark(svg, [0, 0], true, "call asked"));
  legendEntry("accepted, not begun", (svg) =>
    set(callMark(svg, [0, 0], false, "call"), { style: "stroke: var(--agent-0)" }),
  );
  legendEntry("begun", (svg) =>
    set(callMark(svg, [0, 0], false, "call taken"), { style: "--colour: var(--agent-0)" }),
  );
  legendEntry("done", (svg) =>
    set(callMark(svg, [0, 0], false, "call taken done"), { style: "--colour: var(--agent-0)" }),
  );
  legendEntry("rejected", (svg) => crossMark(svg, [0, 0]));
  legendEntry("vehicle, its load", (svg) => roverMark(svg, 0, false));
  if (vehicles.some((vehicle) => vehicle.is_drone)) legendEntry("drone", (svg) => roverMark(svg, 0, true));
  if (episode.depot) legendEntry("depot", (svg) => set(depotMark(svg, [0, 0]), { transform: "scale(0.6)" }));
  legendLine("way of a vehicle, by its colour", { class: "line recent", style: "--colour: var(--agent-0)" });
  legendLine("where it will stop", { class: "line aim", style: "--colour: var(--agent-0)" });

  const drivers = agents.filter((agent) => agent.role === "vehicle");
  const served = requests.filter((request) => request.vehicle !== null).length;
  const timed = (inner) => ({
    clocked: true,
    layout: inner.layout,
    move: (time, mode) => inner.move(clockOf(time, mode)),
  });
  const toClock = (clock) => seek(momentAt(clock), "clock");
  return {
    aspect: clamp((box.y[1] - box.y[0]) / (box.x[1] - box.x[0] || 1), 0.6, 1),
    label: `Map: ${vehicles.length} vehicles, ${requests.length} requests`,
    layout,
    draw: drawFrame,
    cards: [
      { title: "dispatcher", colour: "var(--accent)", agent: agents[0], tell: tellDispatcher },
      ...vehicles.map((vehicle, index) => ({
        title: vehicle.name,
        colour: colourOf(index),
        agent: drivers[index] ?? null,
        levelName: "load",
        tell: (time, mode) => tellVehicle(index, time, mode),
      })),
    ],
    charts: [timed(laneChart(toClock, span)), timed(answerChart(toClock, span)), rewardChart(seek)],
    ticks: requests.slice(0, LAST).map((request, at) => ({
      at: at + 1,
      colour: request.vehicle === null ? "var(--bad)" : colourOf(request.vehicle),
    })),
    events: requests.slice(0, LAST).map((request, at) => ({
      at: at + 1,
      moment: momentAt(request.arrival),
      text: `${requestName(at)} ${request.vehicle === null ? "rejected" : `goes to ${vehicles[request.vehicle].name}`}`,
    })),
    modes: [
      { id: "steps", name: "by decision", length: LAST },
      {
        id: "clock",
        name: "by clock",
        length: DAY_MOMENTS,
        span,
        text: (time) => `time ${shown(clockOf(time, "clock"))}`,
      },
    ],
    note: episode.verdict === "all promises kept" ? "" : episode.verdict,
    summary: [
      ["served", `${served} of ${requests.length}`],
      ["value", shown(episode.summary.value_served)],
      ["travel", `${shown(episode.summary.travel)} min`],
      ["promises", episode.verdict === "all promises kept" ? "kept" : "broken"],
    ],
  };
};

/** Episodes that were written before requests had names have numbers. */
const requestName = (at) => episode.requests[at].name ?? `request ${at}`;

/** Where a track is at a time. */
function placeAt(track, time) {
  const next = track.findIndex(([when]) => when > time);
  if (next < 0) return track.at(-1).slice(1);
  if (next === 0) return track[0].slice(1);
  const [before, after] = [track[next - 1], track[next]];
  return between(before.slice(1), after.slice(1), (time - before[0]) / (after[0] - before[0]));
}

function isMoving(track, time) {
  const next = track.findIndex(([when]) => when > time);
  return next > 0 && (track[next][1] !== track[next - 1][1] || track[next][2] !== track[next - 1][2]);
}

const loadAt = (vehicle, time) => vehicle.loads.findLast(([when]) => when <= time)?.[1] ?? 0;

/** Why a vehicle cannot take the request at hand, by the dispatcher's mask. */
function reasonOf(step, index) {
  const action = episode.actions.dispatcher.indexOf(episode.vehicles[index].name, 1);
  return step.why?.dispatcher[0].find(([, actions]) => actions.includes(action))?.[0] ?? "not asked";
}

function drawZones(svg, to) {
  const { zones, area } = episode;
  for (let line = 0; line <= zones && zones; line++) {
    const share = line / zones;
    for (const ends of [
      [
        [lerp(area[0][0], area[1][0], share), area[0][1]],
        [lerp(area[0][0], area[1][0], share), area[1][1]],
      ],
      [
        [area[0][0], lerp(area[0][1], area[1][1], share)],
        [area[1][0], lerp(area[0][1], area[1][1], share)],
      ],
    ]) {
      const [[x1, y1], [x2, y2]] = ends.map(to);
      draw("line", { class: "axis", x1, y1, x2, y2 }, svg);
    }
  }
}

function depotMark(svg, [x, y]) {
  const mark = draw("rect", { x: x - 13, y: y - 13, width: 26, height: 26, rx: 4, class: "depot" }, svg);
  tooltip(mark, "depot");
  return mark;
}

function callMark(svg, [x, y], isPickup, name) {
  const d = isPickup ? "M0 -6.5L6 4.5H-6Z" : "M0 6.5L6 -4.5H-6Z";
  return draw("path", { d, class: name, transform: `translate(${x} ${y})` }, svg);
}

const crossMark = (svg, [x, y]) =>
  draw("path", { d: "M-4 -4L4 4M-4 4L4 -4", class: "refused", transform: `translate(${x} ${y})` }, svg);

function requestMarks(svg, to, request, at) {
  const deadlines = request.deadlines.map((time) => (time === null ? "none" : shown(time))).join(" and ");
  const words = `${requestName(at)} at ${shown(request.arrival)}, load ${request.load}, deadlines ${deadlines}`;
  const marks = {
    cross: crossMark(svg, to(episode.depot ? request.dropoff : request.pickup)),
    pickup: episode.depot ? null : callMark(svg, to(request.pickup), true, "call"),
    dropoff: callMark(svg, to(request.dropoff), false, "call"),
  };
  Object.values(marks).forEach((mark) => mark && tooltip(mark, words));
  return marks;
}

function roverMark(svg, vehicle, isDrone = episode.vehicles[vehicle].is_drone) {
  const group = draw("g", { class: "rover", style: `--colour: ${colourOf(vehicle)}` }, svg);
  if (isDrone) draw("path", { d: "M0 -11L11 0L0 11L-11 0Z" }, group);
  else draw("circle", { r: 10 }, group);
  return { group, text: draw("text", { class: "mid", y: 0.5 }, group, "0") };
}

/** A lane for each vehicle with its requests, thin from arrival and thick from pickup to drop-off; rejected ones below. */
function laneChart(seek, span) {
  const { requests, vehicles } = episode;
  const row = clamp(260 / (vehicles.length + 1), 10, 26);
  const names = vehicles.map(({ name }) => cut(name, 16));
  const left = Math.max(44, 12 + 5.5 * Math.max(...names.map((name) => name.length)));
  return chart({
    title: "Requests of each vehicle",
    left,
    range: span,
    seek,
    note: (clock) => (clock === null ? "" : `clock ${shown(clock)}`),
    legend: [
      [{ kind: "line", colour: "var(--agent-0)" }, "from pickup to drop-off"],
      [{ kind: "dot", colour: "var(--bad)" }, "rejected"],
    ],
    height: () => row * (vehicles.length + 1) + 24,
    paint(svg, width, x) {
      names.forEach((name, lane) => {
        const y = 3 + row * (lane + 0.5);
        draw("line", { class: "axis", x1: left, x2: width - 10, y1: 3 + row * (lane + 1), y2: 3 + row * (lane + 1) }, svg);
        draw("text", { class: "tiny end", x: left - 6, y: px(y), "dominant-baseline": "central" }, svg, name);
      });
      requests.forEach((request, at) => {
        const lane = request.vehicle ?? vehicles.length;
        const y = px(3 + row * (lane + 0.5) + (row * 0.3 * ((at % 5) - 2)) / 2);
        if (request.vehicle === null) {
          draw("circle", { cx: px(x(request.arrival)), cy: y, r: 2.2, fill: "var(--bad)" }, svg);
          return;
        }
        for (const [from, until, thick] of [
          [request.arrival, request.picked, 0.7],
          [request.picked, request.dropped, 2.2],
        ])
          draw(
            "line",
            { x1: px(x(from)), x2: px(x(until)), y1: y, y2: y, stroke: colourOf(request.vehicle), "stroke-width": thick },
            svg,
          );
      });
    },
  });
}

/** How many requests were accepted and rejected so far. */
function answerChart(seek, span) {
  const { requests } = episode;
  const left = 44;
  const counted = (taken) => {
    const times = requests.filter((request) => (request.vehicle !== null) === taken).map(({ arrival }) => arrival);
    return [[span[0], 0], ...times.flatMap((time, at) => [[time, at], [time, at + 1]]), [span[1], times.length]];
  };
  const series = [
    [counted(true), "var(--on-time)", "accepted"],
    [counted(false), "var(--bad)", "rejected"],
  ];
  const ends = sharedScale("Answers so far", series.flatMap(([points]) => points.map(([, count]) => count)));
  const soFar = (points, clock) => points.findLast(([time]) => clock === null || time < clock)?.[1] ?? 0;
  return chart({
    title: "Answers so far",
    left,
    range: span,
    seek,
    height: () => 96,
    legend: series.map(([, colour, name]) => [{ kind: "line", colour }, name]),
    note: (clock) => series.map(([points, , name]) => `${soFar(points, clock)} ${name}`).join(" · "),
    paint(svg, width, x) {
      const y = valueAxis(svg, ends, 6, 74, left, true);
      for (const [points, colour] of series) {
        const d = points.map(([time, count], at) => `${at ? "L" : "M"}${px(x(time))} ${px(y(count))}`).join("");
        draw("path", { class: "line", d, style: `--colour: ${colour}; stroke-width: 1.6` }, svg);
      }
    },
  });
}
