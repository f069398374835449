// The page as a whole: filters, selection and keys.

const field = Object.fromEntries([...document.getElementById("filters").elements].filter((one) => one.id).map((one) => [one.id, one]));
let view = "episode"; // or "group", its members side by side, or "seats", those of one episode
const included = [...new Set(rows.map((row) => row.update))].filter((update) => update >= 0).sort((a, b) => a - b);
const allUpdates = head.updates.length ? head.updates : included;
const isServed = location.protocol.startsWith("http");
const LATEST = "latest";
const searchTexts = new Array(rows.length); // by row, from searchText(), created by the first search

function fillSelect(name, values, label = (value) => value) {
  const options = [...new Set(values)];
  field[name].replaceChildren(el("option", {value: ""}, "any"), ...options.map((value) => el("option", {value}, String(label(value)))));
  field[name].closest("label").hidden = options.length < 2;
  return options.length > 1;
}

// Every update of the run; one that is not on this page is fetched by the local page, and cannot be chosen in a file.
function fillUpdates() {
  const has = new Set(included);
  const label = (update) => has.has(update) || isServed ? String(update) : `${update} (--update ${update})`;
  const options = allUpdates.map((update) => el("option", {value: update, disabled: !has.has(update) && !isServed}, label(update)));
  const latest = isServed && new URLSearchParams(location.search).has("update") ? [el("option", {value: LATEST}, "latest")] : [];
  field.update.replaceChildren(el("option", {value: ""}, "any"), ...latest, ...options);
  for (const one of [field.update.closest("label"), field.earlier, field.later]) one.hidden = allUpdates.length < 2;
  return included.length > 1;
}

// Shows the episodes of an update alone: those on this page, or else another page of them.
function showUpdate(update) {
  if (included.includes(update)) {
    field.update.value = String(update);
    filter();
  } else if (isServed) location.search = `update=${update}`;
  else field.count.value = `update ${update} is not in this file: rl.view --update ${update}`;
}

function stepUpdate(by) {
  const now = field.update.value === "" ? selectedRow?.update : Number(field.update.value);
  const next = allUpdates[allUpdates.indexOf(now) + by];
  if (next !== undefined) showUpdate(next);
}

function matchesFilters(row) {
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

const nextTask = () => new Promise((done) => setTimeout(done));
let filterNumber = 0; // of the latest call of filter()

async function filter() {
  const mine = ++filterNumber;
  if (field.update.value === LATEST) {
    location.search = "";
    return;
  }
  const update = Number(field.update.value || -1);
  if (update >= 0 && !included.includes(update)) {
    showUpdate(update);
    return;
  }
  const words = field.search.value.trim().toLowerCase();
  setHitWords(words);
  let matches = rows.filter(matchesFilters);
  if (words) {
    const candidates = matches;
    matches = [];
    let pause = performance.now() + 12;
    for (const row of candidates) {
      searchTexts[row.i] ??= searchText(row);
      if (searchTexts[row.i].includes(words)) matches.push(row);
      if (performance.now() < pause) continue;
      await nextTask();
      if (mine !== filterNumber) return; // a newer call has replaced this one
      pause = performance.now() + 12;
    }
  }
  matchingRows = sortRows(matches);
  listing.scrollTop = 0;
  if (matchingRows.length && !matchingRows.includes(selectedRow)) selectRow(matchingRows[0]);
  scrollToSelected();
  drawRows();
  updateCount();
}

function updateCount() {
  const scoredRows = matchingRows.filter((row) => row.stop !== "error");
  const average = (value) => scoredRows.reduce((sum, row) => sum + value(row), 0) / scoredRows.length;
  const parts = [
    matchingRows.length < rows.length ? `${formatCount(matchingRows.length)} of ${plural(rows.length, "episode")}` : plural(rows.length, "episode"),
    `in ${plural(new Set(matchingRows.map((row) => row.groupKey)).size, "group")}`,
  ];
  const scores = scoredRows.length ? [`mean return ${formatNumber(average((row) => row.reward ?? 0))}`, `success ${formatNumber(100 * average((row) => Number(row.success)), 1)} %`] : [];
  const numErrors = matchingRows.length - scoredRows.length;
  field.count.value = [parts.join(" "), ...scores, ...(numErrors ? [`${numErrors} errored`] : [])].join(" · ");
  const isFiltered = Object.values(field).some((one) => one.value && /INPUT|SELECT/.test(one.tagName));
  field.clear.disabled = !isFiltered;
}

function selectRow(row, read = false) {
  if (!row) return;
  const isOtherGroup = selectedRow?.groupKey !== row.groupKey;
  if (isOtherGroup) hiddenMembers.clear();
  if (selectedRow !== row || view === "episode") {
    const isOtherGame = selectedRow?.gameKey !== row.gameKey;
    selectedRow = row;
    if (view === "episode") showEpisode(row);
    else if (view === "seats" ? isOtherGame : isOtherGroup) showColumnsOf(row);
    history.replaceState(null, "", `#${row.key}`);
  }
  if (read) document.body.classList.add("reading");
  drawCurves();
  scrollToSelected();
  drawRows();
}

function moveSelection(by) {
  const at = matchingRows.indexOf(selectedRow);
  selectRow(matchingRows[at < 0 ? 0 : Math.max(0, Math.min(matchingRows.length - 1, at + by))]);
}

function moveMember(by) {
  if (!selectedRow) return;
  const group = groups.get(selectedRow.groupKey);
  selectRow(group[(group.indexOf(selectedRow) + by + group.length) % group.length]);
}

const showColumnsOf = (row) => (view === "seats" ? showSeats(row) : showGroup(row));

function toggleView(name) {
  if (!selectedRow) return;
  const columns = name === "seats" ? games.get(selectedRow.gameKey) : groups.get(selectedRow.groupKey);
  if (view !== name && columns.length < 2) return;
  view = view === name ? "episode" : name;
  hiddenMembers.clear();
  if (view === "episode") showEpisode(selectedRow);
  else showColumnsOf(selectedRow);
  document.body.classList.add("reading");
  focusContent();
}

function showOneEpisode() {
  view = "episode";
  hiddenMembers.clear();
}

const isVisible = (node) => node.offsetParent !== null;

// Puts the focus on what is beside the filters: the list, or the comparison or episode that stands in its place.
function focusContent() {
  const target = isVisible(listing) ? listing : detail.querySelector(".compared") ?? detail;
  target.focus({preventScroll: true});
}

function leave() {
  if (view !== "episode") {
    toggleView(view);
    return;
  }
  document.body.classList.remove("reading");
  focusContent();
}

// Goes back to the list, which a narrow screen shows in place of an episode or a comparison.
function showList() {
  while (document.body.classList.contains("reading")) leave();
}

function search() {
  if (!isVisible(field.search)) showList(); // above which it stands
  field.search.focus();
  field.search.select();
}

function toggleGroup() {
  if (!selectedRow) return;
  const names = ["group", "update", "agent"].filter((name) => !field[name].closest("label").hidden);
  const isOn = names.some((name) => field[name].value !== String(selectedRow[name]));
  for (const name of names) field[name].value = isOn ? selectedRow[name] : "";
  filter();
}

const KEYS = {
  j: () => moveSelection(1), k: () => moveSelection(-1), l: () => moveMember(1), h: () => moveMember(-1),
  n: () => view === "episode" && moveTurn(1), p: () => view === "episode" && moveTurn(-1),
  c: () => toggleView("group"), s: () => toggleView("seats"), g: toggleGroup,
  "/": search, "?": () => document.getElementById("help").showModal(), Escape: leave,
};
const IN_LIST = {
  ArrowDown: () => moveSelection(1), ArrowUp: () => moveSelection(-1), ArrowRight: () => moveMember(1), ArrowLeft: () => moveMember(-1),
  PageDown: () => moveSelection(Math.floor(listing.clientHeight / ROW_HEIGHT)), PageUp: () => moveSelection(-Math.floor(listing.clientHeight / ROW_HEIGHT)),
  Home: () => selectRow(matchingRows[0]), End: () => selectRow(matchingRows[matchingRows.length - 1]),
  Enter: () => { document.body.classList.add("reading"); detail.focus(); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  const on = event.target;
  if (/INPUT|SELECT|TEXTAREA/.test(on.tagName)) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // a browser would empty a search field
    focusContent();
    return;
  }
  const inReply = on.classList.contains("tokens") && {ArrowRight: () => moveToken(on, 1), ArrowLeft: () => moveToken(on, -1)}[event.key];
  const inList = (on === listing || on === document.body) && IN_LIST[event.key];
  const act = inReply || inList || KEYS[event.key];
  if (!act || (event.key === "Enter" && on === document.body)) return;
  event.preventDefault();
  act();
});

let searchTimer = 0;
field.search.form.addEventListener("input", () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(filter, 120);
});
field.search.form.addEventListener("reset", () => setTimeout(filter));
field.search.form.addEventListener("submit", (event) => event.preventDefault());
field.more.addEventListener("click", () => {
  const open = field.search.form.classList.toggle("open");
  field.more.setAttribute("aria-expanded", String(open));
});
field.earlier.addEventListener("click", () => stepUpdate(-1));
field.later.addEventListener("click", () => stepUpdate(1));
let resizeTimer = 0;
addEventListener("resize", () => {
  clearTimeout(resizeTimer);
  resizeTimer = setTimeout(() => view !== "episode" && showColumnsOf(selectedRow), 120);
});
document.getElementById("keys").addEventListener("click", KEYS["?"]);
// The row that the address names, whose key a sender of the link may have escaped; none if it names none.
const linkedRow = () => byKey.get(location.hash.slice(1).replace(/%2f/gi, "/").replace(/%2b/gi, "+"));
addEventListener("hashchange", () => selectRow(linkedRow()));
