// The bar above an episode, its group mates, and their comparison: a column for each member, a line for each turn.

const LEGEND = {
  logprob: ["likely", ["rare0", "rare1", "rare2", "rare3", "rare4", "rare5", "rare6"], "unlikely"],
  other: ["−", ["minus4", "minus3", "minus2", "minus1", "", "plus1", "plus2", "plus3", "plus4"], "+"],
};

function legend() {
  if (colour.by === "none") return el("span", {class: "legend"});
  const [low, classes, high] = LEGEND[colour.by] ?? LEGEND.other;
  const top = colour.by === "logprob" ? "" : number(colour.top[colour.by] ?? 0);
  return el("span", {class: "legend", "aria-hidden": "true"},
    `${low}${top}`, classes.map((name) => el("i", {class: name})), `${high}${top}`);
}

function bar(row, comparing) {
  const names = ["logprob", ...Object.keys(colour.top), "none"];
  if (!names.includes(colour.by)) colour.by = "logprob";
  const choice = el("select", {id: "colour", change: (event) => {
    colour.by = event.target.value;
    detail.querySelector(".legend").replaceWith(legend());
    recolour();
  }}, names.map((name) => el("option", {value: name, selected: name === colour.by}, name === "logprob" ? "log-probability" : name)));
  const count = groups.get(row.mates).length;
  const place = [row.update < 0 ? null : `Update ${row.update}`, `group ${row.group}`, comparing ? null : `member ${who(row)}`];
  return el("div", {class: "bar"},
    el("button", {type: "button", class: "back", click: leave}, "← Episodes"),
    el("h2", {}, place.filter(Boolean).join(", ")),
    el("label", {class: "by"}, "Colour ", choice), legend(),
    count > 1 ? el("button", {type: "button", id: "compare", title: "group members side by side", "aria-pressed": String(comparing), click: toggleCompare},
      comparing ? "One episode" : `Compare ${count}`) : null);
}

function mates(row, comparing) {
  const all = groups.get(row.mates);
  if (all.length < 2) return el("nav", {class: "mates"});
  const buttons = all.map((mate) => {
    const [sign, kind, word] = outcome(mate);
    const pressed = comparing ? !hidden.has(mate.i) : mate === row;
    return el("button", {type: "button", class: `mate ${kind}`, "aria-pressed": String(pressed),
      "aria-label": `member ${who(mate)}, ${word}, return ${number(mate.reward)}`,
      click: () => comparing ? toggleMember(mate, row) : select(mate)},
    kind === "lost" ? null : el("span", {class: `sign ${kind}`}, `${sign} `), `${who(mate)}: `, el("b", {}, number(mate.reward)));
  });
  return el("nav", {class: "mates", "aria-label": comparing ? "Members shown" : "Group mates"},
    comparing ? "shown" : "members", buttons);
}

function toggleMember(mate, row) {
  if (!hidden.delete(mate.i)) hidden.add(mate.i);
  showGroup(row);
}

function showGroup(row) {
  const all = groups.get(row.mates);
  const members = all.filter((mate) => !hidden.has(mate.i));
  const episodes = members.map(episodeOf);
  measure(episodes);
  const opening = shared(episodes);
  const longest = Math.max(0, ...episodes.map((episode) => episode.turns.length));
  const grid = el("div", {class: "compared", tabindex: 0, role: "group", "aria-label": "Members side by side"});
  grid.style.gridTemplateColumns = `repeat(${members.length}, minmax(12rem, 1fr))`;
  if (opening) {
    grid.append(el("article", {class: "turn opening"}, el("header", {}, el("h3", {}, "Shown to all")),
      opening.map((said) => message(said, "environment"))));
  }
  grid.append(...members.map((mate, m) => column(mate, episodes[m])));
  for (let k = 0; k < longest; k++) {
    for (const episode of episodes) grid.append(cell(episode.turns[k], k, k === 0 && opening));
  }
  grid.append(...members.map((mate, m) => ending(mate, episodes[m])));
  const answer = episodes[0]?.answer;
  const about = [row.task && fact("task", row.task), answer !== undefined && fact("answer", typeof answer === "string" ? answer : JSON.stringify(answer))];
  detail.classList.add("comparing");
  detail.replaceChildren(bar(row, true), el("p", {class: "about"}, about.filter(Boolean)), mates(row, true), grid);
  detail.scrollTop = 0;
}

function column(mate, episode) {
  const [sign, kind, word] = outcome(mate);
  return el("div", {class: "column"},
    el("button", {type: "button", class: "small", click: () => { leaveCompare(); select(mate); }}, `member ${who(mate)}`),
    el("span", {class: `sign ${kind}`, title: word}, sign),
    fact("return", mate.reward), mate.advantage === null ? null : fact("advantage", mate.advantage),
    el("span", {class: "muted"}, `${mate.stop}, ${plural(episode.turns.length, "turn")}`));
}

function cell(turn, k, opening) {
  return turn ? later(k, () => turnCard(turn, k, opening)) : el("div");
}

// What every member is shown before its first reply, if that is the same.
function shared(episodes) {
  const openings = episodes.map((episode) => JSON.stringify(episode.turns[0]?.observation ?? null));
  const same = episodes.length > 1 && openings[0] !== "null" && openings.every((opening) => opening === openings[0]);
  return same ? episodes[0].turns[0].observation : null;
}
