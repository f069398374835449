// Draws the numbers of the elements beside their frames over the page; called with false it removes them again.
boxes => {
  document.getElementById("turnwise-marks")?.remove();
  if (!boxes) return;
  const HEIGHT = 14, DIGIT = 7, MARGIN = 6;
  const host = document.createElement("div");
  host.id = "turnwise-marks";
  host.style.cssText = "position:fixed;inset:0;z-index:2147483647;pointer-events:none";
  const root = host.attachShadow({mode: "closed"});
  const isShown = ([x, y, width, height]) =>
    width && height && x + width > 0 && y + height > 0 && x < innerWidth && y < innerHeight;
  const shared = (a, b) => Math.max(0, Math.min(a[0] + a[2], b[0] + b[2]) - Math.max(a[0], b[0])) *
    Math.max(0, Math.min(a[1] + a[3], b[1] + b[3]) - Math.max(a[1], b[1]));
  const marks = [];
  const placeOf = ([x, y, width, height], size) => {
    const middle = y + Math.min(height, 2 * HEIGHT) / 2 - HEIGHT / 2, inside = [x + width - size, y, size, HEIGHT];
    const spots = [[x - size - 2, middle, size, HEIGHT], [x + width + 2, middle, size, HEIGHT],
      [x, y - HEIGHT - 2, size, HEIGHT], [x, y + height + 2, size, HEIGHT], inside];
    const costOf = (spot, order) => {
      if (spot[0] < 0 || spot[1] < 0 || spot[0] + size > innerWidth || spot[1] + HEIGHT > innerHeight) return Infinity;
      const covered = [...boxes.filter(isShown), ...marks].reduce((sum, other) => sum + shared(spot, other), 0);
      return covered + order / 10;
    };
    const costs = spots.map(costOf), best = costs.indexOf(Math.min(...costs));
    return costs[best] === Infinity ? [Math.max(0, inside[0]), Math.max(0, y), size, HEIGHT] : spots[best];
  };
  boxes.forEach((box, place) => {
    if (!isShown(box)) return;
    const color = `hsl(${(place * 67) % 360} 85% 35%)`, text = String(place + 1);
    const draw = ([x, y, width, height], style) => {
      const node = document.createElement("div");
      node.style.cssText = `position:absolute;left:${x}px;top:${y}px;width:${width}px;height:${height}px;${style}`;
      root.append(node);
      return node;
    };
    draw(box, `outline:2px solid ${color};box-sizing:border-box`);
    const spot = placeOf(box, DIGIT * text.length + MARGIN);
    marks.push(spot);
    draw(spot, `background:${color};color:white;font:bold 11px/${HEIGHT}px sans-serif;text-align:center`).textContent = text;
  });
  document.documentElement.append(host);
}
