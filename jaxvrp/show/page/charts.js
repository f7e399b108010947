/** Ends [least, greatest] by name: charts of the same name, of episodes side by side, share them. */
const scales = {};

/** The ends of a scale, widened by `values`. Charts are made before any is painted, so that each sees the widest. */
function sharedScale(name, values) {
  const ends = (scales[name] ??= [Infinity, -Infinity]);
  for (const value of values) {
    ends[0] = Math.min(ends[0], value);
    ends[1] = Math.max(ends[1], value);
  }
  return ends;
}

/**
 * A chart over time: `paint(svg, width, x)` draws it, x(time) being pixels; `note(time)` is its reading.
 * `height()` in pixels, `range` [first, last] time, `seek(time)` when it is clicked or dragged, `unit` of times, or the
 * clock [minutes after midnight at time 0, minutes of a unit], `legend`
 * [[mark, text]] with a mark for `swatch`.
 */
function chart({ title, height, range, paint, note, seek, unit = "", left = 40, right = 10, legend = [] }) {
  const here = pane;
  const ends = sharedScale(`${title}, time`, range);
  const card = make("section", { className: "card chart", "aria-label": title }, here.elements.charts);
  const head = make("header", {}, card);
  make("h2", { textContent: title }, head);
  const reading = make("span", {}, head);
  const svg = draw("svg", { role: "img", "aria-label": title }, card);
  if (legend.length) chartLegend(card, legend);
  let width = 0;
  let cursor = null;
  const x = (time) => left + ((time - ends[0]) / (ends[1] - ends[0] || 1)) * (width - left - right);

  const timeAt = (event) => {
    const box = svg.getBoundingClientRect();
    const share = clamp((event.clientX - box.left - left) / (width - left - right), 0, 1);
    return lerp(...ends, share);
  };
  const seekThere = (event) => {
    enter(here);
    seek(timeAt(event));
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    seekThere(event);
  });
  svg.addEventListener("pointermove", (event) => {
    if (event.buttons) seekThere(event);
  });

  return {
    layout() {
      width = card.clientWidth - 24;
      const tall = height();
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
      svg.setAttribute("height", tall);
      paint(svg, width, x);
      timeAxis(svg, x, ends, tall, unit);
      cursor = draw("line", { class: "cursor", y1: 0, y2: tall - 15 }, svg);
    },
    move(time) {
      set(
        cursor,
        time === null ? { visibility: "hidden" } : { visibility: "visible", x1: px(x(time)), x2: px(x(time)) },
      );
      reading.textContent = note(time);
    },
  };
}

/** A mark is {kind: "bar" | "line" | "dot" | "box", colour, edge, dash, width}, or has a `className` for its colours. */
function chartLegend(card, legend) {
  const list = make("ul", { className: "legend" }, card);
  for (const [mark, text] of legend) {
    const entry = make("li", {}, list);
    swatch(draw("svg", { viewBox: "-9 -6 18 12", "aria-hidden": "true" }, entry), mark);
    entry.append(text);
  }
}

function swatch(
  svg,
  { kind, colour = "none", edge = "none", dash = "", width = kind === "line" ? 2 : 1.5, className },
) {
  const style = `fill: ${kind === "line" ? "none" : colour}; stroke: ${kind === "line" ? colour : edge}`;
  const look = className
    ? { class: className }
    : { style: `${style}; stroke-width: ${width}; stroke-dasharray: ${dash}` };
  if (kind === "line") draw("path", { d: "M-8 0H8", ...look }, svg);
  else if (kind === "dot") draw("circle", { r: 4, ...look }, svg);
  else if (kind === "bar") draw("rect", { x: -2.5, y: -5, width: 5, height: 10, ...look }, svg);
  else draw("rect", { x: -8, y: -4, width: 16, height: 8, rx: 1.5, ...look }, svg);
}

function timeAxis(svg, x, range, tall, unit) {
  const width = x(range[1]) - x(range[0]);
  for (const [tick, text] of axisTicks(range, clamp(Math.floor(width / 75), 2, 8), unit)) {
    const place = px(x(tick));
    draw("line", { class: "axis", x1: place, x2: place, y1: tall - 16, y2: tall - 12 }, svg);
    // A long text at the right end stays within the card.
    const middle = px(Math.min(x(tick), x(range[1]) + 20 - 2.8 * text.length));
    draw("text", { class: "tiny", x: middle, y: tall - 2, "text-anchor": "middle" }, svg, text);
  }
  draw("line", { class: "axis", x1: px(x(range[0])), x2: px(x(range[1])), y1: tall - 16, y2: tall - 16 }, svg);
}

/** [time, words] at round numbers with their unit, or at round times of the clock that a unit may be. */
function axisTicks(range, count, unit) {
  if (typeof unit === "string") {
    const ticks = niceTicks(range, count);
    return ticks.map((tick, at) => [tick, `${shown(tick)}${at === ticks.length - 1 ? unit : ""}`]);
  }
  const [start, minutes] = unit;
  const ends = range.map((time) => start + time * minutes);
  return niceTicks(ends, count, HOURS).map((minute) => [(minute - start) / minutes, clockWords(minute)]);
}

/** Minutes between two times of an axis. */
const HOURS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440];

/** Round numbers within a range, about `count` of them; `sizes`: the steps between them that may be. */
function niceTicks([low, high], count, sizes) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const round = sizes ?? [1, 2, 5, 10].map((times) => times * power);
  const step = round.find((size) => size >= rough) ?? round.at(-1) * Math.ceil(rough / round.at(-1));
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + 1e-9 * step; tick += step)
    ticks.push(Number(tick.toPrecision(12)));
  return ticks;
}

/** A scale from values between `low` and `high` to pixels, with its ends written at the left. */
function valueAxis(svg, [low, high], top, bottom, left, zero) {
  if (zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  if (low === high) [low, high] = [low - 1, high + 1];
  const y = (value) => lerp(bottom, top, (value - low) / (high - low));
  draw("text", { class: "tiny end", x: left - 6, y: top + 4 }, svg, shown(high));
  draw("text", { class: "tiny end", x: left - 6, y: bottom + 2 }, svg, shown(low));
  return y;
}

/** Path data of values, one for each of `times`. */
function curve(values, times, x, y) {
  return values.map((value, at) => `${at ? "L" : "M"}${px(x(times[at]))} ${px(y(value))}`).join("");
}

/** A chart over the steps: `seek` and `note` are of steps, what is painted is at `stepTimes`. */
function stepChart({ seek, note, ...parts }) {
  const [first, last] = [stepTimes[0], stepTimes[LAST]];
  const count = LAST;
  const stepAt = (time) => (count * (time - first)) / (last - first || 1);
  const inner = chart({
    ...parts,
    range: [first, last],
    unit: pane.stepUnit,
    seek: (time) => seek(stepAt(time)),
    note: (time) => note(time === null ? null : clamp(Math.floor(stepAt(time) + 1e-6), 0, count)),
  });
  return {
    layout: inner.layout,
    move: (time) => inner.move(time === null ? null : lerp(first, last, time / (count || 1))),
  };
}

/** Reward of each step as bars, and its sum so far as a line. */
function rewardChart(seek) {
  let sum = 0;
  const totals = rewards.map((reward) => (sum += reward));
  const ends = sharedScale("Reward so far", totals);
  const endsOfSteps = sharedScale("Reward of a step", rewards);
  const left = 44;
  const [first, last] = [stepTimes[0], stepTimes[LAST]];
  return stepChart({
    title: "Reward",
    height: () => 134,
    left,
    seek,
    legend: [
      [{ kind: "line", colour: "var(--accent)" }, "so far"],
      [{ kind: "bar", colour: "var(--on-time)" }, "gained in a step"],
      [{ kind: "bar", colour: "var(--bad)" }, "lost in a step"],
    ],
    note: (at) => {
      const ofStep = at === null ? "" : `this step ${shown(rewards[at])} · `;
      return `${ofStep}so far ${shown(totals[at ?? LAST])}`;
    },
    paint(svg, width, x) {
      const y = valueAxis(svg, ends, 6, 62, left, true);
      draw("line", { class: "axis", x1: left, x2: px(x(last)), y1: px(y(0)), y2: px(y(0)) }, svg);
      const line = curve(totals, stepTimes, x, y);
      draw(
        "path",
        { d: `${line}L${px(x(last))} ${px(y(0))}L${px(x(first))} ${px(y(0))}Z`, fill: "var(--accent)", opacity: 0.1 },
        svg,
      );
      draw("path", { class: "line", d: line, style: "--colour: var(--accent); stroke-width: 1.8" }, svg);
      const bar = valueAxis(svg, endsOfSteps, 78, 114, left, true);
      draw("line", { class: "axis", x1: left, x2: px(x(last)), y1: px(bar(0)), y2: px(bar(0)) }, svg);
      const thick = clamp(((x(last) - x(first)) / Math.max(LAST, 1)) * 0.7, 1, 8);
      rewards.forEach((reward, at) => {
        if (Math.abs(bar(reward) - bar(0)) < 0.2) return;
        const box = { x: px(x(stepTimes[at]) - thick / 2), width: px(thick), y: px(Math.min(bar(reward), bar(0))) };
        const tone = reward < 0 ? "var(--bad)" : "var(--on-time)";
        draw("rect", { ...box, height: px(Math.max(1, Math.abs(bar(reward) - bar(0)))), fill: tone }, svg);
      });
    },
  });
}

/** Lines over the steps: `series` of {values, colour, name}; those with a name are explained. */
function lineChart({ title, series, note, seek, zero = false, height = 96 }) {
  const left = 44;
  const ends = sharedScale(
    title,
    series.flatMap((curve) => curve.values),
  );
  return stepChart({
    title,
    left,
    height: () => height,
    seek,
    legend: series.filter((curve) => curve.name).map(({ colour, name }) => [{ kind: "line", colour }, cut(name, 24)]),
    note: (at) => note(at ?? LAST),
    paint(svg, width, x) {
      const y = valueAxis(svg, ends, 6, height - 22, left, zero);
      for (const { values, colour } of series)
        draw(
          "path",
          {
            class: "line",
            d: curve(values, stepTimes, x, y),
            style: `--colour: ${colour}; stroke-width: 1.6; opacity: 0.9`,
          },
          svg,
        );
    },
  });
}

/** What the critic expected of each step on, for every agent of the policy that played; nothing if nobody did. */
function valueChart(seek) {
  if (!steps[0].value) return [];
  const valued = agents.filter((agent) => steps[0].value[agent.role]);
  const cardOf = (at) => pane.view.cards.find((card) => card.agent?.at === at);
  const series = valued.map(({ role, index, at, name }) => ({
    values: steps.map((step) => step.value[role][index]),
    colour: cardOf(at)?.colour ?? colourOf(at),
    name,
  }));
  const note = (at) => `mean ${shown(mean(series.map((curve) => curve.values[at])))}`;
  return [lineChart({ title: "Value: the return that the critic expects", seek, series, note })];
}
