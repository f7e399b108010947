/** Seconds that an episode takes at speed 1, unless it is short. */
const SECONDS = 24;
const SLOWEST = 1.5;

const part = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
document.body.dataset.kind = episode.kind;

const view = VIEWS[episode.kind]((time, mode) => seek(time, mode));
const cards = view.cards.map(agentCard);
const modes = view.modes ?? [{ id: "steps", name: "", length: LAST }];
const player = { time: 0, mode: modes[0], playing: false, speed: 1, stamp: 0 };

part("title").textContent = episode.title;
part("subtitle").textContent = [episode.subtitle, view.note].filter(Boolean).join(" · ");
part("map").setAttribute("aria-label", view.label);
for (const [name, value] of view.summary) describe(part("summary"), name, value);
for (const [name, value] of Object.entries(episode.config)) describe(part("config"), name, shown(value));
for (const mode of modes) modeButton(mode);
part("modes").hidden = modes.length < 2;

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

/** Show a moment; playing goes on from there if it was playing. */
function seek(time, mode = player.mode.id) {
  player.mode = modes.find((one) => one.id === mode);
  player.time = clamp(time, 0, player.mode.length);
  render();
}

function render() {
  const time = still.matches ? Math.floor(player.time) : player.time;
  const at = Math.floor(time);
  const { id, length } = player.mode;
  const inSteps = id === "steps" ? time : null;
  view.draw(time, id);
  cards.forEach((card) => card(time, id));
  view.charts.forEach((one) => one.move(one.clocked ? time : inSteps, id));
  const slider = part("scrub");
  slider.max = length;
  slider.value = at;
  const text = player.mode.text?.(time) ?? `step ${steps[at].step} of ${steps[LAST].step}`;
  if (slider.getAttribute("aria-valuetext") !== text) {
    slider.setAttribute("aria-valuetext", text);
    part("time").textContent = text;
    part("ticks").style.visibility = id === "steps" ? "visible" : "hidden";
    for (const mode of modes) mode.button.setAttribute("aria-pressed", mode.id === id);
  }
  document.body.dataset.at = at;
  document.body.dataset.mode = id;
}

function play(playing) {
  if (playing && player.time >= player.mode.length) player.time = 0;
  player.playing = playing;
  player.stamp = 0;
  part("play").setAttribute("aria-pressed", playing);
  part("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  if (playing) requestAnimationFrame(advance);
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
};

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
part("picture").addEventListener("click", savePicture);

/** The map as a file of its own: what the style sheet says goes into the elements. */
function savePicture() {
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
  const copy = part("map").cloneNode(true);
  const originals = part("map").querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, at) => {
    const style = getComputedStyle(originals[at]);
    element.setAttribute("style", names.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", part("map").clientWidth);
  const link = make("a", { download: `${episode.kind}_${document.body.dataset.at}.svg` });
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

let laidOut = "";

/** Everything in the size that there is; called again whenever that changes. */
function layout() {
  const width = Math.round(part("map").parentElement.clientWidth);
  const narrow = matchMedia("(max-width: 860px)").matches;
  const around = ["legend", "controls"].map(part).concat(document.querySelector("header"));
  const taken = around.reduce((sum, element) => sum + element.offsetHeight, 46);
  const room = innerHeight - (narrow ? part("controls").offsetHeight + 12 : taken);
  const height = Math.round(clamp(width * view.aspect, 240, Math.max(room, 260)));
  const size = `${width} ${height} ${part("charts").clientWidth}`;
  if (size === laidOut) return;
  laidOut = size;
  part("map").replaceChildren();
  part("map").setAttribute("viewBox", `0 0 ${width} ${height}`);
  part("map").setAttribute("height", height);
  view.layout(part("map"), width, height);
  view.charts.forEach((one) => one.layout());
  drawTicks();
  render();
}

/** Marks above the slider, where its thumb will be. */
function drawTicks() {
  const svg = part("ticks");
  const width = svg.clientWidth;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} 9`);
  for (const { at, colour } of view.ticks) {
    const x = px(8 + (at / Math.max(LAST, 1)) * (width - 16));
    draw("rect", { x: x - 1.25, y: 1, width: 2.5, height: 7, rx: 1.2, fill: colour }, svg);
  }
}

new ResizeObserver(layout).observe(document.body);
addEventListener("resize", layout);
layout();
const asked = Number.parseInt(location.hash.slice(1), 10);
if (asked >= 0) seek(asked);
