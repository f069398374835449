// The bar above an episode, the members of its group, and episodes side by side, a column for each.

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

function detailBar(row) {
  const names = ["logprob", ...Object.keys(colour.top), "none"];
  if (!names.includes(colour.by)) colour.by = "logprob";
  const choice = el("select", {id: "colour", change: (event) => {
    colour.by = event.target.value;
    detail.querySelector(".legend").replaceWith(legend());
    recolour();
  }}, names.map((name) => el("option", {value: name, selected: name === colour.by}, name === "logprob" ? "log-probability" : name)));
  const member = {episode: `member ${memberLabel(row)}`, group: hasAgents ? row.agent : null, seats: `member ${row.member}`}[view];
  const place = [row.update < 0 || head.result.policy ? null : `Update ${row.update}`, `group ${row.group}`, member];
  return el("div", {class: "bar"},
    el("button", {type: "button", class: "back", click: showList}, "← Episodes"),
    el("h2", {}, place.filter(Boolean).join(", ")),
    el("label", {class: "by"}, "Colour ", choice), legend(),
    viewButton("seats", games.get(row.gameKey).length, "Seats", "what each seat saw, side by side"),
    viewButton("group", groups.get(row.groupKey).length, "Compare", "group members side by side"));
}

function viewButton(name, count, label, title) {
  if (count < 2) return null;
  return el("button", {type: "button", id: name, title, "aria-pressed": String(view === name), click: () => toggleView(name)},
    view === name ? "One episode" : `${label} ${count}`);
}

// A button for each member, or for each seat, as `labelOf` names it.
function choiceButtons(mates, {title, caption, labelOf, isPressed, choose}) {
  if (mates.length < 2) return el("nav", {class: "mates"});
  const buttons = mates.map((mate) => {
    const [sign, kind, word] = outcome(mate);
    return el("button", {type: "button", class: `mate ${kind}`, "aria-pressed": String(isPressed(mate)),
      "aria-label": `${caption === "seats" ? "seat" : "member"} ${labelOf(mate)}, ${word}, return ${formatNumber(mate.reward)}`, click: () => choose(mate)},
    kind === "lost" ? null : el("span", {class: `sign ${kind}`}, `${sign} `), `${labelOf(mate)}: `, el("b", {}, formatNumber(mate.reward)));
  });
  return el("nav", {class: "mates", "aria-label": title}, caption, buttons);
}

function memberButtons(row) {
  const isGroup = view === "group";
  return choiceButtons(groups.get(row.groupKey), {
    title: isGroup ? "Members shown" : "Group mates", caption: isGroup ? "shown" : "members", labelOf: memberLabel,
    isPressed: (mate) => (isGroup ? !hiddenMembers.has(mate.i) : mate === row),
    choose: (mate) => (isGroup ? toggleMember(mate, row) : selectRow(mate)),
  });
}

function seatButtons(row) {
  return choiceButtons(games.get(row.gameKey), {
    title: "Seats", caption: "seats", labelOf: (seat) => seat.agent, isPressed: (seat) => seat === row, choose: (seat) => selectRow(seat),
  });
}

function toggleMember(mate, row) {
  if (!hiddenMembers.delete(mate.i)) hiddenMembers.add(mate.i);
  showGroup(row);
}

// The columns in bands, one below the other, of as many as fit without scrolling sideways.
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

// Shows `members` side by side: what is shown to all, then a column each, with the rows of cells that rowsOf(band) gives.
function showColumns(row, members, {title, labelOf, buttons, opening, rowsOf}) {
  updateScales(members.map(episodeOf));
  const grid = el("div", {class: "compared", tabindex: 0, role: "group", "aria-label": title});
  if (opening) {
    grid.append(el("article", {class: "turn opening"}, el("header", {}, el("h3", {}, "Shown to all")),
      opening.map((message) => messageBox(message, "environment"))));
  }
  detail.classList.add("comparing");
  const bands = bandsOf(members);
  grid.classList.toggle("tight", bands[0]?.length > 0 && document.body.classList.contains("alone"));
  for (const members of bands) {
    const band = el("div", {class: "band"});
    band.style.gridTemplateColumns = `repeat(${bands[0].length}, minmax(0, 1fr))`;
    const rowOf = (cells) => band.append(...cells, ...Array.from({length: bands[0].length - cells.length}, () => el("div")));
    rowOf(members.map((mate) => columnHeader(mate, labelOf(mate))));
    rowsOf(members).forEach(rowOf);
    rowOf(members.map((mate) => endCard(mate, episodeOf(mate))));
    grid.append(band);
  }
  const answer = members[0] && episodeOf(members[0]).answer;
  const taskFacts = [row.task && fact("task", row.task), answer !== undefined && fact("answer", typeof answer === "string" ? answer : JSON.stringify(answer))];
  detail.replaceChildren(detailBar(row), el("p", {class: "about"}, taskFacts.filter(Boolean)), buttons ?? "", grid);
  detail.scrollTop = 0;
  markHits();
}

// The members of a group: a row for each number of a turn.
function showGroup(row) {
  const members = groups.get(row.groupKey).filter((mate) => !hiddenMembers.has(mate.i));
  const opening = sharedOpening(members.map(episodeOf));
  const cell = (turn, k) => (turn ? lazyTurn(k, () => turnCard(turn, k, k === 0 && opening)) : el("div"));
  showColumns(row, members, {
    title: "Members side by side", labelOf: (mate) => `member ${memberLabel(mate)}`, buttons: memberButtons(row), opening,
    rowsOf: (band) => Array.from({length: Math.max(0, ...band.map((mate) => mate.turns))},
      (_, k) => band.map((mate) => cell(episodeOf(mate).turns[k], k))),
  });
}

// The seats of an episode: a row for each step of the environment, in which some of them replied.
function showSeats(row) {
  const stepOf = (turn, k) => turn.step ?? k;
  const cell = (seat, step) => el("div", {class: "seat-step"}, episodeOf(seat).turns.flatMap((turn, k) =>
    stepOf(turn, k) === step ? [lazyTurn(k, () => turnCard(turn, k))] : []));
  showColumns(row, games.get(row.gameKey), {
    title: "Seats side by side", labelOf: (seat) => seat.agent,
    rowsOf: (band) => [...new Set(band.flatMap((seat) => episodeOf(seat).turns.map(stepOf)))].sort((a, b) => a - b)
      .map((step) => band.map((seat) => cell(seat, step))),
  });
}

function columnHeader(mate, label) {
  const [sign, kind, word] = outcome(mate);
  const episode = episodeOf(mate);
  return el("div", {class: "column"},
    el("button", {type: "button", class: "small", click: () => { showOneEpisode(); selectRow(mate); }}, label),
    el("span", {class: `sign ${kind}`, title: word}, sign),
    fact("return", mate.reward), mate.advantage === null ? null : fact("advantage", mate.advantage),
    episode.player ? fact("played by", episode.player) : null,
    el("span", {class: "muted"}, `${mate.stop}, ${plural(episode.turns.length, "turn")}`));
}

// The first observation if it is the same for all members, else null.
function sharedOpening(episodes) {
  const openings = episodes.map((episode) => JSON.stringify(episode.turns[0]?.observation ?? null));
  const isShared = episodes.length > 1 && openings[0] !== "null" && openings.every((opening) => opening === openings[0]);
  return isShared ? episodes[0].turns[0].observation : null;
}
