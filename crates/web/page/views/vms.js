// VMs: a row each, the worst first.
import { html } from "../vendor/htm-preact.js";
import { link, query, useData } from "../data.js";
import { Nothing, Pages, Table, View } from "../parts.js";
import { blocks, bytes, count, p50, p99, percent } from "../format.js";

const COLUMNS = [
  { head: "VM", key: "name", text: true, cell: (row) => html`<a href=${link("vm", row.name)}>${row.name}</a>` },
  { head: "Reads p99", key: "p99", cell: (row) => p99(row.read), title: "99 in 100 reads took at most this long since the disks were attached" },
  { head: "p50", cell: (row) => p50(row.read) },
  { head: "Origins p99", cell: (row) => p99(row.origin_read) },
  { head: "Hits", key: "hits", cell: (row) => percent(row.hit_ratio), title: "Part of the blocks read that was on flash or in memory; the fewest first" },
  { head: "Reads", key: "reads", cell: (row) => count(row.read_requests) },
  { head: "Writes", cell: (row) => count(row.write_requests) },
  { head: "Waits for origin", key: "dirty", cell: (row) => (row.dirty_bytes > 0 ? bytes(row.dirty_bytes) : "") },
  { head: "On flash", key: "flash", cell: (row) => blocks(row.cached_blocks) },
  { head: "Disks", cell: (row) => row.disks },
  { head: "Trouble", key: "worst", text: true, cell: (row) => row.trouble || "" },
];

export function Vms({ asked }) {
  const sort = asked.get("sort") || "worst";
  const now = { sort, search: asked.get("search"), after: asked.get("after") };
  const [seen, problem] = useData(query("/v1/host/vms", { ...now, limit: 100 }));
  return html`<${View} title="VMs" command="hearth vm list" problem=${problem} note="Since their disks were attached. Columns sort, the worst first.">
    ${seen && html`<${Pages} view="vms" asked=${now} total=${seen.total} shown=${seen.rows.length} next=${seen.next} things="VMs" />
      ${seen.rows.length > 0
        ? html`<${Table} name="vms" columns=${COLUMNS} rows=${seen.rows} sort=${sort} sorted=${(key) => link("vms", "", { ...now, sort: key, after: "" })} />`
        : html`<${Nothing}>${now.search ? "No VM has this in its name." : "No VM has a disk here yet: hearth disk attach NAME --origin ADDRESS."}<//>`}`}<//>`;
}
