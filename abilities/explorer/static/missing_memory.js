// What is left of a memory that is not there: its history, and a form that was not saved.

import { linkTo, open } from "./address.js";
import { DraftNotice } from "./drafts.js";
import { Editor } from "./editor.js";
import { History } from "./history.js";
import { Name, Time } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

export function MissingMemory({ memoryKey, canWrite, abilities, onWritten }) {
  const [isEditing, setIsEditing] = useState(false);

  const finishEditing = (outcome) => {
    setIsEditing(false);
    if (!outcome) return;
    open("memory", outcome.key);
    onWritten({ text: outcome.message });
  };

  if (isEditing) {
    return html`
      <${Editor} abilities=${abilities} draftKey=${memoryKey} onDone=${finishEditing} />
    `;
  }

  return html`
    ${
      canWrite &&
      html`<${DraftNotice} draftKey=${memoryKey} onContinue=${() => setIsEditing(true)} />`
    }
    <${History}
      name=${{ key: memoryKey }}
      canWrite=${canWrite}
      abilities=${abilities}
      lead=${Lead}
      onWritten=${onWritten}
    />
  `;
}

/** Says what became of the memory. */
function Lead({ history }) {
  const { key, deleted, entries } = history;
  if (!deleted) {
    const link = html`<a href=${linkTo("memory", key)}><${Name} of=${key} /></a>`;
    return html`<p>It is called ${link} now.</p>`;
  }

  const [{ by, at }] = entries;
  return html`<p>It was deleted by <${Name} of=${by} />, <${Time} at=${at} />.</p>`;
}
