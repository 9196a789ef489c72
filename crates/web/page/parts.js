// What views are made of.
import { html, useState } from "./vendor/htm-preact.js";
import { link } from "./data.js";
import { percent } from "./format.js";

/// The command that shows the same, to be copied.
export function Command({ line }) {
  const [is_copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(line);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return html`<div class="command"><code data-test="command">${line}</code>
    <button type="button" onClick=${copy} title="Copy the command that shows the same">${is_copied ? "copied" : "copy as command"}</button></div>`;
}

/// A view with its heading.
export function View({ title, note, command, problem, children }) {
  return html`<section class="view" data-test="view">
    <div class="heading"><h1>${title}</h1>${command && html`<${Command} line=${command} />`}</div>
    ${note && html`<p class="note">${note}</p>`}
    ${problem && html`<${Problem} problem=${problem} />`}
    ${children}</section>`;
}

/// What the daemon refused, and what to do.
export const Problem = ({ problem }) =>
  html`<div class="banner problem" role="alert" data-test="problem"><p><strong>${problem.detail}</strong></p>
    ${problem.remedy && html`<p>${sentence(problem.remedy)}</p>`}</div>`;

/// Nothing yet, or nothing at all.
export const Nothing = ({ children }) => html`<p class="nothing" data-test="nothing">${children}</p>`;

/// A text with a capital letter before and a full stop behind it.
export function sentence(text) {
  const end = /[.!?]$/.test(text) ? "" : ".";
  // A command keeps its small letters.
  const begins = /^hearth\b/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return begins + end;
}

/// Where a finding is looked at.
const Where = ({ of }) =>
  of.vm ? html`<a href=${link("vm", of.vm)}>VM ${of.vm}</a>` : of.cache ? html`<a href=${link("host")}>Cache ${of.cache}</a>` : null;

/// How the host is, in words, and what is wrong.
export function Health({ health }) {
  const { severity, sentence: says, remedy, findings, more } = health;
  const others = findings.slice(1);
  return html`<div class="banner ${severity}" role="status" data-test="health">
    <p><strong>${says}</strong></p>
    ${remedy && html`<p data-test="remedy">${sentence(remedy)}${findings[0] && html` <${Where} of=${findings[0]} />`}</p>`}
    ${others.length > 0 && html`<details open=${others.length < 4}><summary>${others.length + more} more</summary>
      <ul>${others.map((one) => html`<li class=${one.severity}><span>${one.sentence}</span> <span class="soft">${sentence(one.remedy)}</span> <${Where} of=${one} /></li>`)}
      ${more > 0 && html`<li>${more} more are not shown.</li>`}</ul></details>`}
  </div>`;
}

/// Figures in a row: each a name, a value, and what more there is to say.
export const Facts = ({ facts }) =>
  html`<dl class="facts">${facts
    .filter(Boolean)
    .map(([name, value, more]) => html`<div><dt>${name}</dt><dd>${value}</dd>${more && html`<dd class="more">${more}</dd>`}</div>`)}</dl>`;

/// A box with a heading.
export const Panel = ({ title, note, wide, children }) =>
  html`<section class="panel ${wide ? "wide" : ""}"><h2>${title}</h2>${note && html`<p class="note">${note}</p>`}${children}</section>`;

/// Parts of a whole, side by side: each a name, a number and its text.
export function Parts({ parts, whole }) {
  const sum = whole || parts.reduce((all, [, value]) => all + value, 0);
  if (!(sum > 0)) return html`<${Nothing}>Nothing yet.<//>`;
  const shown = parts.map(([name, value, text], at) => [name, value, text, at]).filter(([, value]) => value > 0);
  let from = 0;
  return html`<svg class="parts" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label=${shown.map(([name, value]) => `${name} ${percent(value / sum)}`).join(", ")}>
      ${shown.map(([, value, , at]) => {
        const width = (1000 * value) / sum;
        const x = from;
        from += width;
        return html`<rect class="c${at % 8}" x=${x} y="0" width=${width} height="14" />`;
      })}</svg>
    <ul class="legend">${shown.map(([name, value, text, at]) => html`<li><svg viewBox="0 0 10 10"><rect class="c${at % 8}" width="10" height="10" rx="2" /></svg>
      <span>${name}</span> <b>${text}</b> <span class="soft">${percent(value / sum)}</span></li>`)}</ul>`;
}

/// A table. A column is a heading, a cell of a row, and what it sorts by; numbers stand right.
export function Table({ columns, rows, sort, sorted, caption, name }) {
  return html`<div class="scroll" tabindex="0"><table data-test=${name}>
    ${caption && html`<caption>${caption}</caption>`}
    <thead><tr>${columns.map(
      ({ head, key, text, title }) => html`<th class=${text ? "word" : ""} title=${title} aria-sort=${key && key === sort ? "descending" : undefined}>
        ${key && sorted ? html`<a href=${sorted(key)} class=${key === sort ? "sorted" : ""}>${head}</a>` : head}</th>`,
    )}</tr></thead>
    <tbody>${rows.map((row) => html`<tr class=${row.trouble ? "trouble" : ""}>${columns.map(({ cell, text }, at) =>
      at === 0 ? html`<th scope="row" class="word">${cell(row)}</th>` : html`<td class=${text ? "word" : ""}>${cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/// A search, and the way to the next page.
export function Pages({ view, asked, total, shown, next, things }) {
  const search = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("search");
    location.hash = link(view, "", { ...asked, search: text, after: "" });
  };
  return html`<div class="pages"><form role="search" onSubmit=${search}>
      <input name="search" type="search" data-test="search" value=${asked.search || ""} placeholder="Search names ( / )" aria-label="Search names" />
      <button type="submit">Search</button></form>
    <p data-test="total">${shown} of ${total} ${things}</p>
    <nav aria-label="Pages">${asked.after && html`<a href=${link(view, "", { ...asked, after: "" })}>First page</a>`}
      ${next && html`<a data-test="next" href=${link(view, "", { ...asked, after: next })}>Next page</a>`}</nav></div>`;
}
