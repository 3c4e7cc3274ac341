// What a bulk read of a memory returns, drawn: the order of retrieval, what the limits left out,
// and what the reply costs.

import { linkTo, open, replaceParams } from "./address.js";
import { callAbility, tryAbility } from "./api.js";
import { Drawing } from "./drawing.js";
import { formatCount, formatNumber, formatScore } from "./format.js";
import { useDebounced, useRequest } from "./hooks.js";
import { Fault, Field, Name, RequestStatus, Select, TextField } from "./parts.js";
import { Reply } from "./reply.js";
import { useSession } from "./session.js";
import { html, useState } from "./vendor/htm-preact.js";

const CANDIDATES = 12;
const LIMIT_HINTS = {
  depth: "links away from the start",
  breadth: "children of each memory",
  total: "memories in all",
};
const DIRECTIONS = {
  out: "links of each memory",
  in: "links that lead to each memory",
  both: "both",
};

export function Graph({ address }) {
  const { key, params } = address;
  return key ? html`<${Walk} start=${key} params=${params} />` : html`<${Start} />`;
}

/** The choice of a memory to start at. */
function Start() {
  const [text, setText] = useState("");
  const search = useDebounced(text);
  const request = useRequest(
    () =>
      callAbility("query_memories", {
        search: search || null,
        limit: CANDIDATES,
        detail: "full",
      }),
    [search],
  );

  const submit = (event) => {
    event.preventDefault();
    if (text) open("graph", text);
  };

  const memories = request.data?.memories ?? [];

  return html`
    <h1 tabindex="-1">Graph</h1>
    <p>
      Choose a memory to see what <code>bulk_read_memory</code> returns to an agent that starts
      there.
    </p>
    <form role="search" onSubmit=${submit}>
      <${TextField}
        label="Search, or type a key and press Enter"
        type="search"
        value=${text}
        onChange=${setText}
      />
    </form>
    <${RequestStatus} request=${request} />
    ${request.data && memories.length === 0 && html`<p class="faint">No memory matches.</p>`}
    <ul class="picks">${memories.map((memory) => html`<${Candidate} memory=${memory} />`)}</ul>
  `;
}

function Candidate({ memory }) {
  const links = formatCount(memory.links_total ?? 0, "link", "links");

  return html`
    <li>
      <a href=${linkTo("graph", memory.key)}><${Name} of=${memory.key} /></a>${" "}
      <span class="faint">${links}</span>
    </li>
  `;
}

function Walk({ start, params }) {
  const { getArguments, round } = useSession();
  const schemas = getArguments("bulk_read_memory");
  const limits = readLimits(schemas, params);
  const direction = params.direction in DIRECTIONS ? params.direction : "out";
  const [chosen, setChosen] = useState(start);

  const debounced = useDebounced(JSON.stringify({ ...limits, direction }), 150);
  const request = useRequest(
    () => tryAbility("bulk_read_memory", { key: start, ...JSON.parse(debounced), detail: "full" }),
    [start, debounced, round],
  );

  const reply = request.data;
  const hasWalk = reply && !reply.failed;
  const setLimit = (name, value) => replaceParams("graph", start, { ...params, [name]: value });

  return html`
    <div class="headline">
      <h1 tabindex="-1">Graph of <${Name} of=${start} /></h1>
      <a class="button" href=${linkTo("memory", start)}>Open memory</a>
      <a class="button" href=${linkTo("graph")}>Choose another</a>
    </div>
    <${Limits} schemas=${schemas} limits=${limits} direction=${direction} onChange=${setLimit} />
    <${RequestStatus} request=${request} error=${request.error ?? reply?.error} />
    ${hasWalk && html`<${Picture} reply=${reply} chosen=${chosen} onChoose=${setChosen} />`}
  `;
}

/** Returns each limit's value: that of the address, otherwise the ability's default. */
function readLimits(schemas, params) {
  const limits = Object.keys(LIMIT_HINTS).map((name) => {
    const value = Number(params[name] ?? schemas[name]?.default);
    return [name, value];
  });

  return Object.fromEntries(limits);
}

function Limits({ schemas, limits, direction, onChange }) {
  const sliders = Object.entries(LIMIT_HINTS).map(
    ([name, hint]) => html`
      <${Field} label="${name} ${limits[name]}" hint=${hint}>
        <input
          type="range"
          aria-label=${name}
          min=${schemas[name]?.minimum}
          max=${schemas[name]?.maximum}
          value=${limits[name]}
          onInput=${(event) => onChange(name, event.target.value)}
        />
      <//>
    `,
  );

  return html`
    <form class="limits">
      ${sliders}
      <${Select}
        label="Follow"
        value=${direction}
        options=${Object.entries(DIRECTIONS)}
        onChange=${(value) => onChange("direction", value)}
      />
    </form>
  `;
}

function Picture({ reply, chosen, onChoose }) {
  const walk = reply.payload;

  return html`
    <${Summary} metadata=${walk.metadata} />
    <div class="walk">
      <${Drawing} walk=${walk} chosen=${chosen} onChoose=${onChoose} />
      <${ChosenMemory} walk=${walk} memoryKey=${chosen} />
    </div>
    <p class="faint">
      Memories are numbered in the order of retrieval. The number at a link is its weight times
      the score of the memory it leads to. Pale memories were left out by the limit shown on them.
    </p>
    <${Reply} reply=${reply} />
  `;
}

function Summary({ metadata }) {
  const { totalRetrieved, depthReached, limitsReached } = metadata;
  const limits = limitsReached.join(", ");
  const outcome = limits ? `limits reached: ${limits}` : "no limit reached";
  const details = [`depth ${depthReached}`, outcome, ...describeSkipped(metadata)];

  return html`
    <p class="count" role="status">
      <strong>${formatCount(totalRetrieved, "memory", "memories")}</strong>; ${details.join("; ")}.
    </p>
  `;
}

function describeSkipped({ duplicatesSkipped, missingLinks, invalidLinks, failed }) {
  const counts = [
    [
      duplicatesSkipped,
      "link to a memory already retrieved",
      "links to memories already retrieved",
    ],
    [missingLinks, "link to a missing or archived memory", "links to missing or archived memories"],
    [invalidLinks, "damaged link", "damaged links"],
    [failed, "memory that could not be read", "memories that could not be read"],
  ];

  return counts
    .filter(([count]) => count > 0)
    .map(([count, singular, plural]) => formatCount(count, singular, plural));
}

function ChosenMemory({ walk, memoryKey }) {
  const entries = [walk.targetMemory, ...walk.associatedMemories];
  const index = entries.findIndex((entry) => entry.key === memoryKey);
  const cut = walk.metadata.frontier.find((candidate) => candidate.key === memoryKey);

  // The limits have changed, and the memory is no longer part of the drawing.
  if (index < 0 && !cut) return null;

  const body =
    index < 0
      ? html`<${LeftOut} cut=${cut} />`
      : html`<${Retrieved} entry=${entries[index]} index=${index} count=${entries.length} />`;

  return html`
    <aside aria-label="The chosen memory" aria-live="polite">
      <h2><${Name} of=${memoryKey} /></h2>
      ${body}
      <div class="actions">
        <a class="button" href=${linkTo("memory", memoryKey)}>Open</a>
        <a class="button" href=${linkTo("graph", memoryKey)}>Walk from here</a>
      </div>
    </aside>
  `;
}

function LeftOut({ cut }) {
  return html`
    <p>
      Left out by <strong>${cut.cutBy}</strong>; linked from <${Name} of=${cut.from} />, combined
      score ${cut.combinedScore}.
    </p>
  `;
}

function Retrieved({ entry, index, count }) {
  const { error, data, truncation } = entry;
  const origin =
    entry.parent === undefined ? "the start of the walk" : html`<${Origin} entry=${entry} />`;

  return html`
    <p class="faint">Memory ${index + 1} of ${count}, ${origin}.</p>
    ${error && html`<${Fault} error=${{ fault: error }} />`}
    ${data && html`<pre class="content" tabindex="0" aria-label="Content">${data.content}</pre>`}
    ${truncation && html`<${Truncation} truncation=${truncation} />`}
  `;
}

function Origin({ entry }) {
  const { depth, parent, link, combinedScore } = entry;

  return html`
    depth ${depth}, ${link.direction === "in" ? "linking to" : "linked from"}${" "}
    <${Name} of=${parent} />
    with weight ${formatScore(link.link_weight)}, combined score ${combinedScore}
  `;
}

function Truncation({ truncation }) {
  const { returned_chars: returned, total_chars: total } = truncation;

  return html`
    <p class="faint">
      Cut to ${formatNumber(returned)} of ${formatNumber(total)} characters.
    </p>
  `;
}
