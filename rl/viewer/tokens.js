// A reply token by token, coloured by log-probability or by another number per token (a stream).

const PROBABILITIES = [0.95, 0.8, 0.5, 0.25, 0.1, 0.02]; // each of these that exceeds a token's makes it a shade darker
const SHADES = 4; // on either side of zero
const CHUNK = 400; // tokens whose elements are created together, when they come into view

const colour = {by: "logprob", top: {}}; // number to colour by; largest magnitude of each stream
const replies = new WeakMap(); // element of a reply -> its turn, chunks and current token

const logprob = (turn, k) => turn.logprobs[k] === null ? null : turn.logprobs[k] / 1000;
const stream = (turn, name, k) => {
  const values = turn.streams?.[name];
  return Array.isArray(values) ? values[k] : values;
};

// The mean of a stream over the tokens of a turn.
function mean(turn, name) {
  const values = turn.streams?.[name];
  if (!Array.isArray(values)) return values;
  const numbers = values.filter((value) => value !== null);
  return numbers.length ? numbers.reduce((sum, value) => sum + value, 0) / numbers.length : undefined;
}

// Sets the scale of each stream of `episodes`: its largest magnitude, which gets the deepest shade.
function updateScales(episodes) {
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

function signedShade(value, top) {
  const level = value && top ? Math.ceil((SHADES * Math.abs(value)) / top) : 0;
  return level ? `${value > 0 ? "plus" : "minus"}${level}` : "";
}

function shade(turn, k) {
  if (colour.by === "none") return "";
  if (colour.by !== "logprob") return signedShade(stream(turn, colour.by, k), colour.top[colour.by]);
  const value = logprob(turn, k);
  return value === null ? "" : `rare${PROBABILITIES.filter((limit) => Math.exp(value) < limit).length}`;
}

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const visible = (text) =>
  text.replace(CONTROL, (letter) => `\\x${letter.charCodeAt(0).toString(16).padStart(2, "0")}`).replace(/\n/g, "↵\n");

// The text to display for each token of a turn. A character whose bytes span several tokens is shown at the first one.
function displayTexts(turn) {
  const texts = turn.ids.map((token) => {
    const text = vocabulary.texts[token];
    return text === null ? ` ${vocabulary.ids[token]} ` : visible(text);
  });
  for (let k = 0; k < texts.length; k++) {
    const owners = [], bytes = [];
    for (; vocabulary.bytes[turn.ids[k]]; k++) {
      for (const byte of vocabulary.bytes[turn.ids[k]]) { owners.push(k); bytes.push(byte); }
    }
    if (bytes.length) spreadBytes(texts, owners, Uint8Array.from(bytes));
  }
  return texts;
}

const utf8 = new TextDecoder("utf-8", {fatal: true});

// Decodes bytes as UTF-8 and adds each character to the text of the token, in `owners`, that has its first byte.
function spreadBytes(texts, owners, bytes) {
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

// The element of a reply. Tokens become elements of their own, chunk by chunk, when they come into view.
function replyBox(turn, label) {
  const n = turn.ids.length;
  const box = el("div", {class: "tokens", tabindex: 0, role: "group", "aria-label": `${label}, ${plural(n, "token")}`});
  const chunks = [], texts = displayTexts(turn);
  for (let from = 0; from < n; from += CHUNK) {
    const to = Math.min(n, from + CHUNK);
    const part = el("span", {}, texts.slice(from, to).join(""));
    let isDrawn = false;
    const draw = () => {
      if (isDrawn) return;
      isDrawn = true;
      part.replaceChildren(...turn.ids.slice(from, to).map((_, j) => {
        const token = el("span", {class: tokenClass(turn, from + j)}, texts[from + j]);
        token.k = from + j;
        return token;
      }));
      markHits();
    };
    chunks.push(draw);
    box.append(part);
    onVisible(part, draw);
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

const visibleCallbacks = new WeakMap(); // element -> function to call when it first comes into view
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    observer.unobserve(entry.target);
    visibleCallbacks.get(entry.target)();
  }
}, {rootMargin: "600px", scrollMargin: "600px"});

function onVisible(element, callback) {
  visibleCallbacks.set(element, callback);
  observer.observe(element);
}

const tip = document.getElementById("tip");

// Shows the tooltip of a token, below it or, where there is no room, above.
function showTip(token) {
  const {turn} = replies.get(token.closest(".tokens"));
  const k = token.k;
  const id = vocabulary.ids[turn.ids[k]];
  const text = vocabulary.texts[turn.ids[k]];
  const value = logprob(turn, k);
  const lines = [
    ["token", text === null ? "unknown text" : vocabulary.bytes[turn.ids[k]] ? `bytes ${text}` : JSON.stringify(text)],
    ["id", id],
    ["log-probability", value === null ? "–" : `${formatNumber(value)} (${formatNumber(100 * Math.exp(value), 1)} %)`],
    ...Object.keys(turn.streams ?? {}).map((name) => [name, formatNumber(stream(turn, name, k), 4)]),
  ];
  tip.replaceChildren(el("dl", {}, lines.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))])));
  tip.hidden = false;
  const place = token.getBoundingClientRect();
  const {offsetWidth: width, offsetHeight: height} = tip;
  const below = place.bottom + height + 10 < innerHeight;
  tip.style.left = `${Math.max(6, Math.min(place.left, innerWidth - width - 6))}px`;
  tip.style.top = `${below ? place.bottom + 6 : Math.max(6, place.top - height - 6)}px`;
}

// Moves by `step` tokens in the reply that has the focus.
function moveToken(box, step) {
  const state = replies.get(box);
  state.at = Math.max(0, Math.min(state.turn.ids.length - 1, state.at + step));
  state.chunks[Math.floor(state.at / CHUNK)]?.();
  box.querySelector(".at")?.classList.remove("at");
  const token = [...box.querySelectorAll(".t")].find((one) => one.k === state.at);
  if (!token) return;
  token.classList.add("at");
  token.scrollIntoView({block: "nearest"});
  showTip(token);
}

document.addEventListener("mouseover", (event) => {
  const token = event.target.closest?.(".t");
  if (token) showTip(token);
  else tip.hidden = true;
});
document.addEventListener("click", (event) => {
  const token = event.target.closest?.(".t");
  if (token) showTip(token);
});
document.addEventListener("focusout", (event) => {
  event.target.querySelector?.(".at")?.classList.remove("at");
  tip.hidden = true;
});
document.addEventListener("scroll", () => {
  const at = document.activeElement.querySelector?.(":scope.tokens .at");
  if (at && !tip.hidden) showTip(at);
  else tip.hidden = true;
}, {capture: true, passive: true});
