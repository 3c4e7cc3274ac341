// Two lists of texts compared, with what differs marked: in one text, or side by side.

import { compareTexts } from "./differences.js";
import { html } from "./vendor/htm-preact.js";

/** What became of texts, given as pairs of a label and a text: what went is struck. */
export function Differences({ before, after }) {
  const fields = pairFields(before, after);
  if (fields.length === 0) return html`<p class="faint">No text differs.</p>`;

  return fields.map(
    ({ label, parts }) => html`
      <h3>${label}</h3>
      <${Marked} label="Differences: ${label}" parts=${parts} />
    `,
  );
}

/** The same side by side, with a title for each side. */
export function SideBySide({ titles, before, after }) {
  const fields = pairFields(before, after);
  if (fields.length === 0) return html`<p class="faint">No text differs.</p>`;

  return fields.map(
    ({ label, parts }) => html`
      <h3>${label}</h3>
      <div class="columns">
        <${Side} label=${label} title=${titles[0]} parts=${without("added", parts)} />
        <${Side} label=${label} title=${titles[1]} parts=${without("removed", parts)} />
      </div>
    `,
  );
}

function Side({ label, title, parts }) {
  return html`
    <div>
      <h4>${title}</h4>
      <${Marked} label="${title}: ${label}" parts=${parts} />
    </div>
  `;
}

function Marked({ label, parts }) {
  return html`<pre class="compared" tabindex="0" aria-label=${label}>${parts.map(mark)}</pre>`;
}

function mark({ kind, text }) {
  if (kind === "removed") return html`<del>${text}</del>`;
  if (kind === "added") return html`<ins>${text}</ins>`;
  return text;
}

function without(kind, parts) {
  return parts.filter((part) => part.kind !== kind);
}

/** Returns the fields whose texts differ as {label, parts}; a field that is missing has no text. */
function pairFields(before, after) {
  const left = new Map(before);
  const right = new Map(after);
  const labels = [...new Set([...left.keys(), ...right.keys()])];
  const differs = (label) => (left.get(label) ?? "") !== (right.get(label) ?? "");

  return labels.filter(differs).map((label) => ({
    label,
    parts: compareTexts(left.get(label) ?? "", right.get(label) ?? ""),
  }));
}
