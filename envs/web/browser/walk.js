// Reads the page by the rules of envs/web/page.py, and does or prepares what actions do to its elements.
(() => {
  const KEY = Symbol.for("turnwise");
  const NEVER = new Set("HEAD SCRIPT STYLE TEMPLATE NOSCRIPT TITLE DATALIST svg".split(" "));
  const BLOCKS = new Set(`ADDRESS ARTICLE ASIDE BLOCKQUOTE BODY CAPTION DD DETAILS DIALOG DIV DL DT FIELDSET FIGCAPTION
    FIGURE FOOTER FORM H1 H2 H3 H4 H5 H6 HEADER HR HTML LEGEND LI MAIN NAV OL OPTGROUP OPTION P PRE SECTION SUMMARY TABLE
    TBODY TD TFOOT TH THEAD TR UL`.split(/\s+/));
  const ROLES = {checkbox: "checkbox", radio: "radio", range: "slider", number: "spinbutton", search: "searchbox",
    submit: "button", button: "button", reset: "button", image: "button", file: "button"};
  const WIDGETS = new Set("button link checkbox radio switch tab menuitem option slider textbox searchbox combobox".split(" "));
  const FIELDS = new Set(["INPUT", "SELECT", "TEXTAREA"]);
  const clean = text => text.split(/[\s\u00a0]+/).filter(Boolean).join(" ");
  const attr = (node, name) => node.getAttribute(name);
  const kind = node => node.tagName === "INPUT" ? node.type : "";

  const childrenOf = node => {
    if (node.shadowRoot) return node.shadowRoot.childNodes;
    if (node.tagName === "SLOT") {
      const assigned = node.assignedNodes();
      return assigned.length ? assigned : node.childNodes;
    }
    return node.childNodes;
  };
  const isHidden = node => {
    if (NEVER.has(node.tagName)) return true;
    if (attr(node, "aria-hidden") === "true" || node.hasAttribute("hidden")) return true;
    if (node.checkVisibility({visibilityProperty: true})) return false;
    const style = getComputedStyle(node);
    return style.display === "none" || style.visibility === "hidden" || style.visibility === "collapse";
  };
  // Whether the text of a node is laid out, but so that nobody can see it.
  const isUnseen = node => {
    if (node.nodeType !== 1) node = node.host;  // a shadow root
    if (!node.checkVisibility({opacityProperty: true}))
      for (let each = node; each; each = each.parentElement) if (getComputedStyle(each).opacity === "0") return true;
    const box = node.getBoundingClientRect();
    if (box.height <= 1) {
      const style = getComputedStyle(node);
      if (style.fontSize === "0px" || (box.width <= 1 && style.overflow !== "visible")) return true;
      if (!box.width && !box.height) return false;  // display: contents
    }
    const view = node.ownerDocument.defaultView;
    return box.right + view.scrollX <= 0 || box.bottom + view.scrollY <= 0;
  };
  const isEditable = node => ["", "true"].includes((attr(node, "contenteditable") ?? "false").toLowerCase());
  const isInteractive = node => {
    if (["BUTTON", "SELECT", "TEXTAREA", "SUMMARY"].includes(node.tagName)) return true;
    if (node.tagName === "INPUT") return node.type !== "hidden";
    if (node.tagName === "A" && node.hasAttribute("href")) return true;
    return WIDGETS.has(attr(node, "role")) || node.hasAttribute("onclick") || isEditable(node) ||
      /^\s*\d+\s*$/.test(attr(node, "tabindex") ?? "-1");
  };
  const roleOf = node => {
    const role = (attr(node, "role") ?? "").trim();
    if (role) return role;
    if (node.tagName === "INPUT") return ROLES[node.type] ?? "textbox";
    if (node.tagName === "A" && node.hasAttribute("href")) return "link";
    if (node.tagName === "BUTTON" || node.tagName === "SUMMARY") return "button";
    if (node.tagName === "SELECT") return node.multiple ? "listbox" : "combobox";
    return node.tagName === "TEXTAREA" || isEditable(node) ? "textbox" : "generic";
  };
  const collect = (node, skip, pieces) => {
    for (const child of childrenOf(node)) {
      if (child.nodeType === 3) pieces.push(child.data);
      else if (child.nodeType === 1 && !skip.has(child.tagName) && !isHidden(child)) {
        const block = BLOCKS.has(child.tagName) || child.tagName === "BR";
        if (block) pieces.push(" ");
        if (child.tagName === "IMG") pieces.push(attr(child, "alt") ?? "");
        else if (child.tagName !== "SELECT" && child.tagName !== "TEXTAREA") collect(child, skip, pieces);
        if (block) pieces.push(" ");
      }
    }
  };
  const textOf = (node, skip = new Set()) => {
    const pieces = [];
    collect(node, skip, pieces);
    return clean(pieces.join(""));
  };
  const HELD = new Set([...FIELDS, "BUTTON"]);
  const nameOf = node => {
    let name = clean(attr(node, "aria-label") ?? "");
    if (name) return name;
    const ids = (attr(node, "aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
    const root = node.getRootNode();
    name = ids.map(id => root.getElementById?.(id)).filter(Boolean).map(each => textOf(each)).filter(Boolean).join(" ");
    if (name) return name;
    name = [...(node.labels ?? [])].map(label => textOf(label, HELD)).filter(Boolean).join(" ");
    if (name) return name;
    if (!FIELDS.has(node.tagName) && (name = textOf(node))) return name;
    if (["submit", "button", "reset"].includes(kind(node))) {
      if ((name = clean(attr(node, "value") ?? ""))) return name;
      if (node.type !== "button") return node.type[0].toUpperCase() + node.type.slice(1);
    }
    for (const key of ["alt", "placeholder", "title"]) if ((name = clean(attr(node, key) ?? ""))) return name;
    return "";
  };
  const optionText = option => clean(attr(option, "label") || option.text);
  const valueOf = (node, role) => {
    if (node.tagName === "SELECT") return node.selectedIndex < 0 ? "" : optionText(node.options[node.selectedIndex]);
    if (node.tagName === "INPUT" || node.tagName === "TEXTAREA") {
      if (["button", "checkbox", "radio"].includes(role)) return "";
      return node.type === "password" ? "\u2022".repeat(node.value.length) : node.value;
    }
    return "";
  };
  const isOn = (node, name) => !["false", ""].includes(attr(node, name) ?? "false");
  const activeOf = root => {
    let active = root.activeElement;
    for (;;) {
      if (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
      else if (active?.tagName === "IFRAME" && active.contentDocument) active = active.contentDocument.activeElement;
      else return active;
    }
  };
  const isDisabled = node => attr(node, "aria-disabled") === "true" || (HELD.has(node.tagName) && node.matches(":disabled"));
  const statesOf = (node, active) => {
    const states = [], box = ["checkbox", "radio"].includes(kind(node));
    if (box ? node.checked : ["aria-checked", "aria-selected", "aria-current"].some(name => isOn(node, name)))
      states.push("checked");
    if (isDisabled(node)) states.push("disabled");
    const details = node.tagName === "SUMMARY" && node.parentElement?.tagName === "DETAILS" && node.parentElement.open;
    if (details || attr(node, "aria-expanded") === "true") states.push("expanded");
    if (node === active) states.push("focused");
    if (node.hasAttribute("required") || attr(node, "aria-required") === "true") states.push("required");
    const judged = HELD.has(node.tagName) && node.matches(":user-invalid");
    if (judged || attr(node, "aria-invalid") === "true") states.push("invalid");
    return states;
  };

  const read = () => {
    const elements = [], nodes = [], active = activeOf(document);
    let run = [], level = 0, mute = false, cell = null, dx = 0, dy = 0;
    const emit = part => (cell ?? nodes).push(part);
    const end = () => {
      const content = clean(run.join(""));
      run = [];
      if (content) emit({t: content, l: level});
    };
    const element = node => {
      elements.push(node);
      const role = roleOf(node), box = node.getBoundingClientRect();
      const one = {r: role, n: nameOf(node), s: statesOf(node, active),
        b: [box.x + dx, box.y + dy, box.width, box.height].map(x => Math.round(x * 10) / 10)};
      const value = valueOf(node, role);
      if (value) one.v = value;
      if (node.tagName === "SELECT") one.o = [...node.options].map(optionText);
      emit(one);
    };
    const walk = node => {
      let unseen = null;
      for (const child of childrenOf(node)) {
        if (child.nodeType === 3) {
          if (!mute) run.push(/\S/.test(child.data) && (unseen ??= isUnseen(node)) ? " " : child.data);
        } else if (child.nodeType === 1) visit(child);
      }
    };
    const visit = node => {
      const tag = node.tagName;
      if (isHidden(node) || (tag === "DIALOG" && !node.open)) return;
      if (isInteractive(node)) { end(); element(node); return; }
      if (tag === "BR") { end(); return; }
      if (tag === "TR") {
        end();
        if (cell) { walk(node); end(); return; }
        const cells = [];
        let header = true;
        for (const child of node.children) {
          if ((child.tagName === "TD" || child.tagName === "TH") && !isHidden(child)) {
            cell = [];
            walk(child);
            end();
            cells.push(cell);
            header = header && child.tagName === "TH";
          }
        }
        cell = null;
        if (cells.some(each => each.length)) nodes.push({c: cells, h: header});
        return;
      }
      if (tag === "LABEL") {
        const before = mute;
        if (node.control) { end(); mute = true; }
        walk(node);
        mute = before;
        return;
      }
      if (tag === "DETAILS" && !node.open) {
        const summary = [...node.children].find(child => child.tagName === "SUMMARY");
        end();
        if (summary) visit(summary);
        return;
      }
      if (tag === "IMG") { run.push(attr(node, "alt") ?? ""); return; }
      if (tag === "IFRAME" || tag === "FRAME") {
        end();
        let inner = null;
        try { inner = node.contentDocument; } catch { /* of another origin */ }
        if (inner?.documentElement) {
          const box = node.getBoundingClientRect(), x = dx, y = dy;
          dx += box.x + node.clientLeft;
          dy += box.y + node.clientTop;
          visit(inner.documentElement);
          dx = x;
          dy = y;
        }
        end();
        return;
      }
      if (!BLOCKS.has(tag)) { walk(node); return; }
      end();
      const before = level;
      if (/^H[1-6]$/.test(tag)) level = +tag[1];
      walk(node);
      end();
      level = before;
    };
    if (document.documentElement) visit(document.documentElement);
    end();
    window[KEY] = {...window[KEY], elements};
    const page = document.scrollingElement ?? document.documentElement;
    const above = page ? page.scrollTop : 0;
    return JSON.stringify({title: clean(document.title), above: Math.round(above),
      below: Math.round(Math.max(0, (page ? page.scrollHeight : 0) - above - innerHeight)), nodes});
  };

  const contains = (outer, inner) => {
    for (let node = inner; node; node = node.parentNode ?? node.host ?? null) if (node === outer) return true;
    return false;
  };
  // The element at a point of its own document, and what is in front of a frame in the documents around it.
  const topAt = (node, x, y) => {
    let view = node.ownerDocument.defaultView;
    while (view !== window && view.frameElement) {
      const frame = view.frameElement, box = frame.getBoundingClientRect();
      const outerX = x + box.x + frame.clientLeft, outerY = y + box.y + frame.clientTop;
      const top = frame.ownerDocument.elementFromPoint(outerX, outerY);
      if (top !== frame) return top;
      view = frame.ownerDocument.defaultView;
      x = outerX;
      y = outerY;
    }
    const inner = node.getRootNode();
    return {inner, view};
  };
  const POINTS = [[0.5, 0.5], [0.15, 0.15], [0.85, 0.15], [0.15, 0.85], [0.85, 0.85]];  // shares of width and height
  // Whether an address leads out of the site; scripts, and what they have made, are of the page itself.
  const Url = window.URL, INNER = ["javascript:", "blob:"];
  const leaves = (address, origins) => {
    try {
      const url = new Url(address, document.baseURI);
      return !INNER.includes(url.protocol) && ![location.origin, ...origins].includes(url.origin);
    } catch { return true; }  // no address at all
  };
  const locate = (index, origins, role, name) => {
    const node = window[KEY]?.elements?.[index - 1];
    if (!node?.isConnected) return {error: "gone"};
    if (isDisabled(node)) return {error: "disabled"};
    const isSame = roleOf(node) === role && nameOf(node) === name;
    node.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
    let target = node, rects = node.getClientRects();
    if (!rects.length || !rects[0].width || !rects[0].height) {  // a field whose label stands for it
      target = node.labels?.[0] ?? node;
      rects = target.getClientRects();
    }
    if (!rects.length || !rects[0].width || !rects[0].height) return {error: "no area"};
    const box = rects[0], labels = [...(node.labels ?? [])];
    let top = null, x = 0, y = 0;
    const isHit = ([across, down]) => {
      x = box.x + box.width * across;
      y = box.y + box.height * down;
      const front = topAt(target, x, y);
      top = front?.inner ? front.inner.elementFromPoint?.(x, y) ?? null : front;
      return top && (contains(node, top) || contains(top, node) || labels.some(label => contains(label, top)));
    };
    if (!POINTS.some(isHit)) {
      isHit(POINTS[0]);
      return {error: "covered", by: top ? (textOf(top) || top.tagName.toLowerCase()).slice(0, 60) : "nothing"};
    }
    if (!isSame) return {error: "changed"};
    let dx = 0, dy = 0;
    for (let view = node.ownerDocument.defaultView; view !== window && view.frameElement; view = view.parent) {
      const frame = view.frameElement.getBoundingClientRect();
      dx += frame.x + view.frameElement.clientLeft;
      dy += frame.y + view.frameElement.clientTop;
    }
    // An address of another scheme, which a script may take for itself, is left to the page and to `idle.js`.
    const isRefused = node.tagName === "A" && [":", "http:", "https:"].includes(node.protocol) && leaves(node.href, origins);
    return {x: x + dx, y: y + dy, leaves: isRefused ? attr(node, "href") : null};
  };
  // Whether a click at this point of the viewport still reaches the element, now that the pointer is there.
  const aim = (index, x, y) => {
    const node = window[KEY]?.elements?.[index - 1];
    if (!node?.isConnected) return {error: "gone"};
    let root = document, top = null;
    for (;;) {
      top = root.elementFromPoint(x, y);
      if (top?.shadowRoot && top !== node && !contains(node, top)) {
        const inner = top.shadowRoot.elementFromPoint(x, y);
        if (!inner || inner === top) break;
        root = top.shadowRoot;
      } else if ((top?.tagName === "IFRAME" || top?.tagName === "FRAME") && top !== node && top.contentDocument) {
        const box = top.getBoundingClientRect();
        x -= box.x + top.clientLeft;
        y -= box.y + top.clientTop;
        root = top.contentDocument;
      } else break;
    }
    const labels = [...(node.labels ?? [])];
    const isThere = () => [...node.getClientRects()].some(box =>
      x >= box.left - 1 && x <= box.right + 1 && y >= box.top - 1 && y <= box.bottom + 1);
    if (top && (contains(node, top) || (contains(top, node) && isThere()) || labels.some(label => contains(label, top))))
      return {};
    return {error: "moved", by: top ? (textOf(top) || top.tagName.toLowerCase()).slice(0, 60) : ""};
  };
  const report = node => {
    node.dispatchEvent(new InputEvent("input", {bubbles: true, inputType: "deleteContentBackward"}));
    node.dispatchEvent(new Event("change", {bubbles: true}));
  };
  const insertText = Document.prototype.execCommand;
  // A click whose element must still be under the pointer when the button goes down; else the page gets no part of it.
  const listen = EventTarget.prototype.addEventListener, GUARDED = ["pointerdown", "mousedown", "pointerup", "mouseup", "click"];
  let guarded = null;
  const guard = event => {
    if (!guarded || !event.isTrusted) return;
    guarded.verdict ??= aim(guarded.index, event.clientX, event.clientY);
    if (!guarded.verdict.error) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  const hear = () => { for (const type of GUARDED) listen.call(window, type, guard, true); };
  // Where to click, as `locate` says it, with the click guarded; not if frames, which hear clicks first, can cover it.
  const target = (index, origins, role, name) => {
    guarded = null;
    const place = locate(index, origins, role, name);
    if (place.error || place.leaves !== null || window.length) return place;
    hear();  // again after a `document.open`, which takes the listeners away; else this changes nothing
    guarded = {index, verdict: null};
    return {...place, guarded: true};
  };
  const verdict = () => {
    const last = guarded?.verdict ?? {};
    guarded = null;
    return last;
  };
  const fill = (index, text) => {
    const node = window[KEY]?.elements?.[index - 1];
    if (!node?.isConnected) return {error: "gone"};
    if (isDisabled(node)) return {error: "disabled"};
    const editable = node.isContentEditable;
    const type = kind(node) || node.tagName.toLowerCase();
    const text_like = node.tagName === "TEXTAREA" || (node.tagName === "INPUT" &&
      !["checkbox", "radio", "submit", "button", "reset", "image", "file"].includes(type));
    if (!text_like && !editable) return {error: "no text", role: roleOf(node)};
    if (node.readOnly) return {error: "readonly"};
    node.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
    node.focus();
    if (editable) {
      node.textContent = text;
      node.dispatchEvent(new InputEvent("input", {bubbles: true, data: text}));
      return {};
    }
    if (node.tagName === "INPUT") text = text.replace(/[\r\n]/g, "");
    if (node.maxLength >= 0) text = text.slice(0, node.maxLength);
    const own = Object.getOwnPropertyDescriptor(node.tagName === "INPUT" ? HTMLInputElement.prototype
      : HTMLTextAreaElement.prototype, "value");
    const before = node.value;
    own.set.call(node, text);
    const kept = type === "number" && text ? node.value !== "" : node.value === text || type === "textarea" || type === "email";
    if (!kept) {
      own.set.call(node, before);
      return {error: "value", type, min: node.min, max: node.max, step: node.step};
    }
    const plain = !["date", "month", "time", "color", "range", "week", "datetime-local", "number", "email"].includes(type);
    if (plain) {  // typed at last, so that a change is reported when the field is left, and the page hears keys
      own.set.call(node, text.slice(0, -1));
      node.setSelectionRange(node.value.length, node.value.length);
      if (!text) { if (before !== "") report(node); return {}; }
      return insertText.call(node.ownerDocument, "insertText", false, text.slice(-1)) ? {} : {insert: text.slice(-1)};
    }
    node.dispatchEvent(new InputEvent("input", {bubbles: true, data: text}));
    node.dispatchEvent(new Event("change", {bubbles: true}));
    return {};
  };
  const choose = (index, wish) => {
    const node = window[KEY]?.elements?.[index - 1];
    if (!node?.isConnected) return {error: "gone"};
    if (isDisabled(node)) return {error: "disabled"};
    if (node.tagName !== "SELECT") return {error: "no options", role: roleOf(node)};
    const texts = [...node.options].map(optionText), same = texts.filter(text => text.toLowerCase() === wish.toLowerCase());
    const place = texts.includes(wish) ? texts.indexOf(wish) : same.length === 1 ? texts.indexOf(same[0]) : -1;
    if (place < 0) return {error: "no option", texts};
    if (node.options[place].disabled) return {error: "option disabled"};
    node.focus();
    node.selectedIndex = place;
    node.dispatchEvent(new Event("input", {bubbles: true}));
    node.dispatchEvent(new Event("change", {bubbles: true}));
    return {};
  };
  hear();
  return {read, locate, leaves, target, aim, verdict, fill, choose};
})()
