// The first page: what to do first if nothing is stored yet; otherwise a question, what was changed
// lately and by whom, and what to review.

import { linkTo, open } from "./address.js";
import { callAbility, readView } from "./api.js";
import { formatNumber } from "./format.js";
import { Given } from "./given.js";
import { useAction, useRequest } from "./hooks.js";
import { Fault, Name, RequestStatus } from "./parts.js";
import { Question } from "./question.js";
import { Review } from "./review.js";
import { countSample, loadSample, removeSample, SAMPLE_SIZE } from "./sample.js";
import { useSession } from "./session.js";
import { Change } from "./timeline.js";
import { html } from "./vendor/htm-preact.js";

const SHOWN_CHANGES = 8;

export function Home({ address }) {
  const { question } = address.params;
  const { canWrite, isOffered, round } = useSession();
  const stats = useRequest(
    () => isOffered("get_memory_stats") && callAbility("get_memory_stats", {}),
    [round],
  );
  const ask = (asked) => open("home", "", { question: asked });

  const isEmpty = stats.data?.total_memories === 0 && stats.data.archived_count === 0;
  const canLoad = canWrite && isOffered("remember");

  return html`
    <div class="headline"><h1 tabindex="-1">Overview</h1></div>
    <${RequestStatus} request=${stats} />
    ${isEmpty && html`<${FirstSteps} canLoad=${canLoad} />`}
    ${
      stats.data !== undefined &&
      !isEmpty &&
      html`
        <${Question} question=${question} onAsk=${ask} />
        <${Statistics} stats=${stats.data} />
        ${canLoad && html`<${Sample} />`}
        <div class="overview">
          <${Review} />
          <div>
            ${isOffered("memory_changes") && html`<${Latest} />`}
            <${Given} />
          </div>
        </div>
      `
    }
  `;
}

/** What to do while nothing is stored. */
function FirstSteps({ canLoad }) {
  return html`
    <p>No memory is stored in this namespace yet. This is how the first ones come here:</p>
    <ol class="steps">
      <li>
        <strong>Connect an agent.</strong> <code>abilities setup</code> adds these abilities to the
        clients on your machine.
      </li>
      <li>
        <strong>Tell it something to keep</strong>, for example: “Remember that we deploy on
        Tuesdays.” It appears here as soon as it is stored.
      </li>
      <li>
        <strong>Or look around first</strong> with a sample of ${SAMPLE_SIZE} memories, which one
        button removes again.
        ${canLoad && html`<${Action} label="Load the sample" run=${loadSample} />`}
      </li>
    </ol>
  `;
}

/** Says that the sample is there, and removes it. */
function Sample() {
  const { round } = useSession();
  const request = useRequest(countSample, [round]);
  if (!request.data) return null;

  return html`
    <p class="draft">
      <span>${request.data} of these memories are a sample.</span>
      <${Action} label="Remove the sample" run=${removeSample} />
    </p>
  `;
}

/** A button for a change that can be undone, and why it failed. */
function Action({ label, run }) {
  const { onWritten } = useSession();
  const [act, error] = useAction(async () => onWritten(await run()));

  return html`<button onClick=${act}>${label}</button><${Fault} error=${error} />`;
}

/** What was changed last, and by whom. */
function Latest() {
  const { round } = useSession();
  const request = useRequest(() => readView("timeline"), [round]);
  const changes = request.data?.changes.slice(0, SHOWN_CHANGES) ?? [];

  return html`
    <section aria-labelledby="latest-title">
      <h2 id="latest-title">Latest changes</h2>
      <${RequestStatus} request=${request} />
      <ol class="timeline">
        ${changes.map((change) => html`<${Change} key=${change.version} change=${change} />`)}
      </ol>
      <p><a href=${linkTo("changes")}>All changes</a></p>
    </section>
  `;
}

function Statistics({ stats }) {
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
