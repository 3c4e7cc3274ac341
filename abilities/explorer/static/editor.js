// A form for one memory, a new one or an existing one.

import { createForm, saveMemory } from "./changes.js";
import { countCharacters, formatNumber, showName } from "./format.js";
import { Fault, Select, TextArea, TextField } from "./parts.js";
import { getArguments, listOptions } from "./schemas.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Editor({ abilities, memory, links = [], onDone }) {
  const [form, setForm] = useState(() => createForm(memory));
  const [rows, setRows] = useState(links);
  const [error, setError] = useState();

  const schemas = getArguments(abilities, memory ? "update_memory" : "store_memory");
  const change = (name, value) => setForm({ ...form, [name]: value });
  const field = (name) => ({ value: form[name], onChange: (value) => change(name, value) });

  const save = async (event) => {
    event.preventDefault();
    try {
      onDone(await saveMemory(memory, links, form, rows));
    } catch (problem) {
      setError(problem);
    }
  };

  return html`
    <form class="editor" onSubmit=${save} aria-label=${memory ? "Edit memory" : "New memory"}>
      ${!memory && html`<${Identity} schemas=${schemas} field=${field} />`}
      <${Content} schemas=${schemas} field=${field} />
      <${Details} schemas=${schemas} field=${field} />
      <${Links} schema=${schemas.links?.items?.properties} rows=${rows} onChange=${setRows} />
      <${Fault} error=${error} />
      <div class="actions">
        <button type="button" onClick=${() => onDone(null)}>Cancel</button>
        <button class="primary">${memory ? "Save changes" : "Store memory"}</button>
      </div>
    </form>
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

function Content({ schemas, field }) {
  const { value } = field("content");
  const limit = schemas.content?.maxLength;
  const count = formatNumber(countCharacters(value));
  const hint = limit ? `${count} of ${formatNumber(limit)} characters` : `${count} characters`;

  // Without the attribute, a longer text can be pasted whole and then be shortened by hand.
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
      <${TextField}
        label="Category"
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
      <${TextArea} label="Tags" hint=${describeTags(schemas.tags)} rows="3" ...${field("tags")} />
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
  return html`
    <div class="link-row">
      <input
        aria-label="Key of the linked memory"
        maxlength=${schema?.key.maxLength}
        value=${row.key}
        disabled=${row.isStored}
        onInput=${(event) => onChange({ key: event.target.value })}
      />
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
