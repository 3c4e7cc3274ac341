// How numbers and texts are shown.

const encoder = new TextEncoder();

export function formatNumber(value) {
  return value.toLocaleString("en");
}

/** Formats a count with its noun, for example "1 link" or "2,000 links". */
export function formatCount(value, singular, plural) {
  return `${formatNumber(value)} ${value === 1 ? singular : plural}`;
}

/** Formats a weight or a score with three decimals at most: 0.1 + 0.2 is "0.3". */
export function formatScore(value) {
  return String(Number(value.toFixed(3)));
}

export function formatBytes(value) {
  if (value < 1000) return `${formatNumber(value)} bytes`;
  if (value < 1_000_000) return `${(value / 1000).toFixed(1)} kB`;
  return `${(value / 1_000_000).toFixed(1)} MB`;
}

/** Counts characters as the server does: by code points, not UTF-16 units. */
export function countCharacters(text) {
  return [...text].length;
}

/** Measures what a text costs to send and to read. Tokens are estimated at four bytes each. */
export function measureText(text) {
  const bytes = encoder.encode(text).length;
  return { characters: countCharacters(text), bytes, tokens: Math.ceil(bytes / 4) };
}

/** Shortens a text to so many characters, of which the last is then an ellipsis. */
export function shorten(text, limit) {
  const characters = [...text];
  if (characters.length <= limit) return text;

  return `${characters.slice(0, limit - 1).join("")}…`;
}

// Controls, bidi controls, separators of lines, characters without width, fillers, lone surrogates.
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]|[\u034f\u17b4\u17b5]|[\u180b-\u180f]/gu;

/** Shows a name: each character that is obeyed or hidden instead of shown becomes an escape. */
export function showName(name) {
  return String(name).replace(UNSEEN, escapeCharacter);
}

function escapeCharacter(character) {
  return `\\u{${character.codePointAt(0).toString(16)}}`;
}
