// A reply as a client gets it: in both formats with what they cost, and its records as people read them.

import { bytes, Fault, number, Sizes } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Reply({ reply }) {
  const [format, setFormat] = useState("json");
  const indented = format === "json" ? JSON.stringify(JSON.parse(reply.json), null, 2) : reply.toon;
  const choice = (name, words) => html`<label class="check"><input type="radio" name="format" checked=${format === name}
    onChange=${() => setFormat(name)} /> ${words} <${Sizes} text=${reply[name]} /></label>`;
  return html`<section class="reply" aria-label="The reply">
    <fieldset class="formats"><legend>The reply as a model gets it</legend>${choice("json", "JSON")}${choice("toon", "TOON")}</fieldset>
    <pre tabindex="0" aria-label="The reply as ${format}">${indented}</pre>
    ${format === "json" && html`<p class="faint">Indented here for reading; it is sent without.</p>`}
  </section>`;
}

/** The records of a bulk reply, one an item, in the order asked. */
export function Records({ payload, onNext }) {
  const { summary } = payload;
  return html`<section class="records" aria-label="Records">
    <p class="count" role="status">${summary.succeeded} of ${summary.requested} read, ${summary.failed} failed, ${summary.truncated} cut, ${number(summary.returned_chars)} characters</p>
    ${payload.results.map((record) => html`<${Item} record=${record} />`)}
    ${payload.next_request && html`<button onClick=${() => onNext(payload.next_request)}>Read on: send next_request</button>`}
  </section>`;
}

function Item({ record }) {
  const { input, data, error, truncation } = record;
  return html`<article class="record">
    <h3><bdi>${input}</bdi></h3>
    ${error && html`<${Fault} error=${{ fault: error }} />`}
    ${data && html`<p class="faint">${[data.source ?? data.filename ?? data.key, data.size_bytes !== undefined && bytes(data.size_bytes), data.encoding,
      data.replaced && `${number(data.replaced)} bytes that are no text`].filter(Boolean).join(", ")}</p>
      <pre class="content" tabindex="0" aria-label="Content of ${input}">${data.content}</pre>`}
    ${truncation && html`<p class="cutoff">Cut after ${number(truncation.returned_chars)}${truncation.total_chars ? ` of ${number(truncation.total_chars)}` : ""} characters,
      ${truncation.reason === "budget" ? " to fit the whole reply" : " by the limit of one item"}.</p>`}
  </article>`;
}
