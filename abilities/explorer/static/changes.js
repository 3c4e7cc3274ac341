// From a memory to the texts of a form, and from these back to what is stored or changed.

import { callAbility } from "./api.js";

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

/**
 * Stores a new memory, or sends what differs from `memory` and its `links`. Returns the key.
 *
 * Throws what the server refuses, and metadata that is not JSON.
 */
export function saveMemory(memory, links, form, rows) {
  return memory ? updateMemory(memory, links, form, rows) : storeMemory(form, rows);
}

async function storeMemory(form, rows) {
  const hasValue = ([, value]) => value !== "" && value !== undefined;
  const values = Object.fromEntries(Object.entries(parseForm(form)).filter(hasValue));

  const { key } = await callAbility("store_memory", {
    ...values,
    links: rows.map(toLink),
    detail: "concise",
  });
  return key;
}

async function updateMemory(memory, links, form, rows) {
  const fields = findChangedFields(memory, form);
  const addedLinks = findChangedLinks(links, rows);
  const removedLinks = findRemovedLinks(links, rows);
  const count = Object.keys(fields).length + addedLinks.length + removedLinks.length;

  if (count > 0) {
    await callAbility("update_memory", {
      id: memory.id,
      ...fields,
      links: addedLinks,
      remove_links: removedLinks,
    });
  }

  return memory.key;
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
