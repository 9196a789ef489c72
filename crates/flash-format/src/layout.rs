//! The tables of offsets in the book, rendered from the structs themselves.

use crate::page::HEADER_BYTES;
use std::fmt::Write as _;

/// A table of a struct's fields: offset within the page, bytes, field.
macro_rules! rows {
    ($out:expr, $base:expr, $type:ty, $($field:ident),+) => {
        $({
            let offset = $base + std::mem::offset_of!($type, $field);
            let size = size_of_field(|value: &$type| &raw const value.$field);
            writeln!($out, "| {offset} | {size} | `{}` |", stringify!($field)).expect("writing to a string");
        })+
    };
}

fn size_of_field<T, F>(_field: impl Fn(&T) -> *const F) -> usize {
    size_of::<F>()
}

fn title(out: &mut String, text: &str) {
    write!(
        out,
        "\n**{text}**\n\n| offset | bytes | field |\n|---:|---:|---|\n"
    )
    .expect("writing to a string");
}

/// Every table, as it stands in the book between the marks.
#[allow(clippy::too_many_lines, reason = "one table after the other")]
fn tables() -> String {
    let mut out = String::new();
    title(&mut out, "Header of every page");
    rows!(
        out,
        0,
        crate::page::Header,
        magic,
        uuid,
        sequence,
        place,
        part,
        count,
        extra,
        more,
        crc
    );
    title(&mut out, "Superblock, behind the header");
    rows!(
        out,
        HEADER_BYTES,
        crate::superblock::Body,
        version,
        block_bytes,
        capacity,
        segment_bytes,
        segment_count,
        incarnation,
        checkpoint,
        replay_from,
        clean_end,
        checkpoint_area,
        clean
    );
    title(&mut out, "Journal entry: 252 behind the header");
    rows!(out, 0, crate::journal::Raw, kind, zero, disk, low, high);
    title(&mut out, "Disk table entry: 31 behind the header");
    rows!(
        out,
        0,
        crate::checkpoint::RawDisk,
        id,
        fingerprint,
        size,
        used,
        has_fingerprint,
        name_length,
        name,
        logged_generation,
        logged_page,
        logged_erasure,
        epoch,
        destaged_generation,
        destaged_page,
        destaged_erasure,
        in_doubt,
        zero,
        key
    );
    title(
        &mut out,
        "Segment table entry: a bit for each page of the segment follows",
    );
    rows!(
        out,
        0,
        crate::checkpoint::RawSegment,
        generation,
        disk,
        used,
        cut,
        zero
    );
    title(
        &mut out,
        "Descriptor: up to 252 behind the header of a chunk or footer page",
    );
    rows!(out, 0, crate::segment::Raw, block, checksum, page, zero);
    title(&mut out, "Header of a dirty chunk, behind the header");
    rows!(
        out,
        HEADER_BYTES,
        crate::dirty::RawHeader,
        id,
        size,
        epoch,
        follows_generation,
        durable_generation,
        follows_page,
        follows_erasure,
        durable_page,
        durable_erasure,
        begins_interval,
        zero
    );
    title(&mut out, "Record of a dirty chunk: up to 248 behind that");
    rows!(out, 0, crate::dirty::Raw, block, low, page, kind, zero);
    out
}

#[test]
fn the_book_has_the_layout_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/format.md");
    let book = std::fs::read_to_string(path).expect("the book is there");
    let (_, rest) = book
        .split_once("<!-- layout -->\n")
        .expect("the mark where the tables begin");
    let (found, _) = rest
        .split_once("<!-- end of layout -->")
        .expect("the mark where the tables end");
    assert_eq!(
        found.trim(),
        tables().trim(),
        "put these tables into book/src/format.md:\n{}",
        tables()
    );
}
