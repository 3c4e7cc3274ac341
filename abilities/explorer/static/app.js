// The page: the token if the server requires one, then the view at the current address.

import { readAddress } from "./address.js";
import { listAbilities, readView, shown, token } from "./api.js";
import { drafts, warnOfDrafts } from "./drafts.js";
import { Frame } from "./frame.js";
import { useRequest } from "./hooks.js";
import { Fault } from "./parts.js";
import { TokenForm } from "./token_form.js";
import { html, render, useEffect, useState } from "./vendor/htm-preact.js";

function App() {
  const [address, setAddress] = useState(readAddress());
  const [isAdding, setIsAdding] = useState(false);
  const start = useRequest(loadStart, []);

  const enter = () => {
    setIsAdding(false);
    start.reload();
  };

  useEffect(() => {
    const follow = () => setAddress(readAddress());

    addEventListener("hashchange", follow);
    addEventListener("keydown", focusSearch);
    addEventListener("beforeunload", warnOfDrafts);

    return () => {
      removeEventListener("hashchange", follow);
      removeEventListener("keydown", focusSearch);
      removeEventListener("beforeunload", warnOfDrafts);
    };
  }, []);

  if (isAdding || start.error?.status === 401) {
    return html`<${TokenForm} error=${start.error} onEnter=${enter} />`;
  }

  if (start.error) {
    return html`<main class="alone"><${Fault} error=${start.error} /></main>`;
  }

  if (!start.data) {
    return html`<main class="alone"><p role="status">Loading …</p></main>`;
  }

  return html`
    <${Frame}
      key=${start.data.session.namespace}
      address=${address}
      ...${start.data}
      onToken=${start.reload}
      onAdd=${() => setIsAdding(true)}
    />
  `;
}

async function loadStart() {
  // A namespace that the caller may not read any more is not asked for again.
  const chosen = shown.get();
  shown.set("");
  const { own, reads } = await readView("namespaces");
  if (reads.includes(chosen)) shown.set(chosen);

  const [session, abilities] = await Promise.all([readView("session"), listAbilities()]);
  drafts.open(session.namespace);
  if (Object.keys(token.list()).length > 0) token.keep(own);

  return { session: { ...session, own, reads }, abilities };
}

/** Moves the focus to the view's search when "/" is pressed outside of a control. */
function focusSearch(event) {
  const isTyping = event.target.closest("input, textarea, select, dialog");
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  if (event.key !== "/" || isTyping || hasModifier) return;

  const search = document.querySelector("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
  }
}

render(html`<${App} />`, document.getElementById("app"));
