// Where one is: `#/view/key?name=value`. Every view can be bookmarked, sent to a colleague, and left with "back".

export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "", key = ""] = path.split("/");
  return { name: name || "memories", key: decoded(key), params: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function at(name, key = "", params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return `#/${name}${key ? `/${encodeURIComponent(key)}` : ""}${query ? `?${query}` : ""}`;
}

/** The same place with other parameters; leaves no step to go back to. */
export function refine(name, key, params) {
  history.replaceState(null, "", at(name, key, params));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
