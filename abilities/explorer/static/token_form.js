// The form that asks for a token.

import { token } from "./api.js";
import { Fault, Name, TextField } from "./parts.js";
import { html, useState } from "./vendor/htm-preact.js";

export function TokenForm({ error, onEnter }) {
  const [text, setText] = useState("");

  // Without a token, the error says only that one is required.
  const wasRefused = error && token.get() !== null;
  const kept = Object.entries(token.list());

  const enter = (event) => {
    event.preventDefault();
    token.set(text.trim());
    setText("");
    onEnter();
  };
  const goBack = (other) => () => {
    token.set(other);
    onEnter();
  };

  return html`
    <main class="alone">
      <h1>Enter a token</h1>
      <p>
        This server requires a token. The token stays in this tab until you close it, and is sent
        to this server only.
      </p>
      ${wasRefused && html`<${Fault} error=${error} />`}
      <form onSubmit=${enter}>
        <${TextField}
          label="Token"
          hint="Create one with: abilities token add --scope read"
          type="password"
          autocomplete="off"
          required
          value=${text}
          onChange=${setText}
        />
        <button class="primary">Enter</button>
      </form>
      ${kept.length > 0 && html`<p>Or go back to the namespace of another token:</p>`}
      <div class="actions">
        ${kept.map(
          ([namespace, other]) => html`
            <button onClick=${goBack(other)}><${Name} of=${namespace} /></button>
          `,
        )}
      </div>
    </main>
  `;
}
