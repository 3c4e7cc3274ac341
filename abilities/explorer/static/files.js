// The files of both roots: which root each is read from, what that hides, and what a bulk read of
// some of them returns.

import { replaceParams } from "./address.js";
import { readView, tryAbility } from "./api.js";
import { formatBytes, formatCount, showName } from "./format.js";
import { useDebounced, useRequest } from "./hooks.js";
import { Name, RequestStatus, TextField, Time } from "./parts.js";
import { Records, Reply } from "./reply.js";
import { getArguments } from "./schemas.js";
import { html, useState } from "./vendor/htm-preact.js";

const ALL_FILES = "**/*";

export function Files({ address, abilities }) {
  const { pattern = "", after = null } = address.params;
  const [selected, setSelected] = useState([]);
  const [args, setArgs] = useState(null);

  const debounced = useDebounced(pattern);
  const request = useRequest(
    () => readView("files", { pattern: debounced || ALL_FILES, after }),
    [debounced, after],
  );

  const limit = getArguments(abilities, "file_read_bulk").paths?.maxItems;
  const page = request.data;
  const selection = { paths: selected, limit, isFull: selected.length >= limit };
  const filter = (value) => replaceParams("files", "", { pattern: value });
  const move = (position) => replaceParams("files", "", { pattern, after: position });

  const select = (path, isSelected) => {
    const others = selected.filter((other) => other !== path);
    setSelected(isSelected ? [...others, path] : others);
  };

  return html`
    <h1 tabindex="-1">Files</h1>
    <p class="faint">
      A file in the agent's directory hides the one of the same path in the workspace. Files that
      are never shared with agents are not listed.
    </p>
    <form role="search" onSubmit=${(event) => event.preventDefault()}>
      <${TextField}
        label="Pattern"
        hint="For example src/**/*.py or *.{md,txt}"
        type="search"
        placeholder=${ALL_FILES}
        value=${pattern}
        onChange=${filter}
      />
    </form>
    <${RequestStatus} request=${request} />
    ${
      page &&
      html`
        <${Selection}
          selection=${selection}
          onRead=${() => setArgs({ paths: selected })}
          onClear=${() => setSelected([])}
        />
        ${args && html`<${BulkRead} key=${JSON.stringify(args)} args=${args} onNext=${setArgs} />`}
        <${FileTable} page=${page} selection=${selection} onSelect=${select} />
        <${Pages} isFirst=${!after} next=${page.after} onMove=${move} />
      `
    }
  `;
}

function Selection({ selection, onRead, onClear }) {
  const { paths, limit } = selection;
  const count = paths.length;
  const text = limit ? `${count} of at most ${limit} selected` : `${count} selected`;
  const clear = html`<button class="quiet" onClick=${onClear}>Clear selection</button>`;

  return html`
    <div class="headline">
      <button class="primary" disabled=${count === 0} onClick=${onRead}>
        Read ${count || "selected"} in one call
      </button>
      <span class="faint">${text}</span>
      ${count > 0 && clear}
    </div>
  `;
}

function FileTable({ page, selection, onSelect }) {
  const { files, skipped } = page;
  const rows = files.map(
    (file) => html`<${Row} file=${file} selection=${selection} onSelect=${onSelect} />`,
  );

  return html`
    <table class="files">
      <caption>${describePage(files.length, skipped)}</caption>
      <thead>
        <tr>
          <th scope="col"><span class="unseen">Select</span></th>
          <th scope="col">Path</th>
          <th scope="col">Read from</th>
          <th scope="col">Size</th>
          <th scope="col">Changed</th>
        </tr>
      </thead>
      <tbody>${rows}</tbody>
    </table>
  `;
}

function describePage(count, skipped) {
  const files = count ? formatCount(count, "file", "files") : "No files match";
  if (!skipped) return files;

  const names = formatCount(skipped, "folder or name", "folders or names");
  return `${files}; ${names} could not be listed`;
}

function Row({ file, selection, onSelect }) {
  const { path, size_bytes: size, modified_at: modifiedAt } = file;
  const isSelected = selection.paths.includes(path);

  return html`
    <tr>
      <td>
        <input
          type="checkbox"
          aria-label="Select ${showName(path)}"
          checked=${isSelected}
          disabled=${!isSelected && selection.isFull}
          onChange=${(event) => onSelect(path, event.target.checked)}
        />
      </td>
      <td class="path"><${Name} of=${path} /></td>
      <td><${Source} file=${file} /></td>
      <td>${size !== undefined && formatBytes(size)}</td>
      <td><${Time} at=${modifiedAt} /></td>
    </tr>
  `;
}

/** The root that a file is read from. It is neither if the agent directory refuses the path. */
function Source({ file }) {
  const { source, hides } = file;
  const chip = source
    ? html`<span class="chip ${source}">${source}</span>`
    : html`<span class="chip archived">neither</span>`;

  return html`${chip}${hides && html`<${Hidden} file=${hides} />`}`;
}

function Hidden({ file }) {
  return html`
    <span class="hides" title="changed ${file.modified_at}">
      hides the workspace's file, ${formatBytes(file.size_bytes)}
    </span>
  `;
}

function Pages({ isFirst, next, onMove }) {
  return html`
    <nav class="pager" aria-label="Pages of files">
      ${!isFirst && html`<button onClick=${() => onMove("")}>First page</button>`}
      ${next && html`<button onClick=${() => onMove(next)}>Next →</button>`}
    </nav>
  `;
}

function BulkRead({ args, onNext }) {
  const request = useRequest(() => tryAbility("file_read_bulk", args), []);
  const reply = request.data;

  return html`
    <${RequestStatus} request=${request} error=${request.error ?? reply?.error} />
    ${reply && html`<${Records} payload=${reply.payload} onNext=${onNext} />`}
    ${reply && !reply.failed && html`<${Reply} reply=${reply} />`}
  `;
}
