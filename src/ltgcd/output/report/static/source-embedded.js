// Where the page gets everything from where it is one file: the block of data inside the file. Edits stay in the page.
import { DRAWN, FAR, JUNK, UNSURE, unpack } from "./items.js";
import { keptEdits } from "./kept-edits.js";
import { corrections, replay } from "./local-edits.js";

/** The items' columns as the server sends them; a closeness to the centre comes with them. */
function readColumns(items) {
  const x = unpack(items.x, Uint16Array), y = unpack(items.y, Uint16Array), n = items.n, xy = new Float32Array(2 * n);
  for (let i = 0; i < n; i++) { xy[2 * i] = x[i]; xy[2 * i + 1] = y[i]; }
  const flags = unpack(items.flags, Uint8Array).map((flag) => flag | DRAWN);
  return {
    n, xy, flags, code: unpack(items.code, Int32Array), status: unpack(items.status, Uint8Array),
    confidence: unpack(items.confidence, Uint8Array), closeness: unpack(items.closeness, Uint8Array),
  };
}

export function embeddedSource(data) {
  const { meta } = data, items = readColumns(data.items);
  const ids = data.items.ids.map((id) => data.items.prefix + id), texts = data.items.texts;
  const base = { code: items.code.slice(), status: items.status.slice(), flags: items.flags.slice() };
  const classes = new Map(data.categories.map((one) => [one.code, one]));
  const pictures = new Map(data.picture.map((item, at) => [item, at]));
  const kind = texts ? "text" : pictures.size ? "image" : "vector";
  const kept = keptEdits(data);
  let now = { ...base, classes: data.categories }, done = [], undone = [], isKept = true, downloaded = 0;

  /** Rows of the current labels, those that can be shown, in the wanted order. */
  function chosen(belongs, order) {
    const rows = [];
    for (let i = 0; i < items.n; i++) if (belongs(i)) rows.push(i);
    const shown = pictures.size ? rows.filter((i) => pictures.has(i)) : rows; // a few stand for what has no picture
    const by = { centre: (i) => -items.closeness[i], likely: (i) => -items.confidence[i] }[order] ?? ((i) => items.confidence[i]);
    return Int32Array.from((shown.length ? shown : rows.slice(0, 4)).sort((a, b) => by(a) - by(b) || a - b));
  }
  function isPart(i, part) {
    if (part === "far") return (base.flags[i] & FAR) !== 0 && now.code[i] === base.code[i] && (now.flags[i] & 3) === 0;
    return part === "all" || (now.status[i] === UNSURE) === (part === "unsure");
  }
  function state() {
    const counts = { known: 0, novel: 0, unsure: 0, junk: 0, given: 0, labelled: 0 };
    let settled = 0;
    for (let i = 0; i < items.n; i++) {
      counts[["known", "novel", "unsure", "junk"][now.status[i]]]++;
      counts.given += now.flags[i] & 1;
      counts.labelled += (now.flags[i] >> 1) & 1;
      settled += (now.flags[i] & 3) !== 0;
    }
    return {
      mode: "file", title: meta.title, kind, n: items.n, version: done.length, base: 0, changes: done.length, settled,
      undo: done.length, redo: undone.length, counts, k: { k: meta.k, low: meta.low, high: meta.high },
      classes: now.classes, next_code: nextCode(), meta, curve: data.k, tiny: data.tiny,
    };
  }
  /** Codes go up and are never given twice, not even after an undo. */
  function nextCode() {
    const made = [...done, ...undone].flatMap((action) => action.events).filter((event) => event.op === "create");
    return Math.max(0, ...[...classes.keys(), ...made.map((event) => event.code)].map((code) => code + 1));
  }
  /** What the classes that some events name, or make, are called before them. */
  function namesIn(events) {
    const wanted = new Set(events.flatMap(({ code, into }) => [code, into])), made = events.filter((event) => event.op === "create");
    return Object.fromEntries([...now.classes.filter((one) => wanted.has(one.code)), ...made].map((one) => [one.code, one.name]));
  }
  const all = () => done.flatMap((action) => action.events);
  function again() {
    now = replay(base, classes, all());
    isKept = kept.write({ done, undone });
    return { ...state(), reload: true };
  }
  /** What was said before a reload; edits that this page can't read count as none. */
  function restore() {
    try {
      ({ done, undone } = kept.read());
      now = replay(base, classes, all());
    } catch { [now, done, undone] = [{ ...base, classes: data.categories }, [], []]; }
    return done.length;
  }
  const restored = restore();
  return {
    mode: "file", can: { far: true }, idsWhole: data.items.whole, restored,
    mayBeLost: () => !isKept && done.length > 0 && downloaded !== done.length,
    pictured: pictures.size ? (row) => pictures.has(row) : null,
    state: async () => state(),
    items: async () => ({ ...items, code: now.code.slice(), status: now.status.slice(), flags: now.flags.slice() }),
    rows: async (code, part, order) => chosen((i) => now.code[i] === code && now.status[i] !== JUNK && isPart(i, part), order),
    lane: async (status) => chosen((i) => now.status[i] === (status === "junk" ? JUNK : UNSURE), "likely"),
    describe: async (rows) => rows.map((row) => ({ row, id: ids[row], text: texts?.[row] })),
    thumb: (row) => pictures.has(row) ? "data:image/webp;base64," + data.pictures[pictures.get(row)] : null,
    search: async (q) => {
      const wanted = q.toLowerCase(), rows = [];
      for (let i = 0; i < items.n && rows.length < 1000; i++)
        if (ids[i].toLowerCase().includes(wanted) || texts?.[i].toLowerCase().includes(wanted)) rows.push(i);
      return { rows, classes: [] };
    },
    act: async (events) => { replay(base, classes, [...all(), ...events]); done.push({ events, names: namesIn(events), time: Date.now() / 1000 }); undone = []; return again(); },
    undo: async () => { undone.push(done.pop()); return { ...again(), action: undone.at(-1) }; },
    redo: async () => { done.push(undone.pop()); return { ...again(), action: done.at(-1) }; },
    history: async () => [...done.map((action, at) => ({ ...action, active: true, action: at + 1 })),
      ...undone.toReversed().map((action, at) => ({ ...action, active: false, action: done.length + at + 1 }))].reverse(),
    corrections: () => { downloaded = done.length; return corrections(base, classes, all(), ids); },
  };
}
