//! oracleGeneral, libCacheSim's format with the next access of each object.
//!
//! ```text
//!  byte  0        4                12        16               24      little-endian, no padding
//!        │ time   │ object         │ size    │ next access    │
//!        │ u32, s │ u64            │ u32     │ i64, -1: none  │
//! ```
//!
//! A record is an access to a block. The object is the block's number on its volume, plus 2^36 times the
//! volume's place; the next access is the place, from 0, of the record that has the same object next. There
//! is no operation: reads and writes are both accesses; flushes, discards and write-zeroes are left out.
//!
//! The next access is known only when it comes, so there are two passes over the file: forward with the
//! block's key in the field's place, then backward, chunk by chunk, with the place of each key's next
//! access at hand (8 bytes a distinct block).
//!
//! Packed, the file has zstd's checksum and a seal (see [`crate::seal`]). The plain file has neither: the
//! format has no place for one.

use super::{Conversion, Output, Source, WriteError, Written, is_packed};
use crate::seal::{Form, Tallied};
use crate::splitter::{Batch, Splitter};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

const RECORD_BYTES: usize = 24;
/// Records that the backward pass holds at a time: 6 MiB.
const CHUNK_RECORDS: usize = 1 << 18;
/// Block numbers of one volume, if there are several: volumes end at 256 TiB with blocks of 4 KiB.
const BLOCK_BITS: u32 = 36;
/// Volumes, so that an object number times the block size stays an address.
const VOLUMES_MAX: u32 = 1 << 14;
const ZSTD_LEVEL: i32 = 3;

pub(super) fn convert(
    source: Source<'_>,
    mut output: Output,
    conversion: &Conversion<'_>,
) -> Result<Written, WriteError> {
    let mut forward = Forward::new(conversion);
    let path = output.path().to_owned();
    let failed = |source| WriteError::Io {
        path: path.clone(),
        source,
    };
    let mut file = BufWriter::with_capacity(1 << 20, &mut output);
    let read = source.each(|records, reader| {
        forward.splitter.know(reader.volumes());
        forward.splitter.split(records, &mut forward.batch)?;
        forward.write(&mut file, &failed)
    })?;
    file.flush().map_err(failed)?;
    drop(file);
    let (rows, left_out) = (forward.rows, forward.left_out);
    backward(&mut output, rows, forward.splitter.distinct()).map_err(failed)?;
    let bytes = if is_packed(conversion.path) {
        pack(output, conversion)?
    } else {
        output.finish()?
    };
    Ok(Written {
        read,
        rows,
        left_out,
        bytes,
    })
}

/// The pass in the trace's order.
struct Forward {
    splitter: Splitter,
    batch: Batch,
    block_bytes: u64,
    records: u64,
    rows: u64,
    left_out: u64,
    first_us: Option<u64>,
    has_volumes: bool,
    has_far_blocks: bool,
}

impl Forward {
    fn new(conversion: &Conversion<'_>) -> Self {
        Self {
            splitter: Splitter::new(conversion.block),
            batch: Batch::default(),
            block_bytes: conversion.block.get(),
            records: 0,
            rows: 0,
            left_out: 0,
            first_us: None,
            has_volumes: false,
            has_far_blocks: false,
        }
    }

    fn write(
        &mut self,
        file: &mut impl Write,
        failed: &impl Fn(io::Error) -> WriteError,
    ) -> Result<(), WriteError> {
        let size = u32::try_from(self.block_bytes).unwrap_or(u32::MAX);
        for request in &self.batch.requests {
            let record = &request.record;
            self.records += 1;
            if !record.op.carries_data() {
                self.left_out += 1;
                continue;
            }
            let unfit = |why| WriteError::Unfit {
                record: self.records,
                why,
            };
            // Seconds from the first record: clocks that count from 1970 or 1601 do not fit in 32 bits.
            let first_us = *self.first_us.get_or_insert(record.time_us);
            let seconds = record.time_us.saturating_sub(first_us) / 1_000_000;
            let seconds = u32::try_from(seconds)
                .map_err(|_| unfit("it is more than 136 years after the first"))?;
            let first_block = record.offset.get() / self.block_bytes;
            let volume = self.batch.role(record.volume).blocks.get();
            let keys = self.batch.keys_of(request);
            self.has_volumes |= volume > 0;
            self.has_far_blocks |= (first_block + keys.len() as u64) >> BLOCK_BITS > 0;
            if volume >= VOLUMES_MAX || (self.has_volumes && self.has_far_blocks) {
                return Err(unfit(
                    "an oracleGeneral object cannot hold both the volume and the block",
                ));
            }
            for (block, key) in (first_block..).zip(keys) {
                let object = u64::from(volume) << BLOCK_BITS | block;
                let mut row = [0; RECORD_BYTES];
                row[..4].copy_from_slice(&seconds.to_le_bytes());
                row[4..12].copy_from_slice(&object.to_le_bytes());
                row[12..16].copy_from_slice(&size.to_le_bytes());
                row[16..].copy_from_slice(&u64::from(*key).to_le_bytes());
                file.write_all(&row).map_err(failed)?;
            }
            self.rows += keys.len() as u64;
        }
        Ok(())
    }
}

/// The pass against the order: the key in each record becomes the place of its next access.
fn backward(file: &mut (impl Read + Write + Seek), rows: u64, distinct: u32) -> io::Result<()> {
    let mut next: Vec<i64> = vec![-1; distinct as usize];
    let mut chunk = vec![0; CHUNK_RECORDS * RECORD_BYTES];
    let mut end = rows;
    while end > 0 {
        let start = end.saturating_sub(CHUNK_RECORDS as u64);
        let count = usize::try_from(end - start).unwrap_or(CHUNK_RECORDS);
        let bytes = &mut chunk[..count * RECORD_BYTES];
        file.seek(SeekFrom::Start(start * RECORD_BYTES as u64))?;
        file.read_exact(bytes)?;
        let rows = bytes.chunks_exact_mut(RECORD_BYTES).rev();
        for (place, row) in (start..end).rev().zip(rows) {
            let field = &mut row[16..];
            let key = u64::from_le_bytes(field.try_into().unwrap_or_default());
            let slot = &mut next[usize::try_from(key).unwrap_or(usize::MAX)];
            field.copy_from_slice(&slot.to_le_bytes());
            *slot = place.cast_signed();
        }
        file.seek(SeekFrom::Start(start * RECORD_BYTES as u64))?;
        file.write_all(bytes)?;
        end = start;
    }
    Ok(())
}

/// Packs a finished file into another that takes its place.
fn pack(mut plain: Output, conversion: &Conversion<'_>) -> Result<u64, WriteError> {
    let path = conversion.path;
    let failed = |source| WriteError::Io {
        path: path.to_owned(),
        source,
    };
    let packed = Output::create_beside(path, conversion.force)?;
    let copied = || -> io::Result<Output> {
        plain.seek(SeekFrom::Start(0))?;
        let mut encoder = zstd::Encoder::new(Tallied::new(packed), ZSTD_LEVEL)?;
        encoder.include_checksum(true)?;
        io::copy(&mut plain, &mut encoder)?;
        encoder.finish()?.sealed(Form::Frame)
    };
    copied().map_err(failed)?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn row(key: u64) -> [u8; RECORD_BYTES] {
        let mut row = [0; RECORD_BYTES];
        row[16..].copy_from_slice(&key.to_le_bytes());
        row
    }

    #[test]
    fn the_next_access_is_the_place_of_the_same_key_or_none() {
        let keys = [0_u64, 1, 0, 2, 1, 0];
        let mut file = Cursor::new(keys.map(row).concat());
        backward(&mut file, 6, 3).unwrap();
        let found: Vec<i64> = file
            .get_ref()
            .chunks_exact(RECORD_BYTES)
            .map(|row| i64::from_le_bytes(row[16..].try_into().unwrap()))
            .collect();
        assert_eq!(found, [2, 4, 5, -1, -1, -1]);
    }

    #[test]
    fn chunks_know_what_comes_in_later_ones() {
        let rows = CHUNK_RECORDS * 2 + 7;
        let mut file = Cursor::new(vec![0; rows * RECORD_BYTES]);
        backward(&mut file, rows as u64, 1).unwrap();
        let next = |at: usize| {
            let row = &file.get_ref()[at * RECORD_BYTES..][16..RECORD_BYTES];
            i64::from_le_bytes(row.try_into().unwrap())
        };
        for at in [0, 6, 7, CHUNK_RECORDS, CHUNK_RECORDS + 6, rows - 2] {
            assert_eq!(next(at), i64::try_from(at).unwrap() + 1);
        }
        assert_eq!(next(rows - 1), -1);
    }
}
