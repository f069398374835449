// Draws the numbers of the elements over the page; called with false it removes them again.
boxes => {
  document.getElementById("turnwise-marks")?.remove();
  if (!boxes) return;
  const host = document.createElement("div");
  host.id = "turnwise-marks";
  host.style.cssText = "position:fixed;inset:0;z-index:2147483647;pointer-events:none";
  const root = host.attachShadow({mode: "closed"});
  boxes.forEach(([x, y, width, height], place) => {
    if (!width || !height || x + width < 0 || y + height < 0 || x > innerWidth || y > innerHeight) return;
    const color = `hsl(${(place * 67) % 360} 85% 35%)`;
    const frame = document.createElement("div");
    frame.style.cssText = `position:absolute;left:${x}px;top:${y}px;width:${width}px;height:${height}px;` +
      `outline:2px solid ${color};box-sizing:border-box`;
    const mark = document.createElement("div");
    mark.textContent = place + 1;
    const inside = y < 14;
    mark.style.cssText = `position:absolute;${inside ? "right:0;top:0" : "left:0;top:-14px"};background:${color};color:white;` +
      "font:bold 11px/14px sans-serif;padding:0 3px";
    frame.append(mark);
    root.append(frame);
  });
  document.documentElement.append(host);
}
