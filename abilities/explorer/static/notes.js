// The agent's notes: the long-term ones, and a calendar of the daily ones.

import { replaceParams } from "./address.js";
import { callAbility, readView } from "./api.js";
import { Year } from "./calendar.js";
import { formatCount } from "./format.js";
import { useRequest } from "./hooks.js";
import { RequestStatus } from "./parts.js";
import { Records } from "./reply.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const LONG_TERM = "long_term";

export function Notes({ address }) {
  const { params } = address;
  const { read: chosen } = params;
  const year = params.year ? Number(params.year) : null;

  const request = useRequest(() => readView("days", { year }), [year]);
  const change = (changes) => replaceParams("notes", "", { ...params, ...changes });
  const choose = (read) => change({ read });

  return html`
    <div class="headline">
      <h1 tabindex="-1">Notes</h1>
      <button aria-pressed=${chosen === LONG_TERM} onClick=${() => choose(LONG_TERM)}>
        Long-term notes
      </button>
    </div>
    <p class="faint">
      What the agent wrote in its own directory, as <code>memory_read_bulk</code> returns it.
    </p>
    <${RequestStatus} request=${request} />
    ${
      request.data &&
      html`<${Calendar}
        ...${request.data}
        chosen=${chosen}
        onYear=${(other) => change({ year: other })}
        onChoose=${choose}
      />`
    }
    ${chosen && html`<${Note} name=${chosen} key=${chosen} />`}
  `;
}

function Calendar({ year, today, days, chosen, onYear, onChoose }) {
  const count = formatCount(days.length, "day has", "days have");

  return html`
    <div class="headline">
      <h2>${year}</h2>
      <button aria-label="Previous year" onClick=${() => onYear(year - 1)}>←</button>
      <button aria-label="Next year" onClick=${() => onYear(year + 1)}>→</button>
      <span class="count" role="status">${count} notes</span>
    </div>
    <${Year} year=${year} today=${today} days=${days} chosen=${chosen} onChoose=${onChoose} />
  `;
}

/** The long-term notes or those of a day, read as an agent would. */
function Note({ name }) {
  const target = name === LONG_TERM ? { type: name } : { type: "short_term", date: name };
  const [args, setArgs] = useState({ targets: [target], detail: "full" });
  const request = useRequest(() => callAbility("memory_read_bulk", args), [args]);
  const element = useRef();

  // The calendar above may fill the screen.
  useEffect(() => element.current.scrollIntoView({ block: "nearest" }), [request.data]);

  return html`
    <div ref=${element}>
      <${RequestStatus} request=${request} />
      ${request.data && html`<${Records} payload=${request.data} onNext=${setArgs} />`}
    </div>
  `;
}
