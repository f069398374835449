// Stands before the scripts of a page of MiniWoB++. It begins an episode drawn from a seed, without a limit of time,
// reports its goal and its end to the site, and gives what can be clicked but is no control the role of a button.
(seed => {
  const EVENTS = new Set(["click", "mousedown", "mouseup"]);
  const FRAMES = new Set(["wrap", "area", "query", "reward-display", "sync-task-cover", "click-canvas"]);
  const CONTROL = "a[href],button,input:not([type=hidden]),select,textarea,summary";
  const WIDGET = ["button", "link", "checkbox", "radio", "tab", "menuitem", "option", "slider", "spinbutton"]
    .map(role => `[role=${role}]`).join(",");
  const clickable = new Set(), ours = new WeakSet(), labelled = new WeakSet();
  let number = 1, isMarking = false, isBeginning = false;
  Math.random = () => { number = number * 16807 % 2147483647; return number / 2147483647; };  // until the seed is set

  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (type, ...rest) {
    if (EVENTS.has(type) && this instanceof HTMLElement) { clickable.add(this); later(); }
    return listen.call(this, type, ...rest);
  };
  const nameless = node => !node.textContent.trim() && !node.title && !node.labels?.length &&
    (labelled.has(node) || !node.getAttribute("aria-label"));
  const label = node => {
    const words = [node.id, ...node.classList].filter(each => each && !/^ui-(state|corner|widget|icon)/.test(each));
    return node.style.backgroundColor || words.join(" ").replace(/[-_]+/g, " ");
  };
  const name = node => {
    if (!nameless(node)) return;
    labelled.add(node);
    node.setAttribute("aria-label", label(node));
  };
  const mark = () => {
    isMarking = false;
    if (!document.body) return;
    for (const node of document.body.querySelectorAll("*"))
      if (node instanceof HTMLElement && getComputedStyle(node).cursor === "pointer" &&
          getComputedStyle(node.parentElement).cursor !== "pointer") clickable.add(node);
    const nodes = [...clickable].filter(node => node.isConnected && node !== document.body && !FRAMES.has(node.id));
    for (const node of nodes) {
      const holds = node.querySelector(`${CONTROL},[tabindex="0"]`) || nodes.some(other => other !== node && node.contains(other));
      if (holds) {
        if (ours.has(node)) { node.removeAttribute("role"); ours.delete(node); }
      } else if (!node.matches(CONTROL) && !node.hasAttribute("role") && !node.closest(CONTROL)) {
        node.setAttribute("role", "button");
        ours.add(node);
      }
    }
    for (const node of document.querySelectorAll("[tabindex]")) {
      if (node.matches(CONTROL)) continue;
      if (node.matches(WIDGET) && node.querySelector("button,input,select,textarea")) {  // a heading that holds a button
        node.removeAttribute("role");
        node.tabIndex = -1;
      } else if (!node.matches(WIDGET) && node.querySelector(`${CONTROL},${WIDGET}`)) node.tabIndex = -1;
      else if (node.tabIndex >= 0) name(node);
    }
    for (const node of nodes) if (ours.has(node)) name(node);
  };
  const later = () => { if (!isMarking) { isMarking = true; setTimeout(mark, 0); } };
  const report = window[Symbol.for("turnwise.outbox")].post;  // the site has it before an observation shows more
  const start = seed => { Math.seedrandom(seed); core.startEpisodeReal(); };
  const goalOf = () => {
    mark();
    const goal = core.getUtterance();
    return typeof goal === "string" ? goal : goal.utterance ?? JSON.stringify(goal);
  };
  const begin = () => {
    if (window.jQuery) jQuery.fx.off = true;
    const end = core.endEpisode;
    core.endEpisode = function (...values) {
      const isPlaying = core.EP_TIMER !== null;
      end.apply(this, values);
      if (isPlaying && !isBeginning) report("/end", {seed, points: WOB_RAW_REWARD_GLOBAL});
    };
    core.EPISODE_MAX_TIME = 1e8;
    start(seed);
    const hidden = document.createElement("style");
    hidden.textContent = "#reward-display, #click-canvas { display: none !important }";
    document.head.append(hidden);
    new MutationObserver(later).observe(document.body, {childList: true, subtree: true, attributeFilter: ["class"]});
    report("/begin", {seed, goal: goalOf()});
    Object.defineProperty(window, Symbol.for("turnwise.restart"), {value: next => {
      seed = next;
      isBeginning = true;  // the end of an episode that was given up says nothing of the next one
      try { if (core.EP_TIMER !== null) core.endEpisode(0); } finally { isBeginning = false; }
      for (const node of clickable) if (!node.isConnected) clickable.delete(node);
      scrollTo(0, 0);
      document.activeElement?.blur();
      start(seed);
      return goalOf();
    }});
  };
  const hoverImages = () => [...document.styleSheets].flatMap(sheet =>
    [...sheet.cssRules].filter(rule => rule.selectorText?.includes(":hover")).flatMap(rule =>
      [...rule.cssText.matchAll(/url\("?([^")]+)"?\)/g)].map(found => new URL(found[1], sheet.href ?? location.href).href)));
  const load = address => new Promise(resolve => {  // an icon that loads under the mouse has no area meanwhile
    const image = new Image();
    image.onload = image.onerror = resolve;
    image.src = address;
  });
  Object.defineProperty(window, Symbol.for("turnwise.ready"), {value: new Promise(resolve =>
    window.addEventListener("load", () =>
      Promise.all(hoverImages().map(load)).then(() => setTimeout(() => { try { begin(); } finally { resolve(); } }, 0))))});
})
