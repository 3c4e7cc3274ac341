// Forms that were not saved yet. They stay in this tab, for each namespace and memory, until they
// are saved or discarded.

import { html, useState } from "./vendor/htm-preact.js";

const PREFIX = "abilities-draft:";

const kept = new Map();
let namespace = "";

export const drafts = {
  open,
  get: (key) => kept.get(name(key)),
  keep,
  drop,
};

/** Chooses the namespace, and finds what a page that was loaded anew left in the tab. */
function open(chosen) {
  namespace = chosen;

  for (const stored of Object.keys(sessionStorage)) {
    if (stored.startsWith(PREFIX) && !kept.has(stored)) {
      kept.set(stored, JSON.parse(sessionStorage.getItem(stored)));
    }
  }
}

function keep(key, draft) {
  kept.set(name(key), draft);

  try {
    sessionStorage.setItem(name(key), JSON.stringify(draft));
  } catch {
    // The tab's storage is full; the draft stays as long as the page.
  }
}

function drop(key) {
  kept.delete(name(key));
  sessionStorage.removeItem(name(key));
}

function name(key) {
  return PREFIX + JSON.stringify([namespace, key]);
}

/** Asks before the tab is closed while something in it is not saved. */
export function warnOfDrafts(event) {
  if (kept.size > 0) event.preventDefault();
}

/** Says that a form was left without saving it. */
export function DraftNotice({ draftKey, onContinue }) {
  const [, setRound] = useState(0);
  if (!drafts.get(draftKey)) return null;

  const discard = () => {
    drafts.drop(draftKey);
    setRound((round) => round + 1);
  };

  return html`
    <div class="draft" role="note">
      <span>What you typed here is not saved yet.</span>
      <button onClick=${onContinue}>Go on editing</button>
      <button class="quiet" onClick=${discard}>Discard it</button>
    </div>
  `;
}
