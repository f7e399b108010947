/** Seconds that an episode takes at speed 1, unless it is short. */
const SECONDS = 24;
const SLOWEST = 1.5;

/** Milliseconds after which the address says where a reader has come to. */
const REST = 150;
const MOST_ZOOM = 32;

const part = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
document.body.dataset.kind = episodes[0].kind;
document.body.dataset.plan = Boolean(episodes[0].is_plan);

for (const each of panes) prepare(each);
const modes = panes[0].modes.map(sharedMode);
const player = { time: 0, mode: episodes[0].is_plan ? modes.at(-1) : modes[0], playing: false, speed: 1, stamp: 0 };

/** What the view notes of its episode; whose it is, where there are two. */
function noteOf({ view, episode: { player: name } }) {
  return view.note && panes.length > 1 && name ? `${name}: ${view.note}` : view.note;
}

/** What a pane shows: map, cards, charts. */
function prepare(each) {
  enter(each);
  const makeView = episode.story ? storyView : VIEWS[episode.kind];
  each.view = makeView((time, mode) => seekIn(each, time, mode));
  each.modes = each.view.modes ?? [{ id: "steps", name: "", length: LAST }];
  each.shortfalls = shortfallCard();
  each.cards = each.view.cards.map(agentCard);
  each.charts = [...each.view.charts, ...valueChart((time) => seekIn(each, time, "steps"))];
  each.map.setAttribute("aria-label", each.view.label);
  if (panes.length > 1) nameParts(each);
}

/** Whose pane and column these are, with their summary. */
function nameParts(each) {
  const name = episode.player ?? episode.subtitle ?? `episode ${each.at + 1}`;
  for (const holder of [each.map.parentElement, each.elements.agents.parentElement]) {
    const head = make("div", { className: "who" });
    make("h2", { textContent: name }, head);
    if (holder.contains(each.map)) {
      const list = make("dl", {}, head);
      for (const [entry, value] of each.view.summary) describe(list, entry, value);
    }
    holder.prepend(head);
  }
}

/** A mode of all panes: its clock goes from the first to the last value that any of them has. */
function sharedMode(mode) {
  const ranges = panes.map((each) => spanOf(each, mode.id));
  const span = [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))];
  const length = Math.max(...panes.map((each) => modeOf(each, mode.id).length));
  return { id: mode.id, name: mode.name, length, span };
}

function modeOf(each, id) {
  return each.modes.find((mode) => mode.id === id);
}

function spanOf(each, id) {
  const mode = modeOf(each, id);
  return mode.span ?? [0, mode.length];
}

/** The time of a pane at the player's time; it stands still where its own episode is over. */
function timeIn(each, time) {
  const [low, high] = spanOf(each, player.mode.id);
  const clock = lerp(...player.mode.span, time / (player.mode.length || 1));
  return modeOf(each, player.mode.id).length * clamp((clock - low) / (high - low || 1), 0, 1);
}

/** The player's time in a mode at the time of a pane. */
function sharedTime(each, time, mode) {
  const shared = modes.find((known) => known.id === mode);
  const clock = lerp(...spanOf(each, mode), time / (modeOf(each, mode).length || 1));
  return (shared.length * (clock - shared.span[0])) / (shared.span[1] - shared.span[0] || 1);
}

function seekIn(each, time, mode = player.mode.id) {
  seek(sharedTime(each, time, mode), mode);
}

part("title").textContent = episodes[0].title;
const notes = panes.map(noteOf).filter(Boolean);
part("subtitle").textContent = [...episodes.map((episode) => episode.subtitle), ...notes].filter(Boolean).join(" · ");
if (panes.length === 1) for (const [name, value] of panes[0].view.summary) describe(part("summary"), name, value);
for (const [name, value] of Object.entries(episodes[0].config)) describe(part("config"), name, shown(value));
for (const name of Object.keys(episodes[0].summary))
  describe(
    part("figures"),
    name.replaceAll("_", " "),
    episodes.map(({ summary }) => shown(summary[name] ?? null)).join(" · "),
  );
for (const mode of modes) modeButton(mode);
part("modes").hidden = modes.length < 2;

/** What happened, in all panes, by step: [{pane, at, moment, text}]. */
const events = panes
  .flatMap((each) => (each.view.events ?? each.view.ticks).map((event) => ({ ...event, pane: each })))
  .sort((a, b) => a.at - b.at);
listEvents();

function describe(list, name, value) {
  const entry = make("div", {}, list);
  make("dt", { textContent: name }, entry);
  make("dd", { textContent: value }, entry);
}

function modeButton(mode) {
  const button = make("button", { textContent: mode.name, type: "button" }, part("modes"));
  button.addEventListener("click", () => seek(0, mode.id));
  mode.button = button;
}

/** When an event was, by the player's time; undefined in a mode that it has no moment in. */
function timeOf(event) {
  const time = player.mode.id === "steps" ? event.at : event.moment;
  return time === undefined ? undefined : sharedTime(event.pane, time, player.mode.id);
}

function listEvents() {
  const words = events.filter((event) => event.text);
  part("happened").hidden = !words.length;
  part("happened").querySelector("summary").textContent = `Events: ${words.length}`;
  for (const event of words) {
    const button = make("button", { type: "button" }, make("li", {}, part("events")));
    const prefix = panes.length > 1 ? `${event.pane.episode.player ?? event.pane.at + 1}: ` : "";
    enter(event.pane);
    button.textContent = `${event.when ?? steps[event.at].step} · ${prefix}${event.text}`;
    button.addEventListener("click", () => seekIn(event.pane, event.at, "steps"));
    event.words = button.textContent;
  }
  part("leaps").hidden = !events.length;
}

/** To the next event, or to the one before. */
function leapToEvent(forwards) {
  play(false);
  const times = events.map(timeOf).filter((time) => time !== undefined);
  const ahead = times.filter((time) => (forwards ? time > player.time + 1e-6 : time < player.time - 1e-6));
  if (ahead.length) seek(forwards ? Math.min(...ahead) : Math.max(...ahead));
}

/** Show a moment; playing goes on from there if it was playing. */
function seek(time, mode = player.mode.id) {
  player.mode = modes.find((known) => known.id === mode);
  player.time = clamp(time, 0, player.mode.length);
  render();
  if (!player.playing) rememberMoment();
}

let resting = 0;

/** Write the moment into the address when the reader rests there: a link to it, that survives a reload. */
function rememberMoment() {
  clearTimeout(resting);
  resting = setTimeout(() => {
    const at = Math.floor(player.time);
    // In a frame of a notebook there is no address to write to.
    if (location.protocol === "about:") return;
    history.replaceState(null, "", player.mode.id === modes[0].id ? `#${at}` : `#${player.mode.id}=${at}`);
  }, REST);
}

/** Show the moment that the address names, if it names one. */
function followAddress() {
  const [, mode = modes[0].id, at] = location.hash.match(/^#(?:(\w+)=)?(\d+)/) ?? [];
  if (at !== undefined && modes.some((known) => known.id === mode)) seek(Number(at), mode);
}

function render() {
  const time = still.matches ? Math.floor(player.time) : player.time;
  const at = Math.floor(time);
  const { id, length } = player.mode;
  for (const each of panes) renderPane(each, timeIn(each, time), id);
  const slider = part("scrub");
  slider.max = length;
  slider.value = at;
  const text = timeText(time);
  if (slider.getAttribute("aria-valuetext") !== text) {
    slider.setAttribute("aria-valuetext", text);
    part("time").textContent = text;
    part("ticks").style.visibility = id === "steps" ? "visible" : "hidden";
    for (const mode of modes) mode.button.setAttribute("aria-pressed", mode.id === id);
    part("event").textContent = lastEvent(time);
  }
  document.body.dataset.at = at;
  document.body.dataset.mode = id;
}

function renderPane(each, time, mode) {
  enter(each);
  each.view.draw(time, mode);
  if (each.shortfalls) each.shortfalls.hidden = time < modeOf(each, mode).length;
  each.cards.forEach((card) => card(time, mode));
  each.charts.forEach((chart) => chart.move(chart.clocked || mode === "steps" ? time : null, mode));
}

function timeText(time) {
  const longest = panes.reduce((a, b) => (b.episode.steps.length > a.episode.steps.length ? b : a));
  enter(longest);
  const mode = modeOf(longest, player.mode.id);
  if (mode.text) {
    const [low, high] = spanOf(longest, player.mode.id);
    const clock = lerp(...player.mode.span, time / (player.mode.length || 1));
    return mode.text(((clock - low) / (high - low || 1)) * mode.length);
  }
  const now = steps[Math.min(Math.floor(time), LAST)].step;
  return `step ${now} of ${steps[LAST].step}`;
}

/** The last event up to now, in words. */
function lastEvent(time) {
  const past = events.filter((event) => event.words && timeOf(event) <= time + 1e-6);
  return past.length ? `last: ${past.reduce((a, b) => (timeOf(b) >= timeOf(a) ? b : a)).words}` : "";
}

function play(playing) {
  if (playing && player.time >= player.mode.length) player.time = 0;
  player.playing = playing;
  player.stamp = 0;
  part("play").setAttribute("aria-pressed", playing);
  part("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  if (playing) requestAnimationFrame(advance);
  else rememberMoment();
}

function advance(stamp) {
  if (!player.playing) return;
  // After a pause of the browser's own (another tab) it goes on where it was.
  const seconds = player.stamp ? Math.min(stamp - player.stamp, 100) / 1000 : 0;
  player.stamp = stamp;
  const pace = Math.max(SLOWEST, player.mode.length / SECONDS) * player.speed;
  player.time = Math.min(player.time + seconds * pace, player.mode.length);
  render();
  if (player.time >= player.mode.length) play(false);
  else requestAnimationFrame(advance);
}

/** To a whole step, from wherever it is in between. */
function leap(count) {
  play(false);
  seek((count > 0 ? Math.floor(player.time) : Math.ceil(player.time)) + count);
}

function quicken(by) {
  const select = part("speed");
  select.selectedIndex = clamp(select.selectedIndex + by, 0, select.options.length - 1);
  player.speed = Number(select.value);
}

const KEYS = {
  " ": () => play(!player.playing),
  ArrowLeft: (event) => leap(event.shiftKey ? -10 : -1),
  ArrowRight: (event) => leap(event.shiftKey ? 10 : 1),
  Home: () => leap(-Infinity),
  End: () => leap(Infinity),
  "+": () => quicken(1),
  "=": () => quicken(1),
  "-": () => quicken(-1),
  n: () => leapToEvent(true),
  p: () => leapToEvent(false),
  t: () => switchTheme(),
  w: () => showReasons(),
  z: () => zoomBy(1.5),
  x: () => zoomBy(1 / 1.5),
  0: () => zoomBy(0),
};

/** Open why actions are masked on all cards, or close it. */
function showReasons() {
  const boxes = [...document.querySelectorAll(".why")];
  const open = !boxes.some((box) => box.open);
  for (const box of boxes) box.open = open;
}

document.addEventListener("keydown", (event) => {
  const where = event.target.tagName;
  if (event.ctrlKey || event.metaKey || event.altKey || where === "SELECT" || !(event.key in KEYS)) return;
  // A button or a summary in focus is worked by the space bar itself.
  if (event.key === " " && (where === "BUTTON" || where === "SUMMARY")) return;
  event.preventDefault();
  KEYS[event.key](event);
});

part("play").addEventListener("click", () => play(!player.playing));
part("first").addEventListener("click", () => leap(-Infinity));
part("back").addEventListener("click", () => leap(-1));
part("next").addEventListener("click", () => leap(1));
part("last").addEventListener("click", () => leap(Infinity));
part("scrub").addEventListener("input", (event) => seek(Number(event.target.value)));
part("speed").addEventListener("change", () => quicken(0));
part("before").addEventListener("click", () => leapToEvent(false));
part("after").addEventListener("click", () => leapToEvent(true));
part("theme").addEventListener("click", () => switchTheme());
part("closer").addEventListener("click", () => zoomBy(1.5));
part("farther").addEventListener("click", () => zoomBy(1 / 1.5));
part("whole").addEventListener("click", () => zoomBy(0));
part("picture").addEventListener("click", () => panes.forEach(savePicture));
addEventListener("hashchange", followAddress);

/** The map of a pane as a file of its own: what the style sheet says goes into the elements. */
function savePicture({ map, at }) {
  const names = [
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linejoin",
    "stroke-linecap",
    "opacity",
    "paint-order",
    "font-family",
    "font-size",
    "font-weight",
    "text-anchor",
    "dominant-baseline",
    "visibility",
  ];
  const copy = map.cloneNode(true);
  const originals = map.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, at) => {
    const style = getComputedStyle(originals[at]);
    element.setAttribute("style", names.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", map.clientWidth);
  const link = make("a", { download: `${episodes[at].kind}_${document.body.dataset.at}${at ? "_against" : ""}.svg` });
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = storedTheme();

/** What the reader chose on an earlier visit, if the browser keeps that for this page. */
function storedTheme() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function showTheme() {
  document.documentElement.dataset.theme = chosenTheme ?? (dark.matches ? "dark" : "light");
}

function switchTheme() {
  chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", chosenTheme);
  } catch {
    // A frame in a notebook may keep nothing; the switch works all the same.
  }
  showTheme();
}

dark.addEventListener("change", showTheme);
showTheme();

/** Zoom the maps around a place, given as shares of what is seen; by 0 to the whole map. */
function zoomBy(factor, [x, y] = [0.5, 0.5]) {
  const by = factor ? clamp(zoom.by * factor, 1, MOST_ZOOM) : 1;
  const kept = [zoom.x + (x - 0.5) / zoom.by, zoom.y + (y - 0.5) / zoom.by];
  zoom.by = by;
  lookAt(kept[0] - (x - 0.5) / by, kept[1] - (y - 0.5) / by);
}

/** Move the maps, so that this place of them, in shares, is in the middle; never beyond their edges. */
function lookAt(x, y) {
  const half = 0.5 / zoom.by;
  zoom.x = clamp(x, half, 1 - half);
  zoom.y = clamp(y, half, 1 - half);
  document.body.dataset.zoom = zoom.by > 1 ? "closer" : "whole";
  requestMaps();
}

let mapsAsked = false;

function requestMaps() {
  if (mapsAsked) return;
  mapsAsked = true;
  requestAnimationFrame(() => {
    mapsAsked = false;
    panes.forEach(layoutMap);
    render();
  });
}

/** Wheel, double click, drag and pinch on a map. */
function listenToZoom({ map }) {
  const share = (event) => {
    const box = map.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const fingers = new Map();
  const spread = ([a, b]) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  map.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY / 200), share(event));
    },
    { passive: false },
  );
  map.addEventListener("dblclick", (event) => zoomBy(event.shiftKey ? 0.5 : 2, share(event)));
  map.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, share(event));
    if (zoom.by > 1 || fingers.size > 1) map.setPointerCapture(event.pointerId);
  });
  map.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const apart = fingers.size === 2 ? spread([...fingers.values()]) : 0;
    const now = share(event);
    fingers.set(event.pointerId, now);
    const count = fingers.size;
    if (zoom.by > 1)
      lookAt(zoom.x - (now[0] - before[0]) / zoom.by / count, zoom.y - (now[1] - before[1]) / zoom.by / count);
    if (!apart) return;
    const [a, b] = [...fingers.values()];
    zoomBy(spread([a, b]) / apart, between(a, b, 0.5));
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"])
    map.addEventListener(name, (event) => fingers.delete(event.pointerId));
}

let laidOut = "";

/** Everything in the size that there is; called again whenever that changes. */
function layout() {
  const width = Math.round(panes[0].map.parentElement.clientWidth);
  const size = `${width} ${heightFor(width)} ${panes[0].elements.charts.clientWidth}`;
  if (!width || size === laidOut) return;
  laidOut = size;
  panes.forEach(layoutMap);
  for (const each of panes) {
    enter(each);
    each.charts.forEach((chart) => chart.layout());
  }
  part("zoom").hidden = !panes.some((each) => each.zooms);
  drawTicks();
  render();
}

/** Height of the maps: all of them in sight, with what plays them. */
function heightFor(width) {
  const narrow = getComputedStyle(part("controls")).position === "fixed";
  const heads = [...document.querySelectorAll(".pane .who")];
  const around = ["legend", "controls"].map(part).concat(document.querySelector("header"), heads[0] ?? []);
  const taken = around.reduce((sum, element) => sum + element.offsetHeight, 46);
  const room = innerHeight - (narrow ? part("controls").offsetHeight + 12 : taken);
  return Math.round(clamp(width * panes[0].view.aspect, 240, Math.max(room, 260)));
}

function layoutMap(each) {
  const width = Math.round(each.map.parentElement.clientWidth);
  const height = heightFor(width);
  each.map.replaceChildren();
  each.map.setAttribute("viewBox", `0 0 ${width} ${height}`);
  each.map.setAttribute("height", height);
  enter(each);
  each.view.layout(each.map, width, height);
}

/** Marks above the slider, where its thumb will be; those of a second pane below those of the first. */
function drawTicks() {
  const svg = part("ticks");
  const width = svg.clientWidth;
  const tall = 7 / panes.length;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} 9`);
  for (const each of panes)
    for (const { at, colour } of each.view.ticks) {
      const x = px(8 + (at / Math.max(modes[0].length, 1)) * (width - 16));
      draw("rect", { x: x - 1.25, y: 1 + each.at * tall, width: 2.5, height: tall, rx: 1.2, fill: colour }, svg);
    }
}

panes.forEach(listenToZoom);
new ResizeObserver(layout).observe(document.body);
addEventListener("resize", layout);
layout();
followAddress();
