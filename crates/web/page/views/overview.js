// Overview: how the host is, in a sentence, and what the cache is worth.
import { html } from "../vendor/htm-preact.js";
import { useData } from "../data.js";
import { Facts, Health, View } from "../parts.js";
import { Chart } from "../chart.js";
import { blocks, bytes, counted, p50, p99, percent, seconds } from "../format.js";

function facts({ reads, latency, dirty, flash, disks, vms, images, uptime_seconds }) {
  const saved = reads.bytes > 0 ? Math.max(0, 1 - reads.origin_bytes / reads.bytes) : null;
  const hits = reads.blocks > 0 ? reads.found_blocks / reads.blocks : null;
  const { guest_read: guest, origin_read: origin } = latency;
  return [
    ["Origin reads saved", percent(saved), `${bytes(reads.bytes)} read, ${bytes(reads.origin_bytes)} from origins`],
    ["Hits of reads", percent(hits), "found on flash or in memory"],
    ["Guests' reads", p50(guest), `99 % within ${p99(guest)}`],
    ["Origins' reads", p50(origin), `99 % within ${p99(origin)}`],
    ["Waiting for origins", bytes(dirty.bytes), dirty.oldest_seconds === null ? `${counted(dirty.disks, "disk")} under write-back` : `the oldest for ${seconds(dirty.oldest_seconds)}`],
    ["Written to flash in a day", bytes(flash.written_day_bytes), flash.budget_day_bytes === null ? "no budget is set" : `${percent(flash.written_day_bytes / flash.budget_day_bytes)} of ${bytes(flash.budget_day_bytes)}`],
    ["On flash", blocks(flash.cached_blocks), `${percent(flash.blocks_max > 0 ? flash.cached_blocks / flash.blocks_max : null)} of ${blocks(flash.blocks_max)}`],
    ["Serving", counted(disks, "disk"), `${counted(vms, "VM")}, ${counted(images, "base image")}, up ${seconds(uptime_seconds)}`],
  ];
}

export function Overview({ overview: seen }) {
  const [history] = useData("/v1/history");
  return html`<${View} title="Overview" command="hearth overview">
    ${seen && html`<${Health} health=${seen.health} /><${Facts} facts=${facts(seen)} />`}
    <div class="charts">
      <${Chart} title="Reads" note="What guests read, and what origins had to send." history=${history} lines=${[["guests", "guest_read_bytes_per_second"], ["origins", "origin_read_bytes_per_second"]]} />
      <${Chart} title="Latency of reads" note="99 in 100 took at most this long." history=${history} lines=${[["guests", "guest_read_p99_seconds"], ["origins", "origin_read_p99_seconds"]]} />
      <${Chart} title="Hits" note="Part of the blocks read that was on flash or in memory." history=${history} lines=${[["hits", "hit_ratio"]]} />
      <${Chart} title="Waiting for origins" note="Bytes that origins lack under write-back." history=${history} lines=${[["dirty", "dirty_bytes"]]} />
      <${Chart} title="Written to flash" history=${history} lines=${[["written", "flash_written_bytes_per_second"]]} />
      <${Chart} title="On flash" history=${history} lines=${[["cached", "cached_bytes"]]} />
    </div><//>`;
}
