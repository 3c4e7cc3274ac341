// The arguments of an ability: a field for each one, chosen by its schema, and what was typed
// there as values.

import { listOptions, Select, TextArea, TextField } from "./parts.js";
import { html } from "./vendor/htm-preact.js";

// Texts that may be longer than this get a text area; paths, keys and cursors never are.
const LINE_CHARACTERS = 2_000;

/** Lists an ability's arguments as {name, schema, isRequired}. */
export function listArguments(ability) {
  const { properties = {}, required = [] } = ability.inputSchema;

  // Replies are shown in both formats, so there is nothing to choose.
  const names = Object.keys(properties).filter((name) => name !== "output_format");

  return names.map((name) => ({
    name,
    schema: properties[name],
    isRequired: required.includes(name),
  }));
}

/** Returns the arguments that were filled in. Throws an Error if one of them is not valid JSON. */
export function parseArguments(fields, form) {
  const args = {};

  for (const { name, schema } of fields) {
    const text = form[name] ?? "";
    if (text !== "") args[name] = parseValue(name, schema, text);
  }

  return args;
}

function parseValue(name, schema, text) {
  if (isTextList(schema)) return text.split("\n").filter(Boolean);

  // The server takes "3" for a number and "true" for a boolean, and says what is wrong with
  // anything else.
  if (!isStructured(schema)) return text;

  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name} is not valid JSON.`);
  }
}

function isTextList(schema) {
  return schema.type === "array" && schema.items?.type === "string";
}

function isStructured(schema) {
  return schema.type === "array" || schema.type === "object";
}

export function ArgumentField({ name, schema, isRequired, value, onChange }) {
  const { description = "", type, maxLength } = schema;
  const label = isRequired ? `${name} (required)` : name;
  const shared = { label, hint: description, value, onChange };

  if (schema.enum || type === "boolean") {
    const empty = ["", isRequired ? "choose" : "not set"];
    return html`<${Select} ...${shared} options=${[empty, ...listChoices(schema)]} />`;
  }

  if (isTextList(schema)) {
    return html`<${TextArea} ...${shared} hint="${description} One per line." rows="4" />`;
  }

  if (isStructured(schema)) {
    return html`
      <${TextArea}
        ...${shared}
        hint="${description} As JSON."
        rows="3"
        spellcheck=${false}
        placeholder=${buildExample(schema)}
      />
    `;
  }

  if (maxLength > LINE_CHARACTERS) return html`<${TextArea} ...${shared} rows="5" />`;

  const isNumber = type === "integer" || type === "number";
  return html`
    <${TextField}
      ...${shared}
      inputmode=${isNumber ? "decimal" : "text"}
      placeholder=${schema.default ?? ""}
    />
  `;
}

function listChoices(schema) {
  const isBoolean = schema.type === "boolean";
  return listOptions(isBoolean ? { enum: ["true", "false"] } : schema);
}

/** Returns an example of an array's JSON: one item of each kind. */
function buildExample(schema) {
  if (schema.type !== "array") return "";

  const kinds = schema.items?.anyOf ?? [schema.items ?? {}];
  return `[${kinds.map(buildItem).join(", ")}]`;
}

/** Returns an example of an item's JSON, with its type or its first property. */
function buildItem({ type: kind, properties = {} }) {
  if (kind === "string") return '"…"';

  const type = properties.type?.enum?.[0];
  if (type) return `{"type": "${type}"}`;

  const [first = "key"] = Object.keys(properties);
  return `{"${first}": "…"}`;
}
