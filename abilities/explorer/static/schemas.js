// What the server publishes of its arguments: limits, defaults and choices. The page states none
// of them itself, so that they cannot disagree.

/**
 * Returns the schemas of an ability's arguments, by name.
 *
 * An ability may be disabled, and then nothing is known of its arguments; calling it says why.
 */
export function getArguments(abilities, name) {
  const ability = abilities.find((candidate) => candidate.name === name);
  return ability?.inputSchema.properties ?? {};
}

/** Returns the choices of an argument as options of a Select, each shown by its own name. */
export function listOptions(schema) {
  return (schema?.enum ?? []).map((choice) => [choice, choice]);
}

/** Returns whether the caller may use an ability. */
export function isOffered(abilities, name) {
  return abilities.some((ability) => ability.name === name);
}
