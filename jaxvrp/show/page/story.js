/**
 * The view of any story, `jaxvrp.story.Story` as JSON: map, cards, charts, events. A story has a clock; where vehicles
 * move one after another, each has a clock of its own, known at the states of its turns.
 */

/** Moments of the clock's own way of playing. */
const MOMENTS = 300;
/** Shares of the clock's span: what a vehicle leaves behind it as its recent way, and for how long a service shines. */
const RECENT = 1 / 10;
const SHINING = 1 / 30;
/** Lengths of all ways, in sizes of the map, from which on they are faint, and from which on they are left out. */
const MANY_WAYS = 40;
const TOO_MANY_WAYS = 120;
/** From so many places on, their marks are smaller. */
const MANY_PLACES = 80;

const TONES = { moves: "go", returns: "go", serves: "go", crashed: "bad" };

/** A time of the clock, of minutes after midnight: "08:12", on the next day "00:30 +1". */
function clockWords(minutes) {
  const whole = Math.round(minutes);
  const days = Math.floor(whole / 1440);
  const rest = whole - 1440 * days;
  const [hour, minute] = [Math.floor(rest / 60), rest % 60];
  return `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}${days ? ` +${days}` : ""}`;
}

/** When an entry of a story begins to hold. */
const beginOf = (entry) => entry.time ?? entry.begin ?? entry[0];

/** The index of the last of ascending entries that has begun at a time; -1 before the first. */
function indexAt(entries, time) {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (beginOf(entries[middle]) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** What the entry of ascending [time, value] that holds at a time says; before the first, `before`. */
const heldAt = (entries, time, before) => entries[indexAt(entries, time)]?.[1] ?? before;

/** The value of ascending [time, value] at a time, which changes evenly in between. */
function evenly(entries, time, mix) {
  const at = indexAt(entries, time);
  if (at < 0) return entries[0][1];
  if (at === entries.length - 1) return entries[at][1];
  const [[since, from], [until, to]] = [entries[at], entries[at + 1]];
  return mix(from, to, (time - since) / (until - since));
}

/** What the clock is at moments of each mode, for the story and for each vehicle; and words for it. */
function storyTiming({ span, clocks, vehicles, units, words }) {
  const length = span[1] - span[0];
  const tiny = 1e-6 * (length || 1);
  const haveTurns = vehicles.some(({ turns }) => turns.length);
  const [first, last] = [clocks[0], clocks[LAST]];
  /** Where each step takes as long as any other, time is the same by steps and by the clock. */
  const isEven =
    !haveTurns && clocks.every((clock, at) => Math.abs(clock - lerp(first, last, at / (LAST || 1))) <= tiny);
  /** The last moment that anything was played in. */
  const end = haveTurns ? span[1] : last;
  const played = end - span[0] || 1;
  const isSteps = units.time === "step";
  const decimals = clamp(3 - Math.floor(Math.log10(length || 1)), 0, 3);
  const number = (clock) => Number(clock.toFixed(decimals));
  const unit = isSteps || !units.time ? "" : ` ${units.time}`;

  function ofTurns(turns, time) {
    if (time < turns[0][0]) return -Infinity;
    return time > turns.at(-1)[0] ? Infinity : evenly(turns, time, lerp);
  }

  /** The clock of a vehicle. */
  function clockOf({ turns }, time, mode) {
    return (mode === "steps" && turns.length ? ofTurns(turns, time) : clockAt(time, mode)) + tiny;
  }

  /** The clock: by steps, of the vehicle that moves, where vehicles have their own. */
  function clockAt(time, mode) {
    if (mode === "clock") return lerp(...span, time / MOMENTS);
    for (const { turns } of haveTurns ? vehicles : []) {
      const at = indexAt(turns, time);
      const [now, then] = [turns[at], turns[at + 1]];
      if (now && then && then[1] > now[1]) return evenly(turns, time, lerp);
    }
    const at = Math.min(Math.floor(time), LAST);
    return lerp(clocks[at], clocks[Math.min(at + 1, LAST)], time - at);
  }

  /** The clock of what no vehicle does; where each has its own, that happens in the end. */
  function commonClock(time, mode) {
    if (mode === "clock" || !haveTurns) return clockAt(time, mode);
    return time >= LAST ? Infinity : -Infinity;
  }

  /** The last state that the clock has come to. */
  function stateAt(time, mode) {
    if (mode === "steps") return Math.min(Math.floor(time), LAST);
    return haveTurns
      ? null
      : Math.max(
          0,
          clocks.findLastIndex((clock) => clock <= clockAt(time, mode) + tiny),
        );
  }

  const clockTime = units.clock ? (clock) => clockWords(units.clock[0] + clock * units.clock[1]) : null;
  const moment = clockTime ?? ((clock) => (isSteps ? `step ${number(clock)}` : `${number(clock)}${unit}`));
  const stepsText = (time) => {
    const clock = clocks[Math.min(Math.floor(time), LAST)];
    return isSteps ? `${moment(clock)} of ${number(last)}` : `${clockTime?.(clock) ?? number(clock)} of ${moment(last)}`;
  };
  const steps = {
    id: "steps",
    name: words.steps ?? "by decision",
    length: LAST,
    ...(isEven ? { text: stepsText } : {}),
  };
  const text = (time) => clockTime?.(clockAt(time, "clock")) ?? `time ${clockAt(time, "clock").toFixed(decimals)}${unit}`;
  const clock = { id: "clock", name: "by clock", length: MOMENTS, span, text };
  return {
    clockOf,
    clockAt,
    stateAt,
    moment,
    unit: units.clock ?? unit,
    last,
    end,
    played,
    isEven,
    commonClock,
    modes: isEven ? [steps] : [steps, clock],
    momentOf: (clock) => (MOMENTS * (clock - span[0])) / (length || 1),
  };
}

/**
 * A story in which no two turns of a vehicle are at the same time, as where a way takes none: later ones, and what
 * belongs to them, are later by a trifle, so that by steps they come one after the other.
 */
function withTurnsApart(story) {
  const trifle = 1e-4 * (story.span[1] - story.span[0] || 1);
  const vehicles = story.vehicles.map((vehicle) => turnsApart(vehicle, trifle));
  const apart = ({ time, vehicle }, place) => (vehicle === null ? time : vehicles[vehicle].timeAt(time, place));
  const places = story.places.map(({ standings, ...place }) => ({
    ...place,
    standings: standings.map((standing) => ({ ...standing, time: apart(standing, place.position) })),
  }));
  return { ...story, vehicles, places };
}

function turnsApart(vehicle, trifle) {
  const { turns, track, activities } = vehicle;
  const states = new Map();
  for (const [step, time] of turns) states.set(time, (states.get(time) ?? new Set()).add(step));
  /** Times of entries, each by the number of those of the same time that it `follows`. */
  const spread = (entries, follows = () => 1) => {
    let rank = 0;
    return entries.map((entry, at) => {
      const time = beginOf(entry);
      rank = at && beginOf(entries[at - 1]) === time ? rank + follows(entry, entries[at - 1]) : 0;
      return time + trifle * Math.min(rank, (states.get(time)?.size ?? 1) - 1);
    });
  };
  const paired = (entries, times) => entries.map(([, ...rest], at) => [times[at], ...rest]);
  const isAway = ([, [x, y]], [, [fromX, fromY]]) => (x === fromX && y === fromY ? 0 : 1);
  const trackTimes = spread(track, isAway);
  const turnTimes = spread(
    turns.map(([step, time]) => [time, step]),
    ([, step], [, before]) => (step === before ? 0 : 1),
  );
  const aimTimes = spread(vehicle.aims);
  return {
    ...vehicle,
    turns: turns.map(([step], at) => [step, turnTimes[at]]),
    track: paired(track, trackTimes),
    levels: paired(vehicle.levels, spread(vehicle.levels)),
    notes: paired(vehicle.notes, spread(vehicle.notes)),
    aims: vehicle.aims.map((aim, at) => ({ ...aim, time: aimTimes[at] })),
    // The last one may take no time: it says what a vehicle does in the end.
    activities: activities.filter((activity, at) => activity.end > activity.begin || at === activities.length - 1),
    timeAt(time, [x, y]) {
      const at = track.findIndex(([when, place]) => when === time && place[0] === x && place[1] === y);
      return at < 0 ? time : trackTimes[at];
    },
  };
}

/** What is to be seen: area, places, ways; [[least x, greatest x], [least y, greatest y]]. */
function storyExtent({ area, places, vehicles }) {
  const points = [
    ...(area ?? []),
    ...places.map(({ position }) => position),
    ...vehicles.flatMap(({ track }) => track.map(([, point]) => point)),
  ];
  if (!points.length) points.push([0, 0], [1, 0.6]);
  return [0, 1].map((axis) =>
    points.reduce(
      ([low, high], point) => [Math.min(low, point[axis]), Math.max(high, point[axis])],
      [Infinity, -Infinity],
    ),
  );
}

/** How faint the ways of all vehicles have to be, so that the map can be read: 0 to 1. */
function wayOpacity({ vehicles }, [x, y]) {
  const size = Math.max(x[1] - x[0], y[1] - y[0]) || 1;
  const lengthOf = ({ track }) =>
    track.slice(1).reduce((sum, [, to], at) => sum + Math.hypot(to[0] - track[at][1][0], to[1] - track[at][1][1]), 0);
  const ways = vehicles.reduce((sum, vehicle) => sum + lengthOf(vehicle), 0) / size;
  return ways > TOO_MANY_WAYS ? 0 : ways > MANY_WAYS ? 0.3 : 0.62;
}

/** Path data of a vehicle's own way between two times; where it rides along, it leaves no trace. */
function wayOf({ track, hosts }, to) {
  const rides = (at) => heldAt(hosts, (track[at][0] + track[at + 1][0]) / 2, null) !== null;
  const isOwn = track.slice(1).map((_, at) => !rides(at));
  let text = "";
  const ends = track.map(([, place], at) => {
    const [x, y] = to(place);
    text += `${at && isOwn[at - 1] ? "L" : "M"}${x} ${y}`;
    return text.length;
  });
  return (clock, since = -Infinity) => {
    const at = indexAt(track, clock);
    if (at < 0) return "M0 0";
    const begin = Math.max(0, indexAt(track, since));
    const tip = (time) => to(evenly(track, time, between)).join(" ");
    const last = at < track.length - 1 && isOwn[at] ? `L${tip(clock)}` : "";
    return `M${tip(since)}${text.slice(ends[begin], ends[at])}${last}`;
  };
}

/** Draws the map of a story and what moves on it. */
function storyMap(story, timing, extent) {
  const { places, vehicles } = story;
  const opacity = wayOpacity(story, extent);
  const recent = timing.played * RECENT;
  /** In this time a drone comes on board, or leaves. */
  const docking = Math.min((timing.last - story.clocks[0]) / (LAST || 1), timing.played / 10) || 1;
  const drones = vehicles.flatMap(({ hosts }, index) => (hosts.length ? [index] : []));
  const startsHidden = places.some(({ standings }) => standings[0]?.name === "hidden");
  let scene = null;

  function layout(svg, width, height) {
    const { to } = projection(...extent, width, height, 26, false);
    draw("rect", { class: "ground", width, height }, svg);
    if (story.area) drawArea(svg, to, story);
    for (const region of story.regions) drawRegion(svg, region.name, region.corners.map(to));
    if (!places.length && !vehicles.length)
      draw("text", { class: "small mid", x: width / 2, y: height / 2 }, svg, "nothing has a place");
    const line = (name) =>
      vehicles.map(({ kind }, index) =>
        draw("path", { class: `line ${name} ${kind}`, style: `--colour: ${vehicleColour(index)}` }, svg),
      );
    const [trails, recents, aims] = ["trail", "recent", "aim"].map(line);
    trails.forEach((trail) => set(trail, { opacity }));
    const scale = places.length > MANY_PLACES ? 0.75 : 1;
    scene = {
      to,
      trails,
      recents,
      aims,
      ways: vehicles.map((vehicle) => wayOf(vehicle, to)),
      places: places.map((place) => placeMark(svg, place, to(place.position), place.kind === "depot" ? 1 : scale)),
      customers: places.flatMap(({ kind, position }) => (kind === "customer" ? [to(position)] : [])),
      vehicles: vehicles.map((_, index) => vehicleMark(svg, index)),
    };
  }

  function drawFrame(time, mode) {
    const clocks = vehicles.map((vehicle) => timing.clockOf(vehicle, time, mode));
    const common = timing.commonClock(time, mode);
    const clockFor = (vehicle) => (vehicle === null ? common : clocks[vehicle]);
    places.forEach((place, index) => drawPlace(scene.places[index], place, clockFor));
    vehicles.forEach((vehicle, index) => drawVehicle(vehicle, index, clocks));
  }

  function drawPlace(mark, { kind, standings, deadline }, clockFor) {
    if (!standings.length) return;
    const at = standings.findLastIndex(({ time, vehicle }, index) => !index || time <= clockFor(vehicle) + 1e-9);
    const { name, time, vehicle } = standings[at];
    const clock = clockFor(vehicle);
    const isDone = name === "served" || name === "late";
    const fades = isDone && startsHidden && story.by_vehicle ? " faded" : "";
    set(mark.group, {
      class: `place ${kind} ${name}${fades}`,
      style: vehicle === null ? "--colour: transparent" : `--colour: ${vehicleColour(vehicle)}`,
    });
    const left = name === "open" && deadline !== null && !story.by_vehicle ? deadline - clock : 0;
    set(mark.ring, { d: arc(14, left / (deadline - story.span[0] || 1)) });
    const since = isDone ? (clock - time) / (timing.played * SHINING) : Infinity;
    set(
      mark.pulse,
      since >= 0 && since < 1
        ? { visibility: "visible", r: px(9 + 18 * since), opacity: (1 - since).toFixed(2) }
        : { visibility: "hidden" },
    );
  }

  function drawVehicle(vehicle, index, clocks) {
    const clock = clocks[index];
    const host = heldAt(vehicle.hosts, clock, null);
    if (!(host === null ? vehicle : vehicles[host]).track.length) {
      set(scene.vehicles[index].group, { visibility: "hidden" });
      return;
    }
    const { place, docked } = whereIs(vehicle, host, clock, clocks);
    const [x, y] = scene.to(place);
    const [slotX, slotY] = slotOf(index, clock);
    const shift = vehicle.kind === "drone" ? between([0, beside([x, y])], [slotX, slotY], docked) : [0, 0];
    const mark = scene.vehicles[index];
    const size = lerp(vehicle.kind === "drone" && !vehicle.is_share ? 0.75 : 1, 0.55, docked);
    const isHidden = isIdle(vehicle, clock);
    set(mark.group, {
      transform: `translate(${px(x + shift[0])} ${px(y + shift[1])}) scale(${px(size * 10) / 10})`,
      visibility: isHidden ? "hidden" : "visible",
    });
    const level = levelAt(vehicle, clock);
    const activity = activityAt(vehicle, clock, story);
    mark.dress(
      level,
      level / (vehicle.capacity || 1),
      activity?.name === "crashed",
      heldAt(vehicle.carries, clock, false),
    );
    const ahead = vehicle.track.length ? evenly(vehicle.track, clock + docking, between) : place;
    if (Math.abs(ahead[0] - place[0]) > 1e-9) mark.turn(ahead[0] < place[0]);
    set(scene.trails[index], { d: opacity ? scene.ways[index](clock) : "M0 0" });
    set(scene.recents[index], { d: Number.isFinite(clock) ? scene.ways[index](clock, clock - recent) : "M0 0" });
    set(scene.aims[index], { d: Number.isFinite(clock) ? aimAt(vehicle, clock, [x, y]) : "M0 0" });
  }

  /** The place of a vehicle, that of its host while it is on board, and to which share it is. */
  function whereIs({ track, hosts }, host, clock, clocks) {
    const [next, then] = hosts[indexAt(hosts, clock) + 1] ?? [Infinity, null];
    const share = clamp((next - clock) / docking, 0, 1);
    const docked = lerp(then === null ? 0 : 1, host === null ? 0 : 1, next === Infinity ? 1 : share);
    const way = host === null ? track : vehicles[host].track;
    return { place: evenly(way, host === null ? clock : clocks[host], between), docked };
  }

  /** Where a drone lies beside others on board, in pixels from the host. */
  function slotOf(index) {
    const place = drones.indexOf(index);
    const host = vehicles[index].hosts.find(([, on]) => on !== null)?.[1];
    const mates = drones.filter((drone) => vehicles[drone].hosts.some(([, on]) => on === host));
    return place < 0 ? [0, 0] : [(mates.indexOf(index) - (mates.length - 1) / 2) * 20, -24];
  }

  /** How far a drone is drawn above its place, so that it does not hide the customer that it is at. */
  function beside([x, y]) {
    const nearest = scene.customers.reduce(
      (least, place) => Math.min(least, Math.hypot(place[0] - x, place[1] - y)),
      ABOVE,
    );
    return -ABOVE * (1 - nearest / ABOVE);
  }

  function aimAt({ aims }, clock, here) {
    const { places: goals, fan } = aims[indexAt(aims, clock)] ?? { places: [] };
    const points = goals.map((goal) => scene.to(goal).map(px).join(" "));
    const start = `M${here.map(px).join(" ")}`;
    if (!points.length) return "M0 0";
    return fan ? points.map((point) => `${start}L${point}`).join("") : `${start}L${points.join("L")}`;
  }

  /** Whether a vehicle among several has not set out yet, or is done: it would lie on the others. */
  function isIdle({ kind, turns, activities }, clock) {
    const isAlone = vehicles.filter((other) => other.kind === kind).length < 2;
    if (kind === "drone" || isAlone || !turns.length || !activities.length) return false;
    return clock < activities[0].begin || clock > activities.at(-1).end + 1e-5 * timing.played;
  }

  return { layout, draw: drawFrame };
}

/** The edge of the area, and its zones. */
function drawArea(svg, to, { area: [least, greatest], zones }) {
  const [left, bottom] = to(least);
  const [right, top] = to(greatest);
  draw("rect", { class: "area", x: left, y: top, width: px(right - left), height: px(bottom - top), rx: 6 }, svg);
  for (let line = 1; line < zones; line++) {
    const [x, y] = between([left, bottom], [right, top], line / zones);
    draw("path", { class: "axis", d: `M${px(x)} ${bottom}V${top}M${left} ${px(y)}H${right}` }, svg);
  }
}

/** A part of the map where other rules hold, with its name at its lowest corner. */
function drawRegion(svg, name, corners) {
  const d = `M${corners.map((corner) => corner.map(px).join(" ")).join("L")}Z`;
  tooltip(draw("path", { class: "region", d }, svg), name);
  const [x, y] = corners.reduce((lowest, corner) => (corner[1] > lowest[1] ? corner : lowest));
  draw("text", { class: "tiny mid halo", x: px(x), y: px(y) + 12 }, svg, cut(name, 24));
}

/** What a vehicle has on board, or left. */
function levelAt({ levels, is_share: isShare }, clock) {
  if (!levels.length) return 0;
  return isShare ? evenly(levels, clock, lerp) : heldAt(levels, clock, levels[0][1]);
}

/** What a vehicle has on board, or left, in words. */
function levelWords(vehicle, clock) {
  const level = levelAt(vehicle, clock);
  const { is_share: isShare, capacity } = vehicle;
  return isShare ? `${Math.round((100 * level) / (capacity || 1))} %` : `${shown(level)} of ${shown(capacity)}`;
}

/** What a vehicle does at a time; undefined if nothing. Where it has no turns, its last activity goes on. */
function activityAt({ activities, turns }, clock) {
  const activity = activities[indexAt(activities, clock)];
  return activity && (clock < activity.end || (activity === activities.at(-1) && !turns.length)) ? activity : undefined;
}

/** What the card of a vehicle says. */
function vehicleCard(vehicle, index, timing) {
  const { activities, notes, levels, capacity, is_share: isShare, level_name: levelName } = vehicle;
  const statusAt = (clock, activity) => {
    if (activity) return activity.words || activity.name;
    return activities.length && clock >= activities.at(-1).end ? "finished" : activities.length ? "waits" : "";
  };
  return {
    colour: vehicleColour(index),
    levelName: levels.length ? levelName || "level" : undefined,
    levelColour: isShare ? chargeColour : undefined,
    tell(time, mode) {
      const clock = timing.clockOf(vehicle, time, mode);
      const activity = activityAt(vehicle, clock);
      return {
        status: statusAt(clock, activity),
        tone: TONES[activity?.name] ?? "",
        note: heldAt(notes, clock, ""),
        level: levelAt(vehicle, clock) / (capacity || 1),
        levelText: levelWords(vehicle, clock),
        over: activity?.name === "crashed",
      };
    },
  };
}

/** What the card of an agent that is no vehicle says. */
function deciderCard(entries, timing) {
  return {
    colour: "var(--accent)",
    tell(time, mode) {
      const at = timing.stateAt(time, mode);
      const when = mode === "clock" ? timing.moment(timing.clockAt(time, mode)) : "";
      if (at === null) return { status: "all vehicles", note: when };
      const [status, note, isBad] = entries[at];
      return { status, tone: isBad ? "bad" : "go", note: [note, when].filter(Boolean).join(" · ") };
    },
  };
}

/** What is on the map, for those who do not see it: "Map: 2 trucks, 5 customers". */
function mapLabel({ vehicles, places }) {
  const counts = new Map();
  for (const { kind } of [...vehicles, ...places]) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return `Map: ${[...counts].map(([kind, count]) => `${count} ${kind}${count > 1 ? "s" : ""}`).join(", ")}`;
}

function storyView(seek) {
  const story = (episode.story = withTurnsApart(episode.story));
  const timing = storyTiming(story);
  const extent = storyExtent(story);
  const [x, y] = extent;
  document.body.dataset.colours = story.by_vehicle ? "vehicles" : "standings";
  if (timing.isEven) measureBy(story.clocks, timing.unit);
  storyLegend(story);
  const seekClock = (clock) => {
    if (!timing.isEven) seek(timing.momentOf(clock), "clock");
    else seek((LAST * (clock - story.clocks[0])) / (timing.last - story.clocks[0] || 1), "steps");
  };
  return {
    ...storyMap(story, timing, extent),
    aspect: story.places.length || story.vehicles.length ? clamp((y[1] - y[0]) / (x[1] - x[0] || 1), 0.6, 1) : 0,
    label: mapLabel(story),
    cards: story.cards.map(({ title, agent, vehicle, steps: entries }) => ({
      title,
      agent: agent === null ? null : agents[agent],
      ...(vehicle === null ? deciderCard(entries, timing) : vehicleCard(story.vehicles[vehicle], vehicle, timing)),
    })),
    charts: [...story.charts.map((content) => storyChart(content, timing, seekClock)), ...(episode.is_plan ? [] : [rewardChart(seek)])],
    ticks: story.events.map(({ step, look, vehicle }) => ({ at: step, colour: lookColour(look, vehicle) })),
    events: story.events.map(({ time, step, words }) => ({
      at: step,
      moment: timing.momentOf(time),
      text: words,
      when: timing.moment(time).replace(/^step /, ""),
    })),
    modes: timing.modes,
    note: story.is_feasible ? "" : story.verdict,
    summary: story.summary,
  };
}
