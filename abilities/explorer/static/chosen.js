// The memory that is chosen in the drawing of a walk: how it was reached, and its content.

import { linkTo } from "./address.js";
import { formatNumber } from "./format.js";
import { Fault, Name } from "./parts.js";
import { html } from "./vendor/htm-preact.js";

export function ChosenMemory({ walk, memoryKey }) {
  const entries = [walk.targetMemory, ...walk.associatedMemories];
  const index = entries.findIndex((entry) => entry.key === memoryKey);
  const cut = walk.metadata.frontier.find((candidate) => candidate.key === memoryKey);

  // The limits have changed, and the memory is no longer part of the drawing.
  if (index < 0 && !cut) return null;

  const body =
    index < 0
      ? html`<${LeftOut} cut=${cut} />`
      : html`<${Retrieved} entry=${entries[index]} index=${index} count=${entries.length} />`;

  return html`
    <aside aria-label="The chosen memory" aria-live="polite">
      <h2><${Name} of=${memoryKey} /></h2>
      ${body}
      <div class="actions">
        <a class="button" href=${linkTo("memory", memoryKey)}>Open</a>
        <a class="button" href=${linkTo("graph", memoryKey)}>Walk from here</a>
      </div>
    </aside>
  `;
}

function LeftOut({ cut }) {
  return html`
    <p>
      Left out by <strong>${cut.cutBy}</strong>; linked from <${Name} of=${cut.from} />, combined
      score ${cut.combinedScore}.
    </p>
  `;
}

function Retrieved({ entry, index, count }) {
  const { error, data, truncation } = entry;
  const origin =
    entry.parent === undefined ? "the start of the walk" : html`<${Origin} entry=${entry} />`;

  return html`
    <p class="faint">Memory ${index + 1} of ${count}, ${origin}.</p>
    ${error && html`<${Fault} error=${{ fault: error }} />`}
    ${data && html`<pre class="content" tabindex="0" aria-label="Content">${data.content}</pre>`}
    ${truncation && html`<${Truncation} truncation=${truncation} />`}
  `;
}

function Origin({ entry }) {
  const { depth, parent, link, combinedScore } = entry;

  return html`
    depth ${depth}, ${link.direction === "in" ? "linking to" : "linked from"}${" "}
    <${Name} of=${parent} />
    with weight ${link.link_weight}, combined score ${combinedScore}
  `;
}

function Truncation({ truncation }) {
  const { returned_chars: returned, total_chars: total } = truncation;

  return html`
    <p class="faint">
      Cut to ${formatNumber(returned)} of ${formatNumber(total)} characters.
    </p>
  `;
}
