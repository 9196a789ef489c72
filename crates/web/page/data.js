// What the daemon says: asked again every few seconds while somebody looks.
import { useEffect, useState } from "./vendor/htm-preact.js";

const PERIOD_MS = 5000;

/// Told of each change that was made here.
const changes = new EventTarget();
/// Has everything that is shown asked for again.
export const tellOfChange = () => changes.dispatchEvent(new Event("change"));

/// Asks once. Throws a problem: what happened, and what to do.
export const get = (path) => ask(path);

/// The same with what else `fetch` takes. Nothing is followed elsewhere: a redirection is an error.
export async function ask(path, more = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", redirect: "error", ...more });
  } catch {
    throw {
      detail: "The daemon does not answer.",
      remedy: "see whether it runs: systemctl status hearth; this page goes on by itself",
    };
  }
  const answer = await response.json();
  if (!response.ok) throw answer;
  return answer;
}

/// Asks now and every few seconds. Gives the last answer and the problem of the last question, if it had one.
export function useData(path) {
  const [state, setState] = useState({ path: null });
  useEffect(() => {
    if (!path) return undefined;
    let timer;
    let is_over = false;
    const again = async () => {
      const result = document.hidden ? null : await get(path).then((data) => ({ data, problem: null }), (problem) => ({ problem }));
      if (is_over) return;
      if (result) setState((before) => ({ ...(before.path === path ? before : {}), ...result, path }));
      timer = setTimeout(again, PERIOD_MS);
    };
    const look = () => {
      if (!document.hidden) {
        clearTimeout(timer);
        again();
      }
    };
    document.addEventListener("visibilitychange", look);
    changes.addEventListener("change", look);
    again();
    return () => {
      is_over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
      changes.removeEventListener("change", look);
    };
  }, [path]);
  return state.path === path ? [state.data, state.problem] : [undefined, undefined];
}

/// The view and what it was asked for, from the part of the address behind the number sign.
export function route(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...name] = path.split("/");
  return { view: view || "overview", name: decodeURIComponent(name.join("/")), asked: new URLSearchParams(query || "") };
}

/// The address of a view.
export function link(view, name, asked = {}) {
  const known = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(known).toString();
  return `#/${view}${name ? `/${encodeURIComponent(name)}` : ""}${query ? `?${query}` : ""}`;
}

/// The same with a question mark, for the daemon.
export function query(path, asked) {
  const known = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(known).toString();
  return text ? `${path}?${text}` : path;
}
