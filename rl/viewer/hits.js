// What the search has found, highlighted where it stands. Ranges of text are marked, and no element is changed.

const HIT_BLOCKS = "#detail .text, #detail .tokens, #detail .call, #detail .fact.state, #detail .about .fact, #detail dd.searched, #rows .c-task";
const MAX_HITS = 2000; // on the page at a time
let hitWords = ""; // in lower case; empty without a search
let isMarkPending = false;

const lowerCase = (text) => {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : [...text].map((c) => (c.toLowerCase().length === c.length ? c.toLowerCase() : c)).join("");
};
const hasHit = (turn) => hitWords !== "" && turnText(turn).toLowerCase().includes(hitWords);

function setHitWords(words) {
  hitWords = words;
  markHits();
}

// Marks the hits in what is drawn by now; to be called whenever more is drawn.
function markHits() {
  if (isMarkPending || !globalThis.CSS?.highlights) return;
  isMarkPending = true;
  requestAnimationFrame(() => {
    isMarkPending = false;
    const ranges = [];
    if (hitWords) for (const block of document.querySelectorAll(HIT_BLOCKS)) addHits(block, ranges);
    CSS.highlights.set("hit", new Highlight(...ranges));
    const turns = selectedRow ? episodeOf(selectedRow).turns : [];
    for (const step of document.querySelectorAll("#detail .step")) step.classList.toggle("has-hit", hasHit(turns[Number(step.dataset.k)]));
  });
}

// Adds the ranges of the hits in an element, which may lie across the elements inside it, and unfolds it.
function addHits(block, ranges) {
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  const nodes = [];
  let text = "";
  while (walker.nextNode()) {
    nodes.push([text.length, walker.currentNode]);
    text += walker.currentNode.data;
  }
  const lower = lowerCase(text);
  let n = 0;
  for (let at = lower.indexOf(hitWords); at >= 0 && ranges.length < MAX_HITS; at = lower.indexOf(hitWords, at + hitWords.length)) {
    const range = new Range();
    while (n + 1 < nodes.length && nodes[n + 1][0] <= at) n++;
    range.setStart(nodes[n][1], at - nodes[n][0]);
    const end = at + hitWords.length;
    let last = n;
    while (last + 1 < nodes.length && nodes[last + 1][0] < end) last++;
    range.setEnd(nodes[last][1], end - nodes[last][0]);
    ranges.push(range);
    if (block.classList.contains("folded")) block.nextElementSibling?.click();
  }
}
