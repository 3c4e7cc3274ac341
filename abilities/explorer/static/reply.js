// A reply as a client gets it: its records for people to read, and each format with its cost.

import { formatBytes, formatCount, formatNumber, showName } from "./format.js";
import { Fault, Name, Sizes, SourceText } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Reply({ reply }) {
  const [format, setFormat] = useState("json");
  const isJson = format === "json";
  const text = isJson ? JSON.stringify(reply.payload, null, 2) : reply[format];
  const choices = ["json", "text", "toon"].map(
    (name) => html`
      <${Format} name=${name} text=${reply[name]} isChosen=${format === name} onChoose=${setFormat} />
    `,
  );

  return html`
    <section class="reply" aria-label="The reply">
      <fieldset class="formats">
        <legend>The reply as a model gets it</legend>
        ${choices}
      </fieldset>
      <pre tabindex="0" aria-label="The reply as ${format}">${text}</pre>
      ${isJson && html`<p class="faint">Indented here only; the reply itself is compact.</p>`}
    </section>
  `;
}

function Format({ name, text, isChosen, onChoose }) {
  return html`
    <label class="check">
      <input type="radio" name="format" checked=${isChosen} onChange=${() => onChoose(name)} />
      ${name.toUpperCase()} <${Sizes} text=${text} />
    </label>
  `;
}

/** The records of a bulk reply, in the order of the items; nothing for any other payload. */
export function Records({ payload, onNext }) {
  const { summary, results, next_request: nextRequest } = payload;
  if (!summary || !results) return null;

  return html`
    <section class="records" aria-label="Records">
      <h2 class="unseen">Records</h2>
      <${Summary} ...${summary} />
      ${results.map((record) => html`<${Record} record=${record} />`)}
      ${
        nextRequest &&
        html`<button onClick=${() => onNext(nextRequest)}>Continue: send next_request</button>`
      }
    </section>
  `;
}

function Summary({ succeeded, requested, failed, truncated, returned_chars: characters }) {
  return html`
    <p class="count" role="status">
      ${succeeded} of ${requested} read, ${failed} failed, ${truncated} cut,${" "}
      ${formatNumber(characters)} characters
    </p>
  `;
}

/** One record; `title` is its heading, by default what was asked for. */
export function Record({ record, title }) {
  const { input, data, error, truncation, unchanged } = expand(record);

  return html`
    <article class="record">
      <h3>${title ?? html`<${Name} of=${input} />`}</h3>
      ${error && html`<${Fault} error=${{ fault: error }} />`}
      ${unchanged && html`<p class="faint">Unchanged, not sent again.</p>`}
      ${data?.items && html`<${Items} data=${data} />`}
      ${data && !data.items && html`<${Data} input=${input} data=${data} />`}
      ${truncation && html`<${Truncation} ...${truncation} />`}
    </article>
  `;
}

/** Returns a concise record with its fields where a full one has them, and a full one as it is. */
function expand(record) {
  const { path, filename, type, date, key, content, items, reason, message } = record;
  const input = record.input ?? path ?? key ?? filename ?? date ?? type;

  if (content !== undefined || items) return { input, data: record };
  if (reason) return { input, error: { code: reason, message: message ?? "" } };
  return { ...record, input };
}

/** The contents of an item that brings several, each as a record of its own. */
function Items({ data }) {
  const { items, more } = data;

  return html`
    <p class="faint">
      ${formatCount(items.length, "content", "contents")}${more && "; its own limit ended it"}
    </p>
    <div class="items">${items.map((record) => html`<${Record} record=${record} />`)}</div>
  `;
}

function Data({ input, data }) {
  const { path, size_bytes: size, encoding, replaced, redacted, content } = data;
  const label = `Content of ${showName(input)}`;
  const facts = [showName(data.source ?? data.filename ?? data.key ?? "")];

  if (size !== undefined) facts.push(formatBytes(size));
  if (encoding) facts.push(encoding);
  if (replaced) facts.push(`${formatNumber(replaced)} bytes replaced because they are not text`);
  if (redacted) facts.push(`secrets not shown: ${formatNumber(redacted)}`);

  return html`
    <p class="faint">${facts.join(", ")}</p>
    ${
      path === undefined
        ? html`<pre class="content" tabindex="0" aria-label=${label}>${content}</pre>`
        : html`<${SourceText} label=${label} text=${content} first=${findFirstLine(input)} />`
    }
  `;
}

/** Returns the number of the line that a piece begins with, or null if that is unknown. */
function findFirstLine(input) {
  const [, line, byte] = input.match(/#(?:L(\d+)|byte=(\d+))[^#]*$/) ?? [];
  if (Number(byte) > 0) return null;

  return Number(line ?? 1);
}

const CAUSES = {
  budget: "so that the reply fits",
  max_chars: "by the limit for each item",
  time: "because searching took too long",
};

function Truncation({ reason, returned_chars: returned, total_chars: total }) {
  const range = total
    ? `${formatNumber(returned)} of ${formatNumber(total)}`
    : formatNumber(returned);
  const cause = CAUSES[reason];

  return html`<p class="cutoff">Cut after ${range} characters, ${cause}.</p>`;
}
