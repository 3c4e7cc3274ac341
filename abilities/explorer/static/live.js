// What agents write is shown soon: the server sends an event after each change.

import { readEvents } from "./api.js";
import { useEffect, useRef } from "./vendor/htm-preact.js";

const MIN_PAUSE = 1000;
const MAX_PAUSE = 30_000;

// The server is never silent for longer than 15 seconds.
const MAX_SILENCE = 40_000;

/**
 * Calls `onChange` when memories were changed since the version `latest`, as long as the tab is
 * seen, and `onRefused` if the token does not count any more.
 *
 * A browser opens only six connections to a server, so a hidden tab holds none.
 */
export function useChanges(latest, onRefused, onChange) {
  const handlers = useRef();
  handlers.current = { onRefused, onChange };

  useEffect(() => {
    let seen = String(latest);
    let pause = MIN_PAUSE;
    let connection = null;
    let timer;

    const schedule = (run, milliseconds) => {
      clearTimeout(timer);
      timer = setTimeout(run, milliseconds);
    };

    const onEvent = (version) => {
      if (version !== seen) handlers.current.onChange();
      seen = version;
      pause = MIN_PAUSE;
    };

    const connect = async () => {
      const own = new AbortController();
      const onPart = () => connection === own && schedule(() => own.abort(), MAX_SILENCE);
      connection = own;
      onPart();

      try {
        await readEvents("/api/explorer/events", { signal: own.signal, onEvent, onPart });
      } catch (problem) {
        if (problem.status === 401) handlers.current.onRefused();
      }

      if (connection !== own) return;
      seen = null; // after a break everything is loaded again
      schedule(connect, pause);
      pause = Math.min(2 * pause, MAX_PAUSE);
    };

    const disconnect = () => {
      clearTimeout(timer);
      connection?.abort();
      connection = null;
    };

    const follow = () => {
      disconnect();
      if (!document.hidden) connect();
    };

    follow();
    document.addEventListener("visibilitychange", follow);

    return () => {
      document.removeEventListener("visibilitychange", follow);
      disconnect();
    };
  }, []);
}
