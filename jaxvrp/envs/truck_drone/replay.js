const CHARGE = (level) => (level > 0.5 ? "var(--on-time)" : level > 0.2 ? "var(--late)" : "var(--bad)");
const STATUS_WORDS = { onboard: "on board", flying: "flying", returning: "returning", crashed: "crashed" };
const RECENT_STEPS = 12;
/** Radius of the battery around a drone, in pixels. */
const RING = 19;
/** Pixels between a customer and a drone that is there. */
const ABOVE = 34;

VIEWS.truck_drone = (seek) => {
  const { customers, nodes, map } = episode;
  const drones = steps[0].drones.map((_, drone) => drone);
  const first = steps[0].step;
  const capacity = episode.max_battery;
  let scene = null;

  function layout(svg, width, height) {
    const { to } = projection(map.x, map.y, width, height, 20, false);
    draw("rect", { class: "ground", width, height }, svg);
    if (!episode.clock) {
      // Generated problems lie in this square.
      const [left, top] = to([-1, 1]);
      const [right, bottom] = to([1, -1]);
      draw("rect", { class: "area", x: left, y: top, width: right - left, height: bottom - top, rx: 6 }, svg);
    }
    nodes.forEach((node, at) => {
      const [x, y] = to(node.position);
      const mark = draw("rect", { class: "node", x: x - 8, y: y - 8, width: 16, height: 16, rx: 4 }, svg);
      tooltip(mark, node.name ?? `node ${at}`);
      if (node.name) draw("text", { class: "tiny mid halo", x, y: y + 15 }, svg, cut(node.name, 16));
      else draw("text", { class: "tiny mid", x, y }, svg, at);
    });
    const trail = (className, colour) =>
      draw("path", { class: `line ${className}`, style: `--colour: ${colour}` }, svg);
    const faint = LAST > 120 ? " old" : "";
    const paths = drones.map((drone) => growingPath(flight(drone).map((place) => place && to(place))));
    scene = {
      to,
      truckPath: growingPath(steps.map((step) => to(step.truck.position))),
      truckTrail: trail("trail truck", "var(--ink)"),
      paths,
      trails: drones.map((drone) => trail(`trail${faint}`, colourOf(drone))),
      recents: drones.map((drone) => trail("recent", colourOf(drone))),
      aims: drones.map((drone) => trail("aim", colourOf(drone))),
      customers: customers.map((customer, at) => customerMark(svg, to(customer.position), customer, at)),
      truck: truckIcon(draw("g", { class: "truck-icon" }, svg)),
      drones: drones.map((drone) => droneMark(svg, drone)),
    };
  }

  /** Where a drone flew, with the places of take-off and boarding; null while it rode along. */
  function flight(drone) {
    const rode = steps.map((step) => step.drones[drone].status === "onboard");
    return steps.map((step, at) => {
      const hidden = rode[at] && (rode[at - 1] ?? true) && (rode[at + 1] ?? true);
      return hidden ? null : step.drones[drone].position;
    });
  }

  function drawFrame(time) {
    const at = Math.min(Math.floor(time), LAST);
    const share = time - at;
    const now = steps[at];
    const then = steps[Math.min(at + 1, LAST)];
    const truck = between(scene.to(now.truck.position), scene.to(then.truck.position), share);
    set(scene.truckTrail, { d: scene.truckPath(at, truck) });
    const turned = then.truck.position[0] < now.truck.position[0] - 1e-6;
    set(scene.truck, { transform: `translate(${px(truck[0])} ${px(truck[1])}) scale(${turned ? -13 : 13} 13)` });
    drones.forEach((drone) => drawDrone(drone, at, share, truck));
    customers.forEach((customer, index) => drawCustomer(scene.customers[index], customer, first + time));
  }

  function drawDrone(drone, at, share, truck) {
    const now = steps[at].drones[drone];
    const then = steps[Math.min(at + 1, LAST)].drones[drone];
    const place = between(scene.to(now.position), scene.to(then.position), share);
    const docked = lerp(now.status === "onboard", then.status === "onboard", share);
    const slot = [(drone - (drones.length - 1) / 2) * 20, -26];
    const shift = between([0, beside(place)], slot, docked);
    const mark = scene.drones[drone];
    const size = lerp(1, 0.55, docked);
    set(mark.group, {
      transform: `translate(${px(place[0] + shift[0])} ${px(place[1] + shift[1])}) scale(${px(size * 10) / 10})`,
      class: `drone${now.status === "crashed" ? " crashed" : ""}`,
    });
    const level = lerp(now.battery, then.battery, share) / capacity;
    set(mark.charge, { d: arc(RING, level), stroke: CHARGE(level) });
    set(mark.parcel, { visibility: now.carrying === null ? "hidden" : "visible" });
    const flies = scene.paths[drone](at, place);
    set(scene.trails[drone], { d: flies });
    const resting = now.status === "onboard" && then.status === "onboard";
    set(scene.recents[drone], { d: resting ? "M0 0" : scene.paths[drone](at, place, Math.max(0, at - RECENT_STEPS)) });
    const goal = then.target && scene.to(then.target);
    set(scene.aims[drone], { d: goal ? `M${px(place[0])} ${px(place[1])}L${goal[0]} ${goal[1]}` : "M0 0" });
  }

  /** How far a drone is drawn above its place, so that it does not hide the customer that it is at. */
  function beside(place) {
    const gaps = customers.map(({ position }) => {
      const [x, y] = scene.to(position);
      return Math.hypot(x - place[0], y - place[1]);
    });
    return -ABOVE * clamp(1 - Math.min(...gaps) / ABOVE, 0, 1);
  }

  function tellDrone(drone, at) {
    const now = steps[at].drones[drone];
    const parcel = now.carrying === null ? "" : `parcel for ${customers[now.carrying].name ?? now.carrying}`;
    return {
      status: now.waiting ? "waiting" : STATUS_WORDS[now.status],
      tone: now.status === "crashed" ? "bad" : now.status === "onboard" ? "" : "go",
      note: now.forced_return ? "sent home" : parcel,
      level: now.battery / capacity,
      levelText: `${Math.round((100 * now.battery) / capacity)} %`,
      over: now.status === "crashed",
    };
  }

  function tellTruck(at) {
    const now = steps[at];
    const riding = now.drones.filter((drone) => drone.status === "onboard").length;
    const speed = Math.hypot(...now.truck.velocity);
    return {
      status: speed > 0 ? "driving" : "waiting",
      tone: speed > 0 ? "go" : "",
      note: `${riding} of ${drones.length} on board`,
    };
  }

  const done = customers.filter((customer) => customer.served_at !== null);
  const onTime = done.filter((customer) => customer.late === 0).length;
  for (const [name, text] of [
    ...(haveWindows() ? [["closed", "window not open"]] : []),
    ["waiting", "waiting, ring: time left"],
    ["overdue", "deadline over"],
    ["on-time", "served on time"],
    ["late", "served late"],
  ])
    legendEntry(text, (svg) => {
      const group = draw("g", { class: `customer ${name}` }, svg);
      if (name === "waiting") draw("path", { class: "ring", d: arc(9.5, 0.7) }, group);
      draw("circle", { class: "face", r: 6.5 }, group);
    });
  legendEntry("edge: the drone that served", (svg) => {
    const group = draw("g", { class: "customer on-time" }, svg);
    draw("circle", { class: "face", r: 6.5, style: `stroke: ${colourOf(0)}` }, group);
  });
  exampleDrone("drone, ring: battery", (mark) => set(mark.charge, { d: arc(RING, 0.75), stroke: CHARGE(0.75) }));
  exampleDrone("with a parcel", (mark) => set(mark.parcel, { visibility: "visible" }));
  exampleDrone("crashed", (mark) => set(mark.group, { class: "drone crashed" }));
  legendEntry("truck", (svg) => truckIcon(draw("g", { class: "truck-icon", transform: "scale(7.5)" }, svg)));
  legendEntry("place that the truck can drive to", (svg) =>
    draw("rect", { class: "node", x: -7, y: -7, width: 14, height: 14, rx: 4 }, svg),
  );
  legendLine("way of the truck", { class: "line trail truck", style: "--colour: var(--ink)" });
  legendLine("way of a drone", { class: "line recent", style: `--colour: ${colourOf(0)}` });
  legendLine("its target", { class: "line aim", style: `--colour: ${colourOf(0)}` });

  const cards = agents.map((agent) =>
    agent.role === "truck"
      ? { title: agent.name, colour: "var(--ink)", agent, tell: (time) => tellTruck(Math.floor(time)) }
      : {
          title: agent.name,
          colour: colourOf(agent.index),
          agent,
          levelName: "battery",
          levelColour: CHARGE,
          tell: (time) => tellDrone(agent.index, Math.floor(time)),
        },
  );
  return {
    aspect: (map.y[1] - map.y[0]) / (map.x[1] - map.x[0]),
    label: `Map: a truck, ${drones.length} drones, ${customers.length} customers`,
    layout,
    draw: drawFrame,
    cards,
    charts: [rewardChart(seek), deadlineChart(seek, first), batteryChart(seek)],
    ticks: done.map((customer) => ({
      at: customer.served_at - first,
      colour: customer.late ? "var(--late)" : "var(--on-time)",
    })),
    events: happenings(first),
    summary: [
      ...(episode.clock ? [] : [["return", shown(episode.summary.return)]]),
      ["served", `${done.length} of ${customers.length}`],
      ["on time", `${onTime}`],
      ...(episode.clock ? mapSummary() : [["steps", `${LAST}`]]),
    ],
  };
};

/** Of an episode on a map: its end and distances, in the units of the map. */
function mapSummary() {
  const far = (length) => `${shown(length * episode.length.scale)} ${episode.length.unit}`.trim();
  const { truck_distance: driven, drone_distance: flown } = episode.summary;
  return [["end", moment(steps[LAST].step)], ["driven", far(driven)], ["flown", far(flown)]];
}

/** The name of a drone; "drone 0" where it has none of its own. */
const droneName = (drone) =>
  agents.find((agent) => agent.role === "drone" && agent.index === drone).name.replace(/^drone_(?=\d+$)/, "drone ");

/** What fits a drone's mark: its initial where that tells drones apart, or its number. */
function droneSign(drone) {
  const initials = steps[0].drones.map((_, other) => droneName(other)[0].toUpperCase());
  return new Set(initials).size === initials.length && initials.length > 1 ? initials[drone] : drone;
}

/** How late a delivery was, in words. */
const lateness = (customer) => (customer.late ? `, ${clockNumber(customer.late)}${clockUnit()} late` : "");

const customerName = (at) => episode.customers[at].name ?? `customer ${at}`;

/** Deliveries, crashes, drones sent home, customers that became known: by step. */
function happenings(first) {
  const found = episode.customers.flatMap((customer, at) => {
    const by = customer.served_by === null ? "" : ` by ${droneName(customer.served_by)}`;
    const served = `${customerName(at)} served${by}${lateness(customer)}`;
    return [
      ...(customer.served_at === null ? [] : [{ at: customer.served_at - first, text: served }]),
      ...(customer.known_from > first ? [{ at: customer.known_from - first, text: `${customerName(at)} known` }] : []),
    ];
  });
  steps.slice(1).forEach((step, before) => {
    step.drones.forEach((drone, index) => {
      const earlier = steps[before].drones[index];
      const event = (text) => found.push({ at: before + 1, text: `${droneName(index)} ${text}` });
      if (drone.status === "crashed" && earlier.status !== "crashed") event("crashed");
      if (drone.forced_return && !earlier.forced_return) event("sent home by its battery");
    });
  });
  return found.filter(({ at }) => at <= LAST);
}

function exampleDrone(text, dress) {
  legendEntry(text, (svg) => {
    const mark = droneMark(svg, 0);
    set(mark.group, { transform: "scale(0.55)" });
    dress(mark);
  });
}

function customerMark(svg, [x, y], customer, at) {
  const group = draw("g", { class: "customer", transform: `translate(${x} ${y})` }, svg);
  const by = customer.served_by === null ? "" : ` by ${droneName(customer.served_by)}`;
  const end = `${clockMoment(deadline(customer))}${clockUnit()}`;
  const words = [
    customer.opens > 0 ? `window ${clockMoment(customer.opens)} to ${end}` : `deadline ${end}`,
    ...(customer.known_from > 0 ? [`known from ${moment(customer.known_from)}`] : []),
    ...(customer.served_at === null ? [] : [`served at ${moment(customer.served_at)}${by}${lateness(customer)}`]),
  ];
  tooltip(group, `${customer.name ?? `customer ${at}`}: ${words.join(", ")}`);
  const pulse = draw("circle", { class: "pulse", visibility: "hidden" }, group);
  const ring = draw("path", { class: "ring" }, group);
  const face = draw("circle", { class: "face", r: 10 }, group);
  if (customer.name) draw("text", { class: "name mid halo", y: 21 }, group, cut(customer.name, 16));
  else draw("text", { class: "mid" }, group, at);
  return { group, pulse, ring, face };
}

/** Whether windows have a start that deliveries wait for. */
function haveWindows() {
  return episode.customers.some((customer) => customer.opens > 0);
}

/** The end of a customer's window. */
function deadline(customer) {
  return customer.window[1];
}

/** How it stands with a customer at a time. */
function stateOf(customer, time) {
  if (customer.served_at !== null && customer.served_at <= time) return customer.late ? "late" : "on-time";
  if (time < customer.opens) return "closed";
  return time > deadline(customer) ? "overdue" : "waiting";
}

function drawCustomer(mark, customer, time) {
  const state = stateOf(customer, time);
  const end = deadline(customer);
  const served = state === "late" || state === "on-time";
  const edge = served && customer.served_by !== null ? colourOf(customer.served_by) : "";
  set(mark.group, { class: `customer ${state}`, visibility: time < customer.known_from ? "hidden" : "visible" });
  set(mark.face, { style: edge && `stroke: ${edge}` });
  set(mark.ring, { d: state === "waiting" ? arc(14, (end - time) / Math.max(end, 1)) : "M0 0" });
  const since = served ? time - customer.served_at : Infinity;
  set(
    mark.pulse,
    since < 4
      ? {
          visibility: "visible",
          r: px(10 + 5 * since),
          style: `stroke: ${edge}; opacity: ${(1 - since / 4).toFixed(2)}`,
        }
      : { visibility: "hidden" },
  );
}

/** A truck about two units long, facing right. */
function truckIcon(group) {
  draw(
    "path",
    { d: "M-1.3 .45V-.75H.35V.45ZM.45 .45V-.4H.95L1.3 0V.45Z", "vector-effect": "non-scaling-stroke" },
    group,
  );
  for (const x of [-0.75, 0.8])
    draw(
      "path",
      { d: `M${x - 0.27} .6a.27 .27 0 1 0 .54 0a.27 .27 0 1 0-.54 0Z`, "vector-effect": "non-scaling-stroke" },
      group,
    );
  return group;
}

function droneMark(svg, drone) {
  const group = draw("g", { class: "drone", style: `--colour: ${colourOf(drone)}` }, svg);
  draw("circle", { class: "back", r: RING }, group);
  const charge = draw("path", { class: "charge" }, group);
  draw("path", { class: "arm", d: "M-9 -9L9 9M-9 9L9 -9" }, group);
  for (const [x, y] of [
    [-9, -9],
    [9, -9],
    [-9, 9],
    [9, 9],
  ])
    draw("circle", { class: "rotor", cx: x, cy: y, r: 4 }, group);
  draw("circle", { class: "body", r: 7 }, group);
  draw("text", { class: "mid", y: 0.5 }, group, droneSign(drone));
  const parcel = draw(
    "rect",
    { class: "parcel", x: -4.5, y: 10, width: 9, height: 7, rx: 1.5, visibility: "hidden" },
    group,
  );
  return { group, charge, parcel };
}

/** A row for each customer: its window, when it became known, and the delivery. */
function deadlineChart(seek, first) {
  const { customers } = episode;
  const named = customers.some((customer) => customer.name);
  const order = customers
    .map((_, at) => at)
    .sort(
      (a, b) =>
        (customers[a].served_at ?? Infinity) - (customers[b].served_at ?? Infinity) ||
        deadline(customers[a]) - deadline(customers[b]),
    );
  const row = clamp(230 / customers.length, 6, 17);
  const lastTime = Math.max(LAST + first, ...customers.map(deadline));
  const height = row * customers.length + 24;
  return chart({
    title: `Customers: ${haveWindows() ? "time windows" : "deadlines"} and deliveries`,
    height: () => height,
    left: named ? 100 : 30,
    shift: first,
    range: [first, lastTime],
    legend: [
      [{ kind: "box", colour: "var(--window)" }, haveWindows() ? "window" : "until the deadline"],
      ...(customers.some((one) => one.known_from > first) ? [[{ kind: "line", colour: "var(--waiting)" }, "known"]] : []),
      [{ kind: "dot", colour: "var(--on-time)" }, "served on time"],
      [{ kind: "dot", colour: "var(--late)" }, "late"],
      [{ kind: "dot", edge: colourOf(0) }, "edge: by which drone"],
    ],
    seek: (time) => seek(clamp(time - first, 0, LAST)),
    note: (time) =>
      `${customers.filter((customer) => customer.served_at !== null && customer.served_at <= time).length} served`,
    paint(svg, width, x) {
      order.forEach((at, place) => deadlineRow(svg, x, first, customers[at], at, 3 + row * (place + 0.5), row));
      if (LAST + first < lastTime)
        draw(
          "line",
          {
            class: "axis",
            x1: px(x(LAST + first)),
            x2: px(x(LAST + first)),
            y1: 0,
            y2: height - 16,
            "stroke-dasharray": "3 3",
            style: "stroke: var(--faint)",
          },
          svg,
        );
    },
  });
}

function deadlineRow(svg, x, first, customer, at, y, row) {
  const end = deadline(customer);
  const bar = { y: px(y - row * 0.34), height: px(row * 0.68), rx: 2 };
  const start = Math.max(first, customer.opens);
  draw("rect", { ...bar, x: px(x(start)), width: px(Math.max(1, x(end) - x(start))), fill: "var(--window)" }, svg);
  if (customer.known_from > first) {
    const from = px(x(customer.known_from));
    const to = px(x(Math.max(start, customer.known_from)));
    const tick = `M${from} ${px(y - row * 0.3)}V${px(y + row * 0.3)}`;
    draw("path", { class: "known", d: `${tick}M${from} ${px(y)}H${to}` }, svg);
  }
  const words = { class: "tiny end", x: customer.name ? 92 : 22, y: px(y), "dominant-baseline": "central" };
  if (row > 9) tooltip(draw("text", words, svg, cut(customer.name ?? `${at}`, 16)), customerName(at));
  if (customer.served_at === null) return;
  const tone = customer.late ? "var(--late)" : "var(--on-time)";
  if (customer.late)
    draw(
      "line",
      { x1: px(x(end)), x2: px(x(customer.served_at)), y1: px(y), y2: px(y), stroke: tone, "stroke-width": 2 },
      svg,
    );
  const edge = customer.served_by === null ? "none" : colourOf(customer.served_by);
  draw(
    "circle",
    {
      cx: px(x(customer.served_at)),
      cy: px(y),
      r: px(clamp(row * 0.33, 2, 5)),
      style: `fill: ${tone}; stroke: ${edge}; stroke-width: 1.8`,
    },
    svg,
  );
}

function batteryChart(seek) {
  const drones = steps[0].drones.map((_, drone) => drone);
  const percent = (at, drone) => Math.round((100 * steps[at].drones[drone].battery) / episode.max_battery);
  return lineChart({
    title: "Battery, %",
    zero: true,
    seek,
    series: drones.map((drone) => ({
      values: steps.map((_, at) => percent(at, drone)),
      colour: colourOf(drone),
      name: droneName(drone),
    })),
    note: (at) => (drones.length > 4 ? "" : drones.map((drone) => `${percent(at, drone)} %`).join(" · ")),
  });
}
