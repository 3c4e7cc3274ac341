// Hooks that the views share.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

const PAUSE_MILLISECONDS = 30_000;

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

/**
 * Loads pages one after another, and returns {all, hasMore, request, loadMore}.
 *
 * `load` gets the `next_request` of the page before, or null for the first one, which is loaded
 * again whenever the inputs change; the pages after it are then dropped.
 */
export function usePages(load, inputs) {
  const first = useRequest(() => load(null), inputs);
  const [later, setLater] = useState({ pages: [] });

  const isCurrent = later.first === first.data;
  const { pages, error, loading } = isCurrent ? later : { pages: [] };
  const all = first.data ? [first.data, ...pages] : [];
  const next = all.at(-1)?.next_request;

  const loadMore = async () => {
    const before = { first: first.data, pages };
    setLater({ ...before, loading: true });
    try {
      const page = await load(next);
      setLater({ ...before, pages: [...pages, page] });
    } catch (problem) {
      setLater({ ...before, error: problem });
    }
  };

  const request = { error: first.error ?? error, loading: first.loading || loading };
  return { all, hasMore: Boolean(next), request, loadMore };
}

/**
 * Returns [act, error]: a function that does something, and why that failed the last time.
 *
 * The error is forgotten when `act` is called again, and when the inputs change.
 */
export function useAction(run, inputs = []) {
  const [error, setError] = useState();
  useEffect(() => setError(undefined), inputs);

  const act = async (...given) => {
    setError(undefined);
    try {
      await run(...given);
    } catch (problem) {
      setError(problem);
    }
  };

  return [act, error];
}

/**
 * Returns [ref, followed], for what takes the server long: a number that follows `round` only while
 * the element with that ref can be seen, and at most every 30 seconds; null until it was seen.
 */
export function useSparingly(round) {
  const element = useRef();
  const [isSeen, setIsSeen] = useState(false);
  const [followed, setFollowed] = useState({ round: null, at: 0 });

  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => setIsSeen(entry.isIntersecting));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (!isSeen || round === followed.round) return undefined;

    const follow = () => setFollowed({ round, at: Date.now() });
    const timer = setTimeout(follow, followed.at + PAUSE_MILLISECONDS - Date.now());
    return () => clearTimeout(timer);
  }, [round, isSeen]);

  return [element, followed.round];
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
