// One memory: its content, its counters, its links in both directions, and what you may do with it.

import { linkTo, open, replaceParams } from "./address.js";
import { callAbility, readView } from "./api.js";
import { Editor } from "./editor.js";
import { formatCount, formatNumber, showName } from "./format.js";
import { useRequest } from "./hooks.js";
import { Chips, Confirm, Name, Pager, RequestStatus, Sizes, Time } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

// The view returns this many links at a time.
const LINKS_PER_PAGE = 20;

// A memory may have a thousand links; the editor offers the best of them only.
const MAX_EDITED_LINKS = 10 * LINKS_PER_PAGE;

export function Memory({ address, canWrite, abilities }) {
  const { key, params } = address;
  const out = Number(params.out ?? 0);
  const back = Number(params.back ?? 0);

  const request = useRequest(
    () => readView("memory", { key, links_offset: out, backlinks_offset: back }),
    [out, back],
  );

  const { memory, backlinks, backlinks_total: backlinksTotal } = request.data ?? {};
  const movePage = (changes) => replaceParams("memory", key, { ...params, ...changes });

  // The heading is the same element before and after loading, so that it keeps the focus.
  const headline = html`
    <div class="headline">
      <h1 tabindex="-1"><${Name} of=${key} /></h1>
      ${memory && html`<${Chips} memory=${memory} />`}
    </div>
    <${RequestStatus} request=${request} />
  `;

  if (!memory) return html`${headline}<p><a href=${linkTo("memories")}>All memories</a></p>`;

  return html`
    ${headline}
    <${Body}
      memory=${memory}
      canWrite=${canWrite}
      abilities=${abilities}
      onChange=${request.reload}
    />
    <${Facts} memory=${memory} />
    <div class="columns">
      <${Links}
        title="Links to"
        what="links to others"
        none="It links to no other memory."
        links=${memory.links ?? []}
        total=${memory.links_total ?? 0}
        offset=${out}
        onMove=${(offset) => movePage({ out: offset || "" })}
      />
      <${Links}
        title="Linked from"
        what="links from others"
        none="No other memory links to it."
        links=${backlinks}
        total=${backlinksTotal}
        offset=${back}
        onMove=${(offset) => movePage({ back: offset || "" })}
      />
    </div>
  `;
}

/** The content with what may be done, or the editor in its place. */
function Body({ memory, canWrite, abilities, onChange }) {
  const [editedLinks, setEditedLinks] = useState(null);
  const [question, setQuestion] = useState(null);
  const [message, setMessage] = useState("");

  const edit = async () => setEditedLinks(await loadBestLinks(memory.key));
  const report = (text) => {
    setMessage(text);
    onChange();
  };
  const finishEditing = (savedKey) => {
    setEditedLinks(null);
    if (savedKey) report("Saved.");
  };

  const status = html`<p class="done" role="status">${message}</p>`;

  if (editedLinks) {
    return html`
      ${status}
      <${Editor}
        abilities=${abilities}
        memory=${memory}
        links=${editedLinks}
        onDone=${finishEditing}
      />
    `;
  }

  const actions =
    canWrite &&
    html`<${Actions} memory=${memory} onEdit=${edit} onAsk=${setQuestion} onReport=${report} />`;

  return html`
    ${status}
    <${Content} memory=${memory}>${actions}<//>
    <${Confirm} question=${question} onClose=${() => setQuestion(null)} />
  `;
}

function Content({ memory, children }) {
  const { key, summary, content } = memory;

  return html`
    ${summary && html`<p class="summary">${summary}</p>`}
    <pre class="content" tabindex="0" aria-label="Content">${content}</pre>
    <p class="faint"><${Sizes} text=${content} /></p>
    <div class="actions">
      <a class="button" href=${linkTo("graph", key)}>Graph</a>
      ${children}
    </div>
  `;
}

function Actions({ memory, onEdit, onAsk, onReport }) {
  const archive = () => onAsk(askToArchive(memory, onReport));
  const restore = () => onAsk(askToRestore(memory, onReport));

  return html`
    <button onClick=${onEdit}>Edit</button>
    ${
      memory.archived
        ? html`<button onClick=${restore}>Restore</button>`
        : html`<button onClick=${archive}>Archive</button>`
    }
    <button class="danger" onClick=${() => onAsk(askToDelete(memory))}>Delete permanently</button>
  `;
}

function askToArchive(memory, onReport) {
  const run = async () => {
    await callAbility("delete_memory", { id: memory.id });
    onReport("Archived.");
  };

  return {
    title: "Archive this memory?",
    text: "Queries and walks will leave it out. You can still read it by its key, and restore it.",
    action: "Archive",
    run,
  };
}

function askToRestore(memory, onReport) {
  const run = async () => {
    await callAbility("update_memory", { id: memory.id, archived: false });
    onReport("Restored.");
  };

  return {
    title: "Restore this memory?",
    text: "Queries and walks will find it again.",
    action: "Restore",
    run,
  };
}

function askToDelete(memory) {
  const run = async () => {
    await callAbility("delete_memory", { id: memory.id, permanent: true });
    open("memories");
  };

  return {
    title: "Delete this memory permanently?",
    text: "It cannot be restored. Links from other memories to it stay, but lead nowhere.",
    action: "Delete permanently",
    danger: true,
    run,
  };
}

function Facts({ memory }) {
  const { memory_score: score, ...metadata } = memory.metadata;
  const hasMetadata = Object.keys(metadata).length > 0;
  const reads = formatCount(memory.access_count, "time", "times");
  const tags = (memory.tags ?? []).map(
    (tag) =>
      html`<a class="tag" href=${linkTo("memories", "", { tag })}><${Name} of=${tag} /></a> `,
  );

  return html`
    <dl class="facts">
      <${Fact} name="Read">
        ${reads}, last <${Time} at=${memory.accessed_at} />
      <//>
      <${Fact} name="Changed"><${Time} at=${memory.updated_at} /><//>
      <${Fact} name="Created"><${Time} at=${memory.created_at} /><//>
      <${Fact} name="Score">${score}<//>
      <${Fact} name="Tags">${tags.length > 0 ? tags : "none"}<//>
      <${Fact} name="Id"><code>${memory.id}</code><//>
      ${hasMetadata && html`<${Metadata} metadata=${metadata} />`}
    </dl>
  `;
}

function Fact({ name, children }) {
  return html`<div><dt>${name}</dt><dd>${children}</dd></div>`;
}

function Metadata({ metadata }) {
  const text = JSON.stringify(metadata, null, 2);
  return html`<div class="wide"><dt>Metadata</dt><dd><pre>${text}</pre></dd></div>`;
}

function Links({ title, what, none, links, total, offset, onMove }) {
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

/** Loads the links that the editor offers: the best ones, which the view returns first. */
async function loadBestLinks(key) {
  const links = [];
  let total = 1;

  for (let offset = 0; offset < Math.min(total, MAX_EDITED_LINKS); offset += LINKS_PER_PAGE) {
    const { memory } = await readView("memory", { key, links_offset: offset });
    links.push(...(memory.links ?? []));
    total = memory.links_total ?? 0;
  }

  return links.map((link) => ({ ...link, isStored: true }));
}
