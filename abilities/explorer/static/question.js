// A question, and what an agent gets for it: ranked memories, why each is there, what it costs.

import { linkTo } from "./address.js";
import { callAbility, readView, tryAbility } from "./api.js";
import { formatCount, formatNumber, measureText, shorten } from "./format.js";
import { useRequest } from "./hooks.js";
import { Fault, Name, RequestStatus, TextField } from "./parts.js";
import { Reply } from "./reply.js";
import { useSession } from "./session.js";
import { KeyField } from "./suggested.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const SNIPPET_CHARACTERS = 240;
const SHOWN_LEFT_OUT = 10;

export function Question({ question = "", onAsk }) {
  const [text, setText] = useState(question);
  const schemas = useSession().getArguments("recall");
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
        placeholder="a question, in plain words"
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

const REASONS = {
  archived: "It is archived.",
  expired: "It has expired, so it counts as archived.",
  deleted: "It was deleted; its history can bring it back.",
  below_best: "256 memories have better words, and no link leads to it from the best.",
  no_match: "It has no word of the question, and no link leads to it from the best.",
};

function Why({ question, memoryKey }) {
  const request = useRequest(
    () => readView("why", { question, key: memoryKey }),
    [question, memoryKey],
  );

  return html`
    <div class="why">
      <${RequestStatus} request=${request} />
      ${request.data && html`<${Explanation} explanation=${request.data.explanation} />`}
    </div>
  `;
}

function Explanation({ explanation }) {
  const { key, words = [], phrases, links, named, by_meaning: byMeaning } = explanation;

  return html`
    <p><strong><${Name} of=${key} /></strong> ${describePlace(explanation)}</p>
    ${words.length > 0 && html`<${Words} words=${words} />`}
    ${
      phrases &&
      html`
        <p class="faint">
          Words that are together as in the question add ${phrases.points} points:${" "}
          <${Name} of=${phrases.words.join(", ")} />.
        </p>
      `
    }
    ${
      links &&
      html`
        <p class="faint">
          Links add ${links.points} points for words that it lacks,${" "}
          <${Name} of=${links.words.join(", ")} />; from <${Name} of=${links.from} />.
        </p>
      `
    }
    ${named && html`<p class="faint">It begins with a name in the question: times ${named}.</p>`}
    ${byMeaning && html`<p class="faint">The similarity of its meaning adds ${byMeaning}.</p>`}
  `;
}

function describePlace({ place, of, score, reason, best, needed }) {
  if (place !== undefined) return `is number ${place} of ${of}, with the score ${score}.`;
  if (reason === "at_least") return `scores ${score}, and ${needed} is needed.`;
  if (reason !== "confidence") return `is left out. ${REASONS[reason] ?? reason}`;

  const name = html`<${Name} of=${best.key ?? best.filename} />`;
  const lack = best.lacks.length > 0 ? `lacks ${best.lacks.join(", ")}` : "is not sure enough";
  return html`scores ${score}, but no memory is shown: the best, ${name}, ${lack}.`;
}

function Words({ words }) {
  const rows = words.map(
    ({ word, weight, points }) => html`
      <tr>
        <th scope="row"><${Name} of=${word} /></th>
        <td>${weight > 0 ? "yes" : "no"}</td>
        <td>${points}</td>
      </tr>
    `,
  );

  return html`
    <table>
      <thead>
        <tr>
          <th scope="col">Word</th>
          <th scope="col">In it</th>
          <th scope="col">Points</th>
        </tr>
      </thead>
      <tbody>${rows}</tbody>
    </table>
  `;
}
