// What to do when somebody else changed a memory while its form was filled in.

import { createForm, describeForm, mergeForm } from "./changes.js";
import { SideBySide } from "./compared.js";
import { Fault } from "./parts.js";
import { html, useEffect, useRef } from "./vendor/htm-preact.js";

/**
 * Shows both texts, and asks which one counts.
 *
 * `theirs` is {memory, links} as it is now, or null if the memory was deleted. `onKeep` goes on
 * with the form, `onOverwrite` saves it; both get {base, form, rows}. `onTake` drops the form.
 */
export function Conflict({ base, form, rows, theirs, error, onKeep, onOverwrite, onTake }) {
  const heading = useRef();
  useEffect(() => heading.current.focus(), []);

  const mine = theirs ? adopt(base, form, rows, theirs) : renew(form, rows);
  const titles = theirs
    ? ["Theirs, as it is now", "Yours, as typed"]
    : ["Deleted", "Yours, as typed"];
  const after = describeForm(mine.form, mine.rows);
  const before = theirs ? describeForm(createForm(theirs.memory), theirs.links) : [];

  return html`
    <section class="conflict" aria-labelledby="conflict-title">
      <h2 id="conflict-title" tabindex="-1" ref=${heading}>
        Somebody ${theirs ? "changed" : "deleted"} this memory meanwhile
      </h2>
      <p>
        Nothing was saved, and nothing is lost. What you did not change is shown, and would be
        saved, as they left it.
      </p>
      <${SideBySide} titles=${titles} before=${before} after=${after} />
      <${Fault} error=${error} />
      <div class="actions">
        <button type="button" class="primary" onClick=${() => onKeep(mine)}>
          ${theirs ? "Keep editing on the newer version" : "Keep editing as a new memory"}
        </button>
        <button type="button" onClick=${() => onOverwrite(mine)}>
          ${theirs ? "Overwrite with yours" : "Store yours again"}
        </button>
        <button type="button" class="danger" onClick=${onTake}>
          ${theirs ? "Take theirs" : "Leave it deleted"}
        </button>
      </div>
    </section>
  `;
}

/** Returns the form on top of the newer version. */
function adopt(base, form, rows, theirs) {
  return { base: theirs, ...mergeForm(base, form, rows, theirs) };
}

/** Returns the form as that of a new memory with the same key. */
function renew(form, rows) {
  return { base: { memory: null, links: [] }, form, rows };
}
