// The files of both roots: which root each is read from, what that hides, and what reading some of
// them in one call returns, or would return.

import { linkTo, replaceParams } from "./address.js";
import { CallError, callAbility, readView, tryAbility } from "./api.js";
import { formatBytes, formatCount, showName } from "./format.js";
import { useDebounced, usePages, useRequest } from "./hooks.js";
import { More, Name, RequestStatus, SourceText, TextField, Time } from "./parts.js";
import { isPlan, Plan } from "./plan.js";
import { Records, Reply } from "./reply.js";
import { useSession } from "./session.js";
import { html, useState } from "./vendor/htm-preact.js";

const ALL_FILES = "**/*";

// What follows such a mark in a path is a range, unless a further range follows.
const RANGE_MARK = /#(L|byte=)/;

export function Files({ address }) {
  const { key } = address;
  return key ? html`<${File} path=${key} />` : html`<${List} address=${address} />`;
}

/** One file, read as an agent would read it, piece by piece. */
function File({ path }) {
  const { getArguments, round } = useSession();
  const most = getArguments("file_read_bulk").max_chars_per_file?.maximum;
  const pages = usePages((more) => readPiece(more ?? describeCall(path, most)), [path, round]);
  const [first] = pages.all;

  return html`
    <div class="headline">
      <h1 tabindex="-1"><${Name} of=${path} /></h1>
      <a class="button" href=${linkTo("files")}>All files</a>
    </div>
    <${RequestStatus} request=${pages.request} />
    ${first && html`<${Facts} data=${first.data} />`}
    ${
      first &&
      html`<${SourceText}
        label="Content"
        text=${pages.all.map((page) => page.data.content).join("")}
      />`
    }
    <${More} pages=${pages} label="Read on" />
  `;
}

function describeCall(path, most) {
  const whole = RANGE_MARK.test(path) ? `${path}#byte=0` : path;
  return { paths: [whole], max_chars_per_file: most, detail: "full" };
}

async function readPiece(args) {
  const { results, next_request } = await callAbility("file_read_bulk", args);
  const [{ data, error }] = results;
  if (error) throw new CallError(error);

  return { data, next_request };
}

function Facts({ data }) {
  const { source, size_bytes: size, modified_at: modifiedAt, encoding, redacted } = data;
  const facts = [formatBytes(size), encoding, redacted && `secrets not shown: ${redacted}`];

  return html`
    <p class="faint">
      <span class="chip ${source}">${source}</span> ${facts.filter(Boolean).join(", ")}, changed${" "}
      <${Time} at=${modifiedAt} />
    </p>
  `;
}

function List({ address }) {
  const { getArguments, isOffered } = useSession();
  const { pattern = "", after = null } = address.params;
  const [selected, setSelected] = useState([]);
  const [plan, setPlan] = useState(null);
  const [call, setCall] = useState(null);

  const debounced = useDebounced(pattern);
  const request = useRequest(
    () => readView("files", { pattern: debounced || ALL_FILES, after }),
    [debounced, after],
  );

  const limit = getArguments("file_read_bulk").paths?.maxItems;
  const page = request.data;
  const selection = { paths: selected, limit, isFull: selected.length >= limit };
  const filter = (value) => replaceParams("files", "", { pattern: value });
  const move = (position) => replaceParams("files", "", { pattern, after: position });

  const read = (name, args) => setCall({ name, args });
  const readSelected = () => {
    setPlan(null);
    read("file_read_bulk", { paths: selected });
  };
  const startPlan = (maxTokens) => {
    setCall(null);
    setPlan({ name: "read", args: buildPlan(selected, pattern || ALL_FILES, maxTokens) });
  };

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
          onRead=${readSelected}
          onClear=${() => setSelected([])}
        />
        ${isOffered("read") && html`<${PlanForm} count=${selected.length} onPlan=${startPlan} />`}
        ${plan && html`<${Call} call=${plan} onNext=${(args) => read("read", args)} />`}
        ${call && html`<${Call} call=${call} onNext=${(args) => read(call.name, args)} />`}
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

/** Returns the arguments that plan to read the selected files, or without any all that match. */
function buildPlan(paths, pattern, maxTokens) {
  // A path that begins like an object is sent within one.
  const files = paths.map((path) => (path.startsWith("{") ? { file: path } : path));
  const items = files.length ? files : [{ glob: pattern }];

  return { items, plan: true, ...(maxTokens && { max_tokens: maxTokens }) };
}

function PlanForm({ count, onPlan }) {
  const [maxTokens, setMaxTokens] = useState("");

  const plan = (event) => {
    event.preventDefault();
    onPlan(maxTokens);
  };

  return html`
    <form class="question" onSubmit=${plan}>
      <${TextField}
        label="Budget in tokens"
        inputmode="numeric"
        placeholder="as many as a reply may have"
        value=${maxTokens}
        onChange=${setMaxTokens}
      />
      <button>Plan ${count ? formatCount(count, "file", "files") : "all that match"}</button>
    </form>
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
      <td class="path"><a href=${linkTo("files", path)}><${Name} of=${path} /></a></td>
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

/** Sends a call, and shows its plan or its records. */
function Call({ call, onNext }) {
  const request = useRequest(() => tryAbility(call.name, call.args), [call]);
  const reply = request.data;

  return html`
    <${RequestStatus} request=${request} error=${request.error ?? reply?.error} />
    ${reply && !reply.failed && html`<${Answer} reply=${reply} onNext=${onNext} />`}
  `;
}

function Answer({ reply, onNext }) {
  if (isPlan(reply.payload)) return html`<${Plan} reply=${reply} onRead=${onNext} />`;

  return html`
    <${Records} payload=${reply.payload} onNext=${onNext} />
    <${Reply} reply=${reply} />
  `;
}
