// The frame around every view: where to go, who you are, and what you may do.

import { linkTo, open } from "./address.js";
import { shown, token } from "./api.js";
import { Files } from "./files.js";
import { showName } from "./format.js";
import { Graph } from "./graph.js";
import { Home } from "./home.js";
import { useAction } from "./hooks.js";
import { useChanges } from "./live.js";
import { MemoryMap } from "./map.js";
import { Memories } from "./memories.js";
import { Memory } from "./memory.js";
import { Notes } from "./notes.js";
import { Fault } from "./parts.js";
import { Session } from "./session.js";
import { Timeline } from "./timeline.js";
import { Try } from "./try.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const VIEWS = {
  home: { title: "Overview", component: Home },
  memories: { title: "Memories", component: Memories },
  memory: { title: "Memory", component: Memory },
  changes: { title: "Changes", component: Timeline },
  graph: { title: "Graph", component: Graph },
  map: { title: "Map", component: MemoryMap },
  notes: { title: "Notes", component: Notes },
  files: { title: "Files", component: Files },
  try: { title: "Try it", component: Try },
};

// Of another namespace, memories alone are read.
const SHARED_TABS = ["home", "memories", "changes", "graph", "map"];
const TABS = [...SHARED_TABS, "notes", "files", "try"];

export function Frame({ address, session, abilities, onToken, onAdd }) {
  const tabs = session.namespace === session.own ? TABS : SHARED_TABS;
  const canWrite = session.scope === "write";
  const { key } = address;
  const view = [...tabs, "memory"].includes(address.view) ? address.view : "home";
  const { title, component: View } = VIEWS[view];
  const main = useRef();
  const isFirst = useRef(true);
  const [notice, setNotice] = useState(null);
  const [round, setRound] = useState(0);
  const [written, setWritten] = useState(0);
  const focusHeading = () => main.current.querySelector("h1")?.focus();

  // A new view begins at its heading, for the keyboard and for screen readers. The first one
  // does not: the page has just been opened, and is read from its top.
  useEffect(() => {
    document.title = `${showName(key || title)} · agent-abilities`;
    if (!isFirst.current) focusHeading();
    isFirst.current = false;
  }, [view, key]);

  // What is shown may have changed, so it is loaded again.
  const report = (made) => {
    setNotice(made);
    setWritten((before) => before + 1);
    setRound((before) => before + 1);
  };
  const reportUndone = ({ text, key: undone }) => {
    report({ text });
    if (undone === undefined) return;
    open("memory", undone);
    focusHeading();
  };

  useChanges(session.latest, onToken, () => setRound((before) => before + 1));

  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };

  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header>
      <a class="brand" href=${linkTo("home")}>
        <img src="/explorer/icon.svg" alt="" width="24" height="24" /> agent-abilities
      </a>
      <${Tabs} tabs=${tabs} view=${view} />
      <${Account} session=${session} onToken=${onToken} onAdd=${onAdd} />
    </header>
    <${Notice} notice=${notice} onUndone=${reportUndone} onClose=${() => setNotice(null)} />
    <main id="main" tabindex="-1" ref=${main}>
      <${Session.Provider} value=${{ abilities, canWrite, round, written, onWritten: report }}>
        <${View} key=${view + key} address=${address} />
      <//>
    </main>
  `;
}

/**
 * What was done last, and how to undo it. It stays until something else is done.
 *
 * `notice` is {text, undo}, or null; without `undo` there is nothing to undo. `onUndone` gets the
 * notice that follows.
 */
function Notice({ notice, onUndone, onClose }) {
  const [undo, error] = useAction(async () => onUndone(await notice.undo()), [notice]);

  // Screen readers announce what is put into an element that was there before.
  return html`
    <div class="notice" role="status">
      ${notice && html`<span>${notice.text}</span>`}
      ${notice?.undo && html`<button onClick=${undo}>Undo</button>`}
      ${notice && html`<button class="quiet" onClick=${onClose}>Close</button>`}
    </div>
    <${Fault} error=${error} />
  `;
}

function Tabs({ tabs, view }) {
  const tab = view === "memory" ? "memories" : view;
  const links = tabs.map(
    (name) => html`
      <a href=${linkTo(name)} aria-current=${name === tab ? "page" : null}>
        ${VIEWS[name].title}
      </a>
    `,
  );

  return html`<nav aria-label="Views">${links}</nav>`;
}

function Account({ session, onToken, onAdd }) {
  const access = session.scope === "write" ? "read and write" : "read only";
  const forget = () => {
    token.forget();
    onToken();
  };
  const add = () => {
    token.keep(session.own);
    onAdd();
  };

  return html`
    <span class="who">
      <${Namespace} session=${session} onToken=${onToken} />
      <span class="chip" title="Your access">${access}</span>
      ${token.get() && html`<button class="quiet" onClick=${add}>Add a token</button>`}
      ${token.get() && html`<button class="quiet" onClick=${forget}>Forget token</button>`}
      <a href="/docs">API</a>
    </span>
  `;
}

/** The namespace that is shown; a menu if there are more: of other tokens, and those that are read. */
function Namespace({ session, onToken }) {
  const { namespace, own, reads } = session;
  const tokens = { [own]: token.get(), ...token.list() };
  const others = reads.filter((name) => !Object.hasOwn(tokens, name));
  const names = [...Object.keys(tokens), ...others];
  if (names.length < 2) {
    return html`
      <span class="chip" title="Namespace of these memories and files">${namespace}</span>
    `;
  }

  const choose = (event) => {
    const chosen = event.target.value;
    if (tokens[chosen]) token.set(tokens[chosen]);
    shown.set(others.includes(chosen) ? chosen : "");
    open("home");
    onToken();
  };
  const options = names.map(
    (name) => html`
      <option value=${name} selected=${name === namespace}>
        ${showName(name)}${others.includes(name) && " (read only)"}
      </option>
    `,
  );

  return html`
    <select aria-label="Namespace" value=${namespace} onChange=${choose}>${options}</select>
  `;
}
