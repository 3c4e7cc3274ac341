// Every ability, with a form built from its schema, and its reply in both formats.

import { linkTo } from "./address.js";
import { tryAbility } from "./api.js";
import { ArgumentField, listArguments, parseArguments } from "./arguments.js";
import { Confirm, Fault, TextArea } from "./parts.js";
import { isPlan, Plan } from "./plan.js";
import { Records, Reply } from "./reply.js";
import { useSession } from "./session.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Try({ address }) {
  const { abilities } = useSession();
  const ability = abilities.find(({ name }) => name === address.key);
  const panel = ability
    ? html`<${Panel} ability=${ability} key=${ability.name} />`
    : html`<p>Choose an ability. Its form is built from its schema.</p>`;

  return html`
    <h1 tabindex="-1">Try it</h1>
    <div class="try">
      <${Menu} abilities=${abilities} chosen=${address.key} />
      <div>${panel}</div>
    </div>
  `;
}

function Menu({ abilities, chosen }) {
  const items = abilities.map(
    ({ name, annotations }) => html`
      <li>
        <a href=${linkTo("try", name)} aria-current=${name === chosen ? "page" : null}>
          <code>${name}</code>
        </a>
        ${!annotations.readOnlyHint && html`<span class="chip">writes</span>`}
      </li>
    `,
  );

  return html`<nav aria-label="Abilities"><ul>${items}</ul></nav>`;
}

function Panel({ ability }) {
  const { name, title, description, annotations } = ability;
  const fields = listArguments(ability);
  const [form, setForm] = useState({});
  const [json, setJson] = useState(null); // null while the form is used
  const [outcome, setOutcome] = useState({});
  const [question, setQuestion] = useState(null);

  const call = async (args) => {
    try {
      setOutcome({ reply: await tryAbility(name, args) });
    } catch (error) {
      setOutcome({ error });
    }
  };

  const start = (more) => {
    let args;
    try {
      const given = json === null ? parseArguments(fields, form) : parseJson(json);
      args = { ...given, ...more };
    } catch (error) {
      setOutcome({ error });
      return;
    }

    if (annotations.readOnlyHint) call(args);
    else setQuestion(askToCall(name, () => call(args)));
  };

  const submit = (event) => {
    event.preventDefault();
    start({});
  };

  const sendNext = (args) => {
    setJson(JSON.stringify(args, null, 2));
    call(args);
  };

  return html`
    <h2>${title}</h2>
    <p class="description">${description}</p>
    <form onSubmit=${submit}>
      ${
        json === null
          ? html`<${ArgumentFields} fields=${fields} form=${form} onChange=${setForm} />`
          : html`<${JsonField} json=${json} onChange=${setJson} />`
      }
      <div class="actions">
        <${ModeButton} fields=${fields} form=${form} json=${json} onChange=${setJson} />
        ${
          canPlan(fields) &&
          html`<button type="button" onClick=${() => start({ plan: true })}>Plan</button>`
        }
        <button class="primary">Call ${name}</button>
      </div>
    </form>
    <${Outcome} ...${outcome} onNext=${sendNext} />
    <${Confirm} question=${question} onClose=${() => setQuestion(null)} />
  `;
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("This is not valid JSON.");
  }
}

/** Returns whether an ability can say what its answer would hold. */
function canPlan(fields) {
  return fields.some(({ name }) => name === "plan");
}

function askToCall(name, run) {
  return { title: `Call ${name}?`, text: "This call changes stored data.", action: "Call", run };
}

function ArgumentFields({ fields, form, onChange }) {
  if (fields.length === 0) return html`<p class="faint">This ability takes no arguments.</p>`;

  return fields.map(
    (field) => html`
      <${ArgumentField}
        ...${field}
        value=${form[field.name] ?? ""}
        onChange=${(text) => onChange({ ...form, [field.name]: text })}
      />
    `,
  );
}

function JsonField({ json, onChange }) {
  return html`
    <${TextArea}
      label="Arguments as JSON"
      rows="8"
      spellcheck=${false}
      value=${json}
      onChange=${onChange}
    />
  `;
}

/** Switches between the form and JSON. The JSON starts with what the form holds. */
function ModeButton({ fields, form, json, onChange }) {
  const writeJson = () => {
    try {
      onChange(JSON.stringify(parseArguments(fields, form), null, 2));
    } catch {
      onChange("{}");
    }
  };

  if (json === null) {
    return html`
      <button type="button" class="quiet" onClick=${writeJson}>Write JSON instead</button>
    `;
  }

  return html`
    <button type="button" class="quiet" onClick=${() => onChange(null)}>Back to the form</button>
  `;
}

function Outcome({ error, reply, onNext }) {
  if (!reply) return html`<${Fault} error=${error} />`;

  const records = isPlan(reply.payload)
    ? html`<${Plan} reply=${reply} onRead=${onNext} />`
    : html`<${Records} payload=${reply.payload} onNext=${onNext} />`;

  return html`
    <${Fault} error=${reply.error} />
    ${records}
    <${Reply} reply=${reply} />
  `;
}
