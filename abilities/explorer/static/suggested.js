// Text fields that suggest what is stored already: keys, tags and categories.

import { callAbility, readView } from "./api.js";
import { useDebounced, useRequest } from "./hooks.js";
import { TextField } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

const SUGGESTED_KEYS = 20;

let listCount = 0;

/** A field for the key of a memory. All properties are those of a TextField. */
export function KeyField(properties) {
  const { id, keys } = useKeys(properties.value);
  return html`<${TextField} ...${properties} list=${id} /><${Suggestions} id=${id} of=${keys} />`;
}

/** The same without a label. */
export function KeyInput({ onChange, ...attributes }) {
  const { id, keys } = useKeys(attributes.value);

  return html`
    <input ...${attributes} list=${id} onInput=${(event) => onChange(event.target.value)} />
    <${Suggestions} id=${id} of=${keys} />
  `;
}

/** A field for a tag or a category; `kind` is "tags" or "categories". */
export function LabelField({ kind, ...properties }) {
  const id = useListId();
  const labels = useLabels();

  return html`
    <${TextField} ...${properties} list=${id} />
    <${Suggestions} id=${id} of=${labels?.[kind] ?? []} />
  `;
}

/** Returns {tags, categories} that are in use, once they are loaded. */
export function useLabels() {
  return useRequest(() => readView("labels"), []).data;
}

/** Returns {id, keys}: keys of memories that have a text, for the list with that id. */
function useKeys(text) {
  const id = useListId();
  const search = useDebounced(text);
  const request = useRequest(
    () => callAbility("query_memories", { search: search || null, limit: SUGGESTED_KEYS }),
    [search],
  );

  return { id, keys: request.data?.memories.map(({ key }) => key) ?? [] };
}

function useListId() {
  const [id] = useState(() => {
    listCount += 1;
    return `suggestions-${listCount}`;
  });
  return id;
}

function Suggestions({ id, of: values }) {
  return html`
    <datalist id=${id}>${values.map((value) => html`<option value=${value}></option>`)}</datalist>
  `;
}
