// Signing in, and changes: each is shown as the command that does the same, and an operator can run it from here.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { change, signIn, signOut, useOperator, whoIsIt } from "./operator.js";
import { Command, Problem } from "./parts.js";

/// What lies over the page until it is answered. Escape closes it.
function Dialog({ title, onClose, children }) {
  const element = useRef();
  useEffect(() => {
    const shown = element.current;
    shown.showModal();
    const first = shown.querySelector("[data-first]");
    if (first) first.focus();
    // Gives the focus back to where it was.
    return () => shown.close();
  }, []);
  return html`<dialog ref=${element} onClose=${onClose} aria-label=${title} data-test="dialog"><h2>${title}</h2>${children}</dialog>`;
}

function SignIn({ onClose }) {
  const [problem, setProblem] = useState(null);
  const [is_asking, setAsking] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setAsking(true);
    try {
      await signIn(new FormData(event.target).get("token").trim());
      onClose();
    } catch (refused) {
      setProblem(refused);
      setAsking(false);
    }
  };
  return html`<${Dialog} title="Sign in" onClose=${onClose}><form onSubmit=${submit}>
    <p class="note">Paste the token that <code>hearth operator add NAME</code> printed. This tab forgets it when it is closed or loaded again.</p>
    <label>Token <input type="password" name="token" autocomplete="off" required data-first data-test="token" /></label>
    ${problem && html`<${Problem} problem=${problem} />`}
    <p class="answers"><button type="submit" class="main" disabled=${is_asking} data-test="sign-in">Sign in</button>
      <button type="button" onClick=${onClose}>Cancel</button></p></form><//>`;
}

/// Who is signed in, and the way in and out.
export function SignedIn() {
  const { has_operators, name } = useOperator();
  const [is_open, setOpen] = useState(false);
  useEffect(whoIsIt, []);
  if (!has_operators) return null;
  return html`<div class="operator">${name
      ? html`<span data-test="operator">${name}</span> <button type="button" onClick=${signOut} data-test="sign-out">Sign out</button>`
      : html`<button type="button" onClick=${() => setOpen(true)} data-test="to-sign-in">Sign in</button>`}
    ${is_open && html`<${SignIn} onClose=${() => setOpen(false)} />`}</div>`;
}

/// The way out of a dialog that has nothing more to ask.
function Close({ onClose }) {
  const button = useRef();
  useEffect(() => button.current.focus(), []);
  return html`<p class="answers"><button type="button" class="main" ref=${button} onClick=${onClose} data-test="close">Close</button></p>`;
}

/// What is asked before a change is made, and what came of it.
function Confirm({ of, onClose }) {
  const { title, command, typed, loses, request, done } = of;
  const [answer, setAnswer] = useState(null);
  const [problem, setProblem] = useState(null);
  const [is_asking, setAsking] = useState(false);
  const [written, setWritten] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    setProblem(null);
    setAsking(true);
    try {
      setAnswer(await change({ ...request, typed: typed && written }));
    } catch (refused) {
      setProblem(refused);
    }
    setAsking(false);
  };
  if (answer) return html`<${Dialog} title=${title} onClose=${onClose}><p role="status" data-test="done">Done: ${done}.</p>
    <${Close} onClose=${onClose} /><//>`;
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${submit}>
    <p class="note">The daemon does what this command does:</p><p><code data-test="to-run">${command}</code></p>
    ${typed && html`<p class="note">${loses}</p><label>Type ${typed} to go on <input value=${written} onInput=${(event) => setWritten(event.target.value)} autocomplete="off" data-first data-test="typed" /></label>`}
    ${problem && html`<${Problem} problem=${problem} />`}
    <p class="answers"><button type="submit" class="main" disabled=${is_asking || (typed && written !== typed)} data-first=${!typed} data-test="run">${is_asking ? "Running" : "Run"}</button>
      <button type="button" onClick=${onClose}>Cancel</button></p></form><//>`;
}

/// A change as its command, which anybody may copy and an operator may run.
export function Change({ name, ...of }) {
  const operator = useOperator();
  const [is_open, setOpen] = useState(false);
  return html`<div class="change"><${Command} line=${of.command} />
    ${operator.name && html`<button type="button" onClick=${() => setOpen(true)} data-test="change-${name}">run</button>`}
    ${is_open && html`<${Confirm} of=${of} onClose=${() => setOpen(false)} />`}</div>`;
}

/// A change whose values are typed: fields are name, words, and the value now. `command` and `request` are made of what is filled in.
export function ChangeOf({ name, title, fields, command, request, done }) {
  const [values, setValues] = useState({});
  const filled = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
  const set = (key) => (event) => setValues((before) => ({ ...before, [key]: event.target.value.trim() }));
  return html`<div class="fields">${fields.map(([key, words, now]) => html`<label>${words} <input value=${values[key] ?? ""} placeholder=${now} onInput=${set(key)} autocomplete="off" data-test="${name}-${key}" /></label>`)}
    ${Object.keys(filled).length > 0 && html`<${Change} name=${name} title=${title} command=${command(filled)} request=${request(filled)} done=${done} />`}</div>`;
}
