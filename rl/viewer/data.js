"use strict";
// The data of the page: one row per episode for the list, and the episodes, each parsed when it is opened.

const takeText = (id) => {
  const element = document.getElementById(id);
  element.remove();
  return element.textContent;
};
const head = JSON.parse(takeText("head-data"));
const episodeTexts = takeText("episode-data").split("\n");
const {table, vocabulary} = head;
const special = new Set(vocabulary.special);

const rows = episodeTexts.map((_, i) => ({
  i,
  env: table.env.names[table.env.codes[i]],
  agent: table.agent.names[table.agent.codes[i]],
  task: table.task.names[table.task.codes[i]],
  stop: table.stop.names[table.stop.codes[i]],
  success: table.success[i] === 1,
  ...Object.fromEntries(
    ["update", "group", "member", "reward", "turns", "tokens", "logprob", "advantage"].map((name) => [name, table[name][i]])),
}));

const groups = new Map();
const games = new Map(); // the seats that played one episode together
const byKey = new Map();
for (const row of rows) {
  row.groupKey = `${row.env} ${row.update} ${row.group} ${row.agent}`;
  if (!groups.has(row.groupKey)) groups.set(row.groupKey, []);
  groups.get(row.groupKey).push(row);
  row.gameKey = row.stop === "error" ? `error ${row.i}` : `${row.env} ${row.update} ${row.group}/${row.member}`;
  while (games.get(row.gameKey)?.some(({agent}) => agent === row.agent)) row.gameKey += "+"; // the same seat again
  if (!games.has(row.gameKey)) games.set(row.gameKey, []);
  games.get(row.gameKey).push(row);
  row.key = `${row.update}/${row.group}/${row.member}`;
  while (byKey.has(row.key)) row.key += "+"; // another seat, or a failed attempt
  byKey.set(row.key, row);
}

const hasAgents = table.agent.names.length > 1;
const memberLabel = (row) => (hasAgents ? `${row.member} ${row.agent}` : String(row.member));

const episodeCache = new Map();
const MAX_CACHED = 128; // episodes

function episodeOf(row) {
  let episode = episodeCache.get(row.i);
  if (!episode) {
    episode = JSON.parse(episodeTexts[row.i]);
    if (episodeCache.size >= MAX_CACHED) episodeCache.delete(episodeCache.keys().next().value);
    episodeCache.set(row.i, episode);
  }
  return episode;
}

// The text of a message and of its tool calls.
function textOf(message) {
  if (!message) return "";
  const {content} = message;
  const text = Array.isArray(content) ? content.map((block) => block?.text ?? "").join("\n") : content ?? "";
  const calls = (message.tool_calls ?? []).map((call) => `${call?.function?.name} ${call?.function?.arguments}`);
  return [thoughtsOf(message), text, ...calls].filter(Boolean).join("\n");
}

// What a model thought before a message, where its server sets that apart from the content.
const thoughtsOf = (message) => {
  const text = message?.reasoning_content ?? message?.reasoning;
  return typeof text === "string" ? text : "";
};

// All text of a turn that can be searched.
const turnText = (turn) => turn ? [...(turn.observation ?? []).map(textOf), textOf(turn.reply), turn.state ?? ""].join("\n") : "";

// All text of an episode in lower case, for the search.
function searchText(row) {
  const {turns, final, answer, error} = JSON.parse(episodeTexts[row.i]);
  const turnTexts = turns.map(turnText);
  const answerText = typeof answer === "string" ? answer : JSON.stringify(answer) ?? "";
  return [row.task, answerText, error ?? "", ...turnTexts, ...(final ?? []).map(textOf)].join("\n").toLowerCase();
}

// Creates an element. Strings become text nodes, never markup, so text of rollouts cannot inject elements.
function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const formatNumber = (value, digits = 3) => {
  if (typeof value !== "number") return value === null || value === undefined ? "–" : String(value);
  return String(Number(value.toFixed(digits))).replace("-", "−");
};
const formatFixed = (value) => (value === null ? "–" : value.toFixed(2).replace("-", "−"));
const formatCount = (value) => value.toLocaleString("en");
const plural = (value, word) => `${formatCount(value)} ${word}${value === 1 ? "" : "s"}`;
const formatSeconds = (value) => value === undefined ? "–" : value < 1 ? `${formatNumber(value * 1000, 1)} ms` : `${formatNumber(value, 2)} s`;
