// The list of episodes, filtered and sorted. Only the rows in view, of perhaps 2,000, are elements.

const listing = document.getElementById("rows");
const space = document.getElementById("space");
const ROW_HEIGHT = 30; // pixels, as in page.css
const OVERSCAN_ROWS = 8; // rows drawn beyond either edge

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

const sortOrder = {column: "group", descending: false};
let matchingRows = rows;
let selectedRow = null;

const rewardRange = rows.reduce(([low, high], {reward}) => [Math.min(low, reward ?? 0), Math.max(high, reward ?? 0)], [0, 0]);

function drawColumns(several) {
  const bar = document.getElementById("columns");
  bar.replaceChildren(...COLUMNS.filter(([name]) => name !== "update" || several).map(([name, label, , title]) =>
    el("button", {type: "button", class: `c-${name}`, title, "aria-label": title,
      "aria-pressed": String(sortOrder.column === name), click: () => sortBy(name, several)},
    label, sortOrder.column === name ? el("span", {class: "arrow"}, sortOrder.descending ? "↓" : "↑") : null)));
}

function sortBy(name, several) {
  sortOrder.descending = sortOrder.column === name ? !sortOrder.descending : ["reward", "tokens", "turns", "advantage"].includes(name);
  sortOrder.column = name;
  drawColumns(several);
  matchingRows = sortRows(matchingRows);
  listing.scrollTop = 0;
  drawRows();
}

function sortRows(unsortedRows) {
  const value = COLUMNS.find(([name]) => name === sortOrder.column)[2];
  const sign = sortOrder.descending ? -1 : 1;
  const missing = (x) => x === null || x === undefined;
  return [...unsortedRows].sort((one, other) => {
    const a = value(one), b = value(other);
    if (missing(a) || missing(b)) return missing(a) - missing(b) || one.i - other.i;
    return (a < b ? -sign : a > b ? sign : 0) || one.i - other.i;
  });
}

function rowElement(row, at) {
  const [sign, kind, word] = outcome(row);
  const first = sortOrder.column === "group" && at > 0 && matchingRows[at - 1].groupKey !== row.groupKey;
  const item = el("div", {
    id: `row-${row.i}`, role: "option", class: `row${first ? " first" : ""}`, "aria-selected": String(row === selectedRow),
    "aria-setsize": matchingRows.length, "aria-posinset": at + 1, "data-row": row.i,
  },
  el("span", {class: `c-outcome sign ${kind}`, "aria-label": word}, sign),
  table.several ? el("span", {class: "c-update"}, formatNumber(row.update)) : null,
  el("span", {class: "c-group"}, `${row.group}·${row.member}`),
  el("span", {class: "c-task", title: row.task}, hasAgents ? `${row.agent} ${row.task}` : row.task),
  el("span", {class: "c-stop"}, row.stop.replace("_", " ")),
  el("span", {class: "c-turns"}, String(row.turns)),
  el("span", {class: "c-tokens"}, formatCount(row.tokens)),
  el("span", {class: "c-logprob"}, formatFixed(row.logprob)),
  el("span", {class: "c-advantage"}, formatFixed(row.advantage)),
  el("span", {class: "c-reward"}, formatNumber(row.reward)));
  const [low, high] = rewardRange;
  item.style.top = `${at * ROW_HEIGHT}px`;
  item.lastChild.style.setProperty("--part", high > low ? ((row.reward ?? low) - low) / (high - low) : 0);
  return item;
}

function drawRows() {
  const from = Math.max(0, Math.floor(listing.scrollTop / ROW_HEIGHT) - OVERSCAN_ROWS);
  const to = Math.min(matchingRows.length, Math.ceil((listing.scrollTop + listing.clientHeight) / ROW_HEIGHT) + OVERSCAN_ROWS);
  space.style.height = `${matchingRows.length * ROW_HEIGHT}px`;
  space.replaceChildren(...matchingRows.slice(from, to).map((row, j) => rowElement(row, from + j)));
  const element = selectedRow && document.getElementById(`row-${selectedRow.i}`);
  if (element) listing.setAttribute("aria-activedescendant", element.id);
  else listing.removeAttribute("aria-activedescendant");
  document.getElementById("none").hidden = matchingRows.length > 0;
  markHits();
}

// Brings the selected row into view.
function scrollToSelected() {
  const at = matchingRows.indexOf(selectedRow);
  if (at < 0) return;
  const top = at * ROW_HEIGHT;
  if (top < listing.scrollTop) listing.scrollTop = top;
  else if (top + ROW_HEIGHT > listing.scrollTop + listing.clientHeight) listing.scrollTop = top + ROW_HEIGHT - listing.clientHeight;
}

let isDrawPending = false;
listing.addEventListener("scroll", () => {
  if (isDrawPending) return;
  isDrawPending = true;
  requestAnimationFrame(() => { isDrawPending = false; drawRows(); });
}, {passive: true});
listing.addEventListener("click", (event) => {
  const item = event.target.closest("[data-row]");
  if (item) selectRow(rows[Number(item.dataset.row)], true);
});
new ResizeObserver(drawRows).observe(listing);
