// Calls of the server that sent this page. A token, where one is needed, lives in this tab alone.

const KEPT = "abilities-token";

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (text) => sessionStorage.setItem(KEPT, text),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** A call that failed as a whole; `fault` is what the server says of it. */
export class Failed extends Error {
  constructor(fault, status = 0) {
    super(fault.message);
    this.fault = fault;
    this.status = status;
  }
}

/** What the server answers: to a POST of a body, or to a GET without one. */
async function asked(path, body) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const how = body ? { method: "POST", body: JSON.stringify(body) } : {};
  let response, payload;
  try {
    response = await fetch(path, { ...how, headers, credentials: "omit" });
    payload = await response.json();
  } catch {
    throw new Failed({ code: "UNREACHABLE", message: "The server does not answer." });
  }
  if (!response.ok) throw new Failed(payload.error, response.status);
  return payload;
}

/** An ability's answer. */
export const call = (name, args) => asked(`/api/abilities/${encodeURIComponent(name)}`, args);

/** What people look at beside the abilities: session, memory, days, files. */
export const view = (name, args = {}) => asked(`/api/explorer/${name}`, args);

/** One call of an ability, answered as it would be sent in both formats: {failed, json, toon}. */
export const both = (name, args) => asked(`/api/explorer/try/${encodeURIComponent(name)}`, args);

/** The abilities that this caller may use, with their schemas. */
export const abilities = () => asked("/api/abilities");
