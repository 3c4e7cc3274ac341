// One memory: its content, its counters, its links in both directions, and what you may do with it.

import { linkTo, open, replaceParams } from "./address.js";
import { readView } from "./api.js";
import { loadMemory } from "./changes.js";
import { DraftNotice } from "./drafts.js";
import { Editor } from "./editor.js";
import { formatCount } from "./format.js";
import { Given } from "./given.js";
import { History } from "./history.js";
import { useRequest } from "./hooks.js";
import { Links } from "./links.js";
import { MissingMemory } from "./missing_memory.js";
import { Chips, Confirm, Fault, Name, RequestStatus, Sizes, Time } from "./parts.js";
import { getArguments, isOffered } from "./schemas.js";
import { KeyField } from "./suggested.js";
import { archiveMemory, deleteMemory, renameMemory, reviveMemory } from "./undoing.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Memory({ address, canWrite, abilities, round, onWritten }) {
  const { key, params } = address;
  const out = Number(params.out ?? 0);
  const back = Number(params.back ?? 0);

  const request = useRequest(
    () => readView("memory", { key, links_offset: out, backlinks_offset: back }),
    [out, back, round],
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

  if (!memory) {
    return html`
      ${headline}
      ${
        request.error?.status === 404 &&
        html`<${MissingMemory}
          memoryKey=${key}
          canWrite=${canWrite}
          abilities=${abilities}
          onWritten=${onWritten}
        />`
      }
      <p><a href=${linkTo("memories")}>All memories</a></p>
    `;
  }

  return html`
    ${headline}
    <${Body}
      memory=${memory}
      canWrite=${canWrite}
      abilities=${abilities}
      onChange=${request.reload}
      onWritten=${onWritten}
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
    <${Given} memoryKey=${key} canWrite=${canWrite} abilities=${abilities} round=${round} />
    <${History}
      name=${{ id: memory.id }}
      version=${memory.version}
      canWrite=${canWrite}
      abilities=${abilities}
      onWritten=${onWritten}
    />
  `;
}

/** The content with what may be done, or the editor in its place. */
function Body({ memory, canWrite, abilities, onChange, onWritten }) {
  const [start, setStart] = useState(null);
  const [question, setQuestion] = useState(null);
  const [message, setMessage] = useState("");
  const [error, setError] = useState();

  const edit = async () => {
    setError(undefined);
    try {
      setStart(await loadMemory({ id: memory.id }));
    } catch (problem) {
      setError(problem);
    }
  };
  const ask = (asked) => {
    setQuestion({ ...asked, run: () => runOrReload(asked.run, onChange) });
  };
  const finishEditing = (outcome) => {
    setStart(null);
    if (!outcome) return;
    setMessage(outcome.message);
    onChange();
  };

  const status = html`<p class="done" role="status">${message}</p>`;

  if (start) {
    return html`
      ${status}
      <${Editor}
        abilities=${abilities}
        start=${start}
        draftKey=${memory.key}
        onDone=${finishEditing}
      />
    `;
  }

  const actions =
    canWrite &&
    html`<${Actions}
      memory=${memory}
      abilities=${abilities}
      canUndo=${isOffered(abilities, "memory_restore")}
      onEdit=${edit}
      onAsk=${ask}
      onWritten=${onWritten}
    />`;

  return html`
    ${status}
    <${Fault} error=${error} />
    ${canWrite && html`<${DraftNotice} draftKey=${memory.key} onContinue=${edit} />`}
    <${Content} memory=${memory}>${actions}<//>
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

function Actions({ memory, abilities, canUndo, onEdit, onAsk, onWritten }) {
  const archive = () => onAsk(askToArchive(memory, onWritten));
  const restore = () => onAsk(askToRestore(memory, onWritten));
  const remove = () => onAsk(askToDelete(memory, canUndo, onWritten));
  const [isRenaming, setIsRenaming] = useState(false);

  if (isRenaming) {
    return html`
      <${RenameForm}
        memory=${memory}
        maxLength=${getArguments(abilities, "update_memory").key?.maxLength}
        onCancel=${() => setIsRenaming(false)}
        onWritten=${onWritten}
      />
    `;
  }

  return html`
    <button onClick=${onEdit}>Edit</button>
    <button onClick=${() => setIsRenaming(true)}>Rename</button>
    ${
      memory.archived
        ? html`<button onClick=${restore}>Restore</button>`
        : html`<button onClick=${archive}>Archive</button>`
    }
    <button class="danger" onClick=${remove}>Delete permanently</button>
  `;
}

/** The new key of a memory. */
function RenameForm({ memory, maxLength, onCancel, onWritten }) {
  const [text, setText] = useState(memory.key);
  const [error, setError] = useState();

  const rename = async (event) => {
    event.preventDefault();
    try {
      const notice = await renameMemory(memory, text);
      open("memory", text);
      onWritten(notice);
    } catch (problem) {
      setError(problem);
    }
  };

  return html`
    <form class="rename" onSubmit=${rename}>
      <${KeyField}
        label="New key"
        hint="Links to this memory follow."
        required
        maxlength=${maxLength}
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

function askToArchive(memory, onWritten) {
  return {
    title: "Archive this memory?",
    text: "Queries and walks will leave it out. You can still read it by its key, and restore it.",
    action: "Archive",
    run: async () => onWritten(await archiveMemory(memory)),
  };
}

function askToRestore(memory, onWritten) {
  return {
    title: "Restore this memory?",
    text: "Queries and walks will find it again.",
    action: "Restore",
    run: async () => onWritten(await reviveMemory(memory)),
  };
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
