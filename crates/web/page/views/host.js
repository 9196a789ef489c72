// Host: each cache, its flash and its origins; what the host's processors and memory do.
import { html } from "../vendor/htm-preact.js";
import { useData } from "../data.js";
import { Change } from "../change.js";
import { Drives } from "./drives.js";
import { Facts, Nothing, Panel, Parts, View } from "../parts.js";
import { Chart, Times } from "../chart.js";
import { blocks, bytes, count, counted, moment, percent, seconds, word } from "../format.js";

const sum = (of) => Object.values(of).reduce((all, value) => all + value, 0);

function damage(found) {
  const parts = [[found.damaged_clean_blocks, "damaged that origins have"], [found.damaged_dirty_blocks, "DAMAGED THAT NO ORIGIN HAS"], [found.damaged_lists, "damaged lists"]].filter(([number]) => number > 0);
  return parts.length > 0 ? parts.map(([number, what]) => `${count(number)} ${what}`).join(", ") : "no damage";
}

function scrubbed({ pass, last, last_whole_pass: ended }) {
  if (pass) return [percent(pass.segments > 0 ? pass.segment / pass.segments : null), `under way at ${bytes(pass.rate)} a second: ${damage(pass.found)}`];
  return ended ? [moment(ended), `the last one ended: ${counted(last.blocks, "block")}, ${damage(last)}`] : ["never"];
}

function CacheChanges({ name, pass }) {
  const path = `/v1/caches/${encodeURIComponent(name)}/scrub`;
  const of = word(name);
  return html`<details class="changes" data-test="changes-cache-${name}"><summary>Change</summary>
    <${Change} name="scrub" title="Scrub ${name}" command=${`hearth cache scrub ${of}`} done="the flash is read and verified" request=${{ method: "POST", path, body: {} }} />
    ${pass && html`<${Change} name="stop-scrub" title="End the scrub of ${name}" command=${`hearth cache scrub ${of} --stop`} done="no scrub is under way" request=${{ method: "DELETE", path }} />`}</details>`;
}

function Cache({ cache }) {
  const { policy, segments, flash_written_bytes: written, refused_blocks: refused } = cache;
  const budget = policy && policy.write_budget;
  return html`<h2 class="part">Cache ${cache.name}</h2>
    ${cache.reason && html`<div class="banner warning"><p>${cache.reason}</p></div>`}
    <${Facts} facts=${[
      ["State", cache.state, cache.path],
      ["Load", percent(policy ? policy.load : null), "what VMs want, of what there is"],
      ["On flash", blocks(cache.cached_blocks), `${percent(cache.blocks_max > 0 ? cache.cached_blocks / cache.blocks_max : null)} of ${blocks(cache.blocks_max)}`],
      ["Written in a day", bytes(policy ? policy.flash_written_day_bytes : null), budget ? `budget ${bytes(budget.bytes_per_day)}, ${bytes(budget.left_bytes)} left now` : "no budget is set"],
      ["Flash errors", count(cache.flash_errors), `${count(cache.checksum_errors)} wrong checksums, ${count(cache.flash_timeouts)} too slow`],
      ["Memory", bytes(cache.memory_bytes), `${bytes(cache.waiting_bytes)} wait for flash`],
      ["Scrub", ...scrubbed(cache.scrub)],
    ]} />
    <${CacheChanges} name=${cache.name} pass=${cache.scrub.pass} />
    <div class="panels">
      <${Panel} title="Segments" note="What the flash is divided into.">
        <${Parts} parts=${[["full", segments.closed, count(segments.closed)], ["being filled", segments.open, count(segments.open)], ["being emptied", segments.reclaiming, count(segments.reclaiming)], ["free", segments.free, count(segments.free)]]} /><//>
      <${Panel} title="Written to flash, by cause" note="Wear of the flash, since the daemon's start: ${bytes(sum(written))}.">
        <${Parts} parts=${Object.entries(written).map(([cause, value]) => [cause, value, bytes(value)])} /><//>
      <${Panel} title="Flash" note="Part of the operations that took at most so long.">
        <${Times} distributions=${[["reads", cache.flash_latency.read], ["writes", cache.flash_latency.write]]} /><//>
      <${Panel} title="Guests and origins" note="Part of the reads that took at most so long.">
        <${Times} distributions=${[["guests", cache.request_latency.guest_read], ["origins", cache.request_latency.origin_read]]} /><//>
      ${sum(refused) > 0 && html`<${Panel} title="Fetched and not kept" note="Blocks, by reason."><${Parts} parts=${Object.entries(refused).map(([reason, value]) => [reason.replaceAll("_", " "), value, count(value)])} /><//>`}
    </div>`;
}

function Machine() {
  const [resources] = useData("/v1/resources");
  const last = resources && resources.samples.at(-1);
  if (!last) return html`<${Nothing}>Nobody says what the host's processors and memory do. Start hearth-monitor.service.<//>`;
  const { host, vms } = last;
  return html`<${Facts} facts=${[
    ["Processors", percent(host.cpu_share), `over ${seconds(last.seconds)}`],
    ["Memory", percent(host.memory_share), host.memory_bytes ? bytes(host.memory_bytes) : undefined],
    ["VMs with processes", count(vms.length)],
  ]} />`;
}

export function Host() {
  const [status, problem] = useData("/v1/status");
  const [history] = useData("/v1/history");
  return html`<${View} title="Host" command="hearth status" problem=${problem}
      note=${status && `hearth ${status.version}, process ${status.pid}, up ${seconds(status.uptime_seconds)}: ${counted(status.disks, "disk")}, ${status.nbd_connections} NBD and ${status.vhost_user_connections} vhost-user connections.`}>
    ${status && status.caches.map((cache) => html`<${Cache} key=${cache.name} cache=${cache} />`)}
    ${status && status.caches.length === 0 && html`<${Nothing}>No cache is configured.<//>`}
    <h2 class="part">Drives</h2><${Drives} />
    <h2 class="part">The last day</h2>
    <div class="charts">
      <${Chart} title="Load" note="What VMs want of the flash; above 100 % the host is overloaded." history=${history} lines=${[["load", "load_ratio"]]} />
      <${Chart} title="Latency of reads" note="99 in 100 took at most this long." history=${history} lines=${[["flash", "flash_read_p99_seconds"], ["origins", "origin_read_p99_seconds"]]} />
    </div>
    <h2 class="part">Processors and memory</h2><${Machine} /><//>`;
}
