// The history of a memory: who changed what, what the texts were, and the way back to each version.

import { callAbility, readView } from "./api.js";
import { describeMemory } from "./changes.js";
import { Differences } from "./differences.js";
import { useAction, usePages, useRequest } from "./hooks.js";
import { Fault, More, Name, RequestStatus, Select, Time } from "./parts.js";
import { useSession } from "./session.js";
import { restoreVersion } from "./undoing.js";
import { html, useState } from "./vendor/htm-preact.js";

const COMPARISONS = [
  ["before", "what it was before"],
  ["after", "the version after it"],
  ["now", "the latest version"],
];

/**
 * `name` is {id} or {key}; `version` is the memory's, left out if there is none with that name.
 *
 * `lead` is a component that shows the history's first page above the entries.
 */
export function History({ name, version, lead: Lead }) {
  const { canWrite, isOffered, onWritten } = useSession();
  const isKnown = isOffered("memory_history");
  const pages = usePages(
    (more) => isKnown && callAbility("memory_history", more ?? name),
    [name.id, name.key, version],
  );

  const [first] = pages.all;
  const [restore, error] = useAction(async (chosen) =>
    onWritten(await restoreVersion(first, chosen)),
  );
  if (!isKnown || (!first && pages.request.error?.status === 404)) return null;

  const canRestore = canWrite && isOffered("memory_restore");

  return html`
    <section class="history" aria-labelledby="history-title">
      <h2 id="history-title">History</h2>
      ${first && Lead && html`<${Lead} history=${first} />`}
      <${RequestStatus} request=${pages.request} />
      <${Fault} error=${error} />
      ${first && html`<${Entries} pages=${pages} onRestore=${canRestore ? restore : null} />`}
      <${More} pages=${pages} label="Older changes" />
    </section>
  `;
}

function Entries({ pages, onRestore }) {
  const [{ id, version, earliest }] = pages.all;
  const entries = pages.all.flatMap((page) => page.entries);
  if (entries.length === 0) return html`<p class="faint">No change of it is known.</p>`;

  const isEarlierKnown = !pages.hasMore && earliest < entries.at(-1).version;
  const items = entries.map(
    (entry, index) => html`
      <${Entry}
        key=${entry.version}
        id=${id}
        entry=${entry}
        newer=${listVersions(entries.slice(0, index))}
        onRestore=${isRestorable(entry, version) ? onRestore : null}
      />
    `,
  );

  return html`
    <ol>
      ${items}
      ${isEarlierKnown && html`<${Earliest} version=${earliest} onRestore=${onRestore} />`}
    </ol>
  `;
}

/** A deletion leaves nothing to restore, and a memory that was only relinked keeps its version. */
function isRestorable({ action, version }, present) {
  return action !== "deleted" && action !== "relinked" && version !== present;
}

/** Returns the versions that entries made, newest first. */
function listVersions(entries) {
  return entries.filter(({ action }) => action !== "relinked").map(({ version }) => version);
}

function Entry({ id, entry, newer, onRestore }) {
  const [isOpen, setIsOpen] = useState(false);
  const { version, at, by, action, changed } = entry;

  const title = html`
    <strong>${action}</strong>${changed && ` ${changed.join(", ")}`}${" "}
    <span class="faint">by <${Name} of=${by} />, <${Time} at=${at} />, version ${version}</span>
  `;
  if (action === "relinked") return html`<li><div>${title}</div></li>`;

  return html`
    <li>
      <details onToggle=${(event) => setIsOpen(event.target.open)}>
        <summary>${title}</summary>
        ${isOpen && html`<${Opened} id=${id} version=${version} newer=${newer} />`}
      </details>
      <${Restore} version=${version} onRestore=${onRestore} />
    </li>
  `;
}

/** The version before all entries that are kept. */
function Earliest({ version, onRestore }) {
  return html`
    <li>
      <div><span class="faint">before that, version ${version}</span></div>
      <${Restore} version=${version} onRestore=${onRestore} />
    </li>
  `;
}

function Restore({ version, onRestore }) {
  if (!onRestore) return null;

  return html`
    <button aria-label="Restore this version, ${version}" onClick=${() => onRestore(version)}>
      Restore this version
    </button>
  `;
}

/** What differs between a version and another one, by default the one before it. */
function Opened({ id, version, newer }) {
  const [other, setOther] = useState("before");
  const [latest] = newer;
  const request = useRequest(
    () => compareVersions(id, version, { after: newer.at(-1), now: latest }[other]),
    [other, latest],
  );

  return html`
    <div class="opened">
      ${
        latest &&
        html`<${Select}
          label="Compare with"
          options=${COMPARISONS}
          value=${other}
          onChange=${setOther}
        />`
      }
      <${RequestStatus} request=${request} />
      ${request.data && html`<${Differences} ...${request.data} />`}
    </div>
  `;
}

/** Compares a version with a newer one, or with what it replaced if there is no `newer` one. */
async function compareVersions(id, version, newer) {
  const { memory, before } = await readView("version", { id, version });
  if (!newer) return { before: describeMemory(before), after: describeMemory(memory) };

  const later = await readView("version", { id, version: newer });
  return { before: describeMemory(memory), after: describeMemory(later.memory) };
}
