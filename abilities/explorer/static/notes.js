// The agent's notes: the lasting ones, and each day's in a calendar.

import { call, view } from "./api.js";
import { refine } from "./address.js";
import { bytes, counted, Fault, useAsk, Waiting } from "./parts.js";
import { Records } from "./reply.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const WEEKDAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

export function Notes({ place }) {
  const { params } = place;
  const year = params.year ? Number(params.year) : null;
  const asked = useAsk(() => view("days", year ? { year } : {}), [year]);
  const read = params.read ?? "";
  const found = asked.data;
  const choose = (changed) => refine("notes", "", { ...params, ...changed });
  return html`
    <div class="headline"><h1 tabindex="-1">Notes</h1>
      <button aria-pressed=${read === "long_term"} onClick=${() => choose({ read: "long_term" })}>Lasting notes</button></div>
    <p class="faint">What an agent wrote in its own directory, as <code>memory_read_bulk</code> reads it.</p>
    <${Fault} error=${asked.error} /><${Waiting} asked=${asked} />
    ${found && html`
      <div class="headline"><h2>${found.year}</h2>
        <button aria-label="The year before" onClick=${() => choose({ year: found.year - 1 })}>←</button>
        <button aria-label="The year after" onClick=${() => choose({ year: found.year + 1 })}>→</button>
        <span class="count" role="status">${counted(found.days.length, "day has", "days have")} notes</span></div>
      <${Year} ...${found} read=${read} onRead=${(date) => choose({ read: date })} />`}
    ${read && html`<${Read} name=${read} key=${read} />`}`;
}

function Year({ year, today, days, read, onRead }) {
  const notes = new Map(days.map((day) => [day.date, day]));
  const largest = Math.max(1, ...days.map((day) => day.size_bytes ?? 0));
  const noted = (month) => days.some((day) => Number(day.date.slice(5, 7)) === month + 1);
  const over = (month) => `${year}-${String(month + 1).padStart(2, "0")}` <= today.slice(0, 7);
  const months = MONTHS.map((name, month) => ({ name, month })).filter(({ month }) => over(month) || noted(month)).reverse();
  return html`<div class="year">${months.map(({ name, month }) => html`<table>
    <caption>${name}</caption>
    <thead><tr>${WEEKDAYS.map((day) => html`<th scope="col">${day}</th>`)}</tr></thead>
    <tbody>${weeks(year, month).map((week) => html`<tr>${week.map((date) => html`<td class=${date === today ? "today" : ""}>
      ${date && (notes.has(date) ? html`<${Day} note=${notes.get(date)} largest=${largest} pressed=${date === read} onRead=${onRead} />` : Number(date.slice(8)))}</td>`)}</tr>`)}</tbody>
  </table>`)}</div>`;
}

function Day({ note, largest, pressed, onRead }) {
  const shade = note.error ? "failed" : `shade-${Math.ceil((4 * note.size_bytes) / largest) || 1}`;
  const words = note.error ? note.error.message : bytes(note.size_bytes);
  return html`<button class="day ${shade}" aria-pressed=${pressed} aria-label="${note.date}, ${words}" title="${note.date}, ${words}"
    onClick=${() => onRead(note.date)}>${Number(note.date.slice(8))}</button>`;
}

/** The weeks of a month from Monday on, as dates; empty where another month's days are. */
function weeks(year, month) {
  const days = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const before = (new Date(Date.UTC(year, month, 1)).getUTCDay() + 6) % 7;
  const cells = [...Array(before).fill(""), ...Array.from({ length: days }, (_, day) => new Date(Date.UTC(year, month, day + 1)).toISOString().slice(0, 10))];
  return Array.from({ length: Math.ceil(cells.length / 7) }, (_, week) => Array.from({ length: 7 }, (_, day) => cells[week * 7 + day] ?? ""));
}

function Read({ name }) {
  const target = name === "long_term" ? { type: "long_term" } : { type: "short_term", date: name };
  const [request, setRequest] = useState({ targets: [target] });
  const asked = useAsk(() => call("memory_read_bulk", request), [JSON.stringify(request)]);
  useEffect(() => document.getElementById("reading")?.scrollIntoView({ block: "nearest" }), [asked.data]);
  return html`<div id="reading"><${Fault} error=${asked.error} /><${Waiting} asked=${asked} />
    ${asked.data && html`<${Records} payload=${asked.data} onNext=${setRequest} />`}</div>`;
}
