// What differs between two texts, by words, or by lines if they differ in very many; and how that
// is shown: in one text with what went struck, or side by side.

import { html } from "./vendor/htm-preact.js";

// Bounds the time of a comparison, and its memory to twice as many bytes.
const MAX_CELLS = 4_000_000;

// A word, a character of a script without spaces, a run of spaces, or a sign.
const WORDS =
  /[\p{Ideographic}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]|[\p{L}\p{N}\p{M}_]+|\s+|./gsu;
const LINES = /[^\n]*\n|[^\n]+/g;

/** What became of texts, given as pairs of a label and a text: what went is struck. */
export function Differences({ before, after }) {
  const fields = pairFields(before, after);
  if (fields.length === 0) return html`<p class="faint">No text differs.</p>`;

  return fields.map(
    ({ label, parts }) => html`
      <h3>${label}</h3>
      <${Marked} label="Differences: ${label}" parts=${parts} />
    `,
  );
}

/** The same side by side, with a title for each side. */
export function SideBySide({ titles, before, after }) {
  const fields = pairFields(before, after);
  if (fields.length === 0) return html`<p class="faint">No text differs.</p>`;

  return fields.map(
    ({ label, parts }) => html`
      <h3>${label}</h3>
      <div class="columns">
        <${Side} label=${label} title=${titles[0]} parts=${without("added", parts)} />
        <${Side} label=${label} title=${titles[1]} parts=${without("removed", parts)} />
      </div>
    `,
  );
}

function Side({ label, title, parts }) {
  return html`
    <div>
      <h4>${title}</h4>
      <${Marked} label="${title}: ${label}" parts=${parts} />
    </div>
  `;
}

function Marked({ label, parts }) {
  return html`<pre class="compared" tabindex="0" aria-label=${label}>${parts.map(mark)}</pre>`;
}

function mark({ kind, text }) {
  if (kind === "removed") return html`<del>${text}</del>`;
  if (kind === "added") return html`<ins>${text}</ins>`;
  return text;
}

function without(kind, parts) {
  return parts.filter((part) => part.kind !== kind);
}

/** Returns the fields whose texts differ as {label, parts}; a field that is missing has no text. */
function pairFields(before, after) {
  const left = new Map(before);
  const right = new Map(after);
  const labels = [...new Set([...left.keys(), ...right.keys()])];
  const differs = (label) => (left.get(label) ?? "") !== (right.get(label) ?? "");

  return labels.filter(differs).map((label) => ({
    label,
    parts: compareTexts(left.get(label) ?? "", right.get(label) ?? ""),
  }));
}

/**
 * Returns the parts of both texts in order, each {kind, text}; kind is same, removed or added.
 *
 * Texts that differ in too much to compare have one part removed and one added.
 */
function compareTexts(before, after) {
  const byWords = findMiddles(split(before, WORDS), split(after, WORDS));
  if (!isTooMuch(byWords)) return joinParts(compare(byWords));

  return joinParts(compare(findMiddles(split(before, LINES), split(after, LINES))));
}

function split(text, pattern) {
  return text.match(pattern) ?? [];
}

/** Returns what stands between the beginning and the end that two lists of tokens share. */
function findMiddles(before, after) {
  const most = Math.min(before.length, after.length);
  let start = 0;
  let end = 0;

  while (start < most && before[start] === after[start]) start += 1;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;

  return {
    head: before.slice(0, start),
    before: before.slice(start, before.length - end),
    after: after.slice(start, after.length - end),
    tail: before.slice(before.length - end),
  };
}

function isTooMuch({ before, after }) {
  return before.length * after.length > MAX_CELLS;
}

function compare(middles) {
  const { head, before, after, tail } = middles;
  const middle = isTooMuch(middles)
    ? [...toParts("removed", before), ...toParts("added", after)]
    : compareMiddles(before, after);

  return [...toParts("same", head), ...middle, ...toParts("same", tail)];
}

/** Compares by the longest common subsequence, read from its table of lengths. */
function compareMiddles(before, after) {
  const lengths = measureCommon(before, after);
  const parts = [];
  let i = 0;
  let j = 0;

  while (i < before.length && j < after.length) {
    if (before[i] === after[j]) {
      parts.push({ kind: "same", text: before[i] });
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) {
      parts.push({ kind: "removed", text: before[i] });
      i += 1;
    } else {
      parts.push({ kind: "added", text: after[j] });
      j += 1;
    }
  }

  return [...parts, ...toParts("removed", before.slice(i)), ...toParts("added", after.slice(j))];
}

/** Returns the length of the longest common subsequence from each pair of places on. */
function measureCommon(before, after) {
  const lengths = [];
  for (let i = 0; i <= before.length; i += 1) lengths.push(new Uint16Array(after.length + 1));

  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      const isSame = before[i] === after[j];
      lengths[i][j] = isSame
        ? lengths[i + 1][j + 1] + 1
        : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }

  return lengths;
}

function toParts(kind, tokens) {
  return tokens.map((text) => ({ kind, text }));
}

/** Joins neighbors of the same kind. */
function joinParts(parts) {
  const joined = [];

  for (const { kind, text } of parts) {
    const last = joined.at(-1);
    if (last?.kind === kind) last.text += text;
    else joined.push({ kind, text });
  }

  return joined;
}
