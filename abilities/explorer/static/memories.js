// All memories: searched, filtered and sorted, page by page.

import { linkTo, open, replaceParams } from "./address.js";
import { callAbility } from "./api.js";
import { DraftNotice } from "./drafts.js";
import { Editor } from "./editor.js";
import { formatCount, shorten, showName } from "./format.js";
import { useDebounced, useRequest } from "./hooks.js";
import {
  Chips,
  listOptions,
  Name,
  Pager,
  RequestStatus,
  Select,
  TextField,
  Time,
} from "./parts.js";
import { useSession } from "./session.js";
import { LabelField } from "./suggested.js";
import { html, useState } from "./vendor/htm-preact.js";

const PAGE_SIZE = 25;
const SNIPPET_CHARACTERS = 240;
const DEFAULT_SORT = "updated_at";
const SORT_LABELS = {
  updated_at: "last changed",
  created_at: "created",
  importance: "importance",
  accessed_at: "last read by key",
  access_count: "times read by key",
};
const ORDERS = [
  ["", "descending"],
  ["asc", "ascending"],
];

const FILTERS = ["type", "importance", "tag", "category", "archived", "order"];
const wide = matchMedia("(min-width: 44rem)");

// No memory has an empty key, so this names the draft of a new one.
const NEW = "";

export function Memories({ address }) {
  const { params } = address;
  const { canWrite, isOffered, round, onWritten } = useSession();
  const [isCreating, setIsCreating] = useState(false);

  const debounced = useDebounced(JSON.stringify(params));
  const request = useRequest(() => queryMemories(JSON.parse(debounced)), [debounced, round]);
  const exact = useRequest(
    () => isOffered("memory_read_bulk") && findExactKey(JSON.parse(debounced)),
    [debounced, round],
  );

  // Other filters match other memories, so their first page is shown.
  const filter = (changes) => replaceParams("memories", "", { ...params, offset: "", ...changes });
  const move = (offset) => replaceParams("memories", "", { ...params, offset: offset || "" });

  const begin = () => setIsCreating(true);
  const finishCreating = (outcome) => {
    setIsCreating(false);
    if (!outcome) return;
    open("memory", outcome.key);
    onWritten({ text: outcome.message });
  };

  const create = html`<button class="primary" onClick=${begin}>New memory</button>`;
  const creation = isCreating
    ? html`<${Editor} draftKey=${NEW} onDone=${finishCreating} />`
    : html`<${DraftNotice} draftKey=${NEW} onContinue=${begin} />`;

  return html`
    <div class="headline"><h1 tabindex="-1">Memories</h1>${canWrite && create}</div>
    ${canWrite && creation}
    <${Filters} params=${params} onFilter=${filter} />
    <${RequestStatus} request=${request} />
    ${exact.data && html`<${ExactMatch} memoryKey=${exact.data} />`}
    ${request.data && html`<${Page} page=${request.data} onMove=${move} />`}
  `;
}

function queryMemories(params) {
  return callAbility("query_memories", {
    search: params.search || null,
    type: params.type || null,
    importance: params.importance || null,
    category: params.category || null,
    tags: params.tag ? [params.tag] : null,
    archived: params.archived === "true",
    sort_by: params.sort ?? DEFAULT_SORT,
    sort_order: params.order || "desc",
    limit: PAGE_SIZE,
    offset: Number(params.offset ?? 0),
    detail: "full",
  });
}

/** Returns the text that is searched for if it is a memory's key, otherwise null. */
async function findExactKey({ search }) {
  if (!search) return null;

  const { results } = await callAbility("memory_read_bulk", {
    targets: [{ type: "stored", key: search }],
    max_chars_per_item: 1,
  });

  return results[0].success ? search : null;
}

function Filters({ params, onFilter }) {
  const schemas = useSession().getArguments("query_memories");
  const types = [["", "any type"], ...listOptions(schemas.type)];
  const importances = [["", "any importance"], ...listOptions(schemas.importance)];
  const sorts = Object.entries(SORT_LABELS);

  // An empty search is no value, so that it is left out of the address and of the query.
  const set = (name) => (value) => onFilter({ [name]: value });
  const field = (name) => ({ value: params[name] ?? "", onChange: set(name) });
  const setArchived = (event) => onFilter({ archived: event.target.checked ? "true" : "" });

  const count = FILTERS.filter((name) => params[name]).length;

  return html`
    <form role="search" onSubmit=${(event) => event.preventDefault()}>
      <${TextField}
        label="Search"
        type="search"
        placeholder="text in memories, or a key"
        ...${field("search")}
      />
      <details open=${wide.matches || count > 0}>
        <summary>Filters and order${count > 0 && ` (${count} set)`}</summary>
        <div class="filters">
      <${Select} label="Type" options=${types} ...${field("type")} />
      <${Select} label="Importance" options=${importances} ...${field("importance")} />
      <${LabelField} label="Tag" kind="tags" ...${field("tag")} />
      <${LabelField} label="Category" kind="categories" ...${field("category")} />
      <${Select}
        label="Sort by"
        options=${sorts}
        value=${params.sort ?? DEFAULT_SORT}
        onChange=${set("sort")}
      />
      <${Select} label="Order" options=${ORDERS} ...${field("order")} />
      <label class="check">
        <input type="checkbox" checked=${params.archived === "true"} onChange=${setArchived} />
        Include archived
      </label>
        </div>
      </details>
    </form>
  `;
}

function ExactMatch({ memoryKey }) {
  return html`
    <p class="exact">
      The memory with exactly this key:${" "}
      <a href=${linkTo("memory", memoryKey)}><${Name} of=${memoryKey} /></a>
    </p>
  `;
}

function Page({ page, onMove }) {
  const { memories, total, offset, failed = 0 } = page;
  const damaged = formatCount(failed, "damaged memory", "damaged memories");
  const items = memories.map((memory) => html`<${Item} memory=${memory} />`);

  return html`
    <p class="count" role="status">
      ${formatCount(total, "memory", "memories")}${failed > 0 && `; ${damaged} on this page`}
    </p>
    <ul class="memories" onKeyDown=${moveFocus}>${items}</ul>
    <${Pager}
      what="memories"
      offset=${offset}
      shown=${memories.length + failed}
      total=${total}
      limit=${PAGE_SIZE}
      onMove=${onMove}
    />
  `;
}

function Item({ memory }) {
  const { key, updated_at: updatedAt, access_count: reads, links_total: links } = memory;
  const text = memory.summary || memory.content;
  const tags = (memory.tags ?? []).map(
    (tag) => html` <span class="tag"><${Name} of=${tag} /></span>`,
  );

  return html`
    <li>
      <a class="key" href=${linkTo("memory", key)}><${Name} of=${key} /></a>${" "}
      <${Chips} memory=${memory} />
      <p class="snippet">${shorten(text, SNIPPET_CHARACTERS)}</p>
      <p class="faint">
        changed <${Time} at=${updatedAt} />
        ${reads > 0 && ` · read by key ${formatCount(reads, "time", "times")}`}
        ${links > 0 && ` · ${formatCount(links, "link", "links")}`}${tags}${" · "}
        <a href=${linkTo("graph", key)} aria-label="Graph of ${showName(key)}">graph</a>
      </p>
    </li>
  `;
}

/** Moves the focus from memory to memory with the arrow keys. */
function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;

  const links = [...event.currentTarget.querySelectorAll("a.key")];
  const next = links[links.indexOf(document.activeElement) + step];

  if (next) {
    event.preventDefault();
    next.focus();
  }
}
