// VM: where its reads were found, how long they took, what it has of the flash, and why blocks were refused.
import { html } from "../vendor/htm-preact.js";
import { useData, link } from "../data.js";
import { Facts, Nothing, Panel, Parts, Problem, Table, View } from "../parts.js";
import { Curve, Times } from "../chart.js";
import { blocks, bytes, count, percent } from "../format.js";

function hits(counters) {
  const in_memory = counters.read_block_staged_hits + counters.read_block_hot_hits + counters.read_block_ahead_hits;
  const parts = [
    ["on flash", counters.read_block_hits - in_memory],
    ["in memory, staged", counters.read_block_staged_hits],
    ["in memory, hot", counters.read_block_hot_hits],
    ["in memory, read ahead", counters.read_block_ahead_hits],
    ["from the origin", counters.read_block_misses],
  ];
  return parts.map(([name, value]) => [name, value, count(value)]);
}

function Share({ share }) {
  const { admission, blocks: became, curve, demand } = share;
  const refused = Object.entries(admission.refused_blocks).filter(([, value]) => value > 0);
  return html`<h2 class="part">Cache ${share.cache}</h2>
    ${share.error && html`<${Problem} problem=${{ detail: share.error, remedy: "change the settings until they agree: hearth vm set" }} />`}
    <${Facts} facts=${[
      ["Has", blocks(share.held_blocks), `share ${blocks(share.share_blocks)}, target ${blocks(share.target_blocks)}`],
      ["Uses again", blocks(demand.reused_blocks), `of ${blocks(demand.working_set_blocks)} used in the window`],
      ["Written in a day", bytes(share.flash_written_day_bytes), share.write_budget ? `budget ${bytes(share.write_budget.bytes_per_day)}` : "no budget of its own"],
      ["Evicted", blocks(became.evicted), "since it came to the cache"],
    ]} />
    <div class="panels">
      <${Panel} title="What a larger or smaller share would hit" note="Hit ratio of reads by size, from a sample: ${percent(curve.present_read_hit_ratio)} at its share, ${percent(curve.target_read_hit_ratio)} at its target.">
        <${Curve} points=${curve.points} marks=${[["share", share.share_blocks], ["target", share.target_blocks]]} /><//>
      <${Panel} title="Why blocks were refused" note="Blocks that were fetched and did not enter the flash; admission is ${admission.policy || "off"}.">
        ${refused.length > 0 ? html`<${Parts} parts=${refused.map(([reason, value]) => [reason.replaceAll("_", " "), value, count(value)])} />` : html`<${Nothing}>None was refused.<//>`}
        <${Parts} parts=${[["let in", admission.admitted_blocks, count(admission.admitted_blocks)], ["dropped from staging", admission.dropped_blocks, count(admission.dropped_blocks)], ["found no room", admission.withheld_blocks, count(admission.withheld_blocks)], ["refused", refused.reduce((all, [, value]) => all + value, 0), count(refused.reduce((all, [, value]) => all + value, 0))]]} /><//>
    </div>`;
}

function Disk({ name }) {
  const [disk, problem] = useData(`/v1/disks/${encodeURIComponent(name)}`);
  if (problem) return html`<${Problem} problem=${problem} />`;
  if (!disk) return null;
  const { latency, counters, write_back: back } = disk;
  return html`<h2 class="part" data-test="disk">Disk ${disk.name}</h2>
    ${disk.reason && html`<div class="banner warning" data-test="reason"><p>${disk.reason}</p></div>`}
    <${Facts} facts=${[
      ["State", disk.state, `${bytes(disk.size_bytes)}, ${disk.connections} connections`],
      ["Read", bytes(counters.read_bytes), `${bytes(counters.origin_read_bytes)} from the origin`],
      ["Written", bytes(counters.written_bytes), `write-${disk.write_policy}`],
      back && ["Waits for the origin", bytes(back.dirty_bytes), `the transfer is ${back.state}`],
      ["Errors", count(counters.failed_requests), `${count(counters.origin_errors)} of the origin`],
    ]} />
    <p class="note">Origin: <code data-test="origin">${disk.origin}</code></p>
    <div class="panels"><${Panel} title="Reads" note="Part of the reads that took at most so long."><${Times} distributions=${[["guest", latency.guest_read], ["origin", latency.origin_read]]} /><//>
      <${Panel} title="Writes" note="Part of the writes that took at most so long."><${Times} distributions=${[["guest", latency.guest_write], ["origin", latency.origin_write]]} /><//></div>`;
}

/// Disks of which a page shows everything.
const DISKS_MAX = 8;

export function Vm({ name }) {
  const [vm, problem] = useData(`/v1/vms/${encodeURIComponent(name)}`);
  if (!vm) return html`<${View} title=${`VM ${name}`} command=${undefined} problem=${problem} />`;
  const rest = vm.disks.length - DISKS_MAX;
  return html`<${View} title=${`VM ${vm.name}`} command=${`hearth vm show ${vm.name}`} problem=${problem}>
    <p class="note"><a href=${link("vms")}>All VMs</a></p>
    <div class="panels"><${Panel} title="Where its reads were found" note="Blocks since its disks were attached." wide=${true}><${Parts} parts=${hits(vm.counters)} /><//></div>
    ${vm.shares.map((share) => html`<${Share} key=${share.cache} share=${share} />`)}
    ${vm.disks.slice(0, DISKS_MAX).map((disk) => html`<${Disk} key=${disk} name=${disk} />`)}
    ${rest > 0 && html`<p class="note">${rest} more disks: hearth disk show NAME.</p>`}
    ${vm.images.length > 0 && html`<h2 class="part">Base images</h2><${Table} name="uses" rows=${vm.images} columns=${[
      { head: "Base image", text: true, cell: (use) => html`<a href=${link("images")}>${use.image}</a>` },
      { head: "Read", cell: (use) => bytes(use.read_bytes) },
      { head: "Blocks found", cell: (use) => count(use.read_block_hits) },
      { head: "Blocks fetched", cell: (use) => count(use.read_block_misses) },
      { head: "Saved by other VMs", cell: (use) => blocks(use.saved_blocks) },
    ]} />`}<//>`;
}
