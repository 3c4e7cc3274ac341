// A year of daily notes, the latest month first. Darker days have more text.

import { formatBytes } from "./format.js";
import { html } from "./vendor/htm-preact.js";

const WEEKDAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const SHADES = 4;

export function Year({ year, today, days, chosen, onChoose }) {
  const notes = new Map(days.map((day) => [day.date, day]));
  const largest = Math.max(1, ...days.map((day) => day.size_bytes ?? 0));
  const months = listMonths(year, today, days);

  // Everything that a day needs, apart from its date.
  const shared = { notes, largest, today, chosen, onChoose };
  const tables = months.map(
    (month) => html`<${Month} year=${year} month=${month} shared=${shared} />`,
  );

  return html`<div class="year">${tables}</div>`;
}

/** Lists the current month and those that have notes, the latest first. */
function listMonths(year, today, days) {
  const months = MONTHS.map((_, index) => index + 1).filter((month) => {
    const prefix = `${year}-${pad(month)}`;
    return prefix === today.slice(0, 7) || days.some((day) => day.date.startsWith(prefix));
  });

  return months.reverse();
}

function Month({ year, month, shared }) {
  const names = WEEKDAYS.map((name) => html`<th scope="col">${name}</th>`);
  const rows = listWeeks(year, month).map(
    (week) => html`<tr>${week.map((date) => html`<${Cell} date=${date} ...${shared} />`)}</tr>`,
  );

  return html`
    <table>
      <caption>${MONTHS[month - 1]}</caption>
      <thead><tr>${names}</tr></thead>
      <tbody>${rows}</tbody>
    </table>
  `;
}

/** Returns the dates of a month by weeks from Monday on; "" stands for days of other months. */
function listWeeks(year, month) {
  const length = new Date(Date.UTC(year, month, 0)).getUTCDate();
  const firstWeekday = new Date(Date.UTC(year, month - 1, 1)).getUTCDay();

  // JavaScript's weeks begin on Sunday.
  const cells = Array((firstWeekday + 6) % 7).fill("");
  for (let day = 1; day <= length; day += 1) cells.push(`${year}-${pad(month)}-${pad(day)}`);
  while (cells.length % 7 > 0) cells.push("");

  const weeks = [];
  for (let index = 0; index < cells.length; index += 7) weeks.push(cells.slice(index, index + 7));
  return weeks;
}

/** Formats a date for a heading, for example "26 November 2026". */
export function formatDay(date) {
  const [year, month, day] = date.split("-");
  return `${Number(day)} ${MONTHS[month - 1]} ${year}`;
}

function pad(number) {
  return String(number).padStart(2, "0");
}

function Cell({ date, notes, largest, today, chosen, onChoose }) {
  const note = notes.get(date);
  const number = date ? Number(date.slice(8)) : "";
  const content = note
    ? html`<${Day}
        note=${note}
        number=${number}
        largest=${largest}
        isChosen=${date === chosen}
        onChoose=${onChoose}
      />`
    : number;

  return html`<td class=${date === today ? "today" : ""}>${content}</td>`;
}

function Day({ note, number, largest, isChosen, onChoose }) {
  const { date, error, size_bytes: size } = note;
  const shade = Math.ceil((SHADES * size) / largest) || 1;
  const style = error ? "failed" : `shade-${shade}`;
  const label = `${date}, ${error ? error.message : formatBytes(size)}`;

  return html`
    <button
      class="day ${style}"
      aria-pressed=${isChosen}
      aria-label=${label}
      title=${label}
      onClick=${() => onChoose(date)}
    >
      ${number}
    </button>
  `;
}
