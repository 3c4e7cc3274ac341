// A form for one memory: a new one, or changes of one that is there. Sends only what was changed.

import { call } from "./api.js";
import { Choice, Fault, Field } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

const TYPES = ["core", "learning", "task"].map((type) => [type, type]);
const IMPORTANCES = ["high", "medium", "low"].map((level) => [level, level]);

export function Editor({ memory, links = [], onDone }) {
  const [form, setForm] = useState(() => formed(memory));
  const [ties, setTies] = useState(links);
  const [error, setError] = useState();
  const set = (name) => (value) => setForm({ ...form, [name]: value?.target ? value.target.value : value });
  const save = async (event) => {
    event.preventDefault();
    try {
      onDone(await saved(memory, links, form, ties));
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<form class="editor" onSubmit=${save} aria-label=${memory ? "Edit memory" : "New memory"}>
    ${!memory && html`<div class="row">
      <${Field} label="Key" hint="A name of your own, as project/goals; left empty, the memory is named by its id.">
        <input value=${form.key} onInput=${set("key")} maxlength="200" /><//>
      <${Choice} label="Type" options=${TYPES} value=${form.type} onChange=${set("type")} /></div>`}
    <${Field} label="Content" hint="${[...form.content].length} of 5,000 characters">
      <textarea required rows="8" value=${form.content} onInput=${set("content")}></textarea><//>
    <div class="row">
      <${Field} label="Summary"><input value=${form.summary} onInput=${set("summary")} maxlength="500" /><//>
      <${Field} label="Category"><input value=${form.category} onInput=${set("category")} maxlength="50" /><//>
      <${Choice} label="Importance" options=${IMPORTANCES} value=${form.importance} onChange=${set("importance")} />
      <${Field} label="Score" hint="0 to 1; importance decides it until one is set">
        <input type="number" min="0" max="1" step="any" value=${form.score} onInput=${set("score")} /><//>
    </div>
    <div class="row">
      <${Field} label="Tags" hint="one a line"><textarea rows="3" value=${form.tags} onInput=${set("tags")}></textarea><//>
      <${Field} label="Further values" hint="a JSON object"><textarea rows="3" spellcheck=${false} value=${form.metadata} onInput=${set("metadata")}></textarea><//>
    </div>
    <${Ties} ties=${ties} onChange=${setTies} />
    <${Fault} error=${error} />
    <div class="actions"><button type="button" onClick=${() => onDone(null)}>Cancel</button>
      <button class="primary">${memory ? "Save changes" : "Store memory"}</button></div>
  </form>`;
}

function Ties({ ties, onChange }) {
  const change = (index, name, value) => onChange(ties.map((tie, i) => (i === index ? { ...tie, [name]: value } : tie)));
  return html`<fieldset><legend>Links</legend>
    ${ties.map((tie, index) => html`<div class="link-row" key=${index}>
      <input aria-label="Key of the linked memory" value=${tie.key} disabled=${tie.known} onInput=${(e) => change(index, "key", e.target.value)} />
      <input aria-label="Kind of link" value=${tie.type} disabled=${tie.known} onInput=${(e) => change(index, "type", e.target.value)} />
      <input aria-label="Weight of the link" type="number" min="0" max="1" step="any" value=${tie.link_weight}
        onInput=${(e) => change(index, "link_weight", e.target.value)} />
      <button type="button" aria-label="Remove the link to ${tie.key}" onClick=${() => onChange(ties.filter((_, i) => i !== index))}>Remove</button>
    </div>`)}
    <button type="button" onClick=${() => onChange([...ties, { key: "", type: "association", link_weight: 0.5 }])}>Add a link</button>
  </fieldset>`;
}

function formed(memory) {
  const { memory_score: score, ...others } = memory?.metadata ?? {};
  return {
    key: memory?.key ?? "",
    type: memory?.type ?? "core",
    content: memory?.content ?? "",
    summary: memory?.summary ?? "",
    category: memory?.category ?? "",
    importance: memory?.importance ?? "medium",
    score: score ?? "",
    tags: (memory?.tags ?? []).join("\n"),
    metadata: Object.keys(others).length ? JSON.stringify(others, null, 1) : "",
  };
}

/** Store a new memory, or change what differs; the key to go on with. Throws what was refused. */
async function saved(memory, links, form, ties) {
  const values = valued(form);
  if (!memory) {
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined));
    const stored = await call("store_memory", { ...given, links: ties.map(linked) });
    return stored.memory.key;
  }
  const before = valued(formed(memory));
  const changed = Object.entries(values).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
  const { key, type, ...changes } = Object.fromEntries(changed);
  const names = new Set(ties.map(named));
  const remove_links = links.filter((link) => !names.has(named(link))).map(({ key, type }) => ({ key, type }));
  const weights = new Map(links.map((link) => [named(link), Number(link.link_weight)]));
  const set_links = ties.filter((tie) => weights.get(named(tie)) !== Number(tie.link_weight)).map(linked);
  if (changed.length + remove_links.length + set_links.length > 0) {
    await call("update_memory", { id: memory.id, ...changes, links: set_links, remove_links });
  }
  return memory.key;
}

const named = ({ key, type }) => JSON.stringify([key, type]);
const linked = ({ key, type, link_weight }) => ({ key, type, link_weight: Number(link_weight) });

function valued(form) {
  return {
    key: form.key,
    type: form.type,
    content: form.content,
    summary: form.summary,
    category: form.category,
    importance: form.importance,
    memory_score: form.score === "" ? undefined : Number(form.score),
    tags: form.tags.split("\n").map((tag) => tag.trim()).filter(Boolean),
    metadata: metadata(form.metadata),
  };
}

function metadata(text) {
  if (!text.trim()) return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("Further values must be a JSON object.");
  }
}
