// The list of episodes: filtered, sorted, and of 2,000 lines only those in view are elements.

const listing = document.getElementById("rows");
const space = document.getElementById("space");
const ROW = 30; // pixels; page.css says the same
const AROUND = 8; // lines made beyond the edges

const COLUMNS = [
  ["outcome", "", (row) => (row.stop === "error" ? -1 : Number(row.success)), "Sort by outcome"],
  ["update", "upd", (row) => row.update, "Sort by update"],
  ["group", "group", (row) => row.i, "Sort by update, group and member, as played"],
  ["task", "task", (row) => row.task, "Sort by task"],
  ["stop", "stop", (row) => row.stop, "Sort by reason to stop"],
  ["turns", "turns", (row) => row.turns, "Sort by number of turns"],
  ["tokens", "tokens", (row) => row.tokens, "Sort by sampled tokens"],
  ["logprob", "log p", (row) => row.logprob, "Sort by mean log-probability per token"],
  ["advantage", "adv.", (row) => row.advantage, "Sort by mean advantage per token"],
  ["reward", "return", (row) => row.reward, "Sort by return"],
];

const order = {by: "group", down: false};
let matching = rows;
let selected = null;

const bounds = rows.reduce(([low, high], {reward}) => [Math.min(low, reward ?? 0), Math.max(high, reward ?? 0)], [0, 0]);

function drawColumns(several) {
  const bar = document.getElementById("columns");
  bar.replaceChildren(...COLUMNS.filter(([name]) => name !== "update" || several).map(([name, label, , title]) =>
    el("button", {type: "button", class: `c-${name}`, title, "aria-label": title,
      "aria-pressed": String(order.by === name), click: () => sortBy(name, several)},
    label, order.by === name ? el("span", {class: "arrow"}, order.down ? "↓" : "↑") : null)));
}

function sortBy(name, several) {
  order.down = order.by === name ? !order.down : ["reward", "tokens", "turns", "advantage"].includes(name);
  order.by = name;
  drawColumns(several);
  matching = sorted(matching);
  listing.scrollTop = 0;
  draw();
}

function sorted(some) {
  const value = COLUMNS.find(([name]) => name === order.by)[2];
  const sign = order.down ? -1 : 1;
  const missing = (x) => x === null || x === undefined;
  return [...some].sort((one, other) => {
    const a = value(one), b = value(other);
    if (missing(a) || missing(b)) return missing(a) - missing(b) || one.i - other.i;
    return (a < b ? -sign : a > b ? sign : 0) || one.i - other.i;
  });
}

function line(row, at) {
  const [sign, kind, word] = outcome(row);
  const first = order.by === "group" && at > 0 && matching[at - 1].mates !== row.mates;
  const item = el("div", {
    id: `row-${row.i}`, role: "option", class: `row${first ? " first" : ""}`, "aria-selected": String(row === selected),
    "aria-setsize": matching.length, "aria-posinset": at + 1, "data-row": row.i,
  },
  el("span", {class: `c-outcome sign ${kind}`, "aria-label": word}, sign),
  table.several ? el("span", {class: "c-update"}, number(row.update)) : null,
  el("span", {class: "c-group"}, `${row.group}·${row.member}`),
  el("span", {class: "c-task", title: row.task}, seats ? `${row.task} ${row.agent}` : row.task),
  el("span", {class: "c-stop"}, row.stop.replace("_", " ")),
  el("span", {class: "c-turns"}, String(row.turns)),
  el("span", {class: "c-tokens"}, counted(row.tokens)),
  el("span", {class: "c-logprob"}, fixed(row.logprob)),
  el("span", {class: "c-advantage"}, fixed(row.advantage)),
  el("span", {class: "c-reward"}, number(row.reward)));
  const [low, high] = bounds;
  item.style.top = `${at * ROW}px`;
  item.lastChild.style.setProperty("--part", high > low ? ((row.reward ?? low) - low) / (high - low) : 0);
  return item;
}

function draw() {
  const from = Math.max(0, Math.floor(listing.scrollTop / ROW) - AROUND);
  const to = Math.min(matching.length, Math.ceil((listing.scrollTop + listing.clientHeight) / ROW) + AROUND);
  space.style.height = `${matching.length * ROW}px`;
  space.replaceChildren(...matching.slice(from, to).map((row, j) => line(row, from + j)));
  const shownNow = selected && document.getElementById(`row-${selected.i}`);
  if (shownNow) listing.setAttribute("aria-activedescendant", shownNow.id);
  else listing.removeAttribute("aria-activedescendant");
  document.getElementById("none").hidden = matching.length > 0;
}

// Bring the selected line into view.
function reveal() {
  const at = matching.indexOf(selected);
  if (at < 0) return;
  const top = at * ROW;
  if (top < listing.scrollTop) listing.scrollTop = top;
  else if (top + ROW > listing.scrollTop + listing.clientHeight) listing.scrollTop = top + ROW - listing.clientHeight;
}

let drawing = false;
listing.addEventListener("scroll", () => {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; draw(); });
}, {passive: true});
listing.addEventListener("click", (event) => {
  const item = event.target.closest("[data-row]");
  if (item) select(rows[Number(item.dataset.row)], true);
});
new ResizeObserver(draw).observe(listing);
