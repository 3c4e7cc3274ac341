// Every ability, with a form made of its schema, and its reply in both formats.

import { both } from "./api.js";
import { at } from "./address.js";
import { Confirm, Fault, Field } from "./parts.js";
import { Records, Reply } from "./reply.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Try({ place, abilities }) {
  const ability = abilities.find(({ name }) => name === place.key);
  return html`<h1 tabindex="-1">Try it</h1>
    <div class="try"><nav aria-label="Abilities"><ul>${abilities.map(({ name, annotations }) => html`<li>
        <a href=${at("try", name)} aria-current=${name === place.key ? "page" : null}><code>${name}</code></a>
        ${!annotations.readOnlyHint && html`<span class="chip">writes</span>`}</li>`)}</ul></nav>
      <div>${ability ? html`<${Panel} ability=${ability} key=${ability.name} />` : html`<p>Pick an ability; the form is made of its schema.</p>`}</div></div>`;
}

function Panel({ ability }) {
  const { properties = {}, required = [] } = ability.inputSchema;
  const fields = Object.entries(properties).filter(([name]) => name !== "output_format"); // both are shown
  const [texts, setTexts] = useState({});
  const [raw, setRaw] = useState(null);
  const [answer, setAnswer] = useState({});
  const [question, setQuestion] = useState(null);
  const ask = async (args) => {
    try {
      const reply = await both(ability.name, args);
      setAnswer({ reply, payload: JSON.parse(reply.json) });
    } catch (error) {
      setAnswer({ error });
    }
  };
  const send = (event) => {
    event.preventDefault();
    let args;
    try {
      args = raw === null ? gathered(fields, texts) : JSON.parse(raw);
    } catch (error) {
      setAnswer({ error: new Error(error instanceof SyntaxError ? "This is not valid JSON." : error.message) });
      return;
    }
    if (ability.annotations.readOnlyHint) ask(args);
    else setQuestion({ title: `Call ${ability.name}?`, words: "It changes what is stored.", action: "Call", run: () => ask(args) });
  };
  const written = () => {
    try {
      return JSON.stringify(gathered(fields, texts), null, 2);
    } catch {
      return "{}";
    }
  };
  const onward = (request) => (setRaw(JSON.stringify(request, null, 2)), ask(request));
  const { error, reply, payload } = answer;
  return html`<h2>${ability.title}</h2><p class="description">${ability.description}</p>
    <form onSubmit=${send}>
      ${raw === null
        ? fields.map(([name, schema]) => html`<${Argument} name=${name} schema=${schema} required=${required.includes(name)} text=${texts[name] ?? ""}
            onText=${(text) => setTexts({ ...texts, [name]: text })} />`)
        : html`<${Field} label="Arguments as JSON"><textarea rows="8" spellcheck=${false} value=${raw} onInput=${(event) => setRaw(event.target.value)}></textarea><//>`}
      ${raw === null && fields.length === 0 && html`<p class="faint">It takes no arguments.</p>`}
      <div class="actions"><button type="button" class="quiet" onClick=${() => setRaw(raw === null ? written() : null)}>${raw === null ? "Write JSON instead" : "Back to the form"}</button>
        <button class="primary">Call ${ability.name}</button></div>
    </form>
    <${Fault} error=${error ?? (reply?.failed ? { fault: payload.error } : null)} />
    ${payload?.results && html`<${Records} payload=${payload} onNext=${onward} />`}
    ${reply && html`<${Reply} reply=${reply} />`}
    <${Confirm} question=${question} onClose=${() => setQuestion(null)} />`;
}

function Argument({ name, schema, required, text, onText }) {
  const label = `${name}${required ? " (required)" : ""}`;
  const type = (event) => onText(event.target.value);
  const options = schema.enum ?? (schema.type === "boolean" ? ["true", "false"] : null);
  if (options) {
    return html`<${Field} label=${label} hint=${schema.description}><select value=${text} onChange=${type}>
      <option value="">${required ? "choose" : "not given"}</option>${options.map((option) => html`<option value=${option}>${option}</option>`)}</select><//>`;
  }
  if (isStrings(schema)) return html`<${Field} label=${label} hint="${schema.description} One a line."><textarea rows="4" value=${text} onInput=${type}></textarea><//>`;
  if (schema.type === "array" || schema.type === "object") {
    const example = schema.type === "array" ? example_of(schema) : "";
    return html`<${Field} label=${label} hint="${schema.description} As JSON."><textarea rows="3" spellcheck=${false} placeholder=${example} value=${text} onInput=${type}></textarea><//>`;
  }
  const numeric = schema.type === "integer" || schema.type === "number";
  const long = schema.maxLength > 500 && name === "content";
  if (long) return html`<${Field} label=${label} hint=${schema.description}><textarea rows="5" value=${text} onInput=${type}></textarea><//>`;
  return html`<${Field} label=${label} hint=${schema.description}><input inputmode=${numeric ? "decimal" : "text"} placeholder=${schema.default ?? ""} value=${text} onInput=${type} /><//>`;
}

const isStrings = (schema) => schema.type === "array" && schema.items?.type === "string";

function example_of({ items }) {
  const first = items?.properties?.type?.enum?.[0];
  return first ? `[{"type": "${first}"}]` : `[{"${Object.keys(items?.properties ?? { key: 0 })[0]}": "…"}]`;
}

/** The arguments as they were typed; what was left empty is not given, what is wrong the server says. */
function gathered(fields, texts) {
  const given = fields.filter(([name]) => (texts[name] ?? "") !== "");
  return Object.fromEntries(given.map(([name, schema]) => [name, valued(name, schema, texts[name])]));
}

function valued(name, schema, text) {
  if (isStrings(schema)) return text.split("\n").filter((line) => line !== "");
  if (schema.type === "array" || schema.type === "object") {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`${name} is not valid JSON.`);
    }
  }
  return text; // numbers and booleans too: the server takes "3" for 3 and says what is wrong with the rest
}
