// Write-back: what origins lack, how old it is, and how it gets there.
import { html } from "../vendor/htm-preact.js";
import { link, query, useData } from "../data.js";
import { Facts, Nothing, Pages, Table, View } from "../parts.js";
import { Chart } from "../chart.js";
import { bytes, count, percent, seconds } from "../format.js";

const COLUMNS = [
  { head: "Disk", key: "name", text: true, cell: (row) => row.name },
  { head: "VM", text: true, cell: (row) => html`<a href=${link("vm", row.vm)}>${row.vm}</a>` },
  { head: "Transfer", text: true, cell: (row) => row.destage },
  { head: "Waits", key: "dirty", cell: (row) => bytes(row.dirty_bytes) },
  { head: "Oldest", key: "age", cell: (row) => seconds(row.oldest_seconds) },
  { head: "Log full", cell: (row) => percent(row.log_bytes_max > 0 ? row.log_bytes / row.log_bytes_max : null), title: "Writes wait when the dirty log is full" },
  { head: "Has reached origin", cell: (row) => bytes(row.destaged_bytes) },
  { head: "Writes that waited", cell: (row) => count(row.stalled_writes) },
  { head: "Trouble", key: "worst", text: true, cell: (row) => row.trouble || "" },
];

export function WriteBack({ asked, overview }) {
  const sort = asked.get("sort") || "worst";
  const now = { sort, search: asked.get("search"), after: asked.get("after") };
  const [seen, problem] = useData(query("/v1/host/disks", { ...now, back: true, limit: 100 }));
  const [history] = useData("/v1/history");
  const dirty = overview && overview.dirty;
  return html`<${View} title="Write-back" command="hearth disk list" problem=${problem} note="Writes that were answered and wait on flash for their origins.">
    ${dirty && html`<${Facts} facts=${[["Waiting for origins", bytes(dirty.bytes)], ["The oldest for", seconds(dirty.oldest_seconds)], ["Disks under write-back", count(dirty.disks)]]} />`}
    ${seen && html`<${Pages} view="write-back" asked=${now} total=${seen.total} shown=${seen.rows.length} next=${seen.next} things="disks" />
      ${seen.rows.length > 0
        ? html`<${Table} name="disks" columns=${COLUMNS} rows=${seen.rows} sort=${sort} sorted=${(key) => link("write-back", "", { ...now, sort: key, after: "" })} />`
        : html`<${Nothing}>No disk keeps writes from its origin. One with write_policy = "back" does.<//>`}`}
    <div class="charts"><${Chart} title="Waiting for origins" history=${history} lines=${[["dirty", "dirty_bytes"]]} />
      <${Chart} title="Age of the oldest" history=${history} lines=${[["age", "dirty_oldest_seconds"]]} /></div><//>`;
}
