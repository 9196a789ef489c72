// Events: what has happened since the daemon began, and what happens now.
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, link, query } from "../data.js";
import { Nothing, View, sentence } from "../parts.js";
import { moment } from "../format.js";

const SHOWN_MAX = 200;
const SEVERITIES = ["info", "warning", "problem"];
/// Names that an event is about, in the order in which they are shown.
const ABOUT = ["disk", "vm", "cache", "origin", "host", "from", "to"];

/// The last events, and where to follow from.
async function last(severity) {
  let events = [];
  let after;
  for (;;) {
    const page = await get(query("/v1/events", { severity, after, limit: 1000 }));
    events = [...events, ...page.events].slice(-SHOWN_MAX);
    after = page.next;
    if (!page.more) return { events, after };
  }
}

function useEvents(severity) {
  const [state, setState] = useState({ events: null });
  useEffect(() => {
    let stream;
    let is_over = false;
    setState({ events: null });
    last(severity).then(
      ({ events, after }) => {
        if (is_over) return;
        setState({ events });
        stream = new EventSource(query("/v1/events", { severity, after }));
        stream.addEventListener("event", (message) => {
          const event = JSON.parse(message.data);
          setState((before) => ({ events: [...before.events, event].slice(-SHOWN_MAX) }));
        });
      },
      (problem) => !is_over && setState({ events: null, problem }),
    );
    return () => {
      is_over = true;
      if (stream) stream.close();
    };
  }, [severity]);
  return state;
}

/// Who gave a command, and from where.
const by = ({ uid, operator, address }) => (operator ? `by ${operator} from ${address}` : address ? `from ${address}` : `by user ${uid}`);

const Row = ({ event }) => html`<li class=${event.severity} data-test="event"><div class="soft"><time>${moment(event.at_seconds)}</time> · ${event.severity} · ${event.kind}
    ${ABOUT.filter((name) => event[name]).map((name) => html` · ${name} ${name === "vm" ? html`<a href=${link("vm", event.vm)}>${event.vm}</a>` : event[name]}`)}
    ${event.who && html` · ${by(event.who)}`}</div>
  <div>${sentence(event.text)} ${event.remedy && html`<span class="soft">${sentence(event.remedy)}</span>`}</div></li>`;

export function Events({ asked }) {
  const severity = SEVERITIES.includes(asked.get("severity")) ? asked.get("severity") : "info";
  const { events, problem } = useEvents(severity);
  return html`<${View} title="Events" command=${`hearth events --severity ${severity} --follow`} problem=${problem} note="The newest first, as they happen; at most ${SHOWN_MAX}.">
    <nav class="choices" aria-label="Severity">${SEVERITIES.map((one) => html`<a href=${link("events", "", { severity: one })} aria-current=${one === severity ? "true" : undefined}>${one === "info" ? "all" : one === "warning" ? "warnings and problems" : "problems"}</a>`)}</nav>
    ${events && (events.length > 0 ? html`<ol class="events">${events.toReversed().map((event) => html`<${Row} key=${event.id} event=${event} />`)}</ol>` : html`<${Nothing}>Nothing of this kind has happened since the daemon began.<//>`)}<//>`;
}
