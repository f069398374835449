// Success and return of the run, update by update, as two small curves; a click shows the episodes of an update.

const progress = document.getElementById("progress");
const CURVE_HEIGHT = 64; // pixels
const MARGIN = {left: 34, right: 8, top: 6, bottom: 14};
const curves = head.curves ?? {};
const lastUpdate = Math.max(1, ...(curves.update ?? []), ...(curves.evaluations ?? []).map(([update]) => update));

function svgElement(parent, tag, properties, text) {
  const node = document.createElementNS(parent.namespaceURI, tag);
  for (const [name, value] of Object.entries(properties)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function drawCurve(figure) {
  const chart = figure.querySelector("svg");
  const name = figure.dataset.curve;
  const values = curves[name] ?? [];
  const points = (curves.update ?? []).map((update, i) => [update, values[i]]).filter(([, value]) => value !== null);
  const evaluations = name === "success" ? curves.evaluations ?? [] : [];
  const known = [...points, ...evaluations].map(([, value]) => value);
  figure.hidden = known.length === 0;
  if (figure.hidden) return;
  const width = Math.max(120, figure.clientWidth);
  let [low, high] = name === "success" ? [0, 1] : [Math.min(0, ...known), Math.max(0, ...known)];
  if (high === low) high = low + 1;
  const x = (update) => MARGIN.left + (update / lastUpdate) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => MARGIN.top + (1 - (value - low) / (high - low)) * (CURVE_HEIGHT - MARGIN.top - MARGIN.bottom);
  chart.replaceChildren();
  chart.setAttribute("viewBox", `0 0 ${width} ${CURVE_HEIGHT}`);
  chart.setAttribute("aria-label", curveLabel(name, points, evaluations));
  if (included.length) {
    const [first, last] = [included[0], included[included.length - 1]];
    svgElement(chart, "rect", {class: "included", x: x(first) - 2, y: MARGIN.top, width: x(last) - x(first) + 4, height: CURVE_HEIGHT - MARGIN.top - MARGIN.bottom});
  }
  for (const value of [low, high]) {
    svgElement(chart, "line", {class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value)});
    svgElement(chart, "text", {x: MARGIN.left - 4, y: y(value) + 4, "text-anchor": "end"}, formatNumber(value, 2));
  }
  svgElement(chart, "text", {x: MARGIN.left, y: CURVE_HEIGHT - 2}, "0");
  svgElement(chart, "text", {x: width - MARGIN.right, y: CURVE_HEIGHT - 2, "text-anchor": "end"}, `update ${lastUpdate}`);
  if (points.length) svgElement(chart, "polyline", {class: "curve", points: points.map(([update, value]) => `${x(update).toFixed(1)},${y(value).toFixed(1)}`).join(" ")});
  if (points.length === 1) svgElement(chart, "circle", {class: "point", cx: x(points[0][0]), cy: y(points[0][1]), r: 2.5});
  for (const [update, value, split] of evaluations) {
    const dot = svgElement(chart, "circle", {class: `held-out ${split === "test" ? "test" : "val"}`, cx: x(update), cy: y(value), r: 3.5});
    svgElement(dot, "title", {}, `${split} tasks after update ${update}: success ${formatNumber(value)}`);
  }
  if (selectedRow && selectedRow.update > 0) {
    svgElement(chart, "line", {class: "now", x1: x(selectedRow.update), x2: x(selectedRow.update), y1: MARGIN.top, y2: CURVE_HEIGHT - MARGIN.bottom});
  }
}

function curveLabel(name, points, evaluations) {
  const ends = points.length ? `${name} of training episodes from ${formatNumber(points[0][1])} to ${formatNumber(points[points.length - 1][1])}` : name;
  return [ends, ...evaluations.map(([update, value, split]) => `${split} after update ${update}: ${formatNumber(value)}`)].slice(0, 8).join("; ");
}

function drawCurves() {
  progress.hidden = !(curves.update?.length || curves.evaluations?.length);
  if (!progress.hidden) for (const figure of progress.querySelectorAll("figure")) drawCurve(figure);
}

// The update at a place of a chart.
function updateAt(chart, clientX) {
  const {left, width} = chart.getBoundingClientRect();
  const share = (clientX - left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
  return Math.round(Math.max(0, Math.min(1, share)) * lastUpdate);
}

for (const figure of progress.querySelectorAll("figure")) {
  const chart = figure.querySelector("svg"), reading = figure.querySelector("output");
  chart.addEventListener("pointermove", (event) => {
    const update = updateAt(chart, event.clientX);
    const at = (curves.update ?? []).findIndex((one) => one >= update);
    const value = (curves[figure.dataset.curve] ?? [])[at];
    reading.value = at < 0 || value === undefined ? "" : `update ${curves.update[at]}: ${formatNumber(value)}`;
  });
  chart.addEventListener("pointerleave", () => { reading.value = ""; });
  chart.addEventListener("click", (event) => {
    const update = updateAt(chart, event.clientX);
    const nearest = allUpdates.reduce((best, one) => (Math.abs(one - update) < Math.abs(best - update) ? one : best), allUpdates[0]);
    if (nearest !== undefined) showUpdate(nearest);
  });
}
new ResizeObserver(() => drawCurves()).observe(progress);
