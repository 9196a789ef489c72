use super::*;
use crate::record::Op;
use crate::splitter::{Batch, Splitter};

/// Records that were written down.
struct Listed {
    records: Vec<Record>,
    volumes: Volumes,
}

impl Reader for Listed {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        let count = self.records.len().min(3);
        records.extend(self.records.drain(..count));
        Ok(count > 0)
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

fn volumes(names: &[(&str, &str)]) -> Volumes {
    let mut volumes = Volumes::new();
    for (vm, name) in names {
        let (vm, name) = ((*vm).to_owned(), (*name).to_owned());
        volumes.intern(&Volume { vm, name });
    }
    volumes
}

fn record(time_us: u64, volume: u32, op: Op, offset: u64, length: u64) -> Record {
    let volume = VolumeIndex::new(volume);
    Record::new(time_us, volume, op, Offset::new(offset), Bytes::new(length))
}

fn anonymous(records: &[Record], names: &[(&str, &str)], coarseness: Coarseness) -> Anonymizer {
    let listed = Listed {
        records: records.to_vec(),
        volumes: volumes(names),
    };
    Anonymizer::new(Box::new(listed), Key::new([7; 32]), coarseness)
}

fn all(reader: &mut dyn Reader) -> Vec<Record> {
    let (mut batch, mut all) = (Records::new(), Vec::new());
    while reader.read_batch(&mut batch).unwrap() {
        all.extend(batch.iter());
    }
    all
}

/// The blocks that are accessed, numbered in order of their first access: all that a policy sees.
fn keys(reader: &mut dyn Reader, block: Bytes) -> Vec<u32> {
    let (mut splitter, mut records) = (Splitter::new(block), Records::new());
    let (mut batch, mut keys) = (Batch::default(), Vec::new());
    while reader.read_batch(&mut records).unwrap() {
        splitter.know(reader.volumes());
        splitter.split(&records, &mut batch).unwrap();
        for request in &batch.requests {
            keys.extend_from_slice(batch.keys_of(request));
        }
    }
    keys
}

fn generated(kind: &str) -> Box<dyn Reader> {
    let opened = crate::open(kind.as_ref(), &crate::Options::default());
    opened.unwrap().reader
}

const GENERATORS: [&str; 3] = [
    "gen:zipf,blocks=20000,requests=20000,theta=0.9,size=4KiB:60/256KiB:40,seed=3",
    "gen:streams,streams=5,run=900KiB,blocks=100000,requests=20000,seed=4",
    "gen:base-image,vms=3,image=8MiB,shared=0.5,boot=0.3,blocks=5000,requests=20000,seed=5",
];

#[test]
fn a_policy_sees_the_same_blocks_in_the_same_order() {
    for kind in GENERATORS {
        for block in [Bytes::kib(4), Bytes::kib(64), EXTENT] {
            let mut hidden = Anonymizer::new(generated(kind), Key::new([1; 32]), Coarseness::EXACT);
            let wanted = keys(&mut *generated(kind), block);
            assert!(wanted == keys(&mut hidden, block), "{kind} {block}");
        }
    }
}

#[test]
fn names_are_others_and_roles_the_same() {
    let names = [
        ("web", "root"),
        ("web", "base:debian"),
        ("db", "base:debian"),
        ("", ""),
    ];
    let records = [0, 1, 2, 3].map(|volume| record(0, volume, Op::Read, 8192, 4096));
    let mut hidden = anonymous(&records, &names, Coarseness::EXACT);
    let hidden_records = all(&mut hidden);
    assert_eq!(hidden.volumes().roles(), volumes(&names).roles());
    for (_, volume) in hidden.volumes().iter() {
        for name in ["web", "root", "debian", "db"] {
            let text = volume.to_string();
            assert!(
                !text.contains(name) || name == "db" && text.contains("vm-"),
                "{text}"
            );
        }
    }
    assert_eq!(
        hidden_records[1].offset, hidden_records[2].offset,
        "one image"
    );
    assert_ne!(hidden_records[0].offset, hidden_records[1].offset);
    assert_eq!(hidden_records[0].offset.get() % EXTENT.get(), 8192);
}

#[test]
fn a_request_over_a_border_becomes_one_for_each_extent() {
    let border = EXTENT.get();
    let records = [record(5, 0, Op::Write, border - 4096, 8192)];
    let mut hidden = anonymous(&records, &[("v", "d")], Coarseness::EXACT);
    let pieces = all(&mut hidden);
    let shape = pieces.iter().map(|piece| {
        (
            piece.time_us,
            piece.offset.get() % border,
            piece.length.get(),
        )
    });
    assert!(shape.eq([(0, border - 4096, 4096), (0, 0, 4096)]));
    assert_eq!(hidden.divided(), 1);
}

#[test]
fn times_and_sizes_become_as_coarse_as_is_asked() {
    let coarseness = Coarseness {
        time_us: 1000,
        size: Bytes::kib(4),
    };
    let mut late = record(10_000_700, 0, Op::Read, 5000, 100);
    late.response_us = Some(1999);
    let records = [
        record(10_000_000, 0, Op::Read, 0, 512),
        late,
        record(10_001_500, 0, Op::Flush, 0, 0),
    ];
    let hidden = all(&mut anonymous(&records, &[("v", "d")], coarseness));
    let seen = hidden
        .iter()
        .map(|one| (one.time_us, one.length.get(), one.response_us));
    assert!(seen.eq([(0, 4096, None), (0, 4096, Some(1000)), (1000, 0, None)]));
}

#[test]
fn a_discard_of_everything_goes_where_something_was() {
    let tib = 1 << 40;
    let records = [
        record(0, 0, Op::Read, tib - 4096, 4096),
        record(0, 0, Op::Discard, 0, 1 << 60),
        record(0, 0, Op::Discard, u64::MAX - 4095, 4095),
    ];
    let hidden = all(&mut anonymous(&records, &[("v", "d")], Coarseness::EXACT));
    assert_eq!(hidden.len(), 3);
    let extent = |record: &Record| record.offset.get() / EXTENT.get();
    assert_eq!(extent(&hidden[0]), extent(&hidden[1]));
    assert_eq!(hidden[1].length, EXTENT);
}
