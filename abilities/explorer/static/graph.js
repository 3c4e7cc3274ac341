// What a bulk read of a memory returns, drawn: retrieval order, depth, what the limits cut, and what the reply costs.

import { both, call } from "./api.js";
import { at, refine } from "./address.js";
import { Drawing } from "./drawing.js";
import { counted, Fault, Field, number, useAsk, useSettled, Waiting } from "./parts.js";
import { Reply } from "./reply.js";
import { html, useState } from "./vendor/htm-preact.js";

const LIMITS = [
  ["depth", 3, 6, "links in a row"],
  ["breadth", 5, 20, "new memories from each"],
  ["total", 20, 50, "memories in all"],
];

export function Graph({ place }) {
  const { key, params } = place;
  if (!key) return html`<${Pick} />`;
  return html`<${Walk} start=${key} params=${params} />`;
}

function Pick() {
  const [typed, setTyped] = useState("");
  const search = useSettled(typed);
  const asked = useAsk(() => call("query_memories", { search: search || null, limit: 12 }), [search]);
  return html`<h1 tabindex="-1">Graph</h1>
    <p>Pick a memory to see what <code>bulk_read_memory</code> hands an agent that begins there.</p>
    <form role="search" onSubmit=${(event) => (event.preventDefault(), typed && (location.hash = at("graph", typed)))}>
      <${Field} label="Search, or type a key and press Enter"><input type="search" value=${typed} onInput=${(event) => setTyped(event.target.value)} /><//>
    </form>
    <${Fault} error=${asked.error} /><${Waiting} asked=${asked} />
    <ul class="picks">${(asked.data?.memories ?? []).map((memory) => html`<li><a href=${at("graph", memory.key)}><bdi>${memory.key}</bdi></a>
      <span class="faint"> ${counted(memory.links_total ?? 0, "link", "links")}</span></li>`)}</ul>`;
}

function Walk({ start, params }) {
  const limits = Object.fromEntries(LIMITS.map(([name, usual]) => [name, Number(params[name] ?? usual)]));
  const [chosen, setChosen] = useState(start);
  const settled = useSettled(JSON.stringify(limits), 150);
  const asked = useAsk(async () => {
    const reply = await both("bulk_read_memory", { key: start, ...JSON.parse(settled) });
    return { reply, payload: JSON.parse(reply.json) };
  }, [start, settled]);
  const walked = asked.data && !asked.data.reply.failed ? asked.data.payload : null;
  return html`
    <div class="headline"><h1 tabindex="-1">Graph of <bdi>${start}</bdi></h1>
      <a class="button" href=${at("memory", start)}>Open memory</a> <a class="button" href=${at("graph")}>Another</a></div>
    <form class="limits">${LIMITS.map(([name, , most, words]) => html`<${Field} label="${name} ${limits[name]}" hint=${words}>
      <input type="range" min="1" max=${most} value=${limits[name]} aria-label=${name} onInput=${(event) => refine("graph", start, { ...params, [name]: event.target.value })} /><//>`)}</form>
    <${Fault} error=${asked.error ?? (asked.data?.reply.failed ? { fault: asked.data.payload.error } : null)} />
    <${Waiting} asked=${asked} />
    ${walked && html`
      <${Summary} metadata=${walked.metadata} />
      <div class="walk"><${Drawing} walked=${walked} chosen=${chosen} onChoose=${setChosen} />
        <${Chosen} walked=${walked} name=${chosen} /></div>
      <p class="faint">Numbers are the order of retrieval; numbers at links are link weight times score. Pale memories were left out by the limit named on them.</p>
      <${Reply} reply=${asked.data.reply} />`}`;
}

function Summary({ metadata: { totalRetrieved, depthReached, limitsReached, duplicatesSkipped, missingLinks, invalidLinks, failed } }) {
  const skipped = [
    [duplicatesSkipped, "link to a memory retrieved already", "links to memories retrieved already"],
    [missingLinks, "link to a missing or archived memory", "links to missing or archived memories"],
    [invalidLinks, "damaged link", "damaged links"],
    [failed, "memory that could not be read", "memories that could not be read"],
  ];
  return html`<p class="count" role="status"><strong>${counted(totalRetrieved, "memory", "memories")}</strong>, depth ${depthReached};
    ${limitsReached.length ? ` ${limitsReached.join(" and ")} left something out` : " no limit left anything out"}${skipped
      .filter(([count]) => count).map((words) => `; ${counted(...words)}`).join("")}.</p>`;
}

function Chosen({ walked, name }) {
  const all = [walked.targetMemory, ...walked.associatedMemories];
  const index = all.findIndex((entry) => entry.key === name);
  const cut = walked.metadata.frontier.find((candidate) => candidate.key === name);
  const entry = index >= 0 ? all[index] : cut;
  if (!entry) return null;
  return html`<aside aria-label="The chosen memory" aria-live="polite">
    <h2><bdi>${name}</bdi></h2>
    ${cut && index < 0
      ? html`<p>Left out by <strong>${cut.cutBy}</strong>; linked from <bdi>${cut.from}</bdi>, combined score ${cut.combinedScore}.</p>`
      : html`<p class="faint">${index + 1}. of ${all.length}${entry.parent !== undefined ? html`, depth ${entry.depth}, from <bdi>${entry.parent}</bdi>: weight ${entry.link.link_weight}, combined score ${entry.combinedScore}` : ", where the walk begins"}</p>`}
    ${entry.error && html`<${Fault} error=${{ fault: entry.error }} />`}
    ${entry.data && html`<pre class="content" tabindex="0" aria-label="Content">${entry.data.content}</pre>`}
    ${entry.truncation && html`<p class="faint">Cut to ${number(entry.truncation.returned_chars)} of ${number(entry.truncation.total_chars)} characters.</p>`}
    <div class="actions"><a class="button" href=${at("memory", name)}>Open</a> <a class="button" href=${at("graph", name)}>Walk from here</a></div>
  </aside>`;
}
