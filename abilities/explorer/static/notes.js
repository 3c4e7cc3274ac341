// The agent's notes: the long-term ones, and those of each day.

import { replaceParams } from "./address.js";
import { callAbility, readView } from "./api.js";
import { formatBytes, formatCount } from "./format.js";
import { usePages, useRequest } from "./hooks.js";
import { More, RequestStatus } from "./parts.js";
import { Record } from "./reply.js";
import { useSession } from "./session.js";
import { html, useEffect, useRef } from "./vendor/htm-preact.js";

const LONG_TERM = "long_term";

export function Notes({ address }) {
  const { round } = useSession();
  const { params } = address;
  const year = params.year ? Number(params.year) : null;

  const request = useRequest(() => readView("days", { year }), [year, round]);
  const chosen = params.read ?? request.data?.days.at(-1)?.date;
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
    <div class="notes">
      ${
        request.data &&
        html`<${Year}
          ...${request.data}
          chosen=${chosen}
          onYear=${(other) => change({ year: other, read: undefined })}
          onChoose=${choose}
        />`
      }
      ${chosen && html`<${Note} name=${chosen} key=${chosen} />`}
    </div>
  `;
}

function Year({ year, days, chosen, onYear, onChoose }) {
  const count = formatCount(days.length, "day has notes", "days have notes");
  const months = [...new Set(days.map(({ date }) => date.slice(0, 7)))].reverse();
  const lists = months.map(
    (month) => html`
      <h3>${formatDay(`${month}-01`, { month: "long" })}</h3>
      <div class="days">
        ${days
          .filter(({ date }) => date.startsWith(month))
          .map((day) => html`<${Day} ...${day} chosen=${chosen} onChoose=${onChoose} />`)}
      </div>
    `,
  );

  return html`
    <section class="year" aria-label="Days">
      <div class="headline">
        <h2>${year}</h2>
        <button aria-label="Previous year" onClick=${() => onYear(year - 1)}>←</button>
        <button aria-label="Next year" onClick=${() => onYear(year + 1)}>→</button>
        <span class="count" role="status">${count}</span>
      </div>
      ${lists}
    </section>
  `;
}

function Day({ date, error, size_bytes: size, chosen, onChoose }) {
  const label = `${date}, ${error ? error.message : formatBytes(size)}`;

  return html`
    <button
      class=${error && "danger"}
      aria-pressed=${date === chosen}
      aria-label=${label}
      title=${label}
      onClick=${() => onChoose(date)}
    >
      ${Number(date.slice(8))}
    </button>
  `;
}

/** Formats a date, by default as "26 November 2026". */
function formatDay(date, parts = { day: "numeric", month: "long", year: "numeric" }) {
  return new Date(date).toLocaleDateString("en-GB", { ...parts, timeZone: "UTC" });
}

/** The long-term notes or those of a day, read as an agent would. */
function Note({ name }) {
  const { round } = useSession();
  const isLongTerm = name === LONG_TERM;
  const target = isLongTerm ? { type: name } : { type: "short_term", date: name };
  const pages = usePages(
    (more) => callAbility("memory_read_bulk", more ?? { targets: [target], detail: "full" }),
    [round],
  );

  const title = isLongTerm ? "Long-term notes" : formatDay(name);
  const records = pages.all.map(
    ({ results: [record] }) => html`<${Record} record=${record} title=${title} />`,
  );
  const element = useRef();

  // On a phone, the note is above the days.
  useEffect(() => element.current.scrollIntoView({ block: "nearest" }), [pages.all.length]);

  return html`
    <section class="note" ref=${element} aria-label=${title}>
      <${RequestStatus} request=${pages.request} />
      ${records}
      <${More} pages=${pages} label="Read on" />
    </section>
  `;
}
