// Calls to the server that sent this page. If it requires tokens, they stay in this tab.

const STORAGE_KEY = "abilities-token";

const OTHERS_KEY = "abilities-tokens";

const SHOWN_KEY = "abilities-namespace";

const UNREACHABLE = { code: "UNREACHABLE", message: "The server does not answer." };

export const token = {
  get: () => sessionStorage.getItem(STORAGE_KEY),
  set: (text) => {
    sessionStorage.setItem(STORAGE_KEY, text);
    shown.set("");
  },
  list: () => JSON.parse(sessionStorage.getItem(OTHERS_KEY) ?? "{}"),
  keep,
  forget: () => {
    sessionStorage.removeItem(STORAGE_KEY);
    sessionStorage.removeItem(OTHERS_KEY);
    shown.set("");
  },
};

/** The namespace to read in place of one's own; "" for the own. */
export const shown = {
  get: () => sessionStorage.getItem(SHOWN_KEY) ?? "",
  set: (namespace) => {
    if (namespace) sessionStorage.setItem(SHOWN_KEY, namespace);
    else sessionStorage.removeItem(SHOWN_KEY);
  },
};

/** Keeps the present token by its namespace, so that the tab can come back to it. */
function keep(namespace) {
  const kept = { ...token.list(), [namespace]: token.get() };
  sessionStorage.setItem(OTHERS_KEY, JSON.stringify(kept));
}

/** A call that failed as a whole: the server's fault, and its status, or 0 without a response. */
export class CallError extends Error {
  constructor(fault, status = 0) {
    super(fault.message);
    this.fault = fault;
    this.status = status;
  }
}

/** Sends a request, a POST if it has a body, and returns the response's JSON. */
async function send(path, body) {
  const options = {};

  if (body) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }

  try {
    const response = await request(path, options);
    return await response.json();
  } catch (problem) {
    throw problem instanceof CallError ? problem : new CallError(UNREACHABLE);
  }
}

/** Returns the response to a request. Throws a CallError if the server refuses it. */
async function request(path, { headers, ...options }) {
  const all = { "X-Abilities-Surface": "explorer", ...headers };
  if (token.get()) all.Authorization = `Bearer ${token.get()}`;
  if (shown.get()) all["X-Abilities-Namespace"] = encodeURIComponent(shown.get());

  const response = await fetch(path, { ...options, headers: all, credentials: "omit" });
  if (!response.ok) throw new CallError((await response.json()).error, response.status);
  return response;
}

/**
 * Calls `onEvent` with the data of each event of a stream, until the stream ends.
 *
 * `onPart` is called whenever something arrives. Throws a CallError if the server refuses the
 * stream, and another error if the connection breaks. (An EventSource would send no token.)
 */
export async function readEvents(path, { signal, onEvent, onPart }) {
  const response = await request(path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";

  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;

    onPart();
    const events = `${text}${value}`.split("\n\n");
    text = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) onEvent(event.slice("data: ".length));
    }
  }
}

/** Calls an ability and returns its answer. */
export function callAbility(name, args) {
  return send(`/api/abilities/${encodeURIComponent(name)}`, args);
}

/** Reads one of the page's own views, as the server declares them. */
export function readView(name, args = {}) {
  return send(`/api/explorer/${name}`, args);
}

/**
 * Calls an ability once, for its reply in each format: {failed, json, text, toon, payload, error},
 * and how many bytes a reply may have at most: {max_bytes}.
 *
 * A refused call has a reply too, so nothing is thrown for it; `error` is set instead.
 */
export async function tryAbility(name, args) {
  const reply = await send(`/api/explorer/try/${encodeURIComponent(name)}`, args);
  const payload = JSON.parse(reply.json);
  const error = reply.failed ? { fault: payload.error } : null;

  return { ...reply, payload, error };
}

/** Lists the abilities that the caller may use, with their schemas. */
export function listAbilities() {
  return send("/api/abilities");
}
