// One memory: its content, its links both ways, its counters, and what may be done with it.

import { call, view } from "./api.js";
import { at, refine } from "./address.js";
import { Editor } from "./editor.js";
import { Chips, Confirm, Fault, number, Pager, Sizes, useAsk, Waiting, When } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

const LIMIT = 20; // links of a page
const EDITED = 200; // links in the form, the best ones

export function Memory({ place, writes }) {
  const { key, params } = place;
  const [editing, setEditing] = useState(null);
  const [question, setQuestion] = useState(null);
  const [done, setDone] = useState("");
  const out = Number(params.out ?? 0);
  const back = Number(params.back ?? 0);
  const asked = useAsk(() => view("memory", { key, links_offset: out, backlinks_offset: back }), [out, back]);
  const found = asked.data;
  if (!found) {
    return html`<div class="headline"><h1 tabindex="-1"><bdi>${key}</bdi></h1></div><${Fault} error=${asked.error} /><${Waiting} asked=${asked} />
      <p><a href=${at("memories")}>All memories</a></p>`;
  }
  const { memory } = found;
  const act = (run, words) => async () => {
    const went = await run();
    setDone(words);
    if (words) asked.again();
    return went;
  };
  const edit = async () => setEditing(await bestLinks(key));
  const { memory_score: score, ...others } = memory.metadata;
  return html`
    <div class="headline"><h1 tabindex="-1"><bdi>${memory.key}</bdi></h1><${Chips} memory=${memory} /></div>
    <p class="done" role="status">${done}</p>
    ${editing
      ? html`<${Editor} memory=${memory} links=${editing} onDone=${(saved) => (setEditing(null), saved && (setDone("Saved."), asked.again()))} />`
      : html`
        ${memory.summary && html`<p class="summary">${memory.summary}</p>`}
        <pre class="content" tabindex="0" aria-label="Content">${memory.content}</pre>
        <p class="faint"><${Sizes} text=${memory.content} /></p>
        <div class="actions">
          <a class="button" href=${at("graph", memory.key)}>Graph</a>
          ${writes && html`<button onClick=${edit}>Edit</button>
            ${memory.archived
              ? html`<button onClick=${() => setQuestion(restoring(memory, act))}>Restore</button>`
              : html`<button onClick=${() => setQuestion(archiving(memory, act))}>Archive</button>`}
            <button class="danger" onClick=${() => setQuestion(deleting(memory))}>Delete for good</button>`}
        </div>`}
    <dl class="facts">
      <div><dt>Read</dt><dd>${number(memory.access_count)} times, last <${When} at=${memory.accessed_at} /></dd></div>
      <div><dt>Changed</dt><dd><${When} at=${memory.updated_at} /></dd></div>
      <div><dt>Created</dt><dd><${When} at=${memory.created_at} /></dd></div>
      <div><dt>Score</dt><dd>${score}</dd></div>
      <div><dt>Tags</dt><dd>${(memory.tags ?? []).map((tag) => html`<a class="tag" href=${at("memories", "", { tag })}>${tag}</a> `)}${memory.tags ? "" : "none"}</dd></div>
      <div><dt>Id</dt><dd><code>${memory.id}</code></dd></div>
      ${Object.keys(others).length > 0 && html`<div class="wide"><dt>Further values</dt><dd><pre>${JSON.stringify(others, null, 2)}</pre></dd></div>`}
    </dl>
    <div class="columns">
      <${Links} title="Links to" what="links to others" links=${memory.links ?? []} total=${memory.links_total ?? 0} offset=${out}
        none="It links to nothing." onMove=${(to) => refine("memory", key, { ...params, out: to || "" })} />
      <${Links} title="Linked from" what="links from others" links=${found.backlinks} total=${found.backlinks_total} offset=${back}
        none="Nothing links to it." onMove=${(to) => refine("memory", key, { ...params, back: to || "" })} />
    </div>
    <${Confirm} question=${question} onClose=${() => setQuestion(null)} />`;
}

function Links({ title, what, links, total, offset, none, onMove }) {
  return html`<section><h2>${title} <span class="faint">${number(total)}</span></h2>
    ${total === 0 && html`<p class="faint">${none}</p>`}
    <ul class="links">${links.map((link) => html`<li><a href=${at("memory", link.key)}><bdi>${link.key}</bdi></a>
      <span class="faint">${link.type && link.type !== "association" ? link.type : ""}</span>
      <meter min="0" max="1" value=${link.link_weight} aria-label="Weight of the link to ${link.key}"></meter> ${link.link_weight}</li>`)}</ul>
    ${total > links.length && html`<${Pager} what=${what} offset=${offset} shown=${links.length} total=${total} limit=${LIMIT} onMove=${onMove} />`}
  </section>`;
}

/** A memory's best links, for the form. */
async function bestLinks(key) {
  const links = [];
  for (let offset = 0, total = 1; offset < Math.min(total, EDITED); offset += LIMIT) {
    const { memory } = await view("memory", { key, links_offset: offset });
    links.push(...(memory.links ?? []).map((link) => ({ ...link, known: true })));
    total = memory.links_total ?? 0;
  }
  return links;
}

const archiving = (memory, act) => ({
  title: "Archive this memory?",
  words: "Queries and walks leave it out. It can be read by its key, and restored.",
  action: "Archive",
  run: act(() => call("delete_memory", { id: memory.id }), "Archived."),
});

const restoring = (memory, act) => ({
  title: "Restore this memory?",
  words: "Queries and walks will find it again.",
  action: "Restore",
  run: act(() => call("update_memory", { id: memory.id, archived: false }), "Restored."),
});

const deleting = (memory) => ({
  title: "Delete this memory for good?",
  words: "It cannot be had back. Links of other memories to it stay, and lead nowhere.",
  action: "Delete for good",
  danger: true,
  run: async () => {
    await call("delete_memory", { id: memory.id, permanent: true });
    location.hash = at("memories");
  },
});
