// Host: the drives under the caches, and what is wrong with them.
import { html } from "../vendor/htm-preact.js";
import { useData } from "../data.js";
import { Facts } from "../parts.js";
import { bytes, count } from "../format.js";

const part = (value) => (value === null || value === undefined ? "not known" : `${value} %`);

function writeCache({ kind, has_volatile_cache: isVolatile }) {
  if (kind === "virtual") return ["of its host", "a virtual disk says nothing of the flash below"];
  if (isVolatile === null) return ["not known"];
  return isVolatile ? ["volatile", "the kernel flushes it"] : ["safe", "none, or protected against power loss"];
}

function Drive({ cache, drive }) {
  const { smart, concerns } = drive;
  const known = smart.state === "known";
  return html`<h3>${drive.device} under ${cache.cache}</h3>
    ${concerns.map((one) => html`<div class="banner warning" key=${one.code}><p>${one.found}</p><p>${one.remedy}</p></div>`)}
    <${Facts} facts=${[
      ["Write cache", ...writeCache(drive)],
      ...(known ? [
        ["Endurance used", part(smart.used_percent)],
        ["Spare blocks", part(smart.spare_percent), `too few below ${part(smart.spare_threshold_percent)}`],
        ["Media errors", count(smart.media_errors), `${count(smart.unsafe_shutdowns)} unsafe shutdowns`],
        ["Written by hosts", bytes(smart.written_bytes)],
      ] : [["Health", "not known", smart.remedy ? `${smart.reason}: ${smart.remedy}` : smart.reason]]),
    ]} />`;
}

export function Drives() {
  const [known] = useData("/v1/drives");
  if (!known || known.age_seconds === null) return html`<p>The daemon has not looked at its drives yet.</p>`;
  return html`<div data-test="drives">${known.caches.map((cache) => cache.no_drive
    ? html`<p key=${cache.cache}>${cache.cache}: ${cache.no_drive}</p>`
    : cache.drives.map((drive) => html`<${Drive} key=${cache.cache + drive.device} cache=${cache} drive=${drive} />`))}</div>`;
}
