// The frame around the views: navigation, the view of the address, keys.
import { html, render, useEffect, useState, useErrorBoundary } from "./vendor/htm-preact.js";
import { link, route, useData } from "./data.js";
import { Problem } from "./parts.js";
import { SignedIn } from "./change.js";
import { Overview } from "./views/overview.js";
import { Host } from "./views/host.js";
import { Vms } from "./views/vms.js";
import { Vm } from "./views/vm.js";
import { Images } from "./views/images.js";
import { WriteBack } from "./views/write-back.js";
import { Events } from "./views/events.js";
import { Fleet } from "./views/fleet.js";

const VIEWS = [
  ["overview", "Overview", Overview],
  ["host", "Host", Host],
  ["vms", "VMs", Vms],
  ["images", "Base images", Images],
  ["write-back", "Write-back", WriteBack],
  ["events", "Events", Events],
  ["fleet", "Fleet", Fleet],
];

function Frame() {
  const [hash, setHash] = useState(location.hash);
  const [failed, reset] = useErrorBoundary((error) => console.error(error));
  const [overview, silence] = useData("/v1/overview");
  const has_fleet = Boolean(overview && overview.cluster);
  useEffect(() => {
    const follow = () => {
      reset();
      setHash(location.hash);
      window.scrollTo(0, 0);
    };
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  const { view, name, asked } = route(hash);
  const shown = VIEWS.filter(([key]) => key !== "fleet" || has_fleet);
  useEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
      const chosen = shown[Number(event.key) - 1];
      const search = document.querySelector("input[type=search]");
      if (chosen) location.hash = link(chosen[0]);
      if (event.key === "/" && search) {
        event.preventDefault();
        search.focus();
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [has_fleet]);
  const [, title, Shown] = view === "vm" ? ["vm", name, Vm] : VIEWS.find(([key]) => key === view) || VIEWS[0];
  useEffect(() => {
    document.title = `${title} · Hearth`;
  }, [title]);
  const is_current = (key) => key === view || (key === "vms" && view === "vm");
  return html`<a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById("content").focus(); }}>To the content</a>
    <header><a class="brand" href="#/overview">Hearth</a>
      <nav aria-label="Views">${shown.map(([key, words], at) => html`<a href=${link(key)} data-test="to-${key}" title="Key ${at + 1}" aria-current=${is_current(key) ? "page" : undefined}>${words}</a>`)}</nav><${SignedIn} /></header>
    <main id="content" tabindex="-1">
      ${silence && html`<${Problem} problem=${silence} />`}
      ${view !== "overview" && overview && overview.health.severity === "problem" && html`<p class="banner problem"><a href="#/overview">${overview.health.sentence}</a></p>`}
      ${failed ? html`<${Problem} problem=${{ detail: "This view cannot be drawn.", remedy: "load the page again; if that does not help, tell the makers what the browser's console says" }} />` : html`<${Shown} key=${view + name} name=${name} asked=${asked} overview=${overview} />`}
    </main>`;
}

render(html`<${Frame} />`, document.getElementById("page"));
