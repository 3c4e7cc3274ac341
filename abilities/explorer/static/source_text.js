// The text of a file with the numbers of its lines, which are no part of what is copied.

import { html } from "./vendor/htm-preact.js";

/** `first` is the number of the first line, or null if that is unknown. */
export function SourceText({ text, label, first = 1 }) {
  const count = text.replace(/\n$/, "").split("\n").length;
  const numbers = Array.from({ length: count }, (_, index) => first + index).join("\n");

  return html`
    <div class="source" tabindex="0" role="region" aria-label=${label}>
      ${first !== null && html`<div class="numbers" aria-hidden="true">${numbers}</div>`}
      <pre>${text}</pre>
    </div>
  `;
}
