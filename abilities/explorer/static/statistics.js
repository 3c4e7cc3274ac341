// How many memories there are, and of which kinds.

import { linkTo } from "./address.js";
import { formatNumber } from "./format.js";
import { Name } from "./parts.js";
import { html } from "./vendor/htm-preact.js";

export function Statistics({ stats }) {
  if (!stats) return null;

  const types = Object.entries(stats.by_type);
  const mostRead = stats.most_accessed?.access_count > 0 && stats.most_accessed.key;

  return html`
    <section class="figures" aria-label="Statistics">
      <${Figure} value=${stats.total_memories} label="memories" />
      ${types.map(([type, count]) => html`<${Figure} value=${count} label=${type} />`)}
      <${Figure} value=${stats.archived_count} label="archived" />
      <${Figure} value=${Math.round(stats.total_storage_kb)} label="kB" />
      ${mostRead && html`<${MostRead} memoryKey=${mostRead} />`}
      ${stats.top_tags.length > 0 && html`<${Tags} tags=${stats.top_tags} />`}
    </section>
  `;
}

function Figure({ value, label }) {
  return html`<div><strong>${formatNumber(value)}</strong> ${label}</div>`;
}

function MostRead({ memoryKey }) {
  return html`
    <div>most read by key <a href=${linkTo("memory", memoryKey)}><${Name} of=${memoryKey} /></a></div>
  `;
}

function Tags({ tags }) {
  const links = tags.map(
    ({ tag, count }) => html`
      <a class="tag" href=${linkTo("memories", "", { tag })} title="Memories with this tag">
        <${Name} of=${tag} />${" "}<span class="faint">${formatNumber(count)}</span>
      </a>
    `,
  );

  return html`<div class="tags">${links}</div>`;
}
