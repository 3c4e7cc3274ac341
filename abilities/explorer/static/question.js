// A question, and what an agent gets for it: ranked memories, why each is there, what it costs.

import { linkTo } from "./address.js";
import { callAbility, tryAbility } from "./api.js";
import { formatCount, formatNumber, measureText, shorten } from "./format.js";
import { useRequest } from "./hooks.js";
import { Fault, Name, RequestStatus, TextField } from "./parts.js";
import { Reply } from "./reply.js";
import { getArguments } from "./schemas.js";
import { KeyField } from "./suggested.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { Why } from "./why.js";

const SNIPPET_CHARACTERS = 240;
const SHOWN_LEFT_OUT = 10;

export function Question({ question = "", abilities, onAsk }) {
  const [text, setText] = useState(question);
  const schemas = getArguments(abilities, "recall");
  const maxLength = schemas.queries?.items?.maxLength;

  useEffect(() => setText(question), [question]);

  // A server may offer only some abilities.
  if (!schemas.queries) return null;

  const ask = (event) => {
    event.preventDefault();
    onAsk(text.trim());
  };

  return html`
    <form class="question" onSubmit=${ask}>
      <${TextField}
        label="Question"
        placeholder="what an agent would ask, in plain words"
        maxlength=${maxLength}
        value=${text}
        onChange=${setText}
      />
      <button class="primary">Ask</button>
    </form>
    ${question && html`<${Answer} question=${question} most=${schemas.max_tokens?.maximum} />`}
  `;
}

function Answer({ question, most }) {
  const request = useRequest(() => recall(question, most), [question]);

  return html`
    <section class="answer" aria-label="What an agent gets">
      <${RequestStatus} request=${request} />
      ${request.data && html`<${Found} question=${question} ...${request.data} />`}
    </section>
  `;
}

/** Returns the reply that an agent gets, and all that was found with the reasons. */
async function recall(question, most) {
  const queries = [question];
  const reply = await tryAbility("recall", { queries });
  if (reply.error) return { reply, shown: [], left: [] };

  const full = await callAbility("recall", { queries, max_tokens: most, detail: "full" });
  const [record] = reply.payload.results;
  const [{ data }] = full.results;

  // The ranking is the same for both; the full reply has the more room.
  const count = record.memories.length;
  const left = [...data.memories.slice(count), ...(data.left_out ?? [])];

  return { reply, record, shown: data.memories.slice(0, count), left };
}

function Found({ question, reply, record, shown, left }) {
  if (reply.error) return html`<${Fault} error=${reply.error} />`;

  const { matched, unknown_words: unknown = [] } = record;
  const { tokens } = measureText(reply.text);
  const items = shown.map((memory) => html`<${Item} memory=${memory} question=${question} />`);

  return html`
    <p class="count" role="status">
      ${formatNumber(shown.length)} of ${formatCount(matched, "hit", "hits")}, about${" "}
      ${formatNumber(tokens)} tokens
    </p>
    ${unknown.length > 0 && html`<${Unknown} words=${unknown} />`}
    <${Missing} question=${question} />
    <ol class="memories">${items}</ol>
    ${left.length > 0 && html`<${LeftOut} memories=${left} />`}
    <details>
      <summary>The reply</summary>
      <${Reply} reply=${reply} />
    </details>
  `;
}

function Unknown({ words }) {
  return html`<p class="faint">In no memory: <${Name} of=${words.join(", ")} /></p>`;
}

function Item({ memory, question }) {
  const { content = "", score, words = {}, via, link = "", direction, date, error } = memory;
  const held = Object.keys(words);
  const giver = via && html`<a href=${linkTo("memory", via)}><${Name} of=${via} /></a>`;
  const kind = link && html` (<${Name} of=${link} />)`;
  const way = direction === "in" ? "to" : "from";

  return html`
    <li>
      <${Source} of=${memory} />${" "}<span class="faint">score ${score}</span>
      ${error && html`<${Fault} error=${{ fault: error }} />`}
      <p class="snippet">${shorten(content, SNIPPET_CHARACTERS)}</p>
      <p class="faint">
        ${date}
        ${held.length > 0 && html` · holds <${Name} of=${held.join(", ")} />`}
        ${via && html` · by a link${kind} ${way} ${giver}`}
      </p>
      ${memory.key !== undefined && html`<${Reasons} question=${question} memoryKey=${memory.key} />`}
    </li>
  `;
}

/** The points of a memory, loaded when they are asked for. */
function Reasons({ question, memoryKey }) {
  const [isOpen, setIsOpen] = useState(false);

  return html`
    <details onToggle=${(event) => setIsOpen(event.target.open)}>
      <summary>Why?</summary>
      ${isOpen && html`<${Why} question=${question} memoryKey=${memoryKey} />`}
    </details>
  `;
}

/** Explains why a memory that somebody expected is not in the answer, or where it is. */
function Missing({ question }) {
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");

  const explain = (event) => {
    event.preventDefault();
    setAsked(text.trim());
  };

  return html`
    <form class="question" onSubmit=${explain}>
      <${KeyField}
        label="A memory is missing?"
        placeholder="its key"
        required
        value=${text}
        onChange=${setText}
      />
      <button>Explain</button>
    </form>
    ${asked && html`<${Why} question=${question} memoryKey=${asked} />`}
  `;
}

/** The name of a memory, which leads to it, or that of a part of the notes. */
function Source({ of: memory }) {
  const { key, filename, heading } = memory;
  if (key !== undefined) {
    return html`<a class="key" href=${linkTo("memory", key)}><${Name} of=${key} /></a>`;
  }

  return html`
    <a class="key" href=${linkTo("notes")}><${Name} of=${filename} /></a>
    ${heading && html` <${Name} of=${heading} />`}
  `;
}

function LeftOut({ memories }) {
  const names = memories
    .slice(0, SHOWN_LEFT_OUT)
    .map((memory) => html`<li><${Source} of=${memory} /></li>`);

  return html`
    <p class="faint">The next ones, for which the reply has no room:</p>
    <ul class="next">${names}</ul>
  `;
}
