/** The charts of a story, over its clock; names are those of `jaxvrp.story`. */

/** Bars that are lines have these widths, in pixels; the others are as high as they say. */
const LINE_WIDTHS = { approach: 0.8, known: 1.2, delay: 2 };
const DASHED = ["wait", "waits"];
/** Activities that shade a level, and what they are called. */
const ACTIVITY_WORDS = { rests: "rests", aboard: "on board", waits: "waits", returns: "returns", crashed: "crashed" };

/** `timing` is that of the story, `seek(clock)` goes there. */
function storyChart(content, timing, seek) {
  const paint = content.rows ? rowsChart : content.series ? countsChart : content.lines ? linesChart : levelsChart;
  const { note, ...parts } = paint(content, timing);
  const inner = chart({
    title: content.title,
    range: content.rows ? episode.story.span : [episode.story.span[0], timing.end],
    unit: timing.unit,
    seek,
    ...parts,
    note: (clock) => [timing.moment(clock), note?.(clock)].filter(Boolean).join(" · "),
  });
  return { clocked: true, layout: inner.layout, move: (time, mode) => inner.move(timing.clockAt(time, mode)) };
}

/** The room that labels of rows need. */
const labelRoom = (labels, least) => Math.max(least, 12 + 5.6 * Math.max(0, ...labels.map((label) => label.length)));

/** A row for each of many: bars and dots over time. */
function rowsChart({ rows, keys }, { end: over }) {
  const row = clamp(240 / Math.max(rows.length, 1), 6, 22);
  const labels = rows.map(({ label }) => (row > 9 ? cut(label, 16) : ""));
  const left = labelRoom(labels, 30);
  const tall = row * rows.length + 24;
  return {
    left,
    height: () => tall,
    legend: keys.map(([look, words]) => [keyMark(look), words]),
    paint(svg, width, x) {
      rows.forEach((entry, at) => {
        const y = 3 + row * (at + 0.5);
        const within = (time) => px(x(clamp(time, ...episode.story.span)));
        for (const bar of entry.bars) paintBar(svg, bar, within, y, row);
        for (const dot of entry.dots) paintDot(svg, dot, within, y, row);
        rowWords(svg, entry, labels[at], left, within, y, row);
      });
      if (over < episode.story.span[1])
        draw("line", { class: "axis over", x1: px(x(over)), x2: px(x(over)), y1: 0, y2: tall - 16 }, svg);
    },
  };
}

/** The label of a row in front of it, and what went wrong behind its last mark, or before the first if there is room. */
function rowWords(svg, entry, label, left, within, y, row) {
  const style = entry.vehicle === null ? "" : `fill: ${vehicleColour(entry.vehicle)}`;
  const at = { y: px(y), "dominant-baseline": "central" };
  if (label) tooltip(draw("text", { class: "tiny end", x: left - 6, style, ...at }, svg, label), entry.label);
  if (!entry.note || row <= 9) return;
  const ends = [...entry.bars.map(({ end }) => end), ...entry.dots.map(({ time }) => time)];
  const x = within(Math.max(episode.story.span[0], ...ends));
  const words = cut(entry.note, 24);
  const needs = 7 + 5.2 * words.length;
  const hasRoom = x + needs < svg.viewBox.baseVal.width;
  const first = within(Math.min(...entry.bars.map(({ begin }) => begin), ...entry.dots.map(({ time }) => time)));
  const before = (first - needs > left ? first : x) - 7;
  draw("text", { class: `tiny fault halo${hasRoom ? "" : " end"}`, x: hasRoom ? x + 7 : before, ...at }, svg, words);
}

function paintBar(svg, { begin, end, look, vehicle, where, thick, words }, x, middle, row) {
  const colour = lookColour(look, vehicle);
  const y = middle - where * row;
  const [from, to] = [x(begin), x(end)];
  let mark;
  if (thick) {
    const box = {
      x: from,
      width: Math.max(to - from, 0.6),
      y: px(y - (thick * row) / 2),
      height: px(thick * row),
      rx: 1.5,
    };
    const isDashed = DASHED.includes(look);
    const style = isDashed ? `fill: none; stroke: ${colour}; stroke-dasharray: 3 2` : `fill: ${colour}`;
    mark = draw("rect", { class: `bar-of ${look.replace(" ", "-")}`, style, ...box }, svg);
  } else {
    const tick = look === "known" ? `M${from} ${px(y - row * 0.3)}V${px(y + row * 0.3)}` : "";
    const style = `fill: none; stroke: ${colour}; stroke-width: ${LINE_WIDTHS[look] ?? 2.2}`;
    mark = draw("path", { d: `${tick}M${from} ${px(y)}H${to}`, style }, svg);
  }
  if (words) tooltip(mark, words);
}

function paintDot(svg, { time, look, vehicle, where, shape, words }, x, middle, row) {
  const size = clamp(row * 0.3, 2, 4.6) / 6.5;
  const transform = `translate(${x(time)} ${px(middle - where * row)}) scale(${size.toFixed(3)})`;
  const { fill, edge } = dotColours(look, vehicle);
  const style = `fill: ${fill}; stroke: ${edge}; stroke-width: 1.5`;
  const d = OUTLINES[shape || "customer"];
  const mark = draw("path", { d, transform, style, "vector-effect": "non-scaling-stroke" }, svg);
  if (words) tooltip(mark, words);
}

/** As on the map: in the colour of the vehicle, with an edge that says how it went; or the other way round. */
function dotColours(look, vehicle) {
  const colour = vehicle === null ? null : vehicleColour(vehicle);
  if (!episode.story.by_vehicle || colour === null)
    return { fill: lookColour(look, vehicle), edge: colour ?? "var(--card)" };
  return { fill: look === "lost" ? LOOK_COLOURS.lost : colour, edge: look === "late" ? "var(--bad)" : "var(--card)" };
}

/** The mark of a look in the legend of a chart. */
function keyMark(look) {
  const colour = lookColour(look, null) === "var(--accent)" ? colourOf(0) : LOOK_COLOURS[look];
  if (["service", "on time", "late", "lost", "gain"].includes(look)) {
    const isEdged = look === "late" && episode.story.by_vehicle;
    return { kind: "dot", colour: isEdged ? colourOf(0) : colour, edge: isEdged ? "var(--bad)" : "none" };
  }
  if (DASHED.includes(look)) return { kind: "box", edge: colour, dash: "3 2" };
  const isLine = ["known", "approach", "ride", "late ride", "delay"].includes(look);
  return { kind: isLine ? "line" : "box", colour, width: LINE_WIDTHS[look] };
}

/** A lane for each vehicle, filled up to its level. */
function levelsChart({ vehicles: indices, shaded }, { end }) {
  const { vehicles } = episode.story;
  const lanes = indices.map((index) => ({ ...vehicles[index], index }));
  const row = clamp(160 / Math.max(lanes.length, 1), 14, 34);
  const labels = lanes.map(({ name, sign }) => cut(sign || name, 12));
  const left = labelRoom(labels, 30);
  return {
    left,
    legend: shaded ? shadeKeys(lanes) : [],
    height: () => row * lanes.length + 24,
    note: (clock) => (lanes.length > 4 ? "" : lanes.map((vehicle) => levelWords(vehicle, clock)).join(" · ")),
    paint(svg, width, x) {
      lanes.forEach((vehicle, lane) => {
        const base = 3 + row * (lane + 1) - 3;
        const colour = vehicleColour(vehicle.index);
        if (shaded) for (const activity of vehicle.activities) shade(svg, activity, x, base, row);
        draw("line", { class: "axis", x1: left, x2: width - 10, y1: base, y2: base }, svg);
        const most = Math.max(vehicle.capacity, ...vehicle.levels.map(([, level]) => level)) || 1;
        const y = (level) => px(base - (level / most) * (row - 5));
        draw("path", { class: "filling", d: levelPath(vehicle, end, x, y), style: `--colour: ${colour}` }, svg);
        const label = draw("text", { class: "tiny end", x: left - 6, y: base - 2 }, svg, labels[lane]);
        tooltip(label, vehicle.name);
      });
    },
  };
}

/** What the shades mean that occur. */
function shadeKeys(lanes) {
  const names = new Set(lanes.flatMap(({ activities }) => activities.map(({ name }) => name)));
  const wordsOf = (name) => episode.story.words[name] ?? ACTIVITY_WORDS[name];
  const shades = Object.keys(ACTIVITY_WORDS).filter((name) => names.has(name) && wordsOf(name));
  return shades.map((name) => [{ kind: "box", className: `shade ${name}` }, wordsOf(name)]);
}

/** The stretch of time in which a vehicle does something, behind its level. */
function shade(svg, { begin, end, name }, x, base, row) {
  const box = { x: px(x(begin)), width: px(Math.max(x(end) - x(begin), 0)), y: base - row + 4, height: row - 4 };
  draw("rect", { class: `shade ${name}`, ...box }, svg);
}

/** The outline of levels from the first to the last: shares change evenly, others jump. */
function levelPath({ levels, is_share: isShare }, end, x, y) {
  if (!levels.length) return "M0 0";
  let path = `M${px(x(levels[0][0]))} ${y(0)}`;
  let before = 0;
  for (const [time, level] of levels) {
    path += `${isShare ? "" : `L${px(x(time))} ${y(before)}`}L${px(x(time))} ${y(level)}`;
    before = level;
  }
  const last = isShare || end < levels.at(-1)[0] ? levels.at(-1)[0] : end;
  return `${path}L${px(x(last))} ${y(before)}L${px(x(last))} ${y(0)}`;
}

/** Numbers that grow over time. */
function countsChart({ title, series }, { end: last }) {
  const [first] = episode.story.span;
  const lines = series.map(([words, look, times]) => ({
    words,
    colour: lookColour(look, null),
    times,
    points: [
      [first, 0],
      ...times.flatMap((time, at) => [
        [time, at],
        [time, at + 1],
      ]),
      [last, times.length],
    ],
  }));
  const ends = sharedScale(title, [0, ...lines.map(({ times }) => times.length)]);
  const soFar = (times, clock) => (clock === null ? times.length : times.filter((time) => time <= clock).length);
  return {
    left: 44,
    height: () => 96,
    legend: lines.map(({ words, colour }) => [{ kind: "line", colour }, words]),
    note: (clock) => lines.map(({ words, times }) => `${soFar(times, clock)} ${words}`).join(" · "),
    paint(svg, width, x) {
      const y = valueAxis(svg, ends, 6, 74, 44, true);
      for (const { points, colour } of lines) {
        const d = curve(
          points.map(([, count]) => count),
          points.map(([time]) => time),
          x,
          y,
        );
        draw("path", { class: "line", d, style: `--colour: ${colour}; stroke-width: 1.6` }, svg);
      }
    },
  };
}

/** Numbers over time. */
function linesChart({ title, lines }) {
  const values = lines.flatMap(([, , points]) => points.map(([, value]) => value));
  const ends = sharedScale(title, values.length ? values : [0]);
  const coloured = lines.map(([words, vehicle, points], at) => ({
    words,
    points,
    colour: vehicle === null ? colourOf(at) : vehicleColour(vehicle),
  }));
  return {
    left: 44,
    height: () => 96,
    legend: lines.length > 1 ? coloured.map(({ words, colour }) => [{ kind: "line", colour }, cut(words, 24)]) : [],
    note: (clock) =>
      lines.length > 4
        ? ""
        : coloured.map(({ points }) => shown(heldAt(points, clock, points[0]?.[1] ?? null))).join(" · "),
    paint(svg, width, x) {
      const y = valueAxis(svg, ends, 6, 74, 44, false);
      for (const { points, colour } of coloured) {
        const d = curve(
          points.map(([, value]) => value),
          points.map(([time]) => time),
          x,
          y,
        );
        draw("path", { class: "line", d, style: `--colour: ${colour}; stroke-width: 1.6; opacity: 0.9` }, svg);
      }
    },
  };
}
