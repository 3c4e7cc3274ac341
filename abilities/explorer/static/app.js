// The frame around every view: who is looking, where to go, and the token, where one is needed.

import { abilities, token, view } from "./api.js";
import { at, here } from "./address.js";
import { Files } from "./files.js";
import { Graph } from "./graph.js";
import { Memories } from "./memories.js";
import { Memory } from "./memory.js";
import { Notes } from "./notes.js";
import { Fault, useAsk } from "./parts.js";
import { Try } from "./try.js";
import { html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const VIEWS = {
  memories: ["Memories", Memories],
  memory: ["Memory", Memory],
  graph: ["Graph", Graph],
  notes: ["Notes", Notes],
  files: ["Files", Files],
  try: ["Try it", Try],
};
const TABS = ["memories", "graph", "notes", "files", "try"];

function App() {
  const [place, setPlace] = useState(here());
  const entered = useAsk(async () => ({ session: await view("session"), abilities: await abilities() }), []);
  useEffect(() => {
    const follow = () => setPlace(here());
    addEventListener("hashchange", follow);
    addEventListener("keydown", shortcut);
    return () => {
      removeEventListener("hashchange", follow);
      removeEventListener("keydown", shortcut);
    };
  }, []);
  if (entered.error?.status === 401) return html`<${Enter} error=${entered.error} onToken=${entered.again} />`;
  if (entered.error) return html`<main class="alone"><${Fault} error=${entered.error} /></main>`;
  if (!entered.data) return html`<main class="alone"><p role="status">Reading …</p></main>`;
  return html`<${Frame} place=${place} ...${entered.data} onForget=${entered.again} />`;
}

function Frame({ place, session, abilities, onForget }) {
  const [title, View] = Object.hasOwn(VIEWS, place.name) ? VIEWS[place.name] : VIEWS.memories;
  const main = useRef();
  const shown = useRef(true);
  useEffect(() => {
    document.title = `${place.key || title} · agent-abilities`;
    if (!shown.current) main.current.querySelector("h1")?.focus();
    shown.current = false;
  }, [place.name, place.key]);
  const forget = () => {
    token.forget();
    onForget();
  };
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to content</a>
    <header>
      <a class="brand" href=${at("memories")}><img src="/explorer/icon.svg" alt="" width="24" height="24" /> agent-abilities</a>
      <nav aria-label="Views">${TABS.map((name) => html`<a href=${at(name)}
        aria-current=${name === place.name || (name === "memories" && place.name === "memory") ? "page" : null}>${VIEWS[name][0]}</a>`)}</nav>
      <span class="who"><span class="chip" title="Whose memories and files these are">${session.namespace}</span>
        <span class="chip" title="What you may do">${session.scope === "write" ? "read and write" : "read only"}</span>
        ${token.get() && html`<button class="quiet" onClick=${forget}>Forget token</button>`}
        <a href="/docs">API</a></span>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      <${View} key=${place.name + place.key} place=${place} writes=${session.scope === "write"} abilities=${abilities} />
    </main>`;
}

function Enter({ error, onToken }) {
  const [text, setText] = useState("");
  const refused = token.get() !== null;
  const enter = (event) => {
    event.preventDefault();
    token.set(text.trim());
    setText("");
    onToken();
  };
  return html`<main class="alone"><h1>A token, please</h1>
    <p>This server asks everybody for a token. It is kept in this tab until you close it, and sent to nobody else.</p>
    ${refused && html`<${Fault} error=${error} />`}
    <form onSubmit=${enter}>
      <div class="field"><label><span>Token</span>
        <input type="password" required autocomplete="off" value=${text} onInput=${(e) => setText(e.target.value)} /></label>
        <small class="hint">Make one with: abilities token add --scope read</small></div>
      <button class="primary">Enter</button>
    </form></main>`;
}

/** "/" goes to the view's search, as elsewhere. */
function shortcut(event) {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
  }
}

render(html`<${App} />`, document.getElementById("app"));
