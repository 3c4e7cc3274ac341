// What became of all memories, newest first: who changed which one.

import { linkTo, replaceParams } from "./address.js";
import { readView } from "./api.js";
import { useDebounced, usePages } from "./hooks.js";
import { More, Name, RequestStatus, Select, TextField, Time } from "./parts.js";
import { useSession } from "./session.js";
import { html } from "./vendor/htm-preact.js";

const ACTIONS = [
  "created",
  "changed",
  "renamed",
  "archived",
  "revived",
  "expired",
  "superseded",
  "restored",
  "deleted",
  "purged",
  "imported",
  "mended",
];

export function Timeline({ address }) {
  const { round } = useSession();
  const { params } = address;
  const by = useDebounced(params.by ?? "");
  const { action = "" } = params;

  const chosen = { by: by || null, action: action || null };
  const pages = usePages((more) => readView("timeline", more ?? chosen), [by, action, round]);
  const filter = (changes) => replaceParams("changes", "", { ...params, ...changes });

  return html`
    <div class="headline"><h1 tabindex="-1">Changes</h1></div>
    <p class="faint">What agents and people did to memories, newest first.</p>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${TextField}
        label="By"
        type="search"
        placeholder="mcp, http, a label"
        value=${params.by ?? ""}
        onChange=${(value) => filter({ by: value })}
      />
      <${Select}
        label="What was done"
        options=${[["", "anything"], ...ACTIONS.map((name) => [name, name])]}
        value=${action}
        onChange=${(value) => filter({ action: value })}
      />
    </form>
    <${RequestStatus} request=${pages.request} />
    ${pages.all.length > 0 && html`<${Changes} pages=${pages} params=${params} />`}
    <${More} pages=${pages} label="Older changes" />
  `;
}

function Changes({ pages, params }) {
  const changes = pages.all.flatMap((page) => page.changes);
  const items = changes.map(
    (change) => html`<${Change} key=${change.version} change=${change} params=${params} />`,
  );

  if (changes.length === 0) {
    return html`<p class="count" role="status">${pages.hasMore ? "None lately." : "None."}</p>`;
  }

  return html`<ol class="timeline">${items}</ol>`;
}

export function Change({ change, params = {} }) {
  const { id, key, action, at, by } = change;
  const byThem = linkTo("changes", "", { ...params, by });

  return html`
    <li>
      <${Time} at=${at} />
      <span><a href=${byThem} title="Only changes by them"><${Name} of=${by} /></a> ${action}</span>
      ${
        key === undefined
          ? html`<code>${id}</code>`
          : html`<a class="key" href=${linkTo("memory", key)}><${Name} of=${key} /></a>`
      }
    </li>
  `;
}
