// Hooks that the views share.

import { useEffect, useState } from "./vendor/htm-preact.js";

/**
 * Sends a request again whenever its inputs change, and returns {data, error, loading, reload}.
 *
 * The last reply is kept while the next one loads. A reply is dropped if its inputs have changed
 * meanwhile.
 */
export function useRequest(send, inputs) {
  const [state, setState] = useState({ loading: true });
  const [round, setRound] = useState(0);

  useEffect(() => {
    let isCurrent = true;
    const finish = (outcome) => {
      if (isCurrent) setState({ ...outcome, loading: false });
    };

    setState((before) => ({ ...before, loading: true }));
    Promise.resolve(send()).then(
      (data) => finish({ data }),
      (error) => finish({ error }),
    );

    return () => {
      isCurrent = false;
    };
  }, [...inputs, round]);

  return { ...state, reload: () => setRound(round + 1) };
}

/** Returns a value once it has stopped changing, for example when typing pauses. */
export function useDebounced(value, milliseconds = 250) {
  const [debounced, setDebounced] = useState(value);

  useEffect(() => {
    const timer = setTimeout(() => setDebounced(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);

  return debounced;
}
