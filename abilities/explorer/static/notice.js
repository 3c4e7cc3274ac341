// What was done last, and how to undo it. It stays until something else is done.

import { Fault } from "./parts.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

/**
 * `notice` is {text, undo}, or null; without `undo` there is nothing to undo. `onUndone` gets the
 * notice that follows.
 */
export function Notice({ notice, onUndone, onClose }) {
  const [error, setError] = useState();
  useEffect(() => setError(undefined), [notice]);

  const undo = async () => {
    try {
      onUndone(await notice.undo());
    } catch (problem) {
      setError(problem);
    }
  };

  // Screen readers announce what is put into an element that was there before.
  return html`
    <div class="notice" role="status">
      ${notice && html`<span>${notice.text}</span>`}
      ${notice?.undo && html`<button onClick=${undo}>Undo</button>`}
      ${notice && html`<button class="quiet" onClick=${onClose}>Close</button>`}
    </div>
    <${Fault} error=${error} />
  `;
}
