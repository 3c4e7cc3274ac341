// The files of both roots: which root answers, what it hides, and what a bulk read of some of them returns.

import { both, view } from "./api.js";
import { refine } from "./address.js";
import { bytes, counted, Fault, Field, useAsk, useSettled, Waiting, When } from "./parts.js";
import { Records, Reply } from "./reply.js";
import { html, useState } from "./vendor/htm-preact.js";

const MOST = 25;

export function Files({ place }) {
  const { params } = place;
  const pattern = params.pattern ?? "";
  const [chosen, setChosen] = useState([]);
  const [request, setRequest] = useState(null);
  const settled = useSettled(pattern);
  const asked = useAsk(() => view("files", { pattern: settled || "**/*", after: params.after ?? null }), [settled, params.after]);
  const choose = (path, on) => setChosen(on ? [...chosen, path] : chosen.filter((one) => one !== path));
  const found = asked.data;
  return html`
    <h1 tabindex="-1">Files</h1>
    <p class="faint">The agent's directory is asked first, then the workspace. Files that are never shared do not appear.</p>
    <form role="search" onSubmit=${(event) => event.preventDefault()}>
      <${Field} label="Pattern" hint="as src/**/*.py or *.{md,txt}"><input type="search" placeholder="**/*" value=${pattern} onInput=${(event) => refine("files", "", { pattern: event.target.value })} /><//>
    </form>
    <${Fault} error=${asked.error} /><${Waiting} asked=${asked} />
    ${found && html`
      <div class="headline"><button class="primary" disabled=${!chosen.length} onClick=${() => setRequest({ paths: chosen })}>
          Read ${chosen.length || "chosen"} in one call</button>
        <span class="faint">${chosen.length} of at most ${MOST} chosen</span>
        ${chosen.length > 0 && html`<button class="quiet" onClick=${() => setChosen([])}>Choose none</button>`}</div>
      ${request && html`<${Read} key=${JSON.stringify(request)} request=${request} onNext=${setRequest} />`}
      <table class="files"><caption>${found.files.length ? counted(found.files.length, "file", "files") : "No file matches."}${found.skipped ? `; ${found.skipped} folders or names could not be listed` : ""}</caption>
        <thead><tr><th scope="col"><span class="unseen">Choose</span></th><th scope="col">Path</th><th scope="col">Answers</th><th scope="col">Size</th><th scope="col">Changed</th></tr></thead>
        <tbody>${found.files.map((file) => html`<${Row} file=${file} chosen=${chosen.includes(file.path)} full=${chosen.length >= MOST} onChoose=${choose} />`)}</tbody>
      </table>
      <nav class="pager" aria-label="Pages of files">
        ${params.after && html`<button onClick=${() => refine("files", "", { ...params, after: "" })}>From the beginning</button>`}
        ${found.after && html`<button onClick=${() => refine("files", "", { ...params, after: found.after })}>After →</button>`}</nav>`}`;
}

function Row({ file, chosen, full, onChoose }) {
  const { path, source, hides } = file;
  return html`<tr>
    <td><input type="checkbox" aria-label="Choose ${path}" checked=${chosen} disabled=${!chosen && full}
      onChange=${(event) => onChoose(path, event.target.checked)} /></td>
    <td class="path"><bdi>${path}</bdi></td>
    <td>${source ? html`<span class="chip ${source}">${source}</span>` : html`<span class="chip archived">nothing</span>`}
      ${hides && html`<span class="hides" title="changed ${hides.modified_at}">hides the workspace's, ${bytes(hides.size_bytes)}</span>`}</td>
    <td>${file.size_bytes !== undefined && bytes(file.size_bytes)}</td>
    <td><${When} at=${file.modified_at} /></td></tr>`;
}

function Read({ request, onNext }) {
  const asked = useAsk(() => both("file_read_bulk", request), []);
  const payload = asked.data && JSON.parse(asked.data.json);
  return html`<${Fault} error=${asked.error ?? (payload?.error ? { fault: payload.error } : null)} /><${Waiting} asked=${asked} />
    ${payload?.results && html`<${Records} payload=${payload} onNext=${onNext} /><${Reply} reply=${asked.data} />`}`;
}
