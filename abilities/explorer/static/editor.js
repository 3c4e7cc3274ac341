// A form for one memory, a new one or an existing one. What was typed is kept until it is saved.

import {
  createForm,
  describeForm,
  isChanged,
  loadMemory,
  mergeForm,
  saveMemory,
} from "./changes.js";
import { SideBySide } from "./differences.js";
import { drafts } from "./drafts.js";
import { countCharacters, formatNumber, showName } from "./format.js";
import { Fault, listOptions, Name, Select, TextArea, TextField } from "./parts.js";
import { useSession } from "./session.js";
import { KeyInput, LabelField, useLabels } from "./suggested.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const SUGGESTED_TAGS = 12;

/** The memory that a form for a new one begins with. */
const NO_MEMORY = { memory: null, links: [] };

/**
 * `start` is {memory, links} as it was loaded, or left out for a new memory. The draft with the
 * name `draftKey` takes its place if there is one. `onDone` gets {key, message}, or null if the
 * person left the form; the draft is then kept.
 */
export function Editor({ start = NO_MEMORY, draftKey, onDone }) {
  const [edited, setEdited] = useState(() => drafts.get(draftKey) ?? createEdited(start));
  const [conflict, setConflict] = useState(null);
  const [error, setError] = useState();

  const { base, form } = edited;
  useEffect(() => keepDraft(draftKey, edited), [edited]);

  const finish = (key, message) => {
    drafts.drop(draftKey);
    onDone({ key, message });
  };

  const save = async (wanted) => {
    setError(undefined);
    try {
      finish(await saveMemory(wanted.base, wanted.form, wanted.rows), "Saved.");
    } catch (problem) {
      await showProblem(problem, wanted);
    }
  };

  const showProblem = async (problem, wanted) => {
    try {
      if (isConflict(problem, wanted.base)) setConflict(await loadConflict(wanted));
      else setError(problem);
    } catch {
      setError(problem);
    }
  };

  const keepEditing = (merged) => {
    setEdited(merged);
    setConflict(null);
  };

  if (conflict) {
    return html`
      <${Conflict}
        ...${edited}
        theirs=${conflict.theirs}
        error=${error}
        onKeep=${keepEditing}
        onOverwrite=${save}
        onTake=${() => finish(conflict.theirs?.memory.key ?? form.key, "Theirs was kept.")}
      />
    `;
  }

  const { memory } = base;
  const submit = (event) => {
    event.preventDefault();
    save(edited);
  };

  return html`
    <form class="editor" onSubmit=${submit} aria-label=${memory ? "Edit memory" : "New memory"}>
      <${Fields} edited=${edited} onChange=${setEdited} />
      <${Fault} error=${error} />
      <div class="actions">
        <button type="button" onClick=${() => onDone(null)}>Cancel</button>
        <button class="primary">${memory ? "Save changes" : "Store memory"}</button>
      </div>
    </form>
  `;
}

function createEdited(base) {
  return { base, form: createForm(base.memory), rows: base.links };
}

function keepDraft(draftKey, edited) {
  if (isChanged(edited.base, edited.form, edited.rows)) drafts.keep(draftKey, edited);
  else drafts.drop(draftKey);
}

/** Returns whether a memory was not saved because it changed, or is gone. */
function isConflict({ fault }, base) {
  const isGone = base.memory !== null && fault?.code === "NOT_FOUND";
  return isGone || fault?.reason === "version_conflict";
}

/** Loads what somebody else made of the memory; `theirs` is null if it was deleted. */
async function loadConflict({ base, form }) {
  const name = base.memory ? { id: base.memory.id } : { key: form.key };

  try {
    return { theirs: await loadMemory(name) };
  } catch (problem) {
    if (problem.fault?.code !== "NOT_FOUND") throw problem;
    return { theirs: null };
  }
}

function Fields({ edited, onChange }) {
  const { base, form, rows } = edited;
  const schemas = useSession().getArguments(base.memory ? "update_memory" : "store_memory");
  const change = (name, value) => onChange({ ...edited, form: { ...form, [name]: value } });
  const field = (name) => ({ value: form[name], onChange: (value) => change(name, value) });
  const changeRows = (changed) => onChange({ ...edited, rows: changed });

  return html`
    ${!base.memory && html`<${Identity} schemas=${schemas} field=${field} />`}
    <${Content} field=${field} />
    <${Details} schemas=${schemas} field=${field} />
    <${Links} schema=${schemas.links?.items?.properties} rows=${rows} onChange=${changeRows} />
  `;
}

/** What cannot be changed later: the key and the type. */
function Identity({ schemas, field }) {
  return html`
    <div class="row">
      <${TextField}
        label="Key"
        hint="A name you choose, such as project/goals. If empty, the memory's id becomes its key."
        maxlength=${schemas.key?.maxLength}
        ...${field("key")}
      />
      <${Select} label="Type" options=${listOptions(schemas.type)} ...${field("type")} />
    </div>
  `;
}

function Content({ field }) {
  const { value } = field("content");
  const hint = `${formatNumber(countCharacters(value))} characters`;

  return html`
    <${TextArea} label="Content" hint=${hint} rows="8" required ...${field("content")} />
  `;
}

function Details({ schemas, field }) {
  return html`
    <div class="row">
      <${TextField}
        label="Summary"
        maxlength=${schemas.summary?.maxLength}
        ...${field("summary")}
      />
      <${LabelField}
        label="Category"
        kind="categories"
        maxlength=${schemas.category?.maxLength}
        ...${field("category")}
      />
      <${Select}
        label="Importance"
        options=${listOptions(schemas.importance)}
        ...${field("importance")}
      />
      <${TextField}
        label="Score"
        hint="By default, the importance decides it."
        type="number"
        min=${schemas.memory_score?.minimum}
        max=${schemas.memory_score?.maximum}
        step="any"
        ...${field("score")}
      />
    </div>
    <div class="row">
      <div>
        <${TextArea}
          label="Tags"
          hint=${describeTags(schemas.tags)}
          rows="3"
          ...${field("tags")}
        />
        <${UsedTags} ...${field("tags")} />
      </div>
      <${TextArea}
        label="Metadata"
        hint="A JSON object."
        rows="3"
        spellcheck=${false}
        ...${field("metadata")}
      />
    </div>
  `;
}

/** Buttons that add tags of other memories. */
function UsedTags({ value, onChange }) {
  const labels = useLabels();
  const lines = value.split("\n").map((line) => line.trim());
  const added = lines.filter(Boolean);
  const unused = labels?.tags.filter((tag) => !added.includes(tag)).slice(0, SUGGESTED_TAGS) ?? [];

  const buttons = unused.map(
    (tag) => html`
      <button
        type="button"
        class="tag"
        aria-label="Add the tag ${showName(tag)}"
        onClick=${() => onChange([...added, tag].join("\n"))}
      >
        + <${Name} of=${tag} />
      </button>
    `,
  );
  return html`<div class="chips">${buttons}</div>`;
}

function describeTags(schema) {
  if (!schema) return "One per line.";

  const { maxItems, items } = schema;
  return `One per line, at most ${maxItems}, up to ${items.maxLength} characters each.`;
}

function Links({ schema, rows, onChange }) {
  const change = (index, changes) =>
    onChange(rows.map((row, other) => (other === index ? { ...row, ...changes } : row)));
  const remove = (index) => onChange(rows.filter((_, other) => other !== index));
  const add = () =>
    onChange([
      ...rows,
      {
        key: "",
        type: schema?.type.default ?? "",
        link_weight: schema?.link_weight.default ?? "",
      },
    ]);

  return html`
    <fieldset>
      <legend>Links</legend>
      ${rows.map(
        (row, index) => html`
          <${LinkRow}
            key=${index}
            row=${row}
            schema=${schema}
            onChange=${(changes) => change(index, changes)}
            onRemove=${() => remove(index)}
          />
        `,
      )}
      <button type="button" onClick=${add}>Add a link</button>
    </fieldset>
  `;
}

/** One link. The key and the type of a stored link identify it, so only its weight changes. */
function LinkRow({ row, schema, onChange, onRemove }) {
  const label = "Key of the linked memory";

  return html`
    <div class="link-row">
      ${
        row.isStored
          ? html`<input aria-label=${label} value=${row.key} disabled />`
          : html`<${KeyInput}
              aria-label=${label}
              maxlength=${schema?.key.maxLength}
              value=${row.key}
              onChange=${(key) => onChange({ key })}
            />`
      }
      <input
        aria-label="Type of the link"
        maxlength=${schema?.type.maxLength}
        value=${row.type}
        disabled=${row.isStored}
        onInput=${(event) => onChange({ type: event.target.value })}
      />
      <input
        aria-label="Weight of the link"
        type="number"
        min=${schema?.link_weight.minimum}
        max=${schema?.link_weight.maximum}
        step="any"
        value=${row.link_weight}
        onInput=${(event) => onChange({ link_weight: event.target.value })}
      />
      <button
        type="button"
        aria-label="Remove the link to ${showName(row.key)}"
        onClick=${onRemove}
      >
        Remove
      </button>
    </div>
  `;
}

/**
 * Shows both texts, and asks which one counts.
 *
 * `theirs` is {memory, links} as it is now, or null if the memory was deleted. `onKeep` goes on
 * with the form, `onOverwrite` saves it; both get {base, form, rows}. `onTake` drops the form.
 */
function Conflict({ base, form, rows, theirs, error, onKeep, onOverwrite, onTake }) {
  const heading = useRef();
  useEffect(() => heading.current.focus(), []);

  const mine = theirs ? adopt(base, form, rows, theirs) : renew(form, rows);
  const titles = theirs
    ? ["Theirs, as it is now", "Yours, as typed"]
    : ["Deleted", "Yours, as typed"];
  const after = describeForm(mine.form, mine.rows);
  const before = theirs ? describeForm(createForm(theirs.memory), theirs.links) : [];

  return html`
    <section class="conflict" aria-labelledby="conflict-title">
      <h2 id="conflict-title" tabindex="-1" ref=${heading}>
        Somebody ${theirs ? "changed" : "deleted"} this memory meanwhile
      </h2>
      <p>
        Nothing was saved, and nothing is lost. What you did not change is shown, and would be
        saved, as they left it.
      </p>
      <${SideBySide} titles=${titles} before=${before} after=${after} />
      <${Fault} error=${error} />
      <div class="actions">
        <button type="button" class="primary" onClick=${() => onKeep(mine)}>
          ${theirs ? "Keep editing on the newer version" : "Keep editing as a new memory"}
        </button>
        <button type="button" onClick=${() => onOverwrite(mine)}>
          ${theirs ? "Overwrite with yours" : "Store yours again"}
        </button>
        <button type="button" class="danger" onClick=${onTake}>
          ${theirs ? "Take theirs" : "Leave it deleted"}
        </button>
      </div>
    </section>
  `;
}

/** Returns the form on top of the newer version. */
function adopt(base, form, rows, theirs) {
  return { base: theirs, ...mergeForm(base, form, rows, theirs) };
}

/** Returns the form as that of a new memory with the same key. */
function renew(form, rows) {
  return { base: { memory: null, links: [] }, form, rows };
}
