// Small parts that the views share. Texts that others wrote are only ever text nodes.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

export const number = (value) => value.toLocaleString("en");

export const counted = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;

export function bytes(value) {
  if (value < 1000) return `${number(value)} bytes`;
  return value < 1_000_000 ? `${(value / 1000).toFixed(1)} kB` : `${(value / 1_000_000).toFixed(1)} MB`;
}

const encoder = new TextEncoder();

/** What a text costs to send and to read: characters, bytes, and tokens at four bytes each. */
function sizes(text) {
  const size = encoder.encode(text).length;
  return { characters: [...text].length, bytes: size, tokens: Math.ceil(size / 4) };
}

export function Sizes({ text }) {
  const found = sizes(text);
  return html`<span class="sizes" title="Tokens are estimated at four bytes each.">
    ${number(found.characters)} characters, ${bytes(found.bytes)}, about <strong>${number(found.tokens)}</strong> tokens</span>`;
}

/** A moment, as short as it can be said; the whole of it on hover. */
export function When({ at }) {
  if (!at) return html`<span class="faint">never</span>`;
  return html`<time datetime=${at} title=${at}>${at.slice(0, 16).replace("T", " ")}</time>`;
}

export function Chips({ memory }) {
  return html`<span class="chips">
    <span class="chip">${memory.type}</span>
    ${memory.importance !== "medium" && html`<span class="chip ${memory.importance}">${memory.importance}</span>`}
    ${memory.category && html`<span class="chip">${memory.category}</span>`}
    ${memory.archived && html`<span class="chip archived">archived</span>`}
  </span>`;
}

export function Fault({ error }) {
  if (!error) return null;
  const { code, message, field, ref } = error.fault ?? { code: "", message: String(error) };
  return html`<div class="fault" role="alert"><strong>${message}</strong>
    <span class="faint"> ${code}${field ? `, ${field}` : ""}${ref ? `, reference ${ref}` : ""}</span></div>`;
}

/** What a promise came to; `again` asks anew. An answer that was overtaken by another question is forgotten. */
export function useAsk(ask, inputs) {
  const [state, setState] = useState({ waiting: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let wanted = true;
    setState((before) => ({ ...before, waiting: true }));
    Promise.resolve(ask()).then(
      (data) => wanted && setState({ data, waiting: false }),
      (error) => wanted && setState({ error, waiting: false }),
    );
    return () => {
      wanted = false;
    };
  }, [...inputs, turn]);
  return { ...state, again: () => setTurn(turn + 1) };
}

export function Waiting({ asked }) {
  return html`<p class="waiting" role="status">${asked.waiting ? "Reading …" : ""}</p>`;
}

/** A value that follows what is typed, once typing rests. */
export function useSettled(value, milliseconds = 250) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** A control with its label around it. */
export function Field({ label, hint, children }) {
  return html`<div class="field"><label><span>${label}</span>${children}</label>
    ${hint && html`<small class="hint">${hint}</small>`}</div>`;
}

export function Choice({ label, value, options, onChange }) {
  return html`<${Field} label=${label}><select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([option, words]) => html`<option value=${option} selected=${option === value}>${words}</option>`)}
  </select><//>`;
}

export function Pager({ offset, shown, total, limit, onMove, what }) {
  if (!total || (!shown && !offset)) return null;
  const last = Math.min(offset + shown, total);
  return html`<nav class="pager" aria-label="Pages of ${what}">
    <button disabled=${offset === 0} onClick=${() => onMove(Math.max(0, offset - limit))}>← Before</button>
    <span>${shown ? `${number(offset + 1)} to ${number(last)}` : "none"} of ${number(total)}</span>
    <button disabled=${last >= total} onClick=${() => onMove(offset + shown)}>After →</button>
  </nav>`;
}

/** Asks before something is done; `question` is {title, words, action, danger, run} or null. */
export function Confirm({ question, onClose }) {
  const dialog = useRef();
  const [error, setError] = useState();
  useEffect(() => {
    setError(undefined);
    if (question && !dialog.current.open) dialog.current.showModal();
    if (!question && dialog.current.open) dialog.current.close();
  }, [question]);
  const run = async () => {
    try {
      await question.run();
      onClose();
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<dialog ref=${dialog} onClose=${onClose} aria-labelledby="confirm-title">
    ${question && html`
      <h2 id="confirm-title">${question.title}</h2><p>${question.words}</p><${Fault} error=${error} />
      <div class="actions">
        <button onClick=${onClose}>Cancel</button>
        <button class=${question.danger ? "danger" : "primary"} onClick=${run}>${question.action}</button>
      </div>`}
  </dialog>`;
}
