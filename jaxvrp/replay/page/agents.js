/** From so many actions on, those that are not allowed are left out. */
const MANY_ACTIONS = 14;

/**
 * A card: `agent` (or null) for what it could do and did, `tell(time, mode)` gives {status, tone, note, level, levelText, over}.
 * `level` in [0, 1] shows as a bar; `levelName` names it.
 */
function agentCard({ title, colour, agent, tell, levelName, levelColour }) {
  const card = make("section", { className: "card agent", "aria-label": title }, document.getElementById("agents"));
  card.style.setProperty("--colour", colour);
  const head = make("h2", { textContent: title }, card);
  const status = make("i", {}, head);
  const note = make("b", {}, head);
  const bar = levelName && levelBar(card, levelName);
  const actions = agent && actionList(card, agent);
  return (time, mode) => {
    const now = tell(time, mode);
    status.textContent = now.status;
    status.dataset.tone = now.tone ?? "";
    note.textContent = note.title = now.note ?? "";
    card.classList.toggle("over", Boolean(now.over));
    bar?.(now.level, now.levelText, levelColour?.(now.level));
    actions?.(mode === "steps" ? time : null);
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

/** What an agent can do, and what it does; the numbers that it gives if its actions have no names. */
function actionList(card, agent) {
  const names = episode.actions[agent.role];
  const chosen = (at) => steps[at].action?.[agent.role][agent.index];
  if (!names) {
    const numbers = make("div", { className: "numbers" }, card);
    return (time) => {
      const action = time === null ? undefined : chosen(Math.floor(time));
      numbers.textContent = action
        ? `action ${action.map((x) => (x === null ? "none" : x.toFixed(2))).join("  ")}`
        : "\u00a0";
    };
  }
  const list = make("ul", { className: "chips", "aria-label": "What it can do, and does" }, card);
  list.classList.toggle("legal-only", names.length > MANY_ACTIONS);
  const chips = names.map((name) => make("li", { textContent: name }, list));
  let before = -1;
  return (time) => {
    const at = time === null ? -1 : Math.floor(time);
    if (at === before) return;
    before = at;
    const mask = at < 0 ? "" : steps[at].mask[agent.role][agent.index];
    const action = at < 0 ? undefined : chosen(at);
    chips.forEach((chip, index) => {
      chip.className = `${mask[index] === "1" ? "can" : ""}${index === action ? " does" : ""}`;
    });
  };
}
