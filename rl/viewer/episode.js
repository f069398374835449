// One episode, turn by turn, and the members of a group beside each other.

const detail = document.getElementById("detail");
const LONG = 1400; // characters of a message beyond which it opens folded
const hidden = new Set(); // members left out of a comparison
const INFORMATION = /gain|(^|_)bits$/; // numbers named so say what a turn found out

function fact(name, value, kind = "") {
  return el("span", {class: `fact ${kind}`.trimEnd()}, el("b", {}, name), ` ${typeof value === "number" ? number(value) : value}`);
}

function message(said, label) {
  if (!said || typeof said !== "object") return el("div", {class: "message"}, el("span", {class: "role"}, label), String(said));
  const blocks = Array.isArray(said.content) ? said.content : [{type: "text", text: said.content ?? ""}];
  const role = [said.role ?? label, said.name].filter(Boolean).join(" ");
  return el("div", {class: `message ${label}`}, el("span", {class: "role"}, role), blocks.map(block), toolCalls(said));
}

function block(part) {
  if (typeof part?.text === "string") return folded(part.text);
  const url = part?.image_url?.url ?? part?.url;
  if (typeof url === "string" && /^data:image\/(png|jpeg|gif|webp);base64,/.test(url)) {
    return el("img", {src: url, alt: "image of this message", loading: "lazy"});
  }
  return folded(typeof part === "string" ? part : JSON.stringify(part) ?? "");
}

function folded(text) {
  const body = el("div", {class: "text"}, String(text));
  if (String(text).length <= LONG) return body;
  body.classList.add("folded");
  const button = el("button", {type: "button", class: "small", click: () => {
    body.classList.remove("folded");
    button.remove();
  }}, `Show all ${counted(text.length)} characters`);
  return el("div", {}, body, button);
}

function toolCalls(said) {
  return (Array.isArray(said.tool_calls) ? said.tool_calls : []).map((call) =>
    el("div", {class: "call"}, el("b", {}, String(call?.function?.name)), ` ${call?.function?.arguments ?? ""}`));
}

function badges(turn) {
  return [
    turn.invalid && el("span", {class: "badge bad"}, "invalid"),
    turn.finish && el("span", {class: "badge"}, turn.finish === "length" ? "cut by its token limit" : turn.finish),
    turn.fresh && el("span", {class: "badge"}, "context rewritten"),
  ].filter(Boolean);
}

function turnFacts(turn) {
  const advantage = mean(turn, "advantage");
  const streams = Object.keys(turn.streams ?? {}).filter((name) => name !== "advantage").map((name) => [name, mean(turn, name)]);
  const measured = [...streams, ...Object.entries(turn.metrics ?? {})];
  const gains = measured.filter(([name]) => INFORMATION.test(name));
  const others = measured.filter(([name]) => !INFORMATION.test(name));
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

const isReadable = (turn) => turn.ids.length > 0 && turn.ids.every((token) => vocabulary.texts[token] !== null);

function turnCard(turn, k, opening) {
  const {first, more} = turnFacts(turn);
  const known = turn.logprobs.filter((value) => value !== null);
  const surprise = known.length ? known.reduce((sum, value) => sum + value, 0) / known.length / 1000 : null;
  return el("article", {class: "turn", "aria-label": `Turn ${k + 1}`, "data-turn": k},
    el("header", {}, el("h3", {}, `Turn ${k + 1}`), first, badges(turn)),
    opening ? null : (turn.observation ?? []).map((said) => message(said, "environment")),
    el("div", {class: "message reply"}, el("span", {class: "role"}, turn.reply?.role ?? "assistant"),
      isReadable(turn) ? null : folded(textOf({content: turn.reply?.content})),
      turn.ids.length ? reply(turn, `Reply of turn ${k + 1}`) : null,
      turn.reply ? toolCalls(turn.reply) : null),
    el("footer", {}, more, turn.state ? fact("state", turn.state, "state") : null,
      fact("tokens", turn.ids.length), fact("log p", number(surprise)), fact("context", `+${turn.context ?? 0}`, "aside"),
      turn.versions?.length > 1 ? fact("policy versions", turn.versions.join(", ")) : null,
      fact("sampled in", seconds(turn.sample_s), "aside"), fact("environment", seconds(turn.env_s), "aside")));
}

// A turn is made when it comes into view.
function later(k, make) {
  const place = el("div", {class: "place later", "data-turn": k});
  whenSeen(place, () => {
    place.classList.remove("later");
    place.replaceChildren(make());
  });
  return place;
}

function outcome(row) {
  if (row.stop === "error") return ["!", "error", "errored"];
  return row.success ? ["✓", "won", "success"] : ["·", "lost", "no success"];
}

function ending(row, episode) {
  const said = (episode.final ?? []).map((one) => message(one, "environment"));
  return el("article", {class: "turn end"},
    el("header", {}, el("h3", {}, "End"), fact("stop", row.stop), fact("return", row.reward)),
    episode.error ? el("div", {class: "message"}, el("span", {class: "role"}, "error"), folded(episode.error)) : null, said);
}

function facts(row, episode) {
  const pairs = [
    ["return", number(row.reward)],
    ["shaped return", episode.shaped !== undefined && episode.shaped !== row.reward ? number(episode.shaped) : null],
    ["advantage", row.advantage === null ? null : number(row.advantage)],
    ["outcome", outcome(row)[2]],
    ["stop", row.stop],
    ["turns", row.turns],
    ["tokens", row.tokens],
    ["answer", episode.answer === undefined ? null : typeof episode.answer === "string" ? episode.answer : JSON.stringify(episode.answer)],
    ["task", row.task],
    ["environment", row.env],
    ["agent", seats ? row.agent : null],
    ["place in split", episode.index === undefined ? null : `${episode.split ?? ""} ${episode.index}`],
    ["seed", episode.seed],
    ["policy version", episode.version],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", {class: "facts"}, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
}

function showEpisode(row) {
  const episode = episodeOf(row);
  measure(groups.get(row.mates).length > 64 ? [episode] : groups.get(row.mates).map(episodeOf));
  const turns = episode.turns.map((turn, k) => el("button", {
    type: "button", class: `step ${signed(mean(turn, "advantage"), colour.top.advantage)}`, click: () => goTo(k),
    title: `turn ${k + 1}: reward ${number(turn.reward ?? 0)}, advantage ${number(mean(turn, "advantage"))}`,
  }, String(k + 1), turn.reward ? el("i", {class: turn.reward > 0 ? "good" : "poor"}) : null));
  const strip = el("nav", {class: "strip", "aria-label": "Turns"}, turns.length > 1 ? ["turn", ...turns] : []);
  const cards = episode.turns.map((turn, k) => later(k, () => turnCard(turn, k)));
  detail.classList.remove("comparing");
  detail.replaceChildren(bar(row, false), facts(row, episode), mates(row, false), strip, ...cards, ending(row, episode));
  detail.scrollTop = 0;
}

function goTo(k) {
  const place = detail.querySelector(`[data-turn="${k}"]`);
  if (!place) return;
  const covered = detail.querySelector(".bar").offsetHeight;
  detail.scrollTop += place.getBoundingClientRect().top - detail.getBoundingClientRect().top - covered - 8;
}

function step(by) {
  const edge = detail.getBoundingClientRect().top + detail.querySelector(".bar").offsetHeight + 16;
  const places = [...detail.querySelectorAll(".place")];
  const now = places.findLastIndex((place) => place.getBoundingClientRect().top <= edge);
  goTo(Math.max(0, Math.min(places.length - 1, now + by)));
}
