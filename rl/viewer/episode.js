// One episode, turn by turn, and the members of a group beside each other.

const detail = document.getElementById("detail");
const LONG = 1400, LONG_IN_COLUMN = 350; // characters of a message beyond which it opens folded
const hiddenMembers = new Set(); // indices of episodes left out of the comparison
const GAIN_NAME = /gain|(^|_)bits$/; // names of numbers that measure the information a turn has gained; shown first

function fact(name, value, kind = "") {
  return el("span", {class: `fact ${kind}`.trimEnd()}, el("b", {}, name), ` ${typeof value === "number" ? formatNumber(value) : value}`);
}

function messageBox(message, label) {
  if (!message || typeof message !== "object") return el("div", {class: "message"}, el("span", {class: "role"}, label), String(message));
  const blocks = Array.isArray(message.content) ? message.content : [{type: "text", text: message.content ?? ""}];
  const role = [message.role ?? label, message.name].filter(Boolean).join(" ");
  return el("div", {class: `message ${label}`}, el("span", {class: "role"}, role), thinking(message), blocks.map(contentBlock), toolCalls(message));
}

function contentBlock(part) {
  if (typeof part?.text === "string") return foldable(part.text);
  const url = [part?.image_url, part?.url, part?.image].map((source) => source?.url ?? source).find((one) => typeof one === "string");
  if (typeof url === "string" && /^data:image\/(png|jpeg|gif|webp);base64,/.test(url)) {
    return el("img", {src: url, alt: "image of this message", loading: "lazy"});
  }
  if (typeof url === "string" && !url.startsWith("data:")) return el("div", {class: "no-image"}, `picture not on this page: ${url}`);
  return foldable(typeof part === "string" ? part : JSON.stringify(part) ?? "");
}

function foldable(text) {
  const body = el("div", {class: "text"}, String(text));
  if (String(text).length <= (detail.classList.contains("comparing") ? LONG_IN_COLUMN : LONG)) return body;
  body.classList.add("folded");
  const button = el("button", {type: "button", class: "small", click: () => {
    body.classList.remove("folded");
    button.remove();
  }}, `Show all ${formatCount(text.length)} characters`);
  return el("div", {}, body, button);
}

function thinking(message) {
  const text = thoughtsOf(message);
  return text ? el("div", {class: "thinking"}, el("b", {}, "thinking"), foldable(text)) : null;
}

function toolCalls(message) {
  return (Array.isArray(message.tool_calls) ? message.tool_calls : []).map((call) =>
    el("div", {class: "call"}, el("b", {}, String(call?.function?.name)), ` ${call?.function?.arguments ?? ""}`));
}

function badges(turn) {
  return [
    turn.invalid && el("span", {class: "badge bad"}, "invalid"),
    turn.finish && el("span", {class: "badge"}, turn.finish === "length" ? "cut by its token limit" : turn.finish),
    turn.fresh && el("span", {class: "badge"}, "context rewritten"),
    turn.role && el("span", {class: "badge"}, turn.internal ? `${turn.role}, not shown to the environment` : turn.role),
  ].filter(Boolean);
}

// The numbers of a turn: the most important ones for its header, the rest for its footer.
function turnFacts(turn) {
  const advantage = mean(turn, "advantage");
  const streams = Object.keys(turn.streams ?? {}).filter((name) => name !== "advantage").map((name) => [name, mean(turn, name)]);
  const numbers = [...streams, ...Object.entries(turn.metrics ?? {})];
  const gains = numbers.filter(([name]) => GAIN_NAME.test(name));
  const others = numbers.filter(([name]) => !GAIN_NAME.test(name));
  return {
    first: [
      fact("reward", turn.reward ?? 0, turn.reward > 0 ? "good" : turn.reward < 0 ? "poor" : ""),
      advantage === undefined ? null : fact("advantage", advantage),
      ...gains.map(([name, value]) => fact(name, value)),
    ],
    more: [
      ...Object.entries(turn.rewards ?? {}).map(([name, value]) => fact(`reward ${name}`, value)),
      ...others.map(([name, value]) => fact(name, value)),
    ],
  };
}

// Whether the text of every token of a reply is known.
const isReadable = (turn) => turn.ids.length > 0 && turn.ids.every((token) => vocabulary.texts[token] !== null);

function turnCard(turn, k, opening) {
  const {first, more} = turnFacts(turn);
  const logprobs = turn.logprobs.filter((value) => value !== null);
  const meanLogprob = logprobs.length ? logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length / 1000 : null;
  return el("article", {class: "turn", "aria-label": `Turn ${k + 1}`, "data-turn": k},
    el("header", {}, el("h3", {}, `Turn ${k + 1}`), first, badges(turn)),
    opening ? null : (turn.observation ?? []).map((message) => messageBox(message, "environment")),
    el("div", {class: "message reply"}, el("span", {class: "role"}, turn.reply?.role ?? "assistant"),
      thinking(turn.reply),
      isReadable(turn) ? null : foldable(textOf({content: turn.reply?.content})),
      turn.ids.length ? replyBox(turn, `Reply of turn ${k + 1}`) : null,
      turn.reply ? toolCalls(turn.reply) : null),
    el("footer", {}, more, turn.state ? fact("state", turn.state, "state") : null,
      fact("tokens", turn.tokens ?? turn.ids.length), fact("log p", formatNumber(meanLogprob)), fact("context", `+${turn.context ?? 0}`, "aside"),
      turn.versions?.length > 1 ? fact("policy versions", turn.versions.join(", ")) : null,
      fact("sampled in", formatSeconds(turn.sample_s), "aside"), fact("environment", formatSeconds(turn.env_s), "aside")));
}

// A placeholder for turn k, filled by make() when it comes into view.
function lazyTurn(k, make) {
  const place = el("div", {class: "place later", "data-turn": k});
  onVisible(place, () => {
    place.classList.remove("later");
    place.replaceChildren(make());
    markHits();
  });
  return place;
}

// Sign, CSS class and word for how an episode ended.
function outcome(row) {
  if (row.stop === "error") return ["!", "error", "errored"];
  return row.success ? ["✓", "won", "success"] : ["·", "lost", "no success"];
}

function endCard(row, episode) {
  const messages = (episode.final ?? []).map((message) => messageBox(message, "environment"));
  return el("article", {class: "turn end"},
    el("header", {}, el("h3", {}, "End"), fact("stop", row.stop), fact("return", row.reward)),
    episode.error ? el("div", {class: "message"}, el("span", {class: "role"}, "error"), foldable(episode.error)) : null, messages);
}

function episodeFacts(row, episode) {
  const pairs = [
    ["return", formatNumber(row.reward)],
    ["shaped return", episode.shaped !== undefined && episode.shaped !== row.reward ? formatNumber(episode.shaped) : null],
    ["advantage", row.advantage === null ? null : formatNumber(row.advantage)],
    ["outcome", outcome(row)[2]],
    ["stop", row.stop],
    ["turns", row.turns],
    ["tokens", row.tokens],
    ["answer", episode.answer === undefined ? null : typeof episode.answer === "string" ? episode.answer : JSON.stringify(episode.answer)],
    ["task", row.task],
    ["environment", row.env],
    ["agent", hasAgents ? row.agent : null],
    ["player", episode.player],
    ["place in split", episode.index === undefined ? null : `${episode.split ?? ""} ${episode.index}`],
    ["seed", episode.seed],
    ["policy version", episode.version],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", {class: "facts"}, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {class: ["task", "answer"].includes(name) ? "searched" : null}, String(value)))));
}

function showEpisode(row) {
  const episode = episodeOf(row);
  const group = groups.get(row.groupKey);
  updateScales(group.length > 64 ? [episode] : group.map(episodeOf));
  const turns = episode.turns.map((turn, k) => el("button", {
    type: "button", "data-k": k, class: `step ${signedShade(mean(turn, "advantage"), colour.top.advantage)}`, click: () => scrollToTurn(k),
    title: `turn ${k + 1}: reward ${formatNumber(turn.reward ?? 0)}, advantage ${formatNumber(mean(turn, "advantage"))}`,
  }, String(k + 1), turn.reward ? el("i", {class: turn.reward > 0 ? "good" : "poor"}) : null));
  const strip = el("nav", {class: "strip", "aria-label": "Turns"}, turns.length > 1 ? ["turn", ...turns] : []);
  const cards = episode.turns.map((turn, k) => lazyTurn(k, () => turnCard(turn, k)));
  detail.classList.remove("comparing");
  document.body.classList.remove("alone");
  detail.replaceChildren(detailBar(row), episodeFacts(row, episode), seatButtons(row), memberButtons(row), strip, ...cards, endCard(row, episode));
  detail.scrollTop = 0;
  const firstHit = episode.turns.findIndex(hasHit);
  if (firstHit > 0) scrollToTurn(firstHit);
  markHits();
}

function scrollToTurn(k) {
  const place = detail.querySelector(`[data-turn="${k}"]`);
  if (!place) return;
  const barHeight = detail.querySelector(".bar").offsetHeight;
  detail.scrollTop += place.getBoundingClientRect().top - detail.getBoundingClientRect().top - barHeight - 8;
}

function moveTurn(by) {
  const edge = detail.getBoundingClientRect().top + detail.querySelector(".bar").offsetHeight + 16;
  const places = [...detail.querySelectorAll(".place")];
  const current = places.findLastIndex((place) => place.getBoundingClientRect().top <= edge);
  scrollToTurn(Math.max(0, Math.min(places.length - 1, current + by)));
}
