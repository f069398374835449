// The bar above an episode, the members of its group, and their comparison: a column per member, a row per turn.

const LEGEND = {
  logprob: ["likely", ["rare0", "rare1", "rare2", "rare3", "rare4", "rare5", "rare6"], "unlikely"],
  other: ["−", ["minus4", "minus3", "minus2", "minus1", "", "plus1", "plus2", "plus3", "plus4"], "+"],
};

const ROOMY_COLUMN = 190, NARROW_COLUMN = 132; // pixels of a member's column beside the list, and without it

function legend() {
  if (colour.by === "none") return el("span", {class: "legend"});
  const [low, classes, high] = LEGEND[colour.by] ?? LEGEND.other;
  const top = colour.by === "logprob" ? "" : formatNumber(colour.top[colour.by] ?? 0);
  return el("span", {class: "legend", "aria-hidden": "true"},
    `${low}${top}`, classes.map((name) => el("i", {class: name})), `${high}${top}`);
}

function detailBar(row, isComparing) {
  const names = ["logprob", ...Object.keys(colour.top), "none"];
  if (!names.includes(colour.by)) colour.by = "logprob";
  const choice = el("select", {id: "colour", change: (event) => {
    colour.by = event.target.value;
    detail.querySelector(".legend").replaceWith(legend());
    recolour();
  }}, names.map((name) => el("option", {value: name, selected: name === colour.by}, name === "logprob" ? "log-probability" : name)));
  const count = groups.get(row.groupKey).length;
  const place = [row.update < 0 ? null : `Update ${row.update}`, `group ${row.group}`, isComparing ? null : `member ${memberLabel(row)}`];
  return el("div", {class: "bar"},
    el("button", {type: "button", class: "back", click: leave}, "← Episodes"),
    el("h2", {}, place.filter(Boolean).join(", ")),
    el("label", {class: "by"}, "Colour ", choice), legend(),
    count > 1 ? el("button", {type: "button", id: "compare", title: "group members side by side", "aria-pressed": String(isComparing), click: toggleCompare},
      isComparing ? "One episode" : `Compare ${count}`) : null);
}

function memberButtons(row, isComparing) {
  const group = groups.get(row.groupKey);
  if (group.length < 2) return el("nav", {class: "mates"});
  const buttons = group.map((mate) => {
    const [sign, kind, word] = outcome(mate);
    const pressed = isComparing ? !hiddenMembers.has(mate.i) : mate === row;
    return el("button", {type: "button", class: `mate ${kind}`, "aria-pressed": String(pressed),
      "aria-label": `member ${memberLabel(mate)}, ${word}, return ${formatNumber(mate.reward)}`,
      click: () => isComparing ? toggleMember(mate, row) : selectRow(mate)},
    kind === "lost" ? null : el("span", {class: `sign ${kind}`}, `${sign} `), `${memberLabel(mate)}: `, el("b", {}, formatNumber(mate.reward)));
  });
  return el("nav", {class: "mates", "aria-label": isComparing ? "Members shown" : "Group mates"},
    isComparing ? "shown" : "members", buttons);
}

function toggleMember(mate, row) {
  if (!hiddenMembers.delete(mate.i)) hiddenMembers.add(mate.i);
  showGroup(row);
}

// The members in bands, one below the other, of as many columns as fit without scrolling sideways.
function bandsOf(members) {
  const width = (alone) => (alone ? document.body.clientWidth : detail.clientWidth) - 30;
  document.body.classList.remove("alone"); // the list stays beside a comparison that leaves room for it
  const isTight = width(false) < members.length * ROOMY_COLUMN;
  document.body.classList.toggle("alone", isTight);
  const most = Math.max(1, Math.floor(width(isTight) / NARROW_COLUMN));
  const count = Math.ceil(members.length / most);
  const size = Math.ceil(members.length / Math.max(count, 1));
  return Array.from({length: count}, (_, b) => members.slice(b * size, (b + 1) * size));
}

function memberBand(members, size, longest, opening) {
  const episodes = members.map(episodeOf);
  const band = el("div", {class: "band"});
  band.style.gridTemplateColumns = `repeat(${size}, minmax(0, 1fr))`;
  const rowOf = (cells) => band.append(...cells, ...Array.from({length: size - cells.length}, () => el("div")));
  rowOf(members.map((mate, m) => memberHeader(mate, episodes[m])));
  for (let k = 0; k < longest; k++) rowOf(episodes.map((episode) => turnCell(episode.turns[k], k, k === 0 && opening)));
  rowOf(members.map((mate, m) => endCard(mate, episodes[m])));
  return band;
}

function showGroup(row) {
  const members = groups.get(row.groupKey).filter((mate) => !hiddenMembers.has(mate.i));
  const episodes = members.map(episodeOf);
  updateScales(episodes);
  const opening = sharedOpening(episodes);
  const grid = el("div", {class: "compared", tabindex: 0, role: "group", "aria-label": "Members side by side"});
  if (opening) {
    grid.append(el("article", {class: "turn opening"}, el("header", {}, el("h3", {}, "Shown to all")),
      opening.map((message) => messageBox(message, "environment"))));
  }
  detail.classList.add("comparing");
  const bands = bandsOf(members);
  grid.classList.toggle("tight", bands[0]?.length > 0 && document.body.classList.contains("alone"));
  for (const band of bands) {
    grid.append(memberBand(band, bands[0].length, Math.max(0, ...band.map((mate) => mate.turns)), opening));
  }
  const answer = episodes[0]?.answer;
  const taskFacts = [row.task && fact("task", row.task), answer !== undefined && fact("answer", typeof answer === "string" ? answer : JSON.stringify(answer))];
  detail.replaceChildren(detailBar(row, true), el("p", {class: "about"}, taskFacts.filter(Boolean)), memberButtons(row, true), grid);
  detail.scrollTop = 0;
  markHits();
}

function memberHeader(mate, episode) {
  const [sign, kind, word] = outcome(mate);
  return el("div", {class: "column"},
    el("button", {type: "button", class: "small", click: () => { leaveCompare(); selectRow(mate); }}, `member ${memberLabel(mate)}`),
    el("span", {class: `sign ${kind}`, title: word}, sign),
    fact("return", mate.reward), mate.advantage === null ? null : fact("advantage", mate.advantage),
    el("span", {class: "muted"}, `${mate.stop}, ${plural(episode.turns.length, "turn")}`));
}

function turnCell(turn, k, opening) {
  return turn ? lazyTurn(k, () => turnCard(turn, k, opening)) : el("div");
}

// The first observation if it is the same for all members, else null.
function sharedOpening(episodes) {
  const openings = episodes.map((episode) => JSON.stringify(episode.turns[0]?.observation ?? null));
  const isShared = episodes.length > 1 && openings[0] !== "null" && openings.every((opening) => opening === openings[0]);
  return isShared ? episodes[0].turns[0].observation : null;
}
