//! Meta's block traces of Tectonic, as `CacheLib` publishes them: csv with a header.
//!
//! `op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,host_name,
//! rs_shard_id`: seconds, a name, bytes. `getChunkData` is a read, `putChunk` a write; `op_count` of them
//! happened in that second. Blocks are objects of some MiB, so each gets an address range of 1 GiB of one
//! volume, in order of first appearance.

use units::{Bytes, Map, Offset};

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::lines::{Comma, Fields, Line, Lines};
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "tectonic",
    about: "Meta Tectonic block csv (CacheLib), with its header",
    hints: &["meta", "tectonic"],
    recognise: |sample: &Sample<'_>| {
        let first = sample.lines().next().unwrap_or_default();
        first
            .starts_with(HEADER)
            .then(|| Guess::new(Strength::Certain, "its header"))
    },
    open: |input, options| Ok(stream(input, Lines::new(Tectonic::default()), options)),
};

/// The columns that are used; newer files have more.
const HEADER: &[u8] =
    b"op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count";

/// The address range of a block; they have about 8 MiB.
const BLOCK_RANGE: Bytes = Bytes::gib(1);

/// Operations of one line; a second has not more of one block.
const OP_COUNT_MAX: u64 = 10_000;

#[derive(Default)]
struct Tectonic {
    blocks: Map<Box<[u8]>, u64>,
}

impl Line for Tectonic {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.is_empty() || line.starts_with(HEADER) {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let time_us = scaled("op_time", fields.number("op_time")?, 1_000_000)?.get();
        let block = fields.text();
        fields.text();
        let length = Bytes::new(fields.number("io_size")?);
        let within = Bytes::new(fields.number("io_offset")?);
        fields.text();
        fields.text();
        let op = op(fields.text())?;
        let count = fields.number("op_count")?;
        if count > OP_COUNT_MAX {
            let found = count.to_string();
            return Err(Wrong::found("op_count", found, "at most 10000 in a second"));
        }
        let end = within.checked_add(length);
        if end.is_none_or(|end| end > BLOCK_RANGE) {
            let found = within.to_string();
            return Err(Wrong::found(
                "io_offset",
                found,
                "a range below 1GiB of the block",
            ));
        }
        let offset = Offset::new(self.number_of(block) * BLOCK_RANGE.get()) + within;
        let volume = out.only_volume();
        for _ in 0..count {
            out.push(Record::new(time_us, volume, op, offset, length))?;
        }
        Ok(())
    }
}

impl Tectonic {
    fn number_of(&mut self, block: &[u8]) -> u64 {
        let next = self.blocks.len() as u64;
        match self.blocks.get(block) {
            Some(&number) => number,
            None => *self.blocks.entry(block.into()).or_insert(next),
        }
    }
}

fn op(name: &[u8]) -> Result<Op, Wrong> {
    if name.starts_with(b"getChunk") {
        Ok(Op::Read)
    } else if name.starts_with(b"putChunk") {
        Ok(Op::Write)
    } else {
        Err(Wrong::field(
            "op_name",
            name,
            "getChunkData... or putChunk...",
        ))
    }
}
