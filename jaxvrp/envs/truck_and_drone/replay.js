/** Moments of the clock's own way of playing. */
const CLOCK_MOMENTS = 300;

/**
 * Two ways to measure time: by turn, at the truck's clock, and by the clock itself. By turn, tours come one after the
 * other; by the clock, all of them leave at 0.
 */
VIEWS.tsp_drone = (seek) => {
  const { nodes, legs, waits, makespan } = episode;
  const vehicles = episode.vehicles ?? ["truck", "drone"];
  const drones = vehicles.slice(1);
  const isPriced = typeof episode.cost === "number";
  const tours = [...Array(Math.max(episode.tours ?? 1, 1)).keys()];
  const end = makespan || Math.max(1e-6, steps[LAST].clock);
  const colours = Object.fromEntries(vehicles.map((who, at) => [who, colourOf(at)]));
  const carries = (leg, who) => leg.carries === true || (leg.carries || []).includes(who);
  /** With several tandems, a colour is that of a tandem. */
  const tint = (who, tour) => (isPriced ? colourOf(tour ?? 0) : colours[who]);
  const waysOf = tours.map((tour) => {
    const ours = legs.filter((leg) => (leg.tour ?? 0) === tour);
    const isBy = (who) => (leg) => leg.who === who || carries(leg, who);
    const waysBy = (who) => ours.filter(isBy(who)).sort((a, b) => a.leave - b.leave);
    return Object.fromEntries(vehicles.map((who) => [who, waysBy(who)]));
  });
  const span = (axis) => {
    const values = nodes.map((node) => node.position[axis]);
    return [Math.min(...values), Math.max(...values)];
  };
  const box = { x: span(0), y: span(1) };
  let scene = null;

  /** The tour of a moment by turn; null by the clock, when all are under way. */
  const tourAt = (time, mode) => (mode === "clock" ? null : (steps[Math.min(Math.floor(time), LAST)].tour ?? 0));

  /** The clock at a moment: of the turn before and the turn after it, or evenly. */
  function clockAt(time, mode) {
    if (mode === "clock") return (end * time) / CLOCK_MOMENTS;
    const at = Math.min(Math.floor(time), LAST);
    const next = Math.min(at + 1, LAST);
    // The last turn of a tour leads to the time at which it ends, where the next one begins at 0.
    const isLast = tourAt(next, mode) !== tourAt(at, mode);
    return lerp(steps[at].clock, isLast ? endOf(tourAt(at, mode)) : steps[next].clock, time - at);
  }

  const endOf = (tour) => Math.max(0, ...legs.filter((leg) => (leg.tour ?? 0) === tour).map((leg) => leg.arrive));

  /** The clock of a tour: by turn, those before are over, and those after have not begun. */
  function clockOf(tour, time, mode) {
    const now = tourAt(time, mode);
    if (now === null || now === tour) return clockAt(time, mode);
    return tour < now ? Infinity : -1;
  }

  const progress = (leg, clock) => clamp((clock - leg.leave) / (leg.arrive - leg.leave || 1e-9), 0, 1);

  function layout(svg, width, height) {
    const { to } = projection(box.x, box.y, width, height, 36, false);
    draw("rect", { class: "ground", width, height }, svg);
    const places = nodes.map((node) => to(node.position));
    const lines = legs.map((leg) =>
      draw("path", { class: `line way ${kindOf(leg.who)}`, style: `--colour: ${tint(leg.who, leg.tour)}` }, svg),
    );
    const stops = nodes.map((_, node) => stopMark(svg, places[node], node));
    const markOf = (who) => [who, who === "truck" ? truckMark(svg) : droneMark(svg)];
    const marks = tours.map(() => Object.fromEntries(vehicles.map(markOf)));
    marks.forEach((all, tour) => {
      for (const [who, mark] of Object.entries(all)) set(mark, { style: `--colour: ${tint(who, tour)}` });
    });
    scene = { places, lines, stops, marks };
  }

  /** Where a vehicle of a tour is, in pixels, and what it is doing. */
  function stateOf(who, tour, clock) {
    const begun = waysOf[tour][who].filter((leg) => leg.leave <= clock + 1e-9);
    const leg = begun[begun.length - 1];
    if (!leg) return { place: scene.places[0], leg: null, share: 1 };
    const share = progress(leg, clock);
    return { place: between(scene.places[leg.from], scene.places[leg.to], share), leg, share };
  }

  function drawFrame(time, mode) {
    legs.forEach((leg, at) => {
      const clock = clockOf(leg.tour ?? 0, time, mode);
      const share = progress(leg, clock);
      const [from, to] = [scene.places[leg.from], scene.places[leg.to]];
      const tip = between(from, to, share);
      set(scene.lines[at], {
        d: clock > leg.leave ? `M${from[0]} ${from[1]}L${px(tip[0])} ${px(tip[1])}` : "M0 0",
        opacity: share < 1 ? 1 : 0.6,
      });
    });
    nodes.forEach((node, at) => {
      if (!at) return;
      const served = isServed(node, time, mode);
      set(scene.stops[at], {
        class: `stop${served ? " done" : ""}`,
        style: served ? `--colour: ${tint(node.served_by, node.tour)}` : "",
      });
    });
    scene.marks.forEach((all, tour) => {
      for (const [who, mark] of Object.entries(all)) {
        const { place, leg } = stateOf(who, tour, clockOf(tour, time, mode));
        const aboard = who !== "truck" && (!leg || leg.who === "truck");
        // Drones on board lie side by side.
        const shift = aboard ? 9 * (drones.indexOf(who) - (drones.length - 1) / 2) : 0;
        set(mark, { transform: `translate(${px(place[0] + shift)} ${px(place[1] - (aboard ? 9 : 0))})` });
      }
    });
  }

  const isServed = (node, time, mode) =>
    node.served_at !== null && node.served_at <= clockOf(node.tour ?? 0, time, mode) + 1e-6;

  const waiting = (who, tour, clock) =>
    waits.some((wait) => wait.who === who && (wait.tour ?? 0) === tour && wait.since <= clock && clock < wait.until);

  function tell(who, time, mode) {
    const ours = nodes.filter((node) => node.served_by === who);
    const done = ours.filter((node) => isServed(node, time, mode)).length;
    const tour = tours.length === 1 ? 0 : tourAt(time, mode);
    const name = isPriced && tour !== null ? `${who} ${tour + 1} · ` : "";
    return { ...doing(who, tour, time, mode), note: `${name}${done}/${ours.length} served` };
  }

  function doing(who, tour, time, mode) {
    if (tour === null) return { status: `${tours.length} under way`, tone: "go" };
    const index = Math.min(tour, tours.length - 1);
    const clock = clockOf(index, time, mode);
    const { leg, share } = stateOf(who, index, clock);
    const moving = leg && share < 1;
    const verb = who === "truck" ? "drives" : leg?.who === "truck" ? "rides" : "flies";
    const where = moving ? `${verb} to ${nodeName(leg.to)}` : `at ${nodeName(leg?.to ?? 0)}`;
    return { status: waiting(who, index, clock) ? "waits" : where, tone: moving ? "go" : "" };
  }

  legendEntry("depot", (svg) => stopMark(svg, [0, 0], 0));
  legendEntry("customer, not served yet", (svg) => draw("circle", { r: 6.5, class: "stop" }, svg));
  if (isPriced)
    for (const tour of tours) legendEntry(`served by tandem ${tour + 1}`, (svg) => exampleStop(svg, colourOf(tour)));
  else
    for (const who of vehicles) legendEntry(`served by ${theNamed(who)}`, (svg) => exampleStop(svg, colours[who]));
  legendEntry("truck", (svg) => truckMark(svg));
  legendEntry("drone", (svg) => droneMark(svg));
  legendLine("way of the truck", { class: "line way truck", style: `--colour: ${tint("truck", 0)}` });
  legendLine("flight of a drone", { class: "line way drone", style: `--colour: ${tint(drones[0], 0)}` });

  const waited = (kind) => waits.filter((wait) => kindOf(wait.who) === kind).reduce((sum, wait) => sum + wait.until - wait.since, 0);
  const agentOf = (who) => agents.find((agent) => agent.role === who);
  return {
    aspect: clamp((box.y[1] - box.y[0]) / (box.x[1] - box.x[0] || 1), 0.6, 1),
    label: `Map: ${isPriced ? "trucks, their drones" : `a truck, its ${drones.length > 1 ? "drones" : "drone"}`}, ${nodes.length - 1} customers and a depot`,
    layout,
    draw: drawFrame,
    cards: vehicles.map((who) => ({
      title: isPriced ? `${who}s` : who,
      colour: colours[who],
      agent: agentOf(who),
      tell: (time, mode) => tell(who, time, mode),
    })),
    charts: [
      laneChart({
        end,
        tours,
        vehicles,
        carries,
        tint,
        clockAt,
        seek: (clock) => seek((CLOCK_MOMENTS * clock) / end, "clock"),
      }),
      rewardChart(seek),
    ],
    ticks: steps.slice(1).map((_, at) => ({ at: at + 1, colour: colours[steps[at].turn] })),
    events: sorties((clock) => (CLOCK_MOMENTS * clock) / end),
    modes: [
      { id: "steps", name: "by turn", length: LAST },
      {
        id: "clock",
        name: "by clock",
        length: CLOCK_MOMENTS,
        span: [0, end],
        text: (time) => `time ${shown(clockAt(time, "clock"))}`,
      },
    ],
    note: episode.verdict === "feasible" ? "" : episode.verdict,
    summary: [
      ...(isPriced ? [["cost", shown(episode.cost)], ["tours", `${episode.tours}`]] : [["makespan", shown(makespan)]]),
      ["by drone", `${nodes.filter((node) => node.served_by && node.served_by !== "truck").length} of ${nodes.length - 1}`],
      ["truck waits", shown(waited("truck"))],
      [drones.length > 1 ? "drones wait" : "drone waits", shown(waited("drone"))],
    ],
  };
};

const kindOf = (who) => who.split(" ")[0];
const theNamed = (who) => (who.includes(" ") ? who : `the ${who}`);
const nodeName = (node) => (node === 0 ? "the depot" : `customer ${node}`);

/** Launches and meetings of drones. */
function sorties(momentAt) {
  if (episode.vehicles)
    return episode.legs
      .filter((leg) => leg.who !== "truck")
      .map(({ who, from, to, leave, arrive }) => {
        const isOut = episode.nodes[to].served_by === who;
        const clock = isOut ? leave : arrive;
        const at = steps.findIndex((step) => step.clock >= clock - 1e-3);
        const text = isOut ? `${who} sets out for ${nodeName(to)}` : `${who} is back from ${nodeName(from)}`;
        return { at: at < 0 ? steps.length - 1 : at, moment: momentAt(clock), text };
      });
  return steps.slice(1).flatMap(({ customer, node, clock }, before) => {
    const event = (text) => [{ at: before + 1, moment: momentAt(clock), text }];
    const earlier = steps[before].customer;
    if (customer !== null && earlier === null) return event(`the drone sets out for ${nodeName(customer)}`);
    return customer === null && earlier !== null ? event(`truck and drone meet at ${nodeName(node)}`) : [];
  });
}

function exampleStop(svg, colour) {
  set(stopMark(svg, [0, 0], 1), { class: "stop done", style: `--colour: ${colour}` });
}

function stopMark(svg, [x, y], node) {
  const transform = `translate(${x} ${y})`;
  const shape = node
    ? draw("circle", { r: 6.5, class: "stop", transform }, svg)
    : draw("rect", { x: -8, y: -8, width: 16, height: 16, rx: 3, class: "depot", transform }, svg);
  const own = episode.nodes[node];
  const who = own.served_by === null ? "not served" : `served by ${theNamed(own.served_by)} at ${shown(own.served_at)}`;
  tooltip(shape, node ? `customer ${node}: ${who}${own.no_fly ? ", not by the drone" : ""}` : "depot");
  if (node && (x || y)) draw("text", { class: "small halo", x: x + 9, y: y - 7 }, svg, node);
  return shape;
}

function truckMark(svg) {
  const group = draw("g", { class: "truck" }, svg);
  draw("rect", { x: -11, y: -7, width: 22, height: 14, rx: 3.5 }, group);
  return group;
}

function droneMark(svg) {
  const group = draw("g", { class: "flyer" }, svg);
  draw("path", { d: "M0 -8L8 6H-8Z" }, group);
  return group;
}

/** A lane for each vehicle of each tour: on the way, on board, waiting. */
function laneChart({ end, tours, vehicles, carries, tint, clockAt, seek }) {
  const drones = vehicles.slice(1);
  const block = 6 + 28 * vehicles.length;
  const rowOf = (who, tour) => 3 + 28 * vehicles.indexOf(who) + block * (tour ?? 0);
  const inner = chart({
    title: "On the way, on board, waiting",
    left: drones.length > 1 ? 54 : 42,
    range: [0, end],
    seek,
    height: () => 16 + block * tours.length,
    legend: [
      [{ kind: "box", colour: tint("truck", 0) }, "truck on its way"],
      [{ kind: "box", colour: tint(drones[0], 0) }, "drone in the air"],
      [{ kind: "box", colour: "var(--line)" }, "drone on board"],
      [{ kind: "box", edge: "var(--waiting)", dash: "3 2" }, "waits"],
    ],
    note: (clock) => `time ${shown(clock)}`,
    paint(svg, width, x) {
      const bar = (who, tour, since, until, style) =>
        draw(
          "rect",
          { x: px(x(since)), width: px(Math.max(0.5, x(until) - x(since))), y: rowOf(who, tour), height: 22, rx: 2, style },
          svg,
        );
      for (const leg of episode.legs) {
        bar(leg.who, leg.tour, leg.leave, leg.arrive, `fill: ${tint(leg.who, leg.tour)}; stroke: var(--card)`);
        for (const who of drones)
          if (carries(leg, who)) bar(who, leg.tour, leg.leave, leg.arrive, "fill: var(--line); stroke: var(--card)");
      }
      for (const wait of episode.waits)
        bar(wait.who, wait.tour, wait.since, wait.until, "fill: none; stroke: var(--waiting); stroke-dasharray: 3 2");
      for (const tour of tours)
        for (const who of vehicles)
          draw("text", { class: "tiny end", x: drones.length > 1 ? 48 : 36, y: rowOf(who, tour) + 14 }, svg, who);
    },
  });
  return { clocked: true, layout: inner.layout, move: (time, mode) => inner.move(clockAt(time, mode)) };
}
