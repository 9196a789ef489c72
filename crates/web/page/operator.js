// The operator at this tab, and the changes that an operator makes. The token is kept in this module's memory alone: it is never
// stored, never part of an address, and gone with the tab.
import { useEffect, useState } from "./vendor/htm-preact.js";
import { ask, tellOfChange } from "./data.js";

let token = null;
let known = { has_operators: false, name: null };
const followers = new Set();

function know(answer) {
  known = answer;
  for (const follow of followers) follow(known);
}

const shown = () => (token ? { Authorization: `Bearer ${token}` } : {});

/// Asks who this is: a certificate that the browser shows may say so without a token.
export const whoIsIt = () => ask("/v1/operator").then(know, () => {});

/// Signs in with a token. Throws a problem if it is nobody's.
export async function signIn(text) {
  const answer = await ask("/v1/operator", { headers: { Authorization: `Bearer ${text}` } });
  token = text;
  know(answer);
}

/// Forgets the token.
export function signOut() {
  token = null;
  know({ ...known, name: null });
}

/// Makes a change, and returns what the daemon answers. Throws a problem if it is refused.
export async function change({ method, path, body, typed }) {
  const headers = { ...shown(), "Content-Type": "application/json", ...(typed ? { "Hearth-Typed-Name": typed } : {}) };
  try {
    const answer = await ask(path, { method, headers, body: body && JSON.stringify(body) });
    tellOfChange();
    return answer;
  } catch (problem) {
    // The operator was removed meanwhile.
    if (problem.status === 401) signOut();
    throw problem;
  }
}

/// Whether the page has operators, and the name of this one.
export function useOperator() {
  const [now, setNow] = useState(known);
  useEffect(() => {
    followers.add(setNow);
    setNow(known);
    return () => followers.delete(setNow);
  }, []);
  return now;
}
