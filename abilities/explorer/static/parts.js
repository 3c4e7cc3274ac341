// Small components that the views share. Text that others wrote is only ever put into text nodes.

import { formatBytes, formatNumber, measureText, showName } from "./format.js";
import { useAction } from "./hooks.js";
import { html, useEffect, useRef } from "./vendor/htm-preact.js";

/** What a text costs to send and to read. */
export function Sizes({ text }) {
  const { characters, bytes, tokens } = measureText(text);

  return html`
    <span class="sizes" title="Tokens are estimated at four bytes each.">
      ${formatNumber(characters)} characters, ${formatBytes(bytes)}, about${" "}
      <strong>${formatNumber(tokens)}</strong> tokens
    </span>
  `;
}

/** A name that others chose, such as a key or a path. It turns nothing of what stands around it. */
export function Name({ of }) {
  return html`<bdi>${showName(of)}</bdi>`;
}

/** A time to the minute; the title has all of it. */
export function Time({ at }) {
  if (!at) return html`<span class="faint">never</span>`;

  const minute = at.slice(0, 16).replace("T", " ");
  return html`<time datetime=${at} title=${at}>${minute}</time>`;
}

/** A memory's type, its importance if that is unusual, its category, and whether it is archived. */
export function Chips({ memory }) {
  const { type, importance, category, archived } = memory;
  const isUnusual = importance !== "medium";

  return html`
    <span class="chips">
      <span class="chip">${type}</span>
      ${isUnusual && html`<span class="chip ${importance}">${importance}</span>`}
      ${category && html`<span class="chip"><${Name} of=${category} /></span>`}
      ${archived && html`<span class="chip archived">archived</span>`}
    </span>
  `;
}

/** Why a call or an item failed; nothing without an error. */
export function Fault({ error }) {
  if (!error) return null;

  const { code, message, field, fields, ref } = error.fault ?? { message: error.message };
  const names = fields ? fields.map((wrong) => wrong.field) : [field];
  const details = [code, ...names, ref && `reference ${ref}`].filter(Boolean).join(", ");

  return html`
    <div class="fault" role="alert">
      <strong>${message}</strong>${" "}<span class="faint">${details}</span>
    </div>
  `;
}

/** How a request stands: that it is loading, or why it failed. */
export function RequestStatus({ request, error = request.error }) {
  return html`
    <${Fault} error=${error} />
    <p class="waiting" role="status">${request.loading ? "Loading …" : ""}</p>
  `;
}

/**
 * The text of a file with the numbers of its lines, which are no part of what is copied.
 *
 * `first` is the number of the first line, or null if that is unknown.
 */
export function SourceText({ text, label, first = 1 }) {
  const count = text.replace(/\n$/, "").split("\n").length;
  const numbers = Array.from({ length: count }, (_, index) => first + index).join("\n");

  return html`
    <div class="source" tabindex="0" role="region" aria-label=${label}>
      ${first !== null && html`<div class="numbers" aria-hidden="true">${numbers}</div>`}
      <pre>${text}</pre>
    </div>
  `;
}

/** A control with its label around it, and a hint below. */
export function Field({ label, hint, children }) {
  return html`
    <div class="field">
      <label><span>${label}</span>${children}</label>
      ${hint && html`<small class="hint">${hint}</small>`}
    </div>
  `;
}

/** An input with its label. All further properties become attributes of the input. */
export function TextField({ label, hint, onChange, ...attributes }) {
  return html`
    <${Field} label=${label} hint=${hint}>
      <input ...${attributes} onInput=${(event) => onChange(event.target.value)} />
    <//>
  `;
}

/** A field of several lines. All further properties become attributes of the text area. */
export function TextArea({ label, hint, onChange, ...attributes }) {
  return html`
    <${Field} label=${label} hint=${hint}>
      <textarea ...${attributes} onInput=${(event) => onChange(event.target.value)}></textarea>
    <//>
  `;
}

/** A choice among options, which are pairs of a value and its label. */
export function Select({ label, hint, value, options, onChange }) {
  const items = options.map(
    ([option, text]) => html`<option value=${option} selected=${option === value}>${text}</option>`,
  );

  return html`
    <${Field} label=${label} hint=${hint}>
      <select value=${value} onChange=${(event) => onChange(event.target.value)}>${items}</select>
    <//>
  `;
}

/** Returns the choices of an argument as options of a Select, each shown by its own name. */
export function listOptions(schema) {
  return (schema?.enum ?? []).map((choice) => [choice, choice]);
}

/** Buttons to the previous and the next page; nothing if there is nothing to page through. */
export function Pager({ offset, shown, total, limit, onMove, what }) {
  if (!total || (!shown && !offset)) return null;

  const last = Math.min(offset + shown, total);
  const range = shown ? `${formatNumber(offset + 1)} to ${formatNumber(last)}` : "none";
  const moveBack = () => onMove(Math.max(0, offset - limit));
  const moveOn = () => onMove(offset + shown);

  return html`
    <nav class="pager" aria-label="Pages of ${what}">
      <button disabled=${offset === 0} onClick=${moveBack}>← Previous</button>
      <span>${range} of ${formatNumber(total)}</span>
      <button disabled=${last >= total} onClick=${moveOn}>Next →</button>
    </nav>
  `;
}

/** A button to the next page of what `usePages` returned; nothing at the end. */
export function More({ pages, label }) {
  if (!pages.hasMore) return null;

  return html`
    <p><button disabled=${pages.request.loading} onClick=${pages.loadMore}>${label}</button></p>
  `;
}

/** Asks before something is done. A question is {title, text, action, danger, run}, or null. */
export function Confirm({ question, onClose }) {
  const dialog = useRef();
  const [run, error] = useAction(async () => {
    await question.run();
    onClose();
  }, [question]);

  useEffect(() => {
    if (question && !dialog.current.open) dialog.current.showModal();
    if (!question && dialog.current.open) dialog.current.close();
  }, [question]);

  const content =
    question &&
    html`<${Question} question=${question} error=${error} onRun=${run} onClose=${onClose} />`;

  return html`
    <dialog ref=${dialog} onClose=${onClose} aria-labelledby="confirm-title">${content}</dialog>
  `;
}

function Question({ question, error, onRun, onClose }) {
  const { title, text, action, danger } = question;

  return html`
    <h2 id="confirm-title">${title}</h2>
    <p>${text}</p>
    <${Fault} error=${error} />
    <div class="actions">
      <button onClick=${onClose}>Cancel</button>
      <button class=${danger ? "danger" : "primary"} onClick=${onRun}>${action}</button>
    </div>
  `;
}
