// What is said where a form was left without saving it.

import { drafts } from "./drafts.js";
import { html, useState } from "./vendor/htm-preact.js";

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
