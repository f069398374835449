// Runs before a page's own scripts: counts its short timers, so that an action can wait until its effects are there.
(() => {
  const LONGEST_MS = 1000, DEEPEST = 5;  // a timer set by a timer set by ... is a loop, and nothing waits for it
  const set = window.setTimeout.bind(window), clear = window.clearTimeout.bind(window);
  const pending = new Set();
  let depth = 0, waiting = [];
  const check = () => {
    if (pending.size) return;
    const done = waiting;
    waiting = [];
    done.forEach(resolve => resolve());
  };
  window.setTimeout = (callback, delay, ...rest) => {
    if (typeof callback !== "function" || delay > LONGEST_MS || depth > DEEPEST) return set(callback, delay, ...rest);
    const own = depth + 1;
    const id = set((...values) => {
      pending.delete(id);
      depth = own;
      try { callback.apply(window, values); } finally { depth = 0; check(); }
    }, delay, ...rest);
    pending.add(id);
    return id;
  };
  window.clearTimeout = id => { pending.delete(id); clear(id); check(); };
  Object.defineProperty(window, Symbol.for("turnwise.idle"), {value: limit => new Promise(resolve => {
    set(() => set(() => { if (pending.size) waiting.push(resolve); else resolve(); }, 0), 0);
    set(resolve, limit);
  })});
})();
