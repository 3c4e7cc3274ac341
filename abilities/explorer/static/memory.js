// One memory: its content, its counters, its links in both directions, and what you may do with it.

import { linkTo, open, replaceParams } from "./address.js";
import { readView } from "./api.js";
import { LINKS_PER_PAGE, loadMemory } from "./changes.js";
import { DraftNotice } from "./drafts.js";
import { Editor } from "./editor.js";
import { formatCount, formatNumber, formatScore, showName } from "./format.js";
import { Given } from "./given.js";
import { History } from "./history.js";
import { useAction, useRequest } from "./hooks.js";
import { Chips, Confirm, Fault, Name, Pager, RequestStatus, Sizes, Time } from "./parts.js";
import { useSession } from "./session.js";
import { KeyField } from "./suggested.js";
import { archiveMemory, deleteMemory, renameMemory, reviveMemory } from "./undoing.js";
import { html, useRef, useState } from "./vendor/htm-preact.js";

export function Memory({ address }) {
  const { round } = useSession();
  const { key, params } = address;
  const out = Number(params.out ?? 0);
  const back = Number(params.back ?? 0);

  const request = useRequest(
    () => readView("memory", { key, links_offset: out, backlinks_offset: back }),
    [out, back, round],
  );

  // A form stays where it is if somebody deletes its memory meanwhile.
  const [start, setStart] = useState(null);
  const loaded = useRef({});
  if (request.data) loaded.current = request.data;

  const shown = request.data ?? (start ? loaded.current : {});
  const { memory, backlinks, backlinks_total: backlinksTotal } = shown;
  const movePage = (changes) => replaceParams("memory", key, { ...params, ...changes });

  // The heading is the same element before and after loading, so that it keeps the focus.
  const headline = html`
    <div class="headline">
      <h1 tabindex="-1"><${Name} of=${key} /></h1>
      ${memory && html`<${Chips} memory=${memory} />`}
    </div>
    <${RequestStatus} request=${request} />
  `;

  if (!memory) {
    return html`
      ${headline}
      ${request.error?.status === 404 && html`<${MissingMemory} memoryKey=${key} />`}
      <p><a href=${linkTo("memories")}>All memories</a></p>
    `;
  }

  return html`
    ${headline}
    <div>
      <${Body} memory=${memory} start=${start} onStart=${setStart} onChange=${request.reload} />
    </div>
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
    <${Given} memoryKey=${key} />
    <${History} name=${{ id: memory.id }} version=${memory.version} />
  `;
}

/**
 * The content with what may be done, or the editor in its place.
 *
 * `start` is what the editor begins with, or null if the memory is not edited.
 */
function Body({ memory, start, onStart, onChange }) {
  const { canWrite } = useSession();
  const [question, setQuestion] = useState(null);
  const [message, setMessage] = useState("");
  const [edit, error] = useAction(async () => onStart(await loadMemory({ id: memory.id })));

  const ask = (asked) => {
    setQuestion({ ...asked, run: () => runOrReload(asked.run, onChange) });
  };
  const finishEditing = (outcome) => {
    onStart(null);
    if (!outcome) return;
    setMessage(outcome.message);
    onChange();
  };

  const status = html`<p class="done" role="status">${message}</p>`;

  if (start) {
    return html`
      ${status}
      <${Editor} start=${start} draftKey=${memory.key} onDone=${finishEditing} />
    `;
  }

  const actions = html`<${Actions} memory=${memory} onEdit=${edit} onAsk=${ask} />`;

  return html`
    ${status}
    <${Fault} error=${error} />
    ${canWrite && html`<${DraftNotice} draftKey=${memory.key} onContinue=${edit} />`}
    <${Content} memory=${memory}>${canWrite && actions}<//>
    <${Confirm} question=${question} onClose=${() => setQuestion(null)} />
  `;
}

/** Runs something; if it is refused, what is shown may be old, so it is loaded again. */
async function runOrReload(run, reload) {
  try {
    await run();
  } catch (problem) {
    reload();
    throw problem;
  }
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

function Actions({ memory, onEdit, onAsk }) {
  const { isOffered, onWritten } = useSession();
  const canUndo = isOffered("memory_restore");
  const action = memory.archived ? "Restore" : "Archive";
  const change = () => onAsk(askTo(action, memory, onWritten));
  const remove = () => onAsk(askToDelete(memory, canUndo, onWritten));
  const [isRenaming, setIsRenaming] = useState(false);

  if (isRenaming) {
    return html`<${RenameForm} memory=${memory} onCancel=${() => setIsRenaming(false)} />`;
  }

  return html`
    <button onClick=${onEdit}>Edit</button>
    <button onClick=${() => setIsRenaming(true)}>Rename</button>
    <button onClick=${change}>${action}</button>
    <button class="danger" onClick=${remove}>Delete permanently</button>
  `;
}

/** The new key of a memory. */
function RenameForm({ memory, onCancel }) {
  const { getArguments, onWritten } = useSession();
  const [text, setText] = useState(memory.key);

  const [rename, error] = useAction(async (event) => {
    event.preventDefault();
    const notice = await renameMemory(memory, text);
    open("memory", text);
    onWritten(notice);
  });

  return html`
    <form class="rename" onSubmit=${rename}>
      <${KeyField}
        label="New key"
        hint="Links to this memory follow."
        required
        maxlength=${getArguments("update_memory").key?.maxLength}
        value=${text}
        onChange=${setText}
      />
      <div class="actions">
        <button class="primary" disabled=${text === memory.key}>Rename</button>
        <button type="button" onClick=${onCancel}>Cancel</button>
      </div>
      <${Fault} error=${error} />
    </form>
  `;
}

const REVERSIBLE = {
  Archive: {
    text: "Queries and walks will leave it out. You can still read it by its key, and restore it.",
    change: archiveMemory,
  },
  Restore: { text: "Queries and walks will find it again.", change: reviveMemory },
};

function askTo(action, memory, onWritten) {
  const { text, change } = REVERSIBLE[action];
  const run = async () => onWritten(await change(memory));

  return { title: `${action} this memory?`, text, action, run };
}

function askToDelete(memory, canUndo, onWritten) {
  const run = async () => {
    const { text, undo } = await deleteMemory(memory);
    open("memories");
    onWritten(canUndo ? { text, undo } : { text });
  };

  const end = canUndo
    ? "It can be restored only as long as its history is kept."
    : "It cannot be restored here.";

  return {
    title: "Delete this memory permanently?",
    text: `${end} Links from other memories to it stay, but lead nowhere.`,
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
      <${Fact} name="Read by its key">
        ${reads}${memory.access_count > 0 && html`, last <${Time} at=${memory.accessed_at} />`}
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

/** The links of a memory in one direction, page by page. */
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
      <meter min="0" max="1" value=${weight} aria-label=${label}></meter>${" "}
      ${formatScore(weight)}
    </li>
  `;
}

/** What is left of a memory that is not there: its history, and a form that was not saved. */
function MissingMemory({ memoryKey }) {
  const { canWrite, onWritten } = useSession();
  const [isEditing, setIsEditing] = useState(false);

  const finishEditing = (outcome) => {
    setIsEditing(false);
    if (!outcome) return;
    open("memory", outcome.key);
    onWritten({ text: outcome.message });
  };

  if (isEditing) {
    return html`<${Editor} draftKey=${memoryKey} onDone=${finishEditing} />`;
  }

  return html`
    ${
      canWrite &&
      html`<${DraftNotice} draftKey=${memoryKey} onContinue=${() => setIsEditing(true)} />`
    }
    <${History} name=${{ key: memoryKey }} lead=${Lead} />
  `;
}

/** Says what became of the memory. */
function Lead({ history }) {
  const { key, deleted, entries } = history;
  if (!deleted) {
    const link = html`<a href=${linkTo("memory", key)}><${Name} of=${key} /></a>`;
    return html`<p>It is called ${link} now.</p>`;
  }

  const [{ by, at }] = entries;
  return html`<p>It was deleted by <${Name} of=${by} />, <${Time} at=${at} />.</p>`;
}
