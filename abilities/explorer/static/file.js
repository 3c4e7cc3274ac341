// One file, read as an agent would read it, piece by piece.

import { linkTo } from "./address.js";
import { CallError, callAbility } from "./api.js";
import { formatBytes } from "./format.js";
import { usePages } from "./hooks.js";
import { More, Name, RequestStatus, Time } from "./parts.js";
import { getArguments } from "./schemas.js";
import { SourceText } from "./source_text.js";
import { html } from "./vendor/htm-preact.js";

// What follows such a mark in a path is a range, unless a further range follows.
const RANGE_MARK = /#(L|byte=)/;

export function File({ path, abilities, round }) {
  const most = getArguments(abilities, "file_read_bulk").max_chars_per_file?.maximum;
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
