// What every view knows of the session: what the caller may do, and what was changed meanwhile.

import { createContext, useContext } from "./vendor/htm-preact.js";

/**
 * Holds {abilities, canWrite, round, written, onWritten}. `round` grows whenever memories may have
 * changed, and `written` when they were changed here. `onWritten` gets the notice of a change.
 */
export const Session = createContext();

/**
 * Returns what `Session` holds, and two functions: whether an ability is offered, and the schemas
 * of its arguments by name.
 *
 * The page states no limits, defaults and choices of its own, so that they cannot disagree with
 * those of the server. Of an ability that is not offered nothing is known; calling it says why.
 */
export function useSession() {
  const session = useContext(Session);
  const find = (name) => session.abilities.find((ability) => ability.name === name);

  return {
    ...session,
    isOffered: (name) => Boolean(find(name)),
    getArguments: (name) => find(name)?.inputSchema.properties ?? {},
  };
}
