/** From so many actions on, those that are not allowed are left out. */
const MANY_ACTIONS = 14;

/** Least probability of an alternative that is named. */
const LIKELY = 0.01;

/**
 * A card: `agent` (or null) for what it could do and did, `tell(time, mode)` gives {status, tone, note, level, levelText, over}.
 * `level` in [0, 1] shows as a bar; `levelName` names it.
 */
function agentCard({ title, colour, agent, tell, levelName, levelColour }) {
  const card = make("section", { className: "card agent", "aria-label": title }, pane.elements.agents);
  card.style.setProperty("--colour", colour);
  const head = make("h2", {}, card);
  make("span", { textContent: title, title }, head);
  const status = make("i", {}, head);
  const note = make("b", {}, head);
  const bar = levelName && levelBar(card, levelName);
  const actions = agent && !episode.is_plan ? actionsOf(card, agent) : null;
  return (time, mode) => {
    const now = tell(time, mode);
    status.textContent = now.status;
    status.dataset.tone = now.tone ?? "";
    note.textContent = note.title = now.note ?? "";
    card.classList.toggle("over", Boolean(now.over));
    bar?.(now.level, now.levelText, levelColour?.(now.level));
    actions?.(mode === "steps" ? Math.min(Math.floor(time), LAST) : null);
  };
}

function levelBar(card, name) {
  const row = make("div", { className: "level" }, card);
  make("span", { textContent: name }, row);
  const track = make(
    "div",
    { className: "track", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 1 },
    row,
  );
  const fill = make("span", {}, track);
  const text = make("output", { "aria-live": "off" }, row);
  return (level, words, colour) => {
    const share = clamp(level, 0, 1);
    fill.style.transform = `scaleX(${share.toFixed(3)})`;
    fill.style.setProperty("--level", colour ?? "var(--colour)");
    track.setAttribute("aria-valuenow", share.toFixed(2));
    text.textContent = words;
  };
}

/** What an agent does, what it could do, and why the rest is masked; drawn when its step changes. */
function actionsOf(card, agent) {
  const parts = [choiceLine(card, agent)];
  if (episode.actions[agent.role]) parts.push(actionLists(card, agent), maskedActions(card, agent));
  let before = -1;
  return (time) => {
    if (time === before) return;
    before = time;
    for (const draw of parts) draw(time);
  };
}

/** What stands in an entry of `steps` for an agent under a key; undefined if nothing does. */
const entryAt = (at, key, agent) => (at === null ? undefined : steps[at][key]?.[agent.role]?.[agent.index]);

const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

/** The action, always in sight; how probable it and others were, the value, and what became of it if something else. */
function choiceLine(card, agent) {
  const names = episode.actions[agent.role];
  const line = make("p", { className: "choice" }, card);
  const chosen = make("b", { className: "chosen" }, line);
  const odds = make("span", {}, line);
  const value = make("output", { "aria-live": "off", title: "the return that the critic expects from here on" }, line);
  const instead = make("p", { className: "instead", hidden: true }, card);
  return (at) => {
    const action = entryAt(at, "action", agent) ?? null;
    const probability = entryAt(at, "probability", agent);
    const expected = entryAt(at, "value", agent);
    chosen.textContent = action === null ? "\u00a0" : names ? names[action] : numbersOf(action);
    chosen.classList.toggle("empty", action === null);
    chosen.classList.toggle("numbers", !names);
    const forbidden = names && action !== null && entryAt(at, "mask", agent)[action] === "0";
    chosen.classList.toggle("forbidden", Boolean(forbidden));
    odds.textContent = odds.title = probability ? oddsOf(probability, action, names, entryAt(at, "mask", agent)) : "";
    value.textContent = expected === undefined ? "" : `value ${shown(expected)}`;
    const words = forbidden ? `not allowed${whyOf(at, agent, action)}` : entryAt(at, "instead", agent);
    instead.hidden = !words;
    instead.textContent = words ?? "";
  };
}

const numbersOf = (action) => `action ${action.map((x) => (x === null ? "none" : x.toFixed(2))).join("  ")}`;

/** How probable the action was, and the two next best. */
function oddsOf(probability, action, names, mask) {
  if ([...mask].filter((digit) => digit === "1").length === 1) return "the only choice";
  const others = [...probability.keys()]
    .filter((other) => other !== action && probability[other] >= LIKELY)
    .sort((a, b) => probability[b] - probability[a])
    .slice(0, 2)
    .map((other) => `${names[other]} ${percent(probability[other])}`);
  return [action === null ? [] : [percent(probability[action])], others].flat().join(" · ");
}

function whyOf(at, agent, action) {
  const group = entryAt(at, "why", agent)?.find(([, actions]) => actions.includes(action));
  return group ? `: ${group[0]}` : "";
}

/** Actions whose names differ by their number, or by the name after a verb in capitals, together: [{label, stem, actions}]; single ones without a label. */
function families(names) {
  const found = new Map();
  names.forEach((name, action) => {
    const stem = name.match(/^([A-Z]+ )./)?.[1] ?? name.match(/^(.*?)\d+$/)?.[1] ?? "";
    if (!found.has(stem)) found.set(stem, []);
    found.get(stem).push(action);
  });
  const lone = [...found].filter(([stem, actions]) => !stem || actions.length === 1).flatMap(([, actions]) => actions);
  const rows = [...found].filter(([stem, actions]) => stem && actions.length > 1);
  return [
    ...(lone.length ? [{ label: "", stem: "", actions: lone.sort((a, b) => a - b) }] : []),
    ...rows.map(([stem, actions]) => ({ label: stem.replace(/[\s_]+$/, ""), stem, actions })),
  ];
}

/** All actions, in a row for each family: which are allowed, which is chosen, and how probable they were. */
function actionLists(card, agent) {
  const names = episode.actions[agent.role];
  const box = make("div", { className: "families", "aria-label": "What it can do, and does" }, card);
  box.classList.toggle("legal-only", names.length > MANY_ACTIONS);
  const rows = families(names).map(({ label, stem, actions }) => {
    const row = make("div", { className: "family" }, box);
    if (label) make("span", { className: "label", textContent: label, "aria-hidden": true }, row);
    const list = make("ul", { className: "chips" }, row);
    const chips = actions.map((action) => actionChip(list, names[action], stem));
    return { row, actions, chips };
  });
  return (at) => {
    const mask = entryAt(at, "mask", agent) ?? "";
    const action = entryAt(at, "action", agent);
    const probability = entryAt(at, "probability", agent);
    for (const { row, actions, chips } of rows) {
      chips.forEach((chip, place) => {
        const index = actions[place];
        const share = probability?.[index] ?? 0;
        chip.className = `${mask[index] === "1" ? "can" : ""}${index === action ? " does" : ""}`;
        chip.style.setProperty("--share", share.toFixed(3));
        chip.title = probability && mask[index] === "1" ? `${names[index]}: ${percent(share)}` : names[index];
      });
      row.classList.toggle("none", !chips.some((chip) => chip.className));
    }
  };
}

function actionChip(list, name, stem) {
  const chip = make("li", {}, list);
  if (stem) make("span", { className: "stem", textContent: stem }, chip);
  chip.append(cut(name.slice(stem.length), 18));
  return chip;
}

/** Why actions are masked, each reason with what it forbids. */
function maskedActions(card, agent) {
  const names = episode.actions[agent.role];
  const box = make("details", { className: "why", hidden: true }, card);
  const head = make("summary", {}, box);
  const list = make("ul", {}, box);
  return (at) => {
    const groups = sameReasons(entryAt(at, "why", agent) ?? []);
    box.hidden = !groups.length;
    const count = groups.flatMap(({ cases }) => cases.flatMap(([, actions]) => actions)).length;
    const why = groups.length === 1 ? groups[0].text : `${groups.length} reasons`;
    head.textContent = `${count} masked: ${why}`;
    list.replaceChildren();
    for (const { text, cases } of groups) {
      const entry = make("li", {}, list);
      make("span", { textContent: text }, entry);
      const words = cases.map(([numbers, actions]) => {
        const amount = cases.length > 1 && numbers ? ` (${numbers})` : "";
        return `${listed(names, actions)}${amount}`;
      });
      make("b", { textContent: words.join(cases.length > 1 ? " · " : ", ") }, entry);
    }
  };
}

/** Reasons that differ by their numbers alone, together: [{text, cases: [[numbers, actions]]}]. */
function sameReasons(groups) {
  const found = new Map();
  for (const [text, actions] of groups) {
    const numbers = (text.match(/\d+(\.\d+)?/g) ?? []).join(", ");
    const kind = text.replace(/\d+(\.\d+)?/g, "…");
    if (!found.has(kind)) found.set(kind, []);
    found.get(kind).push([text, numbers, actions]);
  }
  return [...found].map(([kind, cases]) => ({
    text: cases.length > 1 ? kind : cases[0][0],
    cases: cases.map(([, numbers, actions]) => [numbers, actions]),
  }));
}

/** Actions in words, those of a family as ranges of their numbers: "RETURN, DELIVER 0–3, 7". */
function listed(names, actions) {
  const chosen = new Set(actions);
  return families(names)
    .flatMap(({ label, stem, actions: family }) => {
      const members = family.filter((action) => chosen.has(action));
      if (!label || !members.length) return members.map((action) => names[action]);
      const ends = members.map((action) => names[action].slice(stem.length));
      return [`${label} ${ends.every((end) => /^\d+$/.test(end)) ? ranges(ends.map(Number)) : ends.join(", ")}`];
    })
    .join(", ");
}

function ranges(numbers) {
  const runs = [];
  for (const number of numbers) {
    const run = runs.at(-1);
    if (run && number === run[1] + 1) run[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([low, high]) => (low === high ? `${low}` : `${low}–${high}`)).join(" ");
}

/** Who was not served in the end, and why: a card to be shown then. */
function shortfallCard() {
  const { title, entries } = episode.shortfalls ?? { entries: [] };
  if (!entries.length) return null;
  const card = make("details", { className: "card", open: entries.length <= 6 }, pane.elements.shortfalls);
  make("summary", { textContent: `${title}: ${entries.length}` }, card);
  const list = make("dl", {}, card);
  for (const { name, why } of entries) {
    const entry = make("div", {}, list);
    make("dt", { textContent: name }, entry);
    make("dd", { textContent: why }, entry);
  }
  return card;
}
