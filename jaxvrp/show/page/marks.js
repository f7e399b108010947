/** How places and vehicles of a story look, and what the legend calls them; names are those of `jaxvrp.story`. */

/** What the legend says, unless the story has other words. */
const LEGEND_WORDS = {
  closed: "window not open",
  open: "not served yet",
  overdue: "deadline over",
  asked: "asked now",
  promised: "promised",
  served: "served",
  late: "served late",
  lost: "never served",
  depot: "depot",
  node: "place to stop at",
  pickup: "pickup",
  "drop-off": "drop-off",
  truck: "truck",
  drone: "drone",
  vehicle: "vehicle",
  crashed: "crashed",
};

/** Pixels around a drone: of its battery, and between it and a customer that it is at. */
const RING = 19;
const ABOVE = 34;

const disc = (radius) => `M0 ${-radius}A${radius} ${radius} 0 1 1 0 ${radius}A${radius} ${radius} 0 1 1 0 ${-radius}Z`;

const OUTLINES = {
  depot: "M-6 -8H6Q8 -8 8 -6V6Q8 8 6 8H-6Q-8 8 -8 6V-6Q-8 -8 -6 -8Z",
  node: "M-4 -8H4Q8 -8 8 -4V4Q8 8 4 8H-4Q-8 8 -8 4V-4Q-8 -8 -4 -8Z",
  customer: disc(6.5),
  pickup: "M0 -8.5L8 6H-8Z",
  "drop-off": "M0 8.5L8 -6H-8Z",
};
/** Where served customers keep the colour of their standing, it has more room. */
const WIDE_CUSTOMER = disc(10);

const TRUCK =
  "M-1.3 .45V-.75H.35V.45ZM.45 .45V-.4H.95L1.3 0V.45ZM-1.02 .6a.27 .27 0 1 0 .54 0a.27 .27 0 1 0-.54 0ZM.53 .6a.27 .27 0 1 0 .54 0a.27 .27 0 1 0-.54 0Z";

/** Colours of what is not in that of a vehicle. */
const LOOK_COLOURS = {
  window: "var(--window)",
  "second window": "var(--window-2)",
  known: "var(--waiting)",
  wait: "var(--waiting)",
  waits: "var(--waiting)",
  aboard: "var(--line)",
  rests: "var(--line)",
  delay: "var(--late)",
  "late ride": "var(--bad)",
  crashed: "var(--bad)",
  "on time": "var(--on-time)",
  gain: "var(--on-time)",
  late: "var(--late)",
  lost: "var(--bad)",
};

/** The colour of a vehicle of the story, by its index. */
function vehicleColour(index) {
  const { colour } = episode.story.vehicles[index];
  return colour === null ? "var(--ink)" : colourOf(colour);
}

const lookColour = (look, vehicle) =>
  LOOK_COLOURS[look] ?? (vehicle === null ? "var(--accent)" : vehicleColour(vehicle));

const chargeColour = (level) => (level > 0.5 ? "var(--on-time)" : level > 0.2 ? "var(--late)" : "var(--bad)");

/** The mark of a place: its face with a label, rings around it, and a cross for what is lost. */
function placeMark(svg, place, [x, y], scale = 1) {
  const group = draw("g", { transform: `translate(${x} ${y})${scale === 1 ? "" : ` scale(${scale})`}` }, svg);
  const isWide = place.kind === "customer" && !episode.story.by_vehicle;
  const pulse = draw("circle", { class: "pulse", visibility: "hidden" }, group);
  const ring = draw("path", { class: "ring", d: "M0 0" }, group);
  draw("path", { class: "face", d: isWide ? WIDE_CUSTOMER : OUTLINES[place.kind] }, group);
  draw("path", { class: "cross", d: "M-4 -4L4 4M-4 4L4 -4" }, group);
  if (place.label) keepInside(placeLabel(group, place, isWide || place.kind === "node"), x, scale, svg);
  if (place.name) tooltip(group, [place.name, place.note].filter(Boolean).join(": "));
  const mark = { group, ring, pulse, name: `place ${place.kind}` };
  set(group, { class: mark.name });
  return mark;
}

/** A number inside its mark, a name below it; beside marks that have no room for either. */
function placeLabel(group, { kind, label }, hasRoom) {
  const isNode = kind === "node";
  if (hasRoom && /^\d{1,3}$/.test(label))
    return draw("text", { class: `mid inside${isNode ? " tiny" : ""}` }, group, label);
  if (hasRoom)
    return draw("text", { class: `mid halo ${isNode ? "tiny" : "name"}`, y: isNode ? 15 : 21 }, group, cut(label, 16));
  return draw("text", { class: "small halo", x: 9, y: -6 }, group, cut(label, 16));
}

/** Move a text of a mark at `x` so that the edges of the map do not cut it; marks beyond them keep theirs. */
function keepInside(text, x, scale, svg) {
  const { width } = svg.viewBox.baseVal;
  // Only what may reach an edge is measured, which takes time.
  const most = 9 + 12 * text.textContent.length;
  if (x < 0 || x > width || (x > most && x < width - most)) return;
  const box = text.getBBox();
  const [left, right] = [x + scale * box.x, x + scale * (box.x + box.width)];
  const shift = Math.max(2 - left, 0) - Math.max(right - width + 2, 0);
  if (shift) text.setAttribute("x", px(Number(text.getAttribute("x")) + shift / scale));
}

/** The mark of a vehicle: `dress(level, isCrashed, hasParcel)` shows how it is, `turn(isLeftwards)` where it looks. */
function vehicleMark(svg, index) {
  const { kind, sign, is_share: isShare } = episode.story.vehicles[index];
  const group = draw("g", { class: `vehicle ${kind}`, style: `--colour: ${vehicleColour(index)}` }, svg);
  const body = draw("g", {}, group);
  const charge = kind === "drone" ? droneBody(body, isShare) : null;
  if (kind === "truck") draw("path", { class: "body", d: TRUCK, "vector-effect": "non-scaling-stroke" }, body);
  if (kind === "vehicle") draw("rect", { class: "body", x: -13, y: -9.5, width: 26, height: 19, rx: 7 }, body);
  const text = kind === "truck" ? null : draw("text", { class: "mid", y: 0.5 }, group, sign);
  const parcel = draw(
    "rect",
    { class: "parcel", x: -4.5, y: 10, width: 9, height: 7, rx: 1.5, visibility: "hidden" },
    group,
  );
  const turn = (isLeftwards) => kind === "truck" && set(body, { transform: `scale(${isLeftwards ? -12 : 12} 12)` });
  turn(false);
  const dress = (level, share, isCrashed, hasParcel) => {
    set(group, { class: `vehicle ${kind}${isCrashed ? " crashed" : ""}` });
    set(parcel, { visibility: hasParcel ? "visible" : "hidden" });
    if (charge) set(charge, { d: arc(RING, share), stroke: chargeColour(share) });
    else if (text && !sign && text.textContent !== String(level)) text.textContent = level;
  };
  return { group, turn, dress };
}

/** Arms and rotors; the arc of its battery, if it has one, is returned. */
function droneBody(group, hasBattery) {
  if (hasBattery) draw("circle", { class: "back", r: RING }, group);
  const charge = hasBattery ? draw("path", { class: "charge" }, group) : null;
  draw("path", { class: "arm", d: "M-9 -9L9 9M-9 9L9 -9" }, group);
  for (const cx of [-9, 9]) for (const cy of [-9, 9]) draw("circle", { class: "rotor", cx, cy, r: 4 }, group);
  draw("circle", { class: "body", r: 7 }, group);
  return charge;
}

/** What the legend calls a standing, an activity or a kind; "" for what it leaves out. */
function legendWords(name) {
  const shortfall = name === "lost" ? episode.shortfalls?.title.toLowerCase() : undefined;
  return episode.story.words[name] ?? shortfall ?? LEGEND_WORDS[name];
}

/** Legend entries for all that occurs in a story, and for nothing else. */
function storyLegend(story) {
  const { places, vehicles, by_vehicle: byVehicle } = story;
  const say = (name, paint) => {
    const words = legendWords(name);
    if (words) legendEntry(words, paint);
  };
  const fixed = places.filter(({ standings }) => !standings.length);
  const changing = places.filter(({ standings }) => standings.length);
  for (const { kind } of fixed) say(kind, (svg) => placeMark(svg, { kind }, [0, 0], 0.85));
  for (const { kind } of changing) if (kind !== "customer") say(kind, (svg) => placeMark(svg, { kind }, [0, 0]));
  const colour = byVehicle ? colourOf(0) : "";
  const standingMark = (svg, kind, name) => {
    const mark = placeMark(svg, { kind }, [0, 0], byVehicle ? 1 : 0.65);
    set(mark.group, { class: `place ${kind} ${name}`, style: `--colour: ${colour || "transparent"}` });
    return mark;
  };
  for (const name of Object.keys(LEGEND_WORDS)) {
    const place = changing.find(({ standings }) => standings.some((standing) => standing.name === name));
    if (place) say(name, (svg) => standingMark(svg, place.kind, name));
  }
  const isSeen = (name) => changing.some(({ standings }) => standings.some((standing) => standing.name === name));
  if (!byVehicle && changing.some(({ deadline }) => deadline !== null) && isSeen("open"))
    legendEntry("ring: time left", (svg) => set(standingMark(svg, "customer", "open").ring, { d: arc(14, 0.7) }));
  if (!byVehicle && (isSeen("served") || isSeen("late")))
    legendEntry("edge: who served", (svg) =>
      set(standingMark(svg, "customer", "served").group, { style: `--colour: ${colourOf(0)}` }),
    );
  for (const kind of ["truck", "vehicle", "drone"]) vehicleLegend(vehicles, kind, say);
}

/** What the marks of a kind of vehicle mean, and the lines that they draw. */
function vehicleLegend(vehicles, kind, say) {
  const index = vehicles.findIndex((vehicle) => vehicle.kind === kind);
  if (index < 0) return;
  const those = vehicles.filter((vehicle) => vehicle.kind === kind);
  const { is_share: isShare, level_name: levelName, levels, sign } = vehicles[index];
  const scale = { truck: 0.7, vehicle: 0.75, drone: isShare ? 0.55 : 0.7 }[kind];
  const example = (isCrashed, hasParcel) => (svg) => {
    const mark = vehicleMark(svg, index);
    mark.dress(0, 0.75, isCrashed, hasParcel);
    set(mark.group, { transform: `scale(${scale})` });
  };
  const isLevelSeen = levels.length && (isShare ? kind === "drone" : !sign);
  const inside = isLevelSeen ? `, ${isShare ? "ring" : "number"}: ${levelName}` : "";
  if (legendWords(kind)) legendEntry(`${legendWords(kind)}${inside}`, example(false, false));
  if (those.some(({ carries }) => carries.some(([, is]) => is))) legendEntry("with a parcel", example(false, true));
  if (those.some(({ activities }) => activities.some(({ name }) => name === "crashed")))
    say("crashed", example(true, false));
  const style = `--colour: ${vehicleColour(index)}`;
  legendLine(`way of a ${kind}`, { class: `line recent ${kind}`, style });
  if (those.some(({ aims }) => aims.length)) legendLine(`where a ${kind} goes`, { class: "line aim", style });
}
