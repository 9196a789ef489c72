//! libCacheSim's `oracleGeneral`: records of 24 bytes, little-endian, without a header.
//!
//! ```text
//!   0 u32 time in seconds     12 u32 size
//!   4 u64 object              16 i64 number of the request that asks for it next, negative for none
//! ```
//!
//! An object is a key (see `keys`) and an access of one block, whatever its size: caches of blocks have
//! units of one size, and block traces in this form have one object a block. There are no operations, so
//! all are reads. Whole collections are published in this form (`ftp.pdl.cmu.edu/pub/datasets/twemcacheWorkload`,
//! `s3://cache-datasets`).

use crate::format::Entry;
use crate::format::vscsi::{u32_at, u64_at};
use crate::keys::{Keyed, KeyedRecords, Keys};
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};

pub(super) static ENTRY: Entry = Entry {
    name: "oracle-general",
    about: "libCacheSim's oracleGeneral, binary",
    hints: &["oraclegeneral", "oracle"],
    recognise,
    open: |input, options| {
        let decoder = KeyedRecords::<OracleGeneral>::new(Keys::new(options.key));
        Ok(stream(input, decoder, options))
    },
};

const RECORD_BYTES: usize = 24;

/// Without a magic number the foretold accesses speak for the format: the object of record n, if it says
/// that request m is the next one for it, must be asked for there. Some writers count from 0, some from 1.
fn recognise(sample: &Sample<'_>) -> Option<Guess> {
    let records: Vec<&[u8]> = sample.bytes.chunks_exact(RECORD_BYTES).collect();
    let mut last_time = 0;
    let mut confirmed = [0_usize; 2];
    let mut contradicted = [0_usize; 2];
    for (place, record) in records.iter().enumerate() {
        let time = u32_at(record, 0);
        if time < last_time {
            return None;
        }
        last_time = time;
        let next = u64_at(record, 16);
        // Negative or the largest number: not asked for again.
        if next >= i64::MAX as u64 {
            continue;
        }
        let next = usize::try_from(next).ok()?;
        for base in [0, 1] {
            let place_of_next = next.checked_sub(base)?;
            match records.get(place_of_next) {
                Some(other) if place_of_next > place => {
                    let same = u64_at(other, 4) == u64_at(record, 4);
                    let counts = if same {
                        &mut confirmed
                    } else {
                        &mut contradicted
                    };
                    counts[base] += 1;
                }
                None if place_of_next >= records.len() => {}
                _ => contradicted[base] += 1,
            }
        }
    }
    let foretold = [0, 1]
        .into_iter()
        .filter(|&base| contradicted[base] == 0)
        .map(|base| confirmed[base])
        .max()?;
    match foretold {
        0 if looks_like_times(&records) => Some(Guess::new(
            Strength::Weak,
            "records of 24 bytes with rising times and no repetition",
        )),
        0 => None,
        count => Some(Guess::new(
            Strength::Strong,
            format!("records of 24 bytes whose next accesses come true, {count} in its beginning"),
        )),
    }
}

/// Some records, of sizes above zero: what else is there to see if no object comes twice.
fn looks_like_times(records: &[&[u8]]) -> bool {
    records.len() >= 2 && records.iter().all(|record| u32_at(record, 12) != 0)
}

struct OracleGeneral;

impl Keyed for OracleGeneral {
    const NAME: &'static str = ENTRY.name;
    const RECORD_BYTES: usize = RECORD_BYTES;

    #[inline]
    fn time_us(record: &[u8]) -> u64 {
        u64::from(u32_at(record, 0)) * 1_000_000
    }

    #[inline]
    fn key(record: &[u8]) -> u64 {
        u64_at(record, 4)
    }
}
