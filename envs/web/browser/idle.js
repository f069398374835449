// Runs before a page's own scripts: counts its short timers and what it opens, so that an action can wait for its effects.
(() => {
  const LONGEST_MS = 1000, DEEPEST = 5, UNSENT_MS = 250;  // a timer set by a timer set by ... is a loop, and nothing waits for it
  const later = window.setTimeout.bind(window), forget = window.clearTimeout.bind(window);
  const pending = new Set();
  let depth = 0, opened = 0, waiting = [], isLeaving = false;
  const check = () => {
    if (pending.size || !waiting.length) return;
    later(() => {  // what the last timer has left to promises and observers may set timers itself
      if (pending.size) return;
      const resolved = waiting;
      waiting = [];
      resolved.forEach(resolve => resolve(opened));
    }, 0);
  };
  const count = (start, stop) => {
    const set = window[start].bind(window), clear = window[stop].bind(window);
    window[start] = (callback, delay, ...rest) => {
      if (typeof callback !== "function" || delay > LONGEST_MS || depth > DEEPEST) return set(callback, delay, ...rest);
      const own = depth + 1;
      const id = set((...values) => {
        pending.delete(start + id);
        depth = own;
        try { callback.apply(window, values); } finally { depth = 0; check(); }
      }, delay, ...rest);
      pending.add(start + id);
      return id;
    };
    window[stop] = id => { pending.delete(start + id); clear(id); check(); };
  };
  count("setTimeout", "clearTimeout");
  count("requestAnimationFrame", "cancelAnimationFrame");
  const open = window.open.bind(window);
  const isNew = target => !["_self", "_top", "_parent"].includes(String(target ?? "").toLowerCase());
  window.open = (url, target, ...rest) => { opened += isNew(target); return open(url, target, ...rest); };
  const opens = event => {
    const path = event.composedPath();
    const node = path.find(each => each.tagName === (event.type === "submit" ? "FORM" : "A"));
    const target = event.submitter?.getAttribute("formtarget") ?? node?.getAttribute("target") ?? "";
    if (node && target && isNew(target))
      later(() => { if (!event.defaultPrevented) opened++; }, 0);
  };
  addEventListener("pageshow", () => {  // fields of a page that one goes back to are as the site sends them
    if (performance.getEntriesByType("navigation")[0]?.type === "back_forward")
      for (const form of document.forms) HTMLFormElement.prototype.reset.call(form);
  });
  window.navigation?.addEventListener("navigate", event => {
    if (!event.hashChange && event.downloadRequest === null)
      queueMicrotask(() => { if (!event.defaultPrevented) isLeaving = true; });
  });
  let isParsed = document.readyState !== "loading";
  const parsed = new Promise(resolve => addEventListener("DOMContentLoaded", () => { isParsed = true; resolve(); }));
  // Until the document has been read to its end, and a page that says when it is ready is so.
  const arrive = limit => {
    const ready = window[Symbol.for("turnwise.ready")];
    if (isParsed && !ready) return Promise.resolve();
    return Promise.race([Promise.all([isParsed || parsed, ready]), new Promise(resolve => later(resolve, limit))]);
  };
  addEventListener("click", opens, true);
  addEventListener("submit", opens, true);
  Object.defineProperty(window, Symbol.for("turnwise.idle"), {value: limit => arrive(limit).then(() => new Promise(resolve => {
    later(() => later(() => { if (pending.size) waiting.push(resolve); else resolve(opened); }, 0), 0);
    later(() => resolve(opened), limit);
  })).then(number => { opened = 0; return number; })});
  // What a page tells its site with an observation, at no request of its own; sent by itself if nobody looks.
  const RequestOfPage = window.XMLHttpRequest, beacon = navigator.sendBeacon?.bind(navigator);
  let posts = [], unsent;
  const take = () => { const taken = posts; posts = []; forget(unsent); return taken; };
  const flush = () => {
    for (const [path, form] of take()) {
      const request = new RequestOfPage();
      request.open("POST", path);
      request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
      request.send(form);
    }
  };
  addEventListener("pagehide", () => { for (const [path, form] of take()) beacon?.(path, new URLSearchParams(form)); });
  Object.defineProperty(window, Symbol.for("turnwise.outbox"), {value: Object.freeze({
    take, post: (path, values) => {
      if (posts.push([path, new URLSearchParams(values).toString()]) === 1) unsent = later(flush, UNSENT_MS);
    }})});
  // The address of a form that leads out of the site, or of a link that does by no HTTP, until it is asked for; null for
  // none. Neither is sent or followed. A script may take both for itself, so this comes after all listeners of the page.
  let refused = null;
  const listen = addEventListener.bind(window), unlisten = removeEventListener.bind(window);
  const getAttribute = Element.prototype.getAttribute;  // a form's own may be a field of that name
  const attr = (node, name) => node ? getAttribute.call(node, name) : null;
  const linkAddress = event => {
    const link = event.isTrusted ? event.composedPath().find(each => each.tagName === "A" && each.href) : null;
    return !link || link.hasAttribute("download") || /^https?:$/.test(link.protocol) ? null : attr(link, "href");
  };
  const formAddress = ({target: form, submitter}) => {
    if (form.tagName !== "FORM") return null;
    if ((attr(submitter, "formmethod") || attr(form, "method") || "").toLowerCase() === "dialog") return null;
    return (attr(submitter, "formaction") ?? attr(form, "action") ?? "").trim() || null;  // without one: the document's own
  };
  const refuse = event => {
    if (event.defaultPrevented || window !== window.top) return;
    const address = event.type === "submit" ? formAddress(event) : linkAddress(event);
    const origins = window[Symbol.for("turnwise.origins")] ?? [];
    if (address === null || !window[Symbol.for("turnwise.walk")]?.leaves(address, origins)) return;
    event.preventDefault();
    refused = address;
  };
  for (const type of ["click", "submit"])
    listen(type, () => { unlisten(type, refuse); listen(type, refuse); }, true);  // the last of the window's listeners
  Object.defineProperty(window, Symbol.for("turnwise.refused"), {value: () => {
    const address = refused;
    refused = null;
    return address;
  }});
  // Whether another document has been asked for; what is shown is then not what an action has led to.
  Object.defineProperty(window, Symbol.for("turnwise.leaving"), {value: () => isLeaving});
})();
