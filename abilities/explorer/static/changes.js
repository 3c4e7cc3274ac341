// From a memory to the texts of a form, and from these back to what is stored or changed.

import { CallError, callAbility, readView } from "./api.js";

// The view returns this many links at a time.
export const LINKS_PER_PAGE = 20;

// A memory may have a thousand links; the editor offers the best of them only.
const MAX_EDITED_LINKS = 10 * LINKS_PER_PAGE;

/** Loads {memory, links} as the editor takes them; `name` is {key} or {id}. */
export async function loadMemory(name) {
  const { memory } = await readView("memory", name);
  const links = memory.links ?? [];
  const total = Math.min(memory.links_total ?? 0, MAX_EDITED_LINKS);

  for (let offset = LINKS_PER_PAGE; offset < total; offset += LINKS_PER_PAGE) {
    const page = await readView("memory", { ...name, links_offset: offset });
    links.push(...(page.memory.links ?? []));
  }

  return { memory, links: links.map((link) => ({ ...link, isStored: true })) };
}

/** Returns a memory as the texts of a form; without a memory, those of a new one. */
export function createForm(memory) {
  const { memory_score: score, ...metadata } = memory?.metadata ?? {};
  const hasMetadata = Object.keys(metadata).length > 0;

  return {
    key: memory?.key ?? "",
    type: memory?.type ?? "core",
    content: memory?.content ?? "",
    summary: memory?.summary ?? "",
    category: memory?.category ?? "",
    importance: memory?.importance ?? "medium",
    score: score ?? "",
    tags: (memory?.tags ?? []).join("\n"),
    metadata: hasMetadata ? JSON.stringify(metadata, null, 1) : "",
  };
}

/** Returns whether a form says something else than the memory that it began with. */
export function isChanged(base, form, rows) {
  const isSame = JSON.stringify(form) === JSON.stringify(createForm(base.memory));
  return !isSame || JSON.stringify(rows) !== JSON.stringify(base.links);
}

/**
 * Stores a new memory, or sends what differs from `base`, {memory, links}. Returns the key.
 *
 * Throws what the server refuses, also if the memory is not `base` any more, and metadata that is
 * not JSON.
 */
export function saveMemory(base, form, rows) {
  return base.memory ? updateMemory(base, form, rows) : storeMemory(form, rows);
}

async function storeMemory(form, rows) {
  const hasValue = ([, value]) => value !== "" && value !== undefined;
  const values = Object.fromEntries(Object.entries(parseForm(form)).filter(hasValue));
  // Without a key the memory is new in any case.
  const isNew = form.key ? { if_version: 0 } : {};

  const { key } = await write("store", { ...values, ...isNew, links: rows.map(toLink) });
  return key;
}

/** Writes a memory, whose content may be long; returns what was done, or throws the refusal. */
async function write(op, values) {
  const request = { operations: [{ op, ...values }], detail: "full" };
  const [{ data, error }] = (await callAbility("remember", request)).results;
  if (error) throw new CallError(error);
  return data;
}

async function updateMemory({ memory, links }, form, rows) {
  const fields = findChangedFields(memory, form);
  const addedLinks = findChangedLinks(links, rows);
  const removedLinks = findRemovedLinks(links, rows);
  const count = Object.keys(fields).length + addedLinks.length + removedLinks.length;

  if (count > 0) {
    await write("update", {
      id: memory.id,
      ...fields,
      if_version: memory.version,
      links: addedLinks,
      remove_links: removedLinks,
    });
  }

  return memory.key;
}

/**
 * Returns {form, rows} of a newer version, with what was changed in a form since its `base`.
 *
 * `theirs` is {memory, links}, as loaded.
 */
export function mergeForm(base, form, rows, theirs) {
  const before = createForm(base.memory);
  const merged = createForm(theirs.memory);

  for (const name of Object.keys(merged)) {
    const isTyped = form[name] !== before[name] && name !== "key" && name !== "type";
    if (isTyped) merged[name] = form[name];
  }

  const removed = new Set(findRemovedLinks(base.links, rows).map(identify));
  const changed = new Set(findChangedLinks(base.links, rows).map(identify));
  const stays = (link) => !removed.has(identify(link)) && !changed.has(identify(link));
  const typed = rows.filter((row) => changed.has(identify(row)));

  return { form: merged, rows: [...theirs.links.filter(stays), ...typed] };
}

/** Returns what a form says as pairs of a label and a text. */
export function describeForm(form, rows) {
  const lines = rows.map(({ key, type, link_weight: weight }) => `${key} (${type}) ${weight}`);

  return [
    ["Content", form.content],
    ["Summary", form.summary],
    ["Category", form.category],
    ["Importance", form.importance],
    ["Score", String(form.score)],
    ["Tags", form.tags],
    ["Metadata", form.metadata],
    ["Links", lines.sort().join("\n")],
  ];
}

/** Returns all that a memory says as pairs of a label and a text; nothing for no memory. */
export function describeMemory(memory) {
  if (!memory) return [];

  return [
    ["Key", memory.key],
    ["Type", memory.type],
    ...describeForm(createForm(memory), memory.links ?? []),
    ["Archived", memory.archived ? "yes" : "no"],
    ["Expires", memory.expires_at ?? ""],
  ];
}

function findChangedFields(memory, form) {
  const before = parseForm(createForm(memory));
  const differs = ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]);

  return Object.fromEntries(Object.entries(parseForm(form)).filter(differs));
}

/** Returns the links that are new or have another weight; storing a link again changes it. */
function findChangedLinks(links, rows) {
  const weights = new Map(links.map((link) => [identify(link), Number(link.link_weight)]));
  const differs = (row) => weights.get(identify(row)) !== Number(row.link_weight);

  return rows.filter(differs).map(toLink);
}

function findRemovedLinks(links, rows) {
  const remaining = new Set(rows.map(identify));

  return links
    .filter((link) => !remaining.has(identify(link)))
    .map(({ key, type }) => ({ key, type }));
}

/** Returns a text that is equal for two links of the same key and type. */
function identify({ key, type }) {
  return JSON.stringify([key, type]);
}

function toLink({ key, type, link_weight: weight }) {
  return { key, type, link_weight: Number(weight) };
}

function parseForm(form) {
  const tags = form.tags.split("\n").map((tag) => tag.trim());

  return {
    key: form.key,
    type: form.type,
    content: form.content,
    summary: form.summary,
    category: form.category,
    importance: form.importance,
    memory_score: form.score === "" ? undefined : Number(form.score),
    tags: tags.filter(Boolean),
    metadata: parseMetadata(form.metadata),
  };
}

function parseMetadata(text) {
  if (!text.trim()) return {};

  try {
    return JSON.parse(text);
  } catch {
    throw new Error("Metadata must be a JSON object.");
  }
}
