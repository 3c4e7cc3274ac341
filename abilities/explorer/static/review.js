// Memories to look at: two that say nearly the same, links that lead nowhere, and more. Each comes
// with what can be done, which can be undone.

import { linkTo } from "./address.js";
import { readView } from "./api.js";
import { formatCount, formatNumber, shorten } from "./format.js";
import { useAction, useRequest, useSparingly } from "./hooks.js";
import { Fault, Name, RequestStatus, Time } from "./parts.js";
import { useSession } from "./session.js";
import { archiveMemory, keepMemory, removeLink, reviveMemory, supersedeMemory } from "./undoing.js";
import { html } from "./vendor/htm-preact.js";

const SNIPPET_CHARACTERS = 160;

const KINDS = {
  similar: "Say nearly the same",
  superseded: "Replaced lately",
  dangling: "Link to no memory",
  expiring: "Will expire",
  unread: "Not read by their keys, not changed for 30 days",
};

const STORAGE_KEY = "abilities-kept";

// What was left as it is. The tab remembers it until the memory changes.
const kept = new Set(JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "[]"));

export function Review() {
  const { round, written } = useSession();
  const [section, shown] = useSparingly(round);
  const request = useRequest(() => shown !== null && readView("review"), [shown, written]);
  // Views that the caller's abilities do not cover are not there.
  if (request.error?.status === 404) return null;

  const items = (request.data?.items ?? []).filter((item) => !kept.has(nameItem(item)));
  const groups = Object.keys(KINDS).map((kind) => {
    const own = items.filter((item) => item.kind === kind);
    return own.length > 0 && html`<${Group} title=${KINDS[kind]} items=${own} />`;
  });

  return html`
    <section class="review" aria-labelledby="review-title" ref=${section}>
      <div class="headline">
        <h2 id="review-title">Review</h2>
        <button class="quiet" onClick=${request.reload}>Look again</button>
      </div>
      <${RequestStatus} request=${request} />
      ${request.data && html`<${Extent} ...${request.data} count=${items.length} />`}
      ${groups}
    </section>
  `;
}

function Extent({ examined, total, count }) {
  const found = count > 0 ? formatCount(count, "thing", "things") : "Nothing";
  const extent =
    examined < total
      ? `the ${formatNumber(examined)} latest of ${formatCount(total, "memory", "memories")}`
      : formatCount(total, "memory", "memories");

  return html`<p class="faint" role="status">${found} to review in ${extent}.</p>`;
}

function Group({ title, items }) {
  const rows = items.map((item) => html`<${Item} key=${item.id + item.other} item=${item} />`);

  return html`
    <details open>
      <summary>${title} <span class="faint">${formatNumber(items.length)}</span></summary>
      <ul>${rows}</ul>
    </details>
  `;
}

function Item({ item }) {
  const { canWrite, isOffered, onWritten } = useSession();
  const { key, content } = item;

  const [act, error] = useAction(async (run) => {
    const { text, undo } = await run(item);
    // The list stays open when something is undone.
    const undoHere = async () => ({ text: (await undo()).text });
    onWritten(isOffered("memory_restore") ? { text, undo: undoHere } : { text });
  });

  const actions = listActions(item).map(
    ([label, run]) => html`
      <button aria-label="${label}: ${key}" onClick=${() => act(run)}>${label}</button>
    `,
  );

  return html`
    <li>
      <p>
        <a class="key" href=${linkTo("memory", key)}><${Name} of=${key} /></a>${" "}
        <${Reason} item=${item} />
      </p>
      <p class="snippet">${shorten(content, SNIPPET_CHARACTERS)}</p>
      ${
        item.other_content &&
        html`<p class="snippet other">${shorten(item.other_content, SNIPPET_CHARACTERS)}</p>`
      }
      <${Fault} error=${error} />
      <div class="actions">
        ${canWrite && actions}
        <button
          class="quiet"
          aria-label="Keep as it is: ${key}"
          title="Hides this in this tab until the memory changes"
          onClick=${() => act(keepAsItIs)}
        >
          Keep as it is
        </button>
      </div>
    </li>
  `;
}

function Reason({ item }) {
  const { kind, other, link_type: type, expires_at: expiresAt, updated_at: updatedAt } = item;
  const link = html`<a href=${linkTo("memory", other)}><${Name} of=${other} /></a>`;

  if (kind === "similar") return html`and ${link}`;
  if (kind === "superseded") return html`by ${link}`;
  if (kind === "dangling") return html`to <${Name} of=${other} /> (<${Name} of=${type} />)`;
  if (kind === "expiring") return html`on <${Time} at=${expiresAt} />`;
  return html`since <${Time} at=${updatedAt} />`;
}

/** Returns what can be done as pairs of a label and a function that does it. */
function listActions({ kind }) {
  const actions = {
    similar: [["Replace by the newer", supersedeMemory]],
    superseded: [["Restore", reviveMemory]],
    dangling: [["Remove the link", removeLink]],
    expiring: [
      ["Keep for good", keepMemory],
      ["Archive", archiveMemory],
    ],
    unread: [["Archive", archiveMemory]],
  };
  return actions[kind];
}

async function keepAsItIs(item) {
  kept.add(nameItem(item));
  saveKept();

  const undo = async () => {
    kept.delete(nameItem(item));
    saveKept();
    return { text: "It is to be reviewed again." };
  };
  return { text: "Kept as it is; hidden here until it changes.", undo };
}

function nameItem({ kind, id, version, other }) {
  return JSON.stringify([kind, id, version, other]);
}

function saveKept() {
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify([...kept]));
}
