// Runs in an isolated world of every document that is read or used: the page
// can neither see nor change what is defined here, only the DOM is shared.
(() => {
  if (globalThis.lomi) return;

  const SKIP = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'META', 'LINK', 'TITLE', 'BASE', 'AUDIO', 'VIDEO', 'CANVAS', 'OBJECT', 'EMBED', 'DATALIST']);
  const INLINE = new Set(['A', 'SPAN', 'B', 'I', 'EM', 'STRONG', 'SMALL', 'CODE', 'LABEL', 'ABBR', 'SUB', 'SUP', 'MARK', 'U', 'S', 'Q', 'CITE', 'TIME', 'VAR', 'KBD', 'SAMP', 'BDI', 'BDO', 'FONT', 'INS', 'DEL', 'SLOT', 'WBR', 'BR', 'TD', 'TH']);
  const ACTIVE = new Set(['button', 'link', 'checkbox', 'radio', 'switch', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem', 'slider', 'spinbutton', 'combobox', 'textbox', 'searchbox', 'listbox']);
  const LANDMARK = new Set(['main', 'navigation', 'banner', 'contentinfo', 'complementary', 'search', 'form', 'region', 'dialog', 'alertdialog', 'alert', 'status']);
  const TEXTLIKE = new Set(['text', 'search', 'email', 'url', 'tel', 'password', 'number']);
  const PICKED = new Set(['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range']);
  const INNER = 'a[href],button,input,select,textarea,summary,[role=button],[role=link],[role=checkbox],[role=tab],[role=menuitem],[tabindex]';
  const SECRET = /passw|pwd|passcode|secret|token|\botp\b|one-?time|cvc|cvv|csc\b|card.?(num|no)|cc-|\bssn\b|social.?sec|api.?key|private.?key|\bpin\b/i;
  const NAME = 200, TEXT = 600, VALUE = 200, OPTIONS = 60;

  const refs = new Map(); // number to element, of the retained snapshot
  let walk = null; // where that snapshot stopped

  const tidy = s => s.replace(/[\s\u0000-\u001f\u007f-\u009f\u200b\u2060\ufeff]+/g, ' ').trim();
  const cut = (s, n) => (s.length > n ? s.slice(0, n).replace(/[\ud800-\udbff]$/, '') + '…' : s);
  const weigh = s => { // bytes in JSON, roughly
    let n = 0;
    for (let i = 0; i < s.length; i++) { const c = s.charCodeAt(i); n += c < 0x80 ? (c === 34 || c === 92 ? 2 : 1) : c < 0x800 ? 2 : 3; }
    return n;
  };
  const typeOf = el => (el.tagName === 'INPUT' ? el.type : '');
  const parentOf = n => n.assignedSlot || n.parentNode || n.host || null;
  const within = (el, n) => { for (; n; n = parentOf(n)) if (n === el) return true; return false; };
  const boxed = el => el.checkVisibility() || getComputedStyle(el).display === 'contents';
  const seen = el => el.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const secret = el => ['password', 'hidden', 'file'].includes(typeOf(el)) ||
    SECRET.test([el.name, el.id, el.getAttribute('autocomplete'), el.getAttribute('aria-label'), el.placeholder].join(' '));
  const disabled = el => el.matches(':disabled') || el.getAttribute('aria-disabled') === 'true';
  const editing = el => el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable);

  function roleOf(el) {
    const given = (el.getAttribute('role') || '').trim().toLowerCase().split(/\s+/)[0];
    if (given && given !== 'none' && given !== 'presentation') return given.slice(0, 64);
    return ownRole(el);
  }

  // What an element is by its tag and type, whatever the page calls it.
  function ownRole(el) {
    switch (el.tagName) {
      case 'A': case 'AREA': return el.hasAttribute('href') ? 'link' : '';
      case 'BUTTON': case 'SUMMARY': return 'button';
      case 'SELECT': return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
      case 'TEXTAREA': return 'textbox';
      case 'INPUT':
        switch (el.type) {
          case 'hidden': return '';
          case 'button': case 'submit': case 'reset': case 'image': return 'button';
          case 'checkbox': case 'radio': return el.type;
          case 'range': return 'slider';
          case 'number': return 'spinbutton';
          case 'search': return 'searchbox';
          case 'file': return 'file';
          default: return el.list ? 'combobox' : 'textbox';
        }
      case 'H1': case 'H2': case 'H3': case 'H4': case 'H5': case 'H6': return 'heading';
      case 'MAIN': return 'main';
      case 'NAV': return 'navigation';
      case 'ASIDE': return 'complementary';
      case 'DIALOG': return 'dialog';
      case 'SEARCH': return 'search';
      case 'HEADER': return el.closest('article,aside,main,nav,section') ? '' : 'banner';
      case 'FOOTER': return el.closest('article,aside,main,nav,section') ? '' : 'contentinfo';
      case 'FORM': return labelled(el) ? 'form' : '';
      case 'SECTION': return labelled(el) ? 'region' : '';
      case 'IMG': return el.alt ? 'img' : '';
      case 'IFRAME': case 'FRAME': return 'iframe';
      case 'PROGRESS': return 'progressbar';
      case 'METER': return 'meter';
    }
    if (el instanceof SVGElement) return el.getAttribute('aria-label') ? 'img' : '';
    return editing(el) ? 'textbox' : '';
  }

  const OTHERS = 'a,area,button,input,select,textarea,summary,label,iframe,object,embed,[contenteditable],[onclick]';
  const HARMLESS = new Set(['text', 'search', 'email', 'url', 'tel', 'password', 'number', 'date', 'time', 'datetime-local', 'month', 'week', 'color', 'range', 'checkbox', 'radio']);

  // Whether a click on an element only follows a link or changes a field of a
  // form that is not sent by it. A person is asked about all else, so this
  // looks at tag, type and address only and never at what a page may call
  // things; in doubt it says no.
  function plain(el, at) { // at: the label that draws the field, or the element
    if (!(el instanceof HTMLElement) || el.shadowRoot) return false;
    for (let n = parentOf(at); n; n = parentOf(n)) {
      if (n.nodeType !== 1) continue;
      if (['A', 'BUTTON', 'SUMMARY', 'AREA'].includes(n.tagName)) return false;
      if (n.tagName === 'LABEL' && n.control && n.control !== el) return false;
    }
    if (at.tagName !== 'SELECT') {
      const inside = document.createTreeWalker(at, NodeFilter.SHOW_ELEMENT);
      for (let n = inside.nextNode(), left = 50; n; n = inside.nextNode()) {
        if (left-- === 0 || n !== el && (n.shadowRoot || n.tagName.includes('-') || n.matches(OTHERS))) return false;
      }
    }
    switch (el.tagName) {
      case 'SELECT': case 'TEXTAREA': return true;
      case 'INPUT': return HARMLESS.has(el.type);
      case 'A': {
        if (!el.hasAttribute('href') || !/^https?:$/.test(el.protocol)) return false;
        return el.href.split('#')[0] !== location.href.split('#')[0]; // "#" is a button in disguise
      }
    }
    return false;
  }

  const labelled = el => el.hasAttribute('aria-label') || el.hasAttribute('aria-labelledby');

  // Text of a subtree as a reader sees it, bounded.
  function textOf(el, max) {
    let out = '', steps = 0;
    const add = n => {
      for (let c = n.firstChild; c && out.length < max && steps++ < 400; c = c.nextSibling) {
        if (c.nodeType === 3) out += c.data.length > max ? c.data.slice(0, max) : c.data;
        else if (c.nodeType === 1) {
          if (SKIP.has(c.tagName) || c.getAttribute('aria-hidden') === 'true' || !boxed(c)) continue;
          const block = !INLINE.has(c.tagName);
          if (block) out += ' ';
          if (c.tagName === 'IMG') out += c.alt;
          else if (c.tagName === 'BR') out += ' ';
          else if (c.hasAttribute('aria-label')) out += c.getAttribute('aria-label');
          else if (c.tagName !== 'SELECT' && c.tagName !== 'TEXTAREA') add(c.shadowRoot || c);
          if (block) out += ' ';
        }
      }
    };
    add(el.shadowRoot || el);
    return tidy(out);
  }

  function nameOf(el, role) {
    const by = el.getAttribute('aria-labelledby');
    if (by) {
      const root = el.getRootNode();
      const s = by.trim().split(/\s+/).slice(0, 8).map(id => { const e = root.getElementById && root.getElementById(id); return e ? e.getAttribute('aria-label') || textOf(e, NAME) : ''; }).join(' ');
      if (tidy(s)) return cut(tidy(s), NAME);
    }
    const label = tidy(el.getAttribute('aria-label') || '');
    if (label) return cut(label, NAME);
    const t = typeOf(el);
    if (['submit', 'reset', 'button'].includes(t)) return cut(tidy(el.value || (t === 'submit' ? 'Submit' : t === 'reset' ? 'Reset' : el.title || '')), NAME);
    if (el.tagName === 'IMG' || t === 'image') return cut(tidy(el.alt || el.title || ''), NAME);
    if (el.labels && el.labels.length) {
      const s = tidy([...el.labels].slice(0, 3).map(l => textOf(l, NAME)).join(' '));
      if (s) return cut(s, NAME);
    }
    if (['INPUT', 'TEXTAREA', 'SELECT'].includes(el.tagName)) return cut(tidy(el.title || el.placeholder || el.name || ''), NAME);
    if (role === 'textbox' || role === 'searchbox') return cut(tidy(el.title || el.getAttribute('aria-placeholder') || el.dataset?.placeholder || ''), NAME);
    if (el.tagName === 'IFRAME' || el.tagName === 'FRAME') return cut(tidy(el.title || el.name || ''), NAME);
    if (LANDMARK.has(role)) return role === 'alert' || role === 'status' ? '' : cut(tidy(el.title || ''), NAME);
    const own = textOf(el, NAME + 1);
    if (own) return cut(own, NAME);
    const img = el.querySelector?.('img[alt],svg[aria-label],svg title');
    if (img) return cut(tidy(img.alt || img.getAttribute('aria-label') || img.textContent || ''), NAME);
    return cut(tidy(el.title || ''), NAME);
  }

  const flag = (el, name) => (el.hasAttribute(name) ? el.getAttribute(name) === 'true' : undefined);

  function describe(el, role, at = el) {
    const item = { role, name: nameOf(el, role), enabled: !disabled(el), own: ownRole(el), plain: plain(el, at) };
    const t = typeOf(el);
    if (t === 'checkbox' || t === 'radio') item.checked = el.checked;
    else if (['checkbox', 'radio', 'switch', 'menuitemcheckbox', 'menuitemradio'].includes(role)) item.checked = flag(el, 'aria-checked') ?? false;
    else if (role === 'tab' || role === 'option') item.checked = flag(el, 'aria-selected');
    else item.checked = flag(el, 'aria-pressed');
    item.expanded = el.tagName === 'SUMMARY' ? !!el.parentElement?.open : flag(el, 'aria-expanded');
    if (el.tagName === 'SELECT') {
      item.options = [];
      for (let i = 0; i < el.options.length && i < OPTIONS; i++) item.options.push({ label: cut(tidy(el.options[i].label || el.options[i].text), 80), selected: el.options[i].selected });
      item.more = el.options.length - item.options.length;
      if (!secret(el)) item.value = cut([...el.selectedOptions].slice(0, 8).map(o => tidy(o.label || o.text)).join(', '), VALUE);
    } else if (TEXTLIKE.has(t) || PICKED.has(t) || el.tagName === 'TEXTAREA') {
      item.editable = item.enabled && !el.readOnly;
      if (!secret(el)) { item.length = el.value.length; item.value = cut(el.value.length > 4 * VALUE ? el.value.slice(0, 4 * VALUE) : el.value, VALUE); }
    } else if (editing(el)) {
      item.editable = true;
      const text = textOf(el, VALUE + 1);
      if (!secret(el)) { item.length = text.length; item.value = cut(text, VALUE); }
    }
    return item;
  }

  // Whether an element without a role of its own can be clicked.
  function clickable(el, parentPointer) {
    if (el.hasAttribute('onclick')) return true;
    if (el.tabIndex >= 0 && el.hasAttribute('tabindex')) return true;
    return !parentPointer && el.tagName !== 'LABEL' && el.tagName !== 'BODY' && el.tagName !== 'HTML' && getComputedStyle(el).cursor === 'pointer';
  }

  const level = (node, mute, pointer, block) => {
    const root = node.shadowRoot || node;
    const list = node.tagName === 'SLOT' && node.assignedNodes().length ? node.assignedNodes() : null;
    return { next: list ? null : root.firstChild, list, i: 0, mute, pointer, block };
  };

  function take(item, el) { // false when it does not fit: it is the first of the next part
    let cost = 110 + weigh(item.name) + (item.value ? 20 + weigh(item.value) : 0);
    for (const o of item.options || []) cost += 14 + weigh(o.label);
    if (item.options) cost += 16;
    if (walk.nodes <= 0 || cost > walk.bytes) { walk.held = { item, el }; return false; }
    walk.nodes--; walk.bytes -= cost;
    if (el) { item.ref = walk.number++; refs.set(item.ref, el); }
    walk.items.push(item);
    return true;
  }

  function flush() {
    const text = tidy(walk.text);
    walk.text = '';
    if (!text || text === '|') return true;
    for (let i = 0; i < text.length; i += TEXT) {
      // What does not fit is kept as text, in front of whatever comes next.
      if (!take({ role: 'text', name: text.slice(i, i + TEXT) }, null)) {
        walk.held = null; walk.text = text.slice(i); return false;
      }
    }
    return true;
  }

  // Visits one element: what to list, and whether to go inside.
  function visit(el, top) {
    if (SKIP.has(el.tagName)) return;
    if (!boxed(el)) return;
    if (el.getAttribute('aria-hidden') === 'true' || el.inert) return;
    const role = roleOf(el);
    const block = !INLINE.has(el.tagName);
    if (ACTIVE.has(role) || role === 'file' || editing(el)) {
      if (!seen(el)) { if (!el.labels?.length) walk.stack.push(level(el, top.mute, top.pointer, block)); return; }
      walk.queue.push({ item: describe(el, role || 'textbox'), el });
      if (role === 'listbox' && el.tagName !== 'SELECT') walk.stack.push(level(el, true, true, block));
      return;
    }
    if (el.tagName === 'LABEL') {
      const c = el.control;
      if (c && !seen(c) && seen(el)) { // a control drawn by its label
        const item = describe(c, roleOf(c) || 'button', el);
        walk.queue.push({ item, el });
        return;
      }
      walk.stack.push(level(el, top.mute || (!!c && seen(c)), top.pointer, false));
      return;
    }
    if (role === 'heading') {
      const n = +(el.getAttribute('aria-level') || el.tagName[1]) || 2;
      if (seen(el)) walk.queue.push({ item: { role, name: nameOf(el, role), level: Math.min(6, Math.max(1, n)), enabled: true } });
      if (el.querySelector(INNER)) walk.stack.push(level(el, true, false, true));
      return;
    }
    if (role === 'img' || role === 'iframe' || role === 'progressbar' || role === 'meter') {
      if (seen(el)) walk.queue.push({ item: { role, name: nameOf(el, role), enabled: true } });
      return;
    }
    if (el instanceof SVGElement) return;
    if (LANDMARK.has(role)) {
      walk.queue.push({ item: { role, name: nameOf(el, role), enabled: true } });
      walk.stack.push(level(el, top.mute, top.pointer, true));
      return;
    }
    let pointer = top.pointer;
    if (clickable(el, pointer) && seen(el)) {
      pointer = true;
      if (!el.querySelector(INNER)) {
        const item = describe(el, role || 'clickable');
        if (item.name || role) { walk.queue.push({ item, el }); return; }
      }
    }
    if (el.tagName === 'TD' || el.tagName === 'TH') { if (tidy(walk.text)) walk.text += ' | '; }
    if (el.tagName === 'BR') { walk.text += ' '; return; }
    if (el.tagName === 'DETAILS' && !el.open) { // only its summary shows
      const s = el.querySelector(':scope > summary');
      if (s) walk.stack.push({ next: null, list: [s], i: 0, mute: top.mute, pointer, block: true });
      return;
    }
    walk.stack.push(level(el, top.mute, pointer, block));
    if (block) walk.due = true;
  }

  // Goes on until the tree, the room or the time is used up. The state stays,
  // so that a later call goes on from here.
  function go(maxSteps, deadline) {
    let steps = 0;
    for (;;) {
      if (walk.held) { const h = walk.held; walk.held = null; if (!take(h.item, h.el)) return false; }
      if (walk.due || walk.queue.length) {
        if (!flush()) return false;
        walk.due = false;
        while (walk.queue.length) { const q = walk.queue.shift(); if (!take(q.item, q.el)) return false; }
      }
      const top = walk.stack[walk.stack.length - 1];
      if (!top) return true;
      if (++steps > maxSteps || (steps % 8 === 0 && performance.now() > deadline)) { walk.tired = true; return false; }
      let node;
      if (top.list) node = top.list[top.i++];
      else { node = top.next; if (node) top.next = node.nextSibling; }
      if (!node) { walk.stack.pop(); if (top.block) walk.due = true; continue; }
      if (node.nodeType === 3) {
        if (top.mute || (node.parentElement && !seen(node.parentElement))) continue;
        const long = node.data.length > 20 * TEXT;
        if (long || walk.text.length > 50 * TEXT) walk.cut = true;
        if (walk.text.length <= 50 * TEXT) walk.text += long ? node.data.slice(0, 20 * TEXT) : node.data;
      } else if (node.nodeType === 1) visit(node, top);
    }
  }

  const view = () => ({ width: innerWidth, height: innerHeight, scale: devicePixelRatio });

  function hitAt(x, y) {
    let e = document.elementFromPoint(x, y);
    while (e && e.shadowRoot) { const i = e.shadowRoot.elementFromPoint(x, y); if (!i || i === e) break; e = i; }
    return e;
  }

  const hits = (el, hit) => !!hit && (within(el, hit) || [...(el.labels || [])].some(l => within(l, hit)) || (el.tagName === 'OPTION' && within(el.closest('select'), hit)));

  const say = el => { // names what covers an element
    if (!el) return 'nothing';
    const role = roleOf(el) || el.tagName.toLowerCase();
    const name = cut(tidy(el.getAttribute('aria-label') || el.id || (el.innerText || '').slice(0, 200)), 60);
    return name ? role + ' "' + name + '"' : role;
  };

  const boxOf = el => {
    for (const r of el.getClientRects()) if (r.width > 0 && r.height > 0) return r;
    const inner = el.firstElementChild;
    return inner && getComputedStyle(el).display === 'contents' ? boxOf(inner) : null;
  };

  const tick = () => new Promise(done => { const t = setTimeout(done, 60); requestAnimationFrame(() => { clearTimeout(t); done(); }); });

  // A point at which a click reaches the element, or what is in the way.
  function aim(el) {
    const r = boxOf(el);
    if (!r) return { error: 'hidden' };
    const l = Math.max(0, r.left), t = Math.max(0, r.top), w = Math.min(innerWidth, r.right) - l, h = Math.min(innerHeight, r.bottom) - t;
    if (w <= 0 || h <= 0) return { error: 'outside' };
    let cover = null;
    for (const [fx, fy] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.1], [0.9, 0.9]]) {
      const x = l + w * fx, y = t + h * fy, hit = hitAt(x, y);
      if (hits(el, hit)) return { x, y };
      cover ||= hit;
    }
    return { error: 'covered', cover: say(cover) };
  }

  // An element of a snapshot may be the label that draws a hidden field.
  const plainNow = el => plain(el.tagName === 'LABEL' && el.control ? el.control : el, el);
  const find = n => { const el = refs.get(n); return el && el.isConnected ? el : null; };
  const active = () => { let e = document.activeElement; while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement; return e; };

  globalThis.lomi = {
    // Begins (or goes on with) a snapshot of this document.
    snapshot(o) {
      if (!o.resume) { refs.clear(); walk = null; }
      if (o.resume && !walk) return { lost: true };
      if (!walk) {
        const root = document.documentElement;
        walk = { stack: root ? [level(root, false, false, true)] : [], queue: [], held: null, text: '', due: false };
      }
      Object.assign(walk, { nodes: o.nodes, bytes: o.bytes, number: o.number, items: [], tired: false, cut: false });
      const done = go(o.steps, performance.now() + o.ms) && flush();
      return { items: walk.items, number: walk.number, nodes: walk.nodes, bytes: walk.bytes, done, tired: walk.tired, cut: !!walk.cut, view: view(), frames: frames.length };
    },
    forget() { refs.clear(); walk = null; },
    // Brings an element into view, waits until it stands still, and aims.
    async ready(n) {
      const el = find(n);
      if (!el) return { error: 'stale' };
      const kind = typeOf(el) || (el.tagName === 'BUTTON' && el.form ? el.type : el.tagName.toLowerCase());
      if (disabled(el)) return { error: 'disabled' };
      if (kind === 'file') return { error: 'file' };
      if (el.closest('a[download]')) return { error: 'download' };
      el.scrollIntoViewIfNeeded(true);
      let last = null;
      for (let i = 0; i < 20; i++) {
        await tick();
        const r = el.isConnected && boxOf(el);
        if (!r) return { error: el.isConnected ? 'hidden' : 'stale' };
        if (last && Math.abs(r.left - last.left) < 1 && Math.abs(r.top - last.top) < 1 && Math.abs(r.width - last.width) < 1) {
          const a = aim(el);
          return { ...a, kind, plain: plainNow(el), readonly: !!el.readOnly, editable: editing(el), checked: !!el.checked, href: el.closest('a[href]')?.href ?? '' };
        }
        last = r;
      }
      return { error: 'moving' };
    },
    // Whether a click at this point still reaches the element.
    still(n, x, y) {
      const el = find(n);
      if (!el) return { error: 'stale' };
      const hit = hitAt(x, y);
      return hits(el, hit) ? {} : { error: 'covered', cover: say(hit) };
    },
    // Where a frame's element stands in this document, and whether the point
    // of the frame is uncovered.
    owner(el, x, y) {
      const r = el.getBoundingClientRect();
      if (Math.abs(r.width - el.offsetWidth) > 1 || Math.abs(r.height - el.offsetHeight) > 1) return { error: 'transformed' };
      const s = getComputedStyle(el);
      const px = r.left + el.clientLeft + parseFloat(s.paddingLeft), py = r.top + el.clientTop + parseFloat(s.paddingTop);
      const hit = hitAt(px + x, py + y);
      if (px + x < 0 || py + y < 0 || px + x >= innerWidth || py + y >= innerHeight) return { error: 'outside' };
      return hit === el ? { x: px + x, y: py + y } : { error: 'covered', cover: say(hit) };
    },
    show(el) { el.scrollIntoViewIfNeeded(true); return {}; },
    // Selects all that a field holds, so that typing replaces it.
    select(n) {
      const el = find(n);
      if (!el) return { error: 'stale' };
      const now = active();
      if (!(now === el || within(el, now))) el.focus();
      const at = active();
      if (!(at === el || within(el, at))) return { error: 'unfocused' };
      if (editing(el)) getSelection().selectAllChildren(el);
      else el.select();
      return { length: editing(el) ? el.textContent.length : el.value.length };
    },
    // What a field holds now, compared here so that it never leaves the page.
    holds(n, text) {
      const el = find(n);
      if (!el) return { error: 'stale' };
      const v = editing(el) ? el.innerText.replace(/\n$/, '') : el.value;
      return { same: v.replace(/\r\n/g, '\n') === text.replace(/\r\n/g, '\n'), length: secret(el) ? -1 : v.length };
    },
    // Sets what no keyboard can: a date, a colour, a choice of a list.
    set(n, text) {
      const el = find(n);
      if (!el) return { error: 'stale' };
      if (disabled(el)) return { error: 'disabled' };
      if (el.tagName === 'SELECT') {
        const want = tidy(text), lower = want.toLowerCase(), all = [...el.options].slice(0, 1000);
        const o = all.find(o => o.value === text) || all.find(o => tidy(o.label || o.text) === want) || all.find(o => tidy(o.label || o.text).toLowerCase() === lower);
        if (!o) return { error: 'option', cover: all.slice(0, 12).map(o => cut(tidy(o.label || o.text), 40)).join(', ') };
        if (o.disabled || o.closest('optgroup')?.disabled) return { error: 'disabled' };
        el.focus();
        if (el.multiple) o.selected = true; else el.value = o.value, o.selected = true;
      } else {
        el.focus();
        el.value = text;
      }
      const same = el.tagName === 'SELECT' || el.value === text;
      el.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
      el.dispatchEvent(new Event('change', { bubbles: true }));
      return { same, length: el.value.length };
    },
    checked(n) { const el = find(n); return el ? { checked: !!(el.control || el).checked } : { error: 'stale' }; },
    focus(n) {
      const el = find(n);
      if (!el) return { error: 'stale' };
      if (disabled(el)) return { error: 'disabled' };
      if (active() !== el && !within(el, active())) el.focus();
      return active() === el || within(el, active()) ? { plain: plainNow(el) } : { error: 'unfocused' };
    },
    // The scroll position of what an element scrolls in, or of the document.
    position(n) {
      let el = n ? find(n) : null;
      if (n && !el) return { error: 'stale' };
      for (; el && !(el.scrollHeight > el.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(el).overflowY)); el = parentOf(el)) if (el.nodeType !== 1) { el = null; break; }
      return el && el !== document.documentElement && el !== document.body ? { x: el.scrollLeft, y: el.scrollTop } : { x: scrollX, y: scrollY };
    },
    // Lets what is queued in the page run.
    async pause() { await tick(); await new Promise(done => setTimeout(done, 0)); return {}; },
    view: () => ({ ...view(), x: scrollX, y: scrollY, zoom: visualViewport?.scale ?? 1 }),
    has: text => ({ same: !!document.body && document.body.innerText.includes(text) }),
  };
})();
