// The page as a whole: filters, keys, what is open, and the start.

const field = Object.fromEntries([...document.getElementById("filters").elements].filter((one) => one.id).map((one) => [one.id, one]));
let comparing = false;
const texts = new Array(rows.length); // of episodes, in lower case, made when first searched

function fill(name, values, label = (value) => value) {
  const options = [...new Set(values)];
  field[name].replaceChildren(el("option", {value: ""}, "any"), ...options.map((value) => el("option", {value}, String(label(value)))));
  field[name].closest("label").hidden = options.length < 2;
  return options.length > 1;
}

function passes(row) {
  const {low, high, success, stop, env, agent, update, group} = field;
  return (low.value === "" || row.reward >= Number(low.value))
    && (high.value === "" || (row.reward !== null && row.reward <= Number(high.value)))
    && (success.value === "" || (row.success === (success.value === "1") && row.stop !== "error"))
    && (stop.value === "" || row.stop === stop.value)
    && (env.value === "" || row.env === env.value)
    && (agent.value === "" || row.agent === agent.value)
    && (update.value === "" || row.update === Number(update.value))
    && (group.value === "" || row.group === Number(group.value));
}

const breath = () => new Promise((done) => setTimeout(done));
let asked = 0;

async function filter() {
  const mine = ++asked;
  const words = field.search.value.trim().toLowerCase();
  let found = rows.filter(passes);
  if (words) {
    const passing = found;
    found = [];
    let pause = performance.now() + 12;
    for (const row of passing) {
      texts[row.i] ??= searched(row);
      if (texts[row.i].includes(words)) found.push(row);
      if (performance.now() < pause) continue;
      await breath();
      if (mine !== asked) return; // something else is being looked for by now
      pause = performance.now() + 12;
    }
  }
  matching = sorted(found);
  listing.scrollTop = 0;
  if (matching.length && !matching.includes(selected)) select(matching[0]);
  reveal();
  draw();
  tally();
}

function tally() {
  const scored = matching.filter((row) => row.stop !== "error");
  const average = (value) => scored.reduce((sum, row) => sum + value(row), 0) / scored.length;
  const parts = [
    matching.length < rows.length ? `${counted(matching.length)} of ${plural(rows.length, "episode")}` : plural(rows.length, "episode"),
    `in ${plural(new Set(matching.map((row) => row.mates)).size, "group")}`,
  ];
  const scores = scored.length ? [`mean return ${number(average((row) => row.reward ?? 0))}`, `success ${number(100 * average((row) => Number(row.success)), 1)} %`] : [];
  const errored = matching.length - scored.length;
  field.count.value = [parts.join(" "), ...scores, ...(errored ? [`${errored} errored`] : [])].join(" · ");
  const set = [...Object.values(field)].some((one) => one.value && /INPUT|SELECT/.test(one.tagName));
  field.clear.disabled = !set;
}

function select(row, read = false) {
  if (!row) return;
  const changed = selected?.mates !== row.mates;
  if (changed) hidden.clear();
  if (selected !== row || !comparing) {
    selected = row;
    if (!comparing) showEpisode(row);
    else if (changed) showGroup(row);
    history.replaceState(null, "", `#${row.key}`);
  }
  if (read) document.body.classList.add("reading");
  reveal();
  draw();
}

function move(by) {
  const at = matching.indexOf(selected);
  select(matching[at < 0 ? 0 : Math.max(0, Math.min(matching.length - 1, at + by))]);
}

function moveMember(by) {
  if (!selected) return;
  const all = groups.get(selected.mates);
  select(all[(all.indexOf(selected) + by + all.length) % all.length]);
}

function toggleCompare() {
  if (!selected || groups.get(selected.mates).length < 2) return;
  comparing = !comparing;
  hidden.clear();
  if (comparing) showGroup(selected);
  else showEpisode(selected);
  document.body.classList.add("reading");
}

function leaveCompare() {
  comparing = false;
  hidden.clear();
}

function leave() {
  if (comparing) toggleCompare();
  else document.body.classList.remove("reading");
  listing.focus({preventScroll: true});
}

function toggleGroup() {
  if (!selected) return;
  const on = field.group.value === "" || Number(field.group.value) !== selected.group;
  field.group.value = on ? selected.group : "";
  if (!field.update.closest("label").hidden) field.update.value = on ? selected.update : "";
  filter();
}

const KEYS = {
  j: () => move(1), k: () => move(-1), l: () => moveMember(1), h: () => moveMember(-1),
  n: () => !comparing && step(1), p: () => !comparing && step(-1), c: toggleCompare, g: toggleGroup,
  "/": () => field.search.focus(), "?": () => document.getElementById("help").showModal(), Escape: leave,
};
const IN_LIST = {
  ArrowDown: () => move(1), ArrowUp: () => move(-1), ArrowRight: () => moveMember(1), ArrowLeft: () => moveMember(-1),
  PageDown: () => move(Math.floor(listing.clientHeight / ROW)), PageUp: () => move(-Math.floor(listing.clientHeight / ROW)),
  Home: () => select(matching[0]), End: () => select(matching[matching.length - 1]),
  Enter: () => { document.body.classList.add("reading"); detail.focus(); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  const on = event.target;
  if (/INPUT|SELECT|TEXTAREA/.test(on.tagName)) {
    if (event.key === "Escape") listing.focus({preventScroll: true});
    return;
  }
  const inReply = on.classList.contains("tokens") && {ArrowRight: () => walk(on, 1), ArrowLeft: () => walk(on, -1)}[event.key];
  const inList = (on === listing || on === document.body) && IN_LIST[event.key];
  const act = inReply || inList || KEYS[event.key];
  if (!act || (event.key === "Enter" && on === document.body)) return;
  event.preventDefault();
  act();
});

let typing = 0;
field.search.form.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(filter, 120);
});
field.search.form.addEventListener("reset", () => setTimeout(filter));
field.search.form.addEventListener("submit", (event) => event.preventDefault());
field.more.addEventListener("click", () => {
  const open = field.search.form.classList.toggle("open");
  field.more.setAttribute("aria-expanded", String(open));
});
document.getElementById("keys").addEventListener("click", KEYS["?"]);
addEventListener("hashchange", () => select(byKey.get(decodeURIComponent(location.hash.slice(1)))));

function start() {
  document.getElementById("name").textContent = head.name;
  const updates = rows.map((row) => row.update).filter((update) => update >= 0);
  const span = [...new Set([Math.min(...updates), Math.max(...updates)])];
  const about = [head.env, head.recipe, head.model, updates.length ? `update${span.length > 1 ? "s" : ""} ${span.join(" to ")}` : ""];
  document.getElementById("facts").textContent = about.filter(Boolean).join(" · ");
  const notes = document.getElementById("notes");
  notes.replaceChildren(...head.notes.map((note) => el("li", {}, note)));
  notes.hidden = !head.notes.length;
  for (const name of ["stop", "env", "agent"]) fill(name, table[name].names);
  table.several = fill("update", [...new Set(updates)].sort((a, b) => a - b));
  drawColumns(table.several);
  document.getElementById("list").classList.toggle("several", table.several);
  tally();
  draw();
  const linked = byKey.get(decodeURIComponent(location.hash.slice(1)));
  select(linked ?? rows[0], Boolean(linked));
  listing.focus({preventScroll: true});
}

start();
