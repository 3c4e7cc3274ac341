// All memories: found, filtered, sorted, in pages.

import { call } from "./api.js";
import { at, refine } from "./address.js";
import { Editor } from "./editor.js";
import { Chips, Choice, counted, Fault, Field, number, Pager, useAsk, useSettled, Waiting, When } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

const LIMIT = 25;
const TYPES = [["", "any type"], ["core", "core"], ["learning", "learning"], ["task", "task"]];
const IMPORTANCES = [["", "any importance"], ["high", "high"], ["medium", "medium"], ["low", "low"]];
const SORTS = [
  ["accessed_at", "last read"],
  ["updated_at", "last changed"],
  ["created_at", "created"],
  ["importance", "importance"],
  ["access_count", "times read"],
];

export function Memories({ place, writes }) {
  const { params } = place;
  const [making, setMaking] = useState(false);
  const filter = (changed) => refine("memories", "", { ...params, offset: "", ...changed });
  const settled = useSettled(JSON.stringify(params));
  const asked = useAsk(() => call("query_memories", queried(JSON.parse(settled))), [settled]);
  const stats = useAsk(() => call("get_memory_stats", {}), []);
  const exact = useAsk(() => named(JSON.parse(settled).search), [settled]);
  const found = asked.data;
  return html`
    <div class="headline"><h1 tabindex="-1">Memories</h1>
      ${writes && html`<button class="primary" onClick=${() => setMaking(true)}>New memory</button>`}</div>
    ${making && html`<${Editor} onDone=${(key) => (key ? (location.hash = at("memory", key)) : setMaking(false))} />`}
    <${Figures} stats=${stats.data} onTag=${(tag) => filter({ tag })} />
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${Field} label="Search"><input type="search" placeholder="text in memories, or a key" value=${params.search ?? ""}
        onInput=${(event) => filter({ search: event.target.value })} /><//>
      <${Choice} label="Type" options=${TYPES} value=${params.type ?? ""} onChange=${(type) => filter({ type })} />
      <${Choice} label="Importance" options=${IMPORTANCES} value=${params.importance ?? ""} onChange=${(importance) => filter({ importance })} />
      <${Field} label="Tag"><input value=${params.tag ?? ""} onInput=${(event) => filter({ tag: event.target.value })} /><//>
      <${Field} label="Category"><input value=${params.category ?? ""} onInput=${(event) => filter({ category: event.target.value })} /><//>
      <${Choice} label="Sort by" options=${SORTS} value=${params.sort ?? "accessed_at"} onChange=${(sort) => filter({ sort })} />
      <${Choice} label="Order" options=${[["", "last or most first"], ["asc", "first or least first"]]} value=${params.order ?? ""}
        onChange=${(order) => filter({ order })} />
      <label class="check"><input type="checkbox" checked=${params.archived === "true"}
        onChange=${(event) => filter({ archived: event.target.checked ? "true" : "" })} /> archived too</label>
    </form>
    <${Fault} error=${asked.error} /><${Waiting} asked=${asked} />
    ${exact.data && html`<p class="exact">The memory with this very key: <a href=${at("memory", exact.data)}><bdi>${exact.data}</bdi></a></p>`}
    ${found && html`
      <p class="count" role="status">${counted(found.total, "memory", "memories")}${found.failed ? `; ${found.failed} of this page are damaged` : ""}</p>
      <ul class="memories" onKeyDown=${moved}>${found.memories.map((memory) => html`<${Line} memory=${memory} />`)}</ul>
      <${Pager} what="memories" offset=${found.offset} shown=${found.memories.length + (found.failed ?? 0)} total=${found.total}
        limit=${LIMIT} onMove=${(to) => refine("memories", "", { ...params, offset: to || "" })} />`}`;
}

function queried(params) {
  return {
    search: params.search || null,
    type: params.type || null,
    importance: params.importance || null,
    category: params.category || null,
    tags: params.tag ? [params.tag] : null,
    archived: params.archived === "true",
    sort_by: params.sort ?? "accessed_at",
    sort_order: params.order || "desc",
    limit: LIMIT,
    offset: Number(params.offset ?? 0),
  };
}

async function named(key) {
  if (!key) return null;
  const { results } = await call("memory_read_bulk", { targets: [{ type: "stored", key }], max_chars_per_item: 1 });
  return results[0].success ? key : null;
}

function Line({ memory }) {
  const text = memory.summary || memory.content;
  return html`<li>
    <a class="key" href=${at("memory", memory.key)}><bdi>${memory.key}</bdi></a> <${Chips} memory=${memory} />
    <p class="snippet">${text.length > 240 ? `${[...text].slice(0, 240).join("")}…` : text}</p>
    <p class="faint">changed <${When} at=${memory.updated_at} /> · read ${number(memory.access_count)}×${memory.links_total ? ` · ${counted(memory.links_total, "link", "links")}` : ""}
      ${(memory.tags ?? []).map((tag) => html` <span class="tag">${tag}</span>`)}${" · "}<a href=${at("graph", memory.key)} aria-label="Graph of ${memory.key}">graph</a></p>
  </li>`;
}

function Figures({ stats, onTag }) {
  if (!stats) return null;
  const { by_type: types } = stats;
  return html`<section class="figures" aria-label="Statistics">
    <div><strong>${number(stats.total_memories)}</strong> memories</div>
    ${Object.entries(types).map(([type, count]) => html`<div><strong>${number(count)}</strong> ${type}</div>`)}
    <div><strong>${number(stats.archived_count)}</strong> archived</div>
    <div><strong>${number(Math.round(stats.total_storage_kb))}</strong> kB</div>
    ${stats.most_accessed && html`<div>most read <a href=${at("memory", stats.most_accessed.key)}><bdi>${stats.most_accessed.key}</bdi></a></div>`}
    ${stats.top_tags.length > 0 && html`<div class="tags">${stats.top_tags.map(({ tag, count }) => html`
      <button class="tag" onClick=${() => onTag(tag)} title="Only memories with this tag">${tag} <span class="faint">${number(count)}</span></button>`)}</div>`}
  </section>`;
}

/** Arrow keys move from memory to memory. */
function moved(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const keys = [...event.currentTarget.querySelectorAll("a.key")];
  const next = keys[keys.indexOf(document.activeElement) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}
