//! The splitter against an ordered map: same keys, whatever the order of the requests.

use std::collections::BTreeMap;

use trace::{Batch, Op, Record, Records, Splitter, VolumeIndex};
use units::{Bytes, Offset, Prng};

/// The slow, obvious way.
#[derive(Default)]
struct Model {
    keys: BTreeMap<(u32, u64), u32>,
}

impl Model {
    fn split(&mut self, record: &Record, block: u64) -> Vec<u32> {
        if record.length.is_zero() {
            return Vec::new();
        }
        let first = record.offset.get() / block;
        let last = (record.offset.get() + record.length.get() - 1) / block;
        let volume = record.volume.get();
        if !record.op.carries_data() {
            let known = self.keys.range((volume, first)..=(volume, last));
            return known.map(|(_, &key)| key).collect();
        }
        (first..=last)
            .map(|block| {
                let next = u32::try_from(self.keys.len()).unwrap();
                *self.keys.entry((volume, block)).or_insert(next)
            })
            .collect()
    }
}

fn request(dice: &mut Prng, volumes: u64, blocks: u64) -> Record {
    let volume = VolumeIndex::new(u32::try_from(dice.below(volumes)).unwrap());
    let op = Op::ALL[usize::try_from(dice.below(40)).unwrap().min(5) % 5];
    let offset = Offset::new(dice.below(blocks * 4096));
    let length = match (op, dice.below(4)) {
        (Op::Flush, _) => 0,
        // Now and then as long as nobody would list block by block.
        (Op::Discard, 0) => u64::MAX - offset.get(),
        (_, 0) => dice.below(200 * 4096),
        _ => dice.below(8192),
    };
    Record::new(0, volume, op, offset, Bytes::new(length))
}

#[test]
fn keys_are_those_of_an_ordered_map() {
    for (seed, volumes, blocks) in [(1, 1, 300), (2, 3, 2000), (3, 20, 1 << 40), (4, 1, 40)] {
        let mut dice = Prng::new(seed);
        let mut splitter = Splitter::new(Bytes::kib(4));
        let (mut model, mut batch) = (Model::default(), Batch::default());
        for _ in 0..4000 {
            let records: Records = (0..dice.below(4))
                .map(|_| request(&mut dice, volumes, blocks))
                .collect();
            splitter.split(&records, &mut batch).unwrap();
            assert_eq!(batch.requests.len(), records.len());
            for (request, record) in batch.requests.iter().zip(&records) {
                assert_eq!(request.record, record);
                assert_eq!(
                    batch.keys_of(request),
                    model.split(&record, 4096),
                    "{record:?}"
                );
            }
        }
        let places = splitter.places();
        assert_eq!(splitter.distinct() as usize, model.keys.len());
        for (&(volume, block), &key) in &model.keys {
            assert_eq!(places[key as usize], (VolumeIndex::new(volume), block));
            assert_eq!(splitter.volume_of(key), VolumeIndex::new(volume));
        }
    }
}

/// Reads and writes of one block each, now and then of the block behind the last one.
fn single(dice: &mut Prng, before: &Record) -> Record {
    let follows = dice.below(3) > 0;
    let volume = VolumeIndex::new(u32::try_from(dice.below(3)).unwrap());
    let op = if dice.below(8) > 0 {
        Op::Read
    } else {
        Op::Write
    };
    let (volume, op, block) = if follows {
        (before.volume, before.op, before.offset.get() / 4096 + 1)
    } else {
        (volume, op, dice.below(500))
    };
    let (offset, length) = (Offset::new(block * 4096 + 512), Bytes::new(3072));
    Record::new(before.time_us + 1, volume, op, offset, length)
}

#[test]
fn stretches_say_of_single_blocks_what_requests_say() {
    let mut dice = Prng::new(5);
    let (mut whole, mut lean) = (Splitter::new(Bytes::kib(4)), Splitter::new(Bytes::kib(4)));
    let (mut batch, mut lean_batch) = (Batch::default(), Batch::default());
    let mut model = Model::default();
    let mut last = request(&mut dice, 1, 1);
    for _ in 0..500 {
        let next = |_| {
            last = single(&mut dice, &last);
            last
        };
        let records: Records = (0..100).map(next).collect();
        whole.split(&records, &mut batch).unwrap();
        lean.split_lean(&records, &mut lean_batch).unwrap();
        assert!(lean_batch.requests.is_empty());
        assert_eq!(lean_batch.keys, batch.keys);
        assert_eq!(
            lean_batch.times_us(),
            Some((records.times_us()[0], records.times_us()[99]))
        );
        let mut requests = batch.requests.iter();
        for stretch in lean_batch.stretches().unwrap() {
            for request in requests.by_ref().take(stretch.count as usize) {
                let record = &request.record;
                let same = (stretch.volume, stretch.op, stretch.length);
                assert_eq!((record.volume, record.op, record.length), same);
                assert_eq!(batch.keys_of(request), model.split(record, 4096));
            }
        }
        assert_eq!(requests.len(), 0);
    }
}

#[test]
fn a_batch_with_any_other_request_has_no_stretches() {
    let read = |length| {
        let volume = VolumeIndex::new(0);
        Record::new(0, volume, Op::Read, Offset::new(0), Bytes::new(length))
    };
    for other in [read(0), read(8192)] {
        let (mut splitter, mut batch) = (Splitter::new(Bytes::kib(4)), Batch::default());
        let records = Records::from(&[read(4096), other, read(4096)][..]);
        splitter.split_lean(&records, &mut batch).unwrap();
        assert_eq!(batch.stretches(), None);
        assert_eq!(batch.requests.len(), 3);
        assert_eq!(batch.keys_of(&batch.requests[2]), [0]);
    }
}

#[test]
fn the_last_bytes_of_an_address_space_are_a_block_like_others() {
    let mut splitter = Splitter::new(Bytes::new(512));
    let mut batch = Batch::default();
    let end = Record::new(
        0,
        VolumeIndex::new(0),
        Op::Write,
        Offset::new(u64::MAX - 511),
        Bytes::new(512),
    );
    let records = Records::from(&[end, end][..]);
    splitter.split(&records, &mut batch).unwrap();
    assert_eq!(batch.keys, [0, 0]);
    assert_eq!(splitter.places(), [(VolumeIndex::new(0), u64::MAX >> 9)]);
}

#[test]
fn sequential_blocks_cost_less_than_a_byte_each() {
    let mut splitter = Splitter::new(Bytes::kib(4));
    let mut batch = Batch::default();
    let runs: Records = (0..1000)
        .map(|run| {
            let offset = Offset::mib(run);
            Record::new(0, VolumeIndex::new(0), Op::Read, offset, Bytes::mib(1))
        })
        .collect();
    splitter.split(&runs, &mut batch).unwrap();
    assert_eq!(splitter.distinct(), 256_000);
    assert!(splitter.heap_bytes() < 300_000, "{}", splitter.heap_bytes());
}

#[test]
fn blocks_in_random_order_cost_less_than_twelve_bytes_each() {
    let mut dice = Prng::new(5);
    let mut splitter = Splitter::new(Bytes::kib(4));
    let mut batch = Batch::default();
    for _ in 0..200 {
        let some: Records = (0..1000)
            .map(|_| {
                let offset = Offset::new(dice.below(200_000) * 4096);
                Record::new(0, VolumeIndex::new(0), Op::Read, offset, Bytes::kib(4))
            })
            .collect();
        splitter.split(&some, &mut batch).unwrap();
    }
    let each = splitter.heap_bytes() / splitter.distinct() as usize;
    assert!(each < 12, "{each} bytes a block");
}
