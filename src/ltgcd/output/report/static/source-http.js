// Where the page gets everything from, and says everything to, when 'ltgcd review' serves it.
import { unpack } from "./items.js";
import { emit } from "./store.js";

export class Refused extends Error {
  constructor(status, sentence) { super(sentence); this.status = status; }
}

const MAGIC = 0x3147544c; // "LTG1", little endian

/** The columns of all items: positions, codes, status, confidence and flags, views on one buffer. */
export function readItems(buffer) {
  const [magic, n] = new Uint32Array(buffer, 0, 2);
  if (magic !== MAGIC) throw new Error("The server sent items that this page can't read; reload it.");
  let at = 8;
  const take = (Type, count) => { const part = new Type(buffer, at, count); at += part.byteLength; return part; };
  return {
    n, xy: take(Float32Array, 2 * n), code: take(Int32Array, n), status: take(Uint8Array, n),
    confidence: take(Uint8Array, n), flags: take(Uint8Array, n),
  };
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    emit("connection", "silent");
    throw new Refused(0, "The server does not answer; is 'ltgcd review' still running?");
  }
  emit("connection", answer.status === 403 ? "refused" : null);
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, said.error || `The server answered ${answer.status}.`);
  }
  return answer;
}
/** Columns of many rows come packed, as numbers in base64. */
function unpacked({ packed, ...answer }) {
  return packed ? { ...answer, rows: unpack(packed.rows, Int32Array), codes: unpack(packed.codes, Int32Array), statuses: unpack(packed.statuses, Uint8Array), flags: unpack(packed.flags, Uint8Array) } : answer;
}
const get = async (path) => (await ask(path)).json();
const binary = async (path) => (await ask(path)).arrayBuffer();
const post = async (path, body) => (await ask(path, {
  method: "POST", headers: { "Content-Type": "application/json", "X-Ltgcd": "1" }, body: JSON.stringify(body),
})).json();
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined));
/** Which state the page shows: a change of another is refused. An update or a refine adds no event, so the version alone does not tell. */
const seen = ({ version, base, n }) => ({ version, base, n });
/** A key of this action: sent again after a broken connection, it is done once. */
const freshKey = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");

/** Say something once, even where the first answer is lost. */
async function write(path, body) {
  const keyed = { ...body, key: freshKey() };
  try {
    return unpacked(await post(path, keyed));
  } catch (error) {
    if (error.status !== 0) throw error;
    await new Promise((done) => setTimeout(done, 700));
    return unpacked(await post(path, keyed));
  }
}

export function httpSource() {
  return {
    mode: "server",
    can: { odd: true, reject: true, split: true, grow: true, neighbours: true, merges: true, audit: true, far: true, refine: true, keep: true },
    state: () => get("/api/state"),
    items: async () => readItems(await binary("/api/items")),
    rows: async (code, part, order) => new Int32Array(await binary(`/api/rows?${query({ code, part, order })}`)),
    lane: async (status) => new Int32Array(await binary(status === "changed" ? "/api/refine/rows" : `/api/rows?${query({ status })}`)),
    describe: (rows) => get(`/api/describe?rows=${rows.join(",")}`),
    thumb: (row, size) => `/api/thumb/${row}?size=${size}`,
    neighbours: (row, n = 24) => get(`/api/neighbours/${row}?n=${n}`),
    merges: (code) => get(`/api/merges?${query({ code })}`),
    split: (code, parts) => get(`/api/split?${query({ code, parts })}`),
    grow: (code, limit, page = 0) => get(`/api/grow?${query({ code, page, limit })}`),
    search: (q) => get(`/api/search?${query({ q })}`),
    audit: (code, n = 20) => get(`/api/audit?${query({ code, n })}`),
    history: (limit = 200) => get(`/api/history?${query({ limit })}`),
    news: (state) => get(`/api/news?${query(seen(state))}`),
    act: (events, state) => write("/api/act", { events, ...seen(state) }),
    undo: (state) => write("/api/undo", seen(state)),
    redo: (state) => write("/api/redo", seen(state)),
    apply: (state) => post("/api/apply", seen(state)),
    refine: (state) => post("/api/refine", seen(state)),
    refineState: () => get("/api/refine"),
    refineMoves: ([from, to] = []) => get(`/api/refine/moves?${query({ from, to })}`),
    refineEnd: (how, state) => post(`/api/refine/${how}`, seen(state)), // accept, discard or undo
  };
}
