// Why a memory is where it is in the answer to a question, or why it is not in it.

import { readView } from "./api.js";
import { useRequest } from "./hooks.js";
import { Name, RequestStatus } from "./parts.js";
import { html } from "./vendor/htm-preact.js";

const REASONS = {
  archived: "It is archived.",
  expired: "It has expired, so it counts as archived.",
  deleted: "It was deleted; its history can bring it back.",
  below_best: "256 memories have better words, and no link leads to it from the best.",
  no_match: "It has no word of the question, and no link leads to it from the best.",
};

export function Why({ question, memoryKey }) {
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
  const { key, words = [], links, named, by_meaning: byMeaning } = explanation;

  return html`
    <p><strong><${Name} of=${key} /></strong> ${describePlace(explanation)}</p>
    ${words.length > 0 && html`<${Words} words=${words} />`}
    ${
      links &&
      html`
        <p class="faint">
          Links give ${links.given} points, of which ${links.share} count; from${" "}
          <${Name} of=${links.from.map((gift) => gift.key).join(", ")} />.
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
