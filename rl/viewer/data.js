"use strict";
// What the page holds: one row per episode for the list, and the episodes, each parsed when it is opened.

const taken = (id) => {
  const element = document.getElementById(id);
  element.remove();
  return element.textContent;
};
const head = JSON.parse(taken("head-data"));
const bodies = taken("episode-data").split("\n");
const {table, vocabulary} = head;
const special = new Set(vocabulary.special);

const rows = bodies.map((_, i) => ({
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
const byKey = new Map();
for (const row of rows) {
  row.mates = `${row.env} ${row.update} ${row.group}`;
  if (!groups.has(row.mates)) groups.set(row.mates, []);
  groups.get(row.mates).push(row);
  row.key = `${row.update}/${row.group}/${row.member}`;
  while (byKey.has(row.key)) row.key += "+"; // another seat, or a failed attempt
  byKey.set(row.key, row);
}

const seats = table.agent.names.length > 1;
const who = (row) => (seats ? `${row.member} ${row.agent}` : String(row.member));

const parsed = new Map();
const KEPT = 128; // parsed episodes

function episodeOf(row) {
  let episode = parsed.get(row.i);
  if (!episode) {
    episode = JSON.parse(bodies[row.i]);
    if (parsed.size >= KEPT) parsed.delete(parsed.keys().next().value);
    parsed.set(row.i, episode);
  }
  return episode;
}

function textOf(message) {
  if (!message) return "";
  const {content} = message;
  const said = Array.isArray(content) ? content.map((block) => block?.text ?? "").join("\n") : content ?? "";
  const calls = (message.tool_calls ?? []).map((call) => `${call?.function?.name} ${call?.function?.arguments}`);
  return [said, ...calls].join("\n");
}

function searched(row) {
  const {turns, final, answer, error} = JSON.parse(bodies[row.i]);
  const said = turns.flatMap((turn) => [...(turn.observation ?? []).map(textOf), textOf(turn.reply), turn.state ?? ""]);
  const about = typeof answer === "string" ? answer : JSON.stringify(answer) ?? "";
  return [row.task, about, error ?? "", ...said, ...(final ?? []).map(textOf)].join("\n").toLowerCase();
}

// Elements are made from text, never from markup: what a rollout says stays text.
function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const number = (value, digits = 3) => {
  if (typeof value !== "number") return value === null || value === undefined ? "–" : String(value);
  return String(Number(value.toFixed(digits))).replace("-", "−");
};
const fixed = (value) => (value === null ? "–" : value.toFixed(2).replace("-", "−"));
const counted = (value) => value.toLocaleString("en");
const plural = (value, word) => `${counted(value)} ${word}${value === 1 ? "" : "s"}`;
const seconds = (value) => value === undefined ? "–" : value < 1 ? `${number(value * 1000, 1)} ms` : `${number(value, 2)} s`;
