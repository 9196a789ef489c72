// VM: where its reads were found, how long they took, what it has of the flash, and why blocks were refused.
import { html } from "../vendor/htm-preact.js";
import { useData, link } from "../data.js";
import { Facts, Nothing, Panel, Parts, Problem, Table, View } from "../parts.js";
import { Curve, Times } from "../chart.js";
import { Change, ChangeOf } from "../change.js";
import { blocks, bytes, count, percent, rate, word } from "../format.js";

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

/// What a disk's guests may ask in a second.
function limits({ iops, bytes_per_second: bytes_max }) {
  const both = [iops && `${iops} requests/s`, bytes_max && rate(bytes_max)].filter(Boolean);
  return both.length > 0 ? both.join(", ") : "none";
}

function DiskChanges({ disk }) {
  const { name } = disk;
  const path = `/v1/disks/${encodeURIComponent(name)}`;
  const of = word(name);
  return html`<details class="changes" data-test="changes-${name}"><summary>Change</summary>
    <${ChangeOf} name="limits" title="Limits of ${name}" done="the limits hold" fields=${[["iops", "Requests a second", disk.limits.iops ?? "none"], ["bytes_per_second", "Bytes a second", disk.limits.bytes_per_second ? bytes(disk.limits.bytes_per_second).replace(" ", "") : "none"]]}
      command=${({ iops, bytes_per_second: bytes_max }) => `hearth disk set ${of}${iops ? ` --iops ${word(iops)}` : ""}${bytes_max ? ` --bytes-per-second ${word(bytes_max)}` : ""}`}
      request=${(filled) => ({ method: "PATCH", path, body: { limits: filled } })} />
    <${Change} name="flush" title="Flush ${name}" command=${`hearth disk flush ${of} --wait`} done="the origin has every write that was answered" request=${{ method: "POST", path: `${path}/flush?wait=true` }} />
    <${Change} name="barrier" title="Barrier of ${name}" command=${`hearth disk barrier ${of}`} done="the origin is consistent as of now" request=${{ method: "POST", path: `${path}/barrier` }} />
    <${Change} name="reset" title="Settings of ${name}" command=${`hearth disk set ${of} --reset`} done="the configuration file's word holds again" request=${{ method: "DELETE", path: `${path}/settings` }} />
    <${Change} name="drop" title="Drop what is cached of ${name}" command=${`hearth disk drop ${of}`} typed=${name} loses="What is cached of the disk is lost, and read from the origin again. No write is lost." done="nothing is cached of the disk" request=${{ method: "POST", path: `${path}/drop` }} /></details>`;
}

function VmChanges({ vm }) {
  const path = `/v1/vms/${encodeURIComponent(vm.name)}`;
  return html`<details class="changes" data-test="changes-vm"><summary>Change</summary>
    <${ChangeOf} name="weight" title="Weight of ${vm.name}" done="the weight holds" fields=${[["weight", "Weight, 1 to 10000", vm.settings.weight]]}
      command=${({ weight }) => `hearth vm set ${word(vm.name)} --weight ${word(weight)}`}
      request=${({ weight }) => ({ method: "PATCH", path, body: { weight: Number(weight) } })} />
    <${Change} name="vm-reset" title="Settings of ${vm.name}" command=${`hearth vm set ${word(vm.name)} --reset`} done="the configuration file's word holds again" request=${{ method: "DELETE", path: `${path}/settings` }} /></details>`;
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
      ["Limits", limits(disk.limits), disk.limits.throttled_requests > 0 ? `${count(disk.limits.throttled_requests)} requests have waited` : undefined],
      back && ["Waits for the origin", bytes(back.dirty_bytes), `the transfer is ${back.state}`],
      ["Errors", count(counters.failed_requests), `${count(counters.origin_errors)} of the origin`],
    ]} />
    <p class="note">Origin: <code data-test="origin">${disk.origin}</code></p>
    <${DiskChanges} disk=${disk} />
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
    <p class="note"><a href=${link("vms")}>All VMs</a> · weight <span data-test="weight-now">${vm.settings.weight}</span></p>
    <${VmChanges} vm=${vm} />
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
