VIEWS.pcb = (seek) => {
  const { components, outline, pins, nets } = episode;
  const owner = new Map(agents.map((agent, at) => [episode.agents[at].component, agent.at]));
  const toneOf = (part) => (owner.has(part) ? colourOf(owner.get(part)) : "var(--faint)");
  const signal = pins.map((pin) => pin.net !== null && nets[pin.net].rail === 0);
  const seen = extent();
  let scene = null;

  /** The board, and all that ever sticks out of it. */
  function extent() {
    const axis = (which) =>
      steps.reduce(
        ([low, high], step) => {
          const sides = components.map(({ size }, part) => {
            const half = size[step.orientations[part] % 2 ? 1 - which : which] / 2;
            return [step.positions[part][which] - half, step.positions[part][which] + half];
          });
          return [Math.min(low, ...sides.map(([side]) => side)), Math.max(high, ...sides.map(([, side]) => side))];
        },
        [0, outline[which]],
      );
    return { x: axis(0), y: axis(1) };
  }

  /** Where everything is at a time: centres, and angles in radians, counter-clockwise on screen. */
  function poseAt(time) {
    const at = Math.min(Math.floor(time), LAST);
    const now = steps[at];
    const then = steps[Math.min(at + 1, LAST)];
    return components.map((_, part) => {
      const turn = ((then.orientations[part] - now.orientations[part] + 6) % 4) - 2;
      return {
        centre: between(now.positions[part], then.positions[part], time - at),
        angle: ((now.orientations[part] + turn * (time - at)) * Math.PI) / 2,
        turned: now.orientations[part] % 2 === 1,
      };
    });
  }

  function layout(svg, width, height) {
    const { to, scale } = projection(seen.x, seen.y, width, height, 14, true);
    const corner = to([0, 0]);
    draw("rect", { class: "ground", width, height }, svg);
    draw(
      "rect",
      {
        class: "board",
        x: corner[0],
        y: corner[1],
        width: px(outline[0] * scale),
        height: px(outline[1] * scale),
        rx: 3,
      },
      svg,
    );
    const parts = components.map((component, part) => partMark(svg, component, part, scale));
    const wires = draw("path", { class: "wire" }, svg);
    const pads = pins.map((_, pin) =>
      draw("circle", { class: `pad${signal[pin] ? "" : " power"}`, r: px(clamp(0.22 * scale, 1.6, 4)) }, svg),
    );
    const clashes = draw("path", { class: "clash" }, svg);
    const names = components.map((component) => draw("text", { class: "small mid halo" }, svg, component.name));
    scene = { to, scale, parts, wires, pads, clashes, names };
  }

  function partMark(svg, component, part, scale) {
    const group = draw(
      "g",
      {
        class: `part${component.fixed ? " fixed" : ""}${component.side ? " under" : ""}`,
        style: `--colour: ${toneOf(part)}`,
      },
      svg,
    );
    const [width, height] = component.size.map((side) => Math.max(side * scale, 2));
    tooltip(
      group,
      `${component.name}: ${shown(component.size[0])} × ${shown(component.size[1])}${component.fixed ? ", fixed" : ""}`,
    );
    draw("rect", { x: px(-width / 2), y: px(-height / 2), width: px(width), height: px(height), rx: 2 }, group);
    // A notch shows which way it is turned.
    draw("circle", { cx: px(-width / 2 + 5), cy: px(-height / 2 + 5), r: 2, fill: toneOf(part) }, group);
    return group;
  }

  /** Places of all pads on the board. */
  function padsAt(poses) {
    return pins.map((pin) => {
      const { centre, angle } = poses[pin.component];
      const [x, y] = pin.offset;
      // y points down, so counter-clockwise on screen is (x, y) to (y, -x) for a quarter.
      return [
        centre[0] + x * Math.cos(angle) + y * Math.sin(angle),
        centre[1] - x * Math.sin(angle) + y * Math.cos(angle),
      ];
    });
  }

  function drawFrame(time) {
    const poses = poseAt(time);
    poses.forEach(({ centre, angle }, part) => {
      const [x, y] = scene.to(centre);
      set(scene.parts[part], { transform: `translate(${x} ${y}) rotate(${px((-angle * 180) / Math.PI)})` });
      set(scene.names[part], { x, y });
    });
    const pads = padsAt(poses);
    pads.forEach((place, pin) => {
      const [cx, cy] = scene.to(place);
      set(scene.pads[pin], { cx, cy });
    });
    set(scene.wires, {
      d:
        nearestPads(pads)
          .map(([a, b]) => `M${scene.to(pads[a])}L${scene.to(pads[b])}`)
          .join("") || "M0 0",
    });
    set(scene.clashes, { d: clashesOf(poses).map(rectangle).join("") || "M0 0" });
  }

  /** Pairs [pad, nearest pad of its signal net on another part]. */
  function nearestPads(pads) {
    const pairs = [];
    pads.forEach((place, pin) => {
      if (!signal[pin]) return;
      let best = -1;
      let least = Infinity;
      pads.forEach((other, rival) => {
        if (pins[rival].net !== pins[pin].net || pins[rival].component === pins[pin].component) return;
        const gap = (place[0] - other[0]) ** 2 + (place[1] - other[1]) ** 2;
        if (gap < least) [least, best] = [gap, rival];
      });
      if (best >= 0) pairs.push([pin, best]);
    });
    return pairs;
  }

  const bodyOf = ({ centre, turned }, part) => {
    const [width, height] = turned ? [...components[part].size].reverse() : components[part].size;
    return [centre[0] - width / 2, centre[1] - height / 2, centre[0] + width / 2, centre[1] + height / 2];
  };

  /** Rectangles where parts of one side lie on each other, or off the board. */
  function clashesOf(poses) {
    const bodies = poses.map(bodyOf);
    const found = bodies.flatMap((body) => offBoard(body));
    bodies.forEach((body, part) => {
      bodies.slice(0, part).forEach((other, rival) => {
        if (components[part].side !== components[rival].side) return;
        const common = [
          Math.max(body[0], other[0]),
          Math.max(body[1], other[1]),
          Math.min(body[2], other[2]),
          Math.min(body[3], other[3]),
        ];
        if (common[0] < common[2] && common[1] < common[3]) found.push(common);
      });
    });
    return found;
  }

  function offBoard([left, top, right, bottom]) {
    const [width, height] = outline;
    const [inLeft, inRight] = [clamp(left, 0, width), clamp(right, 0, width)];
    const sides = [
      [left, top, Math.min(right, 0), bottom],
      [Math.max(left, width), top, right, bottom],
      [inLeft, top, inRight, Math.min(bottom, 0)],
      [inLeft, Math.max(top, height), inRight, bottom],
    ];
    return sides.filter((side) => side[0] < side[2] && side[1] < side[3]);
  }

  function rectangle([left, top, right, bottom]) {
    const [a, b] = [scene.to([left, top]), scene.to([right, bottom])];
    return `M${a}H${b[0]}V${b[1]}H${a[0]}Z`;
  }

  function tellPart(agent, time) {
    const at = Math.floor(time);
    const part = episode.agents[agent.at].component;
    const overlap = steps[at].overlap[part];
    return {
      status: overlap > 1e-5 ? `overlap ${Math.max(1, Math.round(100 * overlap))} %` : "free",
      tone: overlap > 1e-5 ? "bad" : "",
      note: `${90 * steps[at].orientations[part]}°`,
    };
  }

  legendEntry("movable part", (svg) =>
    draw("g", { class: "part", style: "--colour: var(--agent-0)" }, svg).append(
      draw("rect", { x: -8, y: -6, width: 16, height: 12, rx: 2 }),
    ),
  );
  legendEntry("fixed part", (svg) =>
    draw("g", { class: "part fixed" }, svg).append(draw("rect", { x: -8, y: -6, width: 16, height: 12, rx: 2 })),
  );
  legendEntry("part on the other side", (svg) =>
    draw("g", { class: "part under", style: "--colour: var(--agent-0)" }, svg).append(
      draw("rect", { x: -8, y: -6, width: 16, height: 12, rx: 2 }),
    ),
  );
  legendEntry("corner: which way a part is turned", (svg) => {
    const group = draw("g", { class: "part", style: "--colour: var(--agent-0)" }, svg);
    draw("rect", { x: -8, y: -6, width: 16, height: 12, rx: 2 }, group);
    draw("circle", { cx: -4, cy: -2, r: 2, fill: "var(--agent-0)" }, group);
  });
  legendEntry("pad of a signal", (svg) => draw("circle", { class: "pad", r: 4 }, svg));
  legendEntry("pad of a supply, or of no net", (svg) => draw("circle", { class: "pad power", r: 4 }, svg));
  legendEntry("nearest pad of the net", (svg) => draw("path", { class: "wire", d: "M-9 5L9 -5" }, svg));
  legendEntry("overlap, or off the board", (svg) =>
    draw("rect", { class: "clash", x: -8, y: -6, width: 16, height: 12 }, svg),
  );

  const hpwl = steps.map((step) => step.hpwl);
  const legal = (at) => steps[at].overlap.every((share, part) => components[part].fixed || share <= 1e-5);
  return {
    aspect: (seen.y[1] - seen.y[0]) / (seen.x[1] - seen.x[0]),
    label: `Board of ${components.length} parts, ${pins.length} pads, ${nets.length} nets`,
    layout,
    draw: drawFrame,
    cards: agents.map((agent) => ({
      title: agent.name,
      colour: colourOf(agent.at),
      agent,
      tell: (time) => tellPart(agent, time),
    })),
    charts: [
      lineChart({
        title: "Half-perimeter wirelength, mm",
        seek,
        series: [{ values: hpwl, colour: "var(--accent)" }],
        note: (at) => `${shown(hpwl[at])} mm`,
      }),
      lineChart({
        title: "Overlap, % of the parts' own area",
        seek,
        zero: true,
        series: components.map((_, part) => ({
          values: steps.map((step) => 100 * step.overlap[part]),
          colour: toneOf(part),
          name: owner.has(part) && owner.size <= 8 ? agents[owner.get(part)].name : "",
        })),
        note: (at) => (legal(at) ? "legal" : "not legal"),
      }),
      rewardChart(seek),
    ],
    ticks: [],
    events: legality(legal),
    summary: [
      ["return", shown(episode.summary.return)],
      ["HPWL", `${shown(hpwl[0])} → ${shown(hpwl[LAST])} mm`],
      ["in the end", legal(LAST) ? "legal" : "overlapping"],
      ["steps", `${LAST}`],
    ],
  };
};

/** Steps at which the placement became legal, or ceased to be. */
function legality(legal) {
  return steps.slice(1).flatMap((_, before) => {
    if (legal(before + 1) === legal(before)) return [];
    return [{ at: before + 1, text: legal(before) ? "not legal any more" : "the placement is legal" }];
  });
}
