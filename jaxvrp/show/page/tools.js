"use strict";

/** The episodes of the page: one, or two that are compared. */
const episodes = ["episode", "against"]
  .map((id) => JSON.parse(document.getElementById(id).textContent))
  .filter(Boolean);

/** Of the pane that is drawn at the moment; whatever a view calls sees those of its own episode, see `enter`. */
let pane = null;
let episode = null;
let steps = [];
let LAST = 0;
/** Mean over all agents of the reward of each step. */
let rewards = [];
/** Agents, each with its place among all (`at`) and among those of its role (`index`). */
let agents = [];
let stepTimes = [];

/** A pane for each episode: its elements, and what its scripts see. */
const panes = episodes.map((played, at) => {
  const suffix = at ? `-${at}` : "";
  const element = (name) => document.getElementById(name + suffix) ?? twin(name, suffix);
  return {
    at,
    episode: played,
    rewards: played.steps.map(({ reward }) => mean(Object.values(reward).flat())),
    agents: played.agents.map((agent, place) => {
      const before = played.agents.slice(0, place).filter((other) => other.role === agent.role).length;
      return { ...agent, at: place, index: before };
    }),
    map: element("map"),
    elements: Object.fromEntries(["shortfalls", "agents", "charts"].map((name) => [name, element(name)])),
  };
});
document.body.dataset.panes = panes.length;

/** The same element for another pane, in a pane or column of its own. */
function twin(name, suffix) {
  const first = document.getElementById(name);
  const copy = first.cloneNode(false);
  copy.id = name + suffix;
  let holder = document.getElementById(`${first.parentElement.className}${suffix}`);
  if (!holder) {
    holder = first.parentElement.cloneNode(false);
    holder.id = `${first.parentElement.className}${suffix}`;
    first.parentElement.after(holder);
  }
  holder.append(copy);
  return copy;
}

/** Let scripts see the episode of a pane. */
function enter(next) {
  pane = next;
  ({ episode, rewards, agents } = next);
  steps = episode.steps;
  LAST = steps.length - 1;
  stepTimes = next.stepTimes ?? steps.map((_, at) => at);
}

/** Measure the steps of the pane by the times of its states, in a unit. */
function measureBy(times, unit) {
  pane.stepTimes = stepTimes = times;
  pane.stepUnit = unit;
}

function mean(numbers) {
  return numbers.reduce((sum, x) => sum + x, 0) / numbers.length;
}

/**
 * What draws a kind of episode: kind -> (seek) => view. A view: `aspect`, height of the map by width · `label` for those
 * who do not see it · `layout(svg, width, height)` draws what stays · `draw(time, mode)` what moves · `cards`, for
 * agentCard · `charts` · `ticks` [{at, colour}] · `summary` [[name, value]]. If wanted: `note`, a line on top; `events`
 * [{at, text, when, moment}], what happened at which step, when in words, and at which moment of another mode; `modes`, ways to measure time
 * [{id, name, length, span, text(time)}], if there is more than one: `span` are the first and the last value of the
 * clock that its length stands for.
 */
const VIEWS = {};

const lerp = (a, b, share) => a + (b - a) * share;
const between = (a, b, share) => [lerp(a[0], b[0], share), lerp(a[1], b[1], share)];
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const px = (x) => Math.round(x * 10) / 10;
const colourOf = (index) => `var(--agent-${index % 8})`;

/** A number for people: three digits, or all that stand before the point. */
function shown(x) {
  if (Array.isArray(x)) return x.map(shown).join(", ");
  if (typeof x !== "number") return x === null ? "none" : String(x);
  if (Number.isInteger(x)) return String(x);
  const size = Math.abs(x);
  return x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3);
}

/** A text of at most so many characters. */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** An element of the page, at the end of `parent`; `properties` of the element, or attributes where it has none. */
function make(tag, properties, parent) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  parent?.append(element);
  return element;
}

/** An SVG element at the end of `parent`. */
function draw(tag, attributes, parent, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

/** Set attributes that differ from what they are: most do not, from frame to frame. */
function set(element, attributes) {
  const known = (element.known ??= {});
  for (const [name, value] of Object.entries(attributes)) {
    if (known[name] === value) continue;
    known[name] = value;
    element.setAttribute(name, value);
  }
}

function tooltip(element, text) {
  draw("title", {}, element, text);
}

/** What part of the maps is seen: `by` times as large, `x` and `y` of its middle as shares of the whole map. */
const zoom = { by: 1, x: 0.5, y: 0.5 };

/**
 * Pixels from places: fits the box x, y (each [low, high]) into width and height; `down` if y points down. Marks keep
 * their size where the map is zoomed; `scale`, pixels by unit, does not.
 */
function projection(x, y, width, height, margin, down) {
  const scale = Math.min((width - 2 * margin) / (x[1] - x[0] || 1), (height - 2 * margin) / (y[1] - y[0] || 1));
  const middle = [(x[0] + x[1]) / 2, (y[0] + y[1]) / 2];
  const turn = down ? 1 : -1;
  const closer = (offset, size, share) => px(size / 2 + (offset + size * (0.5 - share)) * zoom.by);
  const to = (place) => [
    closer((place[0] - middle[0]) * scale, width, zoom.x),
    closer(turn * (place[1] - middle[1]) * scale, height, zoom.y),
  ];
  pane.zooms = true;
  return { to, scale: scale * zoom.by };
}

/** Path data of an arc around the origin from the top, clockwise, over a share of the circle. */
function arc(radius, share) {
  const part = clamp(share, 0, 0.9999);
  const end = 2 * Math.PI * part;
  const tip = `${px(radius * Math.sin(end))} ${px(-radius * Math.cos(end))}`;
  return part <= 0 ? "M0 0" : `M0 ${-radius}A${radius} ${radius} 0 ${part > 0.5 ? 1 : 0} 1 ${tip}`;
}

/** The little picture of a legend entry; panes share them. */
function legendEntry(text, paint) {
  const legend = document.getElementById("legend");
  if ([...legend.children].some((entry) => entry.dataset.text === text)) return;
  const entry = make("li", {}, legend);
  entry.dataset.text = text;
  paint(draw("svg", { viewBox: "-11 -11 22 22", "aria-hidden": "true" }, entry));
  entry.append(text);
}

/** A legend entry for a line: its class on the map, or a style of its own. */
function legendLine(text, attributes) {
  legendEntry(text, (svg) => draw("path", { d: "M-10 4L10 -4", ...attributes }, svg));
}
