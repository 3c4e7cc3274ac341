// What differs between two texts: by words, or by lines if they are long.

import { countCharacters } from "./format.js";

const MAX_CHARACTERS = 5_000;
const MAX_CELLS = 4_000_000;

// A word, a character of a script without spaces, a run of spaces, or a sign.
const WORDS =
  /[\p{Ideographic}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{N}\p{M}_]+|\s+|./gsu;
const LINES = /[^\n]*\n|[^\n]+/g;

/**
 * Returns the parts of both texts in order, each {kind, text}; kind is same, removed or added.
 *
 * Texts that are too long to compare are one part removed and one added.
 */
export function compareTexts(before, after) {
  const isLong = Math.max(countCharacters(before), countCharacters(after)) > MAX_CHARACTERS;
  const pattern = isLong ? LINES : WORDS;

  return joinParts(compareTokens(before.match(pattern) ?? [], after.match(pattern) ?? []));
}

function compareTokens(before, after) {
  const most = Math.min(before.length, after.length);
  let start = 0;
  let end = 0;

  while (start < most && before[start] === after[start]) start += 1;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;

  const middle = compareMiddles(
    before.slice(start, before.length - end),
    after.slice(start, after.length - end),
  );
  return [
    ...toParts("same", before.slice(0, start)),
    ...middle,
    ...toParts("same", before.slice(before.length - end)),
  ];
}

/** Compares by the longest common subsequence, read from its table of lengths. */
function compareMiddles(before, after) {
  if (before.length * after.length > MAX_CELLS) {
    return [...toParts("removed", before), ...toParts("added", after)];
  }

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
