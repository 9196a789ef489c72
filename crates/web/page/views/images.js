// Base images: each is cached once, and read by many VMs.
import { html } from "../vendor/htm-preact.js";
import { link, useData } from "../data.js";
import { Command, Facts, Nothing, Table, View } from "../parts.js";
import { blocks, bytes, count, percent } from "../format.js";

const READERS_MAX = 100;

const COLUMNS = [
  { head: "VM", text: true, cell: (row) => html`<a href=${link("vm", row.vm)}>${row.vm}</a>` },
  { head: "Read", cell: (row) => bytes(row.read_bytes) },
  { head: "Hits", cell: (row) => percent(row.read_block_hits + row.read_block_misses > 0 ? row.read_block_hits / (row.read_block_hits + row.read_block_misses) : null) },
  { head: "Different blocks", cell: (row) => blocks(row.seen_blocks) },
  { head: "Brought by other VMs", cell: (row) => blocks(row.saved_blocks) },
];

function Image({ image }) {
  const { counters } = image;
  const read = counters.read_block_hits + counters.read_block_misses;
  const readers = image.readers.toSorted((a, b) => b.read_bytes - a.read_bytes);
  return html`<h2 class="part" data-test="image">${image.name}</h2><${Command} line=${`hearth vm show ${image.name}`} />
    <${Facts} facts=${[
      ["On flash, once", blocks(image.cached_blocks), `cache ${image.cache}`],
      ["Saved by sharing", blocks(image.saved_blocks), "origin reads, from a sample"],
      ["Hits", percent(read > 0 ? counters.read_block_hits / read : null), `${count(counters.read_requests)} reads`],
      ["VMs", count(readers.length), "may read it"],
    ]} />
    ${readers.length > 0 ? html`<${Table} name="readers" columns=${COLUMNS} rows=${readers.slice(0, READERS_MAX)} />` : html`<${Nothing}>No VM may read it yet: hearth vm set NAME --image ${image.name}.<//>`}
    ${readers.length > READERS_MAX && html`<p class="note">${readers.length - READERS_MAX} more VMs have read less.</p>`}`;
}

export function Images() {
  const [seen, problem] = useData("/v1/images");
  return html`<${View} title="Base images" command="hearth vm list" problem=${problem}>
    ${seen && seen.images.map((image) => html`<${Image} key=${image.name} image=${image} />`)}
    ${seen && seen.images.length === 0 && html`<${Nothing}>There is no base image. A disk with shared = true is one: many VMs read it, and it is cached once.<//>`}<//>`;
}
