// Which memories agents were given by this server: by whom, when, and for which question.

import { linkTo } from "./address.js";
import { readView } from "./api.js";
import { formatCount, formatNumber } from "./format.js";
import { useRequest } from "./hooks.js";
import { Name, RequestStatus, Time } from "./parts.js";
import { useSession } from "./session.js";
import { html } from "./vendor/htm-preact.js";

const SHOWN_KEYS = 5;

/** What agents were given of one memory, or of all without `memoryKey`; for those who may write. */
export function Given({ memoryKey }) {
  const { canWrite, isOffered, round } = useSession();
  const isKnown = canWrite && isOffered("memory_changes");
  const request = useRequest(
    () => isKnown && readView("retrievals", { key: memoryKey }),
    [memoryKey, round],
  );
  if (!isKnown) return null;

  const { retrievals = [], total = 0, since } = request.data ?? {};
  const items = retrievals.map(
    (retrieval) => html`<${Retrieval} ...${retrieval} memoryKey=${memoryKey} />`,
  );

  return html`
    <section aria-labelledby="given-title">
      <h2 id="given-title">
        Given to agents <span class="faint">${formatCount(total, "time", "times")}</span>
      </h2>
      <${RequestStatus} request=${request} />
      <ol class="timeline">${items}</ol>
      <p class="faint">
        Of the latest 1,000 answers of this server since <${Time} at=${since} />. To see what an agent
        gets, connect it to the address of this server.
      </p>
    </section>
  `;
}

function Retrieval({ at, by, ability, question, keys, memoryKey }) {
  const others = memoryKey === undefined ? keys : [];
  const links = others
    .slice(0, SHOWN_KEYS)
    .map((key) => html`<a class="key" href=${linkTo("memory", key)}><${Name} of=${key} /></a>`);
  const left = others.length - links.length;

  return html`
    <li>
      <${Time} at=${at} />
      <span><${Name} of=${by} />${" "}<span class="faint">${ability}</span></span>
      ${question && html`<q><${Name} of=${question} /></q>`} ${links}
      ${left > 0 && html`<span class="faint">and ${formatNumber(left)} more</span>`}
    </li>
  `;
}
