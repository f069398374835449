// A reply token by token, coloured by how likely each was or by another number that it carries.

const LIKELY = [0.95, 0.8, 0.5, 0.25, 0.1, 0.02]; // below each of these probabilities, one shade more
const SHADES = 4; // on either side of zero
const CHUNK = 400; // tokens that become elements at once, when they come into view

const colour = {by: "logprob", top: {}};
const replies = new WeakMap(); // a reply's box -> its turn and chunks

const logprob = (turn, k) => turn.logprobs[k] === null ? null : turn.logprobs[k] / 1000;
const stream = (turn, name, k) => {
  const values = turn.streams?.[name];
  return Array.isArray(values) ? values[k] : values;
};

function mean(turn, name) {
  const values = turn.streams?.[name];
  if (!Array.isArray(values)) return values;
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : undefined;
}

// The streams of some episodes, and the largest size of a number in each: what the deepest shade means.
function measure(episodes) {
  const top = {};
  for (const turn of episodes.flatMap((episode) => episode.turns)) {
    for (const [name, values] of Object.entries(turn.streams ?? {})) {
      for (const value of Array.isArray(values) ? values : [values]) {
        top[name] = Math.max(top[name] ?? 0, Math.abs(value ?? 0));
      }
    }
  }
  colour.top = top;
}

function signed(value, top) {
  const level = value && top ? Math.ceil((SHADES * Math.abs(value)) / top) : 0;
  return level ? `${value > 0 ? "plus" : "minus"}${level}` : "";
}

function shade(turn, k) {
  if (colour.by === "none") return "";
  if (colour.by !== "logprob") return signed(stream(turn, colour.by, k), colour.top[colour.by]);
  const value = logprob(turn, k);
  return value === null ? "" : `rare${LIKELY.filter((least) => Math.exp(value) < least).length}`;
}

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const visible = (text) =>
  text.replace(CONTROL, (letter) => `\\x${letter.charCodeAt(0).toString(16).padStart(2, "0")}`).replace(/\n/g, "↵\n");

// The text of each token of a turn. A character whose bytes are spread over several tokens stands in the first of them.
function shown(turn) {
  const texts = turn.ids.map((token) => {
    const text = vocabulary.texts[token];
    return text === null ? ` ${vocabulary.ids[token]} ` : visible(text);
  });
  for (let k = 0; k < texts.length; k++) {
    const owners = [], bytes = [];
    for (; vocabulary.bytes[turn.ids[k]]; k++) {
      for (const byte of vocabulary.bytes[turn.ids[k]]) { owners.push(k); bytes.push(byte); }
    }
    if (bytes.length) spread(texts, owners, Uint8Array.from(bytes));
  }
  return texts;
}

const utf8 = new TextDecoder("utf-8", {fatal: true});

function spread(texts, owners, bytes) {
  for (const k of owners) texts[k] = "";
  for (let at = 0, next; at < bytes.length; at = next) {
    const lead = bytes[at];
    next = at + (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
    try {
      texts[owners[at]] += visible(utf8.decode(bytes.subarray(at, next)));
    } catch {
      next = at + 1;
      texts[owners[at]] += `\\x${lead.toString(16).padStart(2, "0")}`;
    }
  }
  for (const k of owners) texts[k] ||= "·";
}

function tokenClass(turn, k) {
  const token = turn.ids[k];
  const kind = special.has(token) || vocabulary.texts[token] === null ? "t mark" : "t";
  return `${kind} ${shade(turn, k)}`.trimEnd();
}

function reply(turn, label) {
  const n = turn.ids.length;
  const box = el("div", {class: "tokens", tabindex: 0, role: "group", "aria-label": `${label}, ${plural(n, "token")}`});
  const chunks = [], texts = shown(turn);
  for (let from = 0; from < n; from += CHUNK) {
    const to = Math.min(n, from + CHUNK);
    const part = el("span", {}, texts.slice(from, to).join(""));
    let drawn = false;
    const draw = () => {
      if (drawn) return;
      drawn = true;
      part.replaceChildren(...turn.ids.slice(from, to).map((_, j) => {
        const token = el("span", {class: tokenClass(turn, from + j)}, texts[from + j]);
        token.k = from + j;
        return token;
      }));
    };
    chunks.push(draw);
    box.append(part);
    whenSeen(part, draw);
  }
  replies.set(box, {turn, chunks, at: -1});
  return box;
}

function recolour() {
  for (const box of document.querySelectorAll(".tokens")) {
    const {turn} = replies.get(box);
    for (const token of box.querySelectorAll(".t")) token.className = tokenClass(turn, token.k);
  }
}

const seen = new WeakMap();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    seen.get(entry.target)();
  }
}, {rootMargin: "600px", scrollMargin: "600px"});

function whenSeen(element, draw) {
  seen.set(element, draw);
  watcher.observe(element);
}

const tip = document.getElementById("tip");

function explain(token) {
  const {turn} = replies.get(token.closest(".tokens"));
  const k = token.k;
  const id = vocabulary.ids[turn.ids[k]];
  const text = vocabulary.texts[turn.ids[k]];
  const value = logprob(turn, k);
  const lines = [
    ["token", text === null ? "unknown text" : vocabulary.bytes[turn.ids[k]] ? `bytes ${text}` : JSON.stringify(text)],
    ["id", id],
    ["log-probability", value === null ? "–" : `${number(value)} (${number(100 * Math.exp(value), 1)} %)`],
    ...Object.keys(turn.streams ?? {}).map((name) => [name, number(stream(turn, name, k), 4)]),
  ];
  tip.replaceChildren(el("dl", {}, lines.flatMap(([name, said]) => [el("dt", {}, name), el("dd", {}, String(said))])));
  tip.hidden = false;
  const place = token.getBoundingClientRect();
  const {offsetWidth: width, offsetHeight: height} = tip;
  const below = place.bottom + height + 10 < innerHeight;
  tip.style.left = `${Math.max(6, Math.min(place.left, innerWidth - width - 6))}px`;
  tip.style.top = `${below ? place.bottom + 6 : Math.max(6, place.top - height - 6)}px`;
}

// Left and right walk through the tokens of the reply that has the focus.
function walk(box, step) {
  const state = replies.get(box);
  state.at = Math.max(0, Math.min(state.turn.ids.length - 1, state.at + step));
  state.chunks[Math.floor(state.at / CHUNK)]?.();
  box.querySelector(".at")?.classList.remove("at");
  const token = [...box.querySelectorAll(".t")].find((one) => one.k === state.at);
  if (!token) return;
  token.classList.add("at");
  token.scrollIntoView({block: "nearest"});
  explain(token);
}

document.addEventListener("mouseover", (event) => {
  const token = event.target.closest?.(".t");
  if (token) explain(token);
  else tip.hidden = true;
});
document.addEventListener("click", (event) => {
  const token = event.target.closest?.(".t");
  if (token) explain(token);
});
document.addEventListener("focusout", (event) => {
  event.target.querySelector?.(".at")?.classList.remove("at");
  tip.hidden = true;
});
document.addEventListener("scroll", () => {
  const at = document.activeElement.querySelector?.(":scope.tokens .at");
  if (at && !tip.hidden) explain(at);
  else tip.hidden = true;
}, {capture: true, passive: true});
