// The links of a memory, in one direction, page by page.

import { linkTo } from "./address.js";
import { LINKS_PER_PAGE } from "./changes.js";
import { formatNumber, showName } from "./format.js";
import { Name, Pager } from "./parts.js";
import { html } from "./vendor/htm-preact.js";

export function Links({ title, what, none, links, total, offset, onMove }) {
  const hasPages = total > links.length;

  return html`
    <section>
      <h2>${title} <span class="faint">${formatNumber(total)}</span></h2>
      ${total === 0 && html`<p class="faint">${none}</p>`}
      <ul class="links">${links.map((link) => html`<${LinkItem} link=${link} />`)}</ul>
      ${
        hasPages &&
        html`<${Pager}
          what=${what}
          offset=${offset}
          shown=${links.length}
          total=${total}
          limit=${LINKS_PER_PAGE}
          onMove=${onMove}
        />`
      }
    </section>
  `;
}

function LinkItem({ link }) {
  const { key, type, term, link_weight: weight } = link;
  const label = `Weight of the link to ${showName(key)}`;
  const reason = term && `“${showName(term)}”`;

  return html`
    <li>
      <a href=${linkTo("memory", key)}><${Name} of=${key} /></a>
      <span class="faint">${type === "association" ? "" : type} ${reason}</span>
      <meter min="0" max="1" value=${weight} aria-label=${label}></meter> ${weight}
    </li>
  `;
}
