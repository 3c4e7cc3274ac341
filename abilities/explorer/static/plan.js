// The plan of a `read` call as bars: what there is of each item, and what would come of it.

import { formatBytes, formatCount, formatNumber } from "./format.js";
import { Name } from "./parts.js";
import { html } from "./vendor/htm-preact.js";

const TOKEN_BYTES = 4;

/** What becomes of an item, in the order in which the plan counts them. */
const OUTCOMES = ["whole", "in part", "left out", "unchanged", "failed"];

/** Returns whether a payload is a plan. Only a plan says how large the reply will be. */
export function isPlan(payload) {
  return payload.summary?.reply_bytes !== undefined;
}

/** Shows a plan. `onRead` gets the call that was planned. */
export function Plan({ reply, onRead }) {
  const { results, summary, next_request: call } = reply.payload;
  const most = findMostBytes(call, reply.max_bytes);
  const largest = Math.max(1, ...results.map(({ bytes = 0 }) => bytes));

  const items = results.map((item) => ({ ...item, outcome: findOutcome(item, summary) }));
  const rows = items.map((item) => html`<${Row} item=${item} largest=${largest} />`);

  return html`
    <section class="plan" aria-label="The plan">
      <${Total} bytes=${summary.reply_bytes} most=${most} items=${items} />
      <table>
        <caption>
          A bar is as long as what there is; the filled part would come. Tokens are estimated at
          ${" "}${TOKEN_BYTES} bytes each.
        </caption>
        <thead>
          <tr>
            <th scope="col">Item</th>
            <th scope="col">There is</th>
            <th scope="col">Would come</th>
          </tr>
        </thead>
        <tbody>${rows}</tbody>
      </table>
      <div class="actions">
        <button class="primary" onClick=${() => onRead(call)}>Read: send next_request</button>
      </div>
    </section>
  `;
}

/** Returns the bytes of the largest reply to a call. */
function findMostBytes({ max_tokens: tokens }, serverBytes) {
  return tokens === undefined ? serverBytes : Math.min(tokens * TOKEN_BYTES, serverBytes);
}

function findOutcome(item, summary) {
  const { reason, unchanged, bytes, granted_bytes: granted } = item;

  if (reason) return "failed";
  if (unchanged) return "unchanged";
  if (granted === 0 && bytes > 0) return "left out";

  // A file in another encoding is whole with fewer bytes than it has on the disk.
  return granted < bytes && summary.truncated > 0 ? "in part" : "whole";
}

function Total({ bytes, most, items }) {
  const counts = OUTCOMES.map((outcome) => {
    const count = items.filter((item) => item.outcome === outcome).length;
    return count && `${formatNumber(count)} ${outcome}`;
  });

  return html`
    <p class="count" role="status">
      The reply would take ${formatBytes(bytes)} of at most ${formatBytes(most)}, about${" "}
      <strong>${formatNumber(countTokens(bytes))}</strong> of${" "}
      ${formatNumber(countTokens(most))} tokens: ${counts.filter(Boolean).join(", ")}.
    </p>
    <${Bar} length=${1} filled=${Math.min(1, bytes / most)} />
  `;
}

function countTokens(bytes) {
  return Math.ceil(bytes / TOKEN_BYTES);
}

function Row({ item, largest }) {
  const { input, bytes, granted_bytes: granted } = item;
  const bar = bytes > 0 && html`<${Bar} length=${bytes / largest} filled=${granted / largest} />`;

  return html`
    <tr>
      <td class="path"><${Name} of=${input} /></td>
      <td>${describeSize(item)}</td>
      <td>${bar}<${Outcome} item=${item} /></td>
    </tr>
  `;
}

function describeSize({ bytes, tokens, items }) {
  if (bytes === undefined) return "";
  if (items === 0) return "nothing";

  const size = `${formatBytes(bytes)}, about ${formatCount(tokens, "token", "tokens")}`;
  return items === undefined ? size : `${formatCount(items, "content", "contents")}: ${size}`;
}

function Outcome({ item }) {
  const { outcome, reason } = item;

  if (outcome === "failed") {
    return html`<span class="failed">failed: <${Name} of=${reason.replaceAll("_", " ")} /></span>`;
  }

  if (outcome === "unchanged") return "unchanged, not sent again";
  if (outcome === "left out") return "left out, no room";
  if (outcome === "whole") return "whole";
  return `in part: ${describeGranted(item)}`;
}

function describeGranted({ granted_bytes: bytes, granted_tokens: tokens, granted_items: items }) {
  return describeSize({ bytes, tokens, items });
}

/** Draws a bar, both lengths as shares of the room for it. What it shows is said in words too. */
function Bar({ length, filled }) {
  return html`
    <svg class="bar" aria-hidden="true">
      <rect class="there" width="${100 * length}%" height="100%" />
      <rect class="granted" width="${100 * filled}%" height="100%" />
    </svg>
  `;
}
