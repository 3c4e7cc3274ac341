// The address of a view: `#/view/key?name=value`. Every view can be bookmarked and shared, and
// the browser's "back" leads to the view before.

/** Reads the current address; without a view in it, that is the overview. */
export function readAddress() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", key = ""] = path.split("/");
  const params = Object.fromEntries(new URLSearchParams(query));

  return { view: view || "home", key: decode(key), params };
}

/** Decodes a key. One that was typed by hand may not be encoded, and is returned as it is. */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the link to a view. Parameters without a value are left out. */
export function linkTo(view, key = "", params = {}) {
  const hasValue = ([, value]) => value !== "" && value !== undefined && value !== null;
  const query = new URLSearchParams(Object.entries(params).filter(hasValue)).toString();
  let link = `#/${view}`;

  if (key) link += `/${encodeURIComponent(key)}`;
  if (query) link += `?${query}`;

  return link;
}

/** Opens a view. */
export function open(view, key = "", params = {}) {
  location.hash = linkTo(view, key, params);
}

/** Changes the parameters of the current view, without a step for "back" to return to. */
export function replaceParams(view, key, params) {
  history.replaceState(null, "", linkTo(view, key, params));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
