//! What is cached of a disk that has left, or is about to, is lent to the other host: the newest first, verified, and
//! without a word to the origin.

use crate::support::Bench;
use block_io::PAGE_BYTES;
use cache::{Borrowed, Cache, Config, LoanRequest, NotLent, Tenure};
use std::collections::BTreeSet;
use units::{BlockIndex, Bytes, DiskId, DiskSlot};

const SIZE: Bytes = Bytes::mib(1);
const DISK: DiskId = DiskId::from_u128(1);
/// Segments are full of so many blocks, at most.
const SEGMENT: Bytes = Bytes::kib(64);

/// A cache that has had a disk whose blocks `read` were read, in this order.
fn cache_that_had(read: impl Iterator<Item = u64>) -> (Bench, Cache, DiskSlot) {
    let (mut bench, mut cache) = Bench::open(Bytes::mib(4), SEGMENT, Config::default());
    let slot = bench.attach(&mut cache, 1, SIZE);
    for block in read {
        bench.read(&mut cache, slot, block);
    }
    // Differs from the origin of the bench, which has zeroes.
    bench.write(&mut cache, slot, 0);
    bench.read(&mut cache, slot, 0);
    (bench, cache, slot)
}

fn listed(bench: &mut Bench, cache: &mut Cache) -> Vec<Vec<u64>> {
    let request = LoanRequest::Segments { disk: DISK };
    let Ok(Borrowed::Segments(segments)) = bench.borrow(cache, request) else {
        panic!("a disk that has left is lent");
    };
    let contents = segments.into_iter().map(|segment| {
        let request = LoanRequest::Contents {
            disk: DISK,
            segment,
        };
        match bench.borrow(cache, request) {
            Ok(Borrowed::Contents(blocks)) => blocks.into_iter().map(BlockIndex::get).collect(),
            other => panic!("a segment has contents, not {other:?}"),
        }
    });
    contents.collect()
}

fn block(bench: &mut Bench, cache: &mut Cache, first: u32, count: u32) -> Result<Vec<u8>, NotLent> {
    let first = BlockIndex::new(first.into());
    let request = LoanRequest::Blocks {
        disk: DISK,
        first,
        count,
    };
    match bench.borrow(cache, request)? {
        Borrowed::Blocks(bytes) => Ok(bytes.iter().flat_map(|slice| slice.to_vec()).collect()),
        other => panic!("blocks have bytes, not {other:?}"),
    }
}

#[test]
fn what_was_cached_is_listed_newest_first_and_lent_without_the_origin() {
    let (mut bench, mut cache, slot) = cache_that_had(0..64);
    bench.detach(&mut cache, slot);
    bench.asked.clear();

    let contents = listed(&mut bench, &mut cache);

    assert!(contents.len() > 3, "segments are many: {contents:?}");
    let newest = &contents[0];
    assert!(
        newest.contains(&0),
        "block 0 was written last: {contents:?}"
    );
    let older: Vec<u64> = contents[1..]
        .iter()
        .filter_map(|of| of.last().copied())
        .collect();
    assert!(
        older.is_sorted_by(|a, b| a > b),
        "older ones follow: {contents:?}"
    );
    let all: Vec<u64> = contents.concat();
    let distinct: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct), (64, (0..64).collect()));
    assert_eq!(block(&mut bench, &mut cache, 0, 1), Ok(vec![1; PAGE_BYTES]));
    let mut at = 1;
    while at < 64 {
        let bytes = block(&mut bench, &mut cache, at, 64 - at).unwrap();
        assert!(!bytes.is_empty() && bytes.len().is_multiple_of(PAGE_BYTES));
        assert!(bytes.iter().all(|byte| *byte == 0), "as it was read");
        at += u32::try_from(bytes.len() / PAGE_BYTES).unwrap();
    }
    assert_eq!(bench.asked, [], "no origin is asked");
}

#[test]
fn a_disk_that_is_unknown_or_another_hosts_is_not_lent_nor_a_block_that_is_not_cached() {
    let (mut bench, mut cache, slot) = cache_that_had(0..32);
    assert!(block(&mut bench, &mut cache, 1, 1).is_ok(), "attached");
    bench.detach(&mut cache, slot);
    assert!(block(&mut bench, &mut cache, 1, 1).is_ok());
    for (first, count) in [(40, 1), (1 << 30, 1), (1, 0)] {
        assert_eq!(block(&mut bench, &mut cache, first, count), Err(NotLent));
    }
    let unknown = DiskId::from_u128(2);
    for request in [
        LoanRequest::Segments { disk: unknown },
        LoanRequest::Blocks {
            disk: unknown,
            first: BlockIndex::new(0),
            count: 1,
        },
        LoanRequest::Contents {
            disk: DISK,
            segment: flash_format::SegmentIndex::new(u32::MAX),
        },
    ] {
        assert!(bench.borrow(&mut cache, request).is_err(), "{request:?}");
    }
    bench.tenure = Tenure::Standby;
    let slot = bench.attach(&mut cache, 1, SIZE);
    assert_eq!(block(&mut bench, &mut cache, 1, 1), Err(NotLent));
    bench.detach(&mut cache, slot);
    assert_eq!(block(&mut bench, &mut cache, 1, 1), Err(NotLent));
}

#[test]
fn a_block_that_is_not_what_was_written_is_not_lent() {
    let (mut bench, mut cache, slot) = cache_that_had(0..32);
    bench.detach(&mut cache, slot);
    bench.spoil();
    let lent = (0..32).filter(|first| block(&mut bench, &mut cache, *first, 1).is_ok());
    assert_eq!(lent.count(), 0);
}

#[test]
fn a_disk_that_becomes_another_hosts_while_a_loan_is_read_is_not_lent() {
    let (mut bench, mut cache, slot) = cache_that_had(0..32);
    bench.detach(&mut cache, slot);
    let request = LoanRequest::Blocks {
        disk: DISK,
        first: BlockIndex::new(1),
        count: 1,
    };
    bench.tenure = Tenure::Standby;
    let stands_by = |bench: &mut Bench, cache: &mut Cache| {
        bench.attach(cache, 1, SIZE);
    };
    let lent = bench.borrow_while(&mut cache, request, stands_by);
    assert!(lent.is_err(), "{lent:?}");
}
