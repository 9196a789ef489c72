// Fleet: the hosts of the cluster, and which disk is where.
import { html } from "../vendor/htm-preact.js";
import { query, useData } from "../data.js";
import { Facts, Nothing, Pages, Table, View, Problem } from "../parts.js";
import { bytes, count, seconds } from "../format.js";

const HOSTS = [
  { head: "Host", text: true, cell: (host) => host.name },
  { head: "Version", text: true, cell: (host) => host.version },
  { head: "Flash", cell: (host) => bytes(host.flash_bytes) },
  { head: "Disks", cell: (host) => count(host.disks) },
];

const DISKS = [
  { head: "Disk", text: true, cell: (disk) => disk.name },
  { head: "VM", text: true, cell: (disk) => disk.vm },
  { head: "Is at", text: true, cell: (disk) => disk.host || "no host" },
  { head: "May go to", text: true, cell: (disk) => disk.may_go_to || "" },
  { head: "Origin lacks bytes", text: true, cell: (disk) => (disk.origin_lacks ? "perhaps" : "no") },
];

export function Fleet({ asked }) {
  const now = { search: asked.get("search"), after: asked.get("after") };
  const [seen, problem] = useData(query("/v1/fleet", { ...now, limit: 100 }));
  if (!seen) return html`<${View} title="Fleet" command="hearth cluster status" problem=${problem} />`;
  const { store } = seen;
  return html`<${View} title="Fleet" command="hearth cluster status" problem=${problem} note=${`Cluster ${seen.cluster}, as ${seen.here} sees it in the store.`}>
    ${!store.answers && html`<${Problem} problem=${{ detail: `The store does not answer: ${store.problem}`, remedy: store.remedy }} />`}
    <${Facts} facts=${[["Hosts", count(seen.hosts.length)], ["Disks", count(seen.total)], ["Seen", store.age_seconds === null ? "never" : store.age_seconds < 1 ? "now" : `${seconds(store.age_seconds)} ago`, `store: ${store.kind}`]]} />
    <${Table} name="hosts" columns=${HOSTS} rows=${seen.hosts.slice(0, 100)} />
    <h2 class="part">Disks</h2>
    <${Pages} view="fleet" asked=${now} total=${seen.total} shown=${seen.rows.length} next=${seen.next} things="disks" />
    ${seen.rows.length > 0 ? html`<${Table} name="fleet" columns=${DISKS} rows=${seen.rows} />` : html`<${Nothing}>No disk of the cluster has this in its name, its VM's or its host's.<//>`}<//>`;
}
