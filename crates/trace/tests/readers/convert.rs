//! What is written is read back as it was: records where the target holds them, key streams anywhere.

use std::path::Path;
use trace::write::{Conversion, Target, WriteError, Written, convert};
use trace::{
    Batch, ContentHash, Op, Options, ReadError, Reader, Record, Records, Splitter, Volume, Volumes,
};
use units::{Bytes, Offset};

const BLOCK: Bytes = Bytes::kib(4);
const GENERATED: &str = "gen:zipf,requests=150k,blocks=50k,reads=0.6,size=4KiB:3/64KiB:1+base-image,\
    requests=50k,vms=3,flush=10,discards=0.1,vm=desk";

/// Records with the names of their volumes.
fn all(reader: &mut dyn Reader) -> Vec<(Volume, Record)> {
    let (mut all, mut batch) = (Vec::new(), Records::new());
    while reader.read_batch(&mut batch).unwrap() {
        let volumes = reader.volumes();
        all.extend(batch.iter().map(|record| {
            let volume = volumes.get(record.volume).unwrap().clone();
            (volume, record)
        }));
    }
    all
}

fn read(path: &Path) -> Vec<(Volume, Record)> {
    all(&mut *trace::open(path, &Options::default()).unwrap().reader)
}

fn write(from: &Path, to: &Path, target: Target) -> Written {
    let mut opened = trace::open(from, &Options::default()).unwrap();
    convert(&mut *opened.reader, &conversion(to, target), &mut |_| {}).unwrap()
}

fn conversion(path: &Path, target: Target) -> Conversion<'_> {
    Conversion {
        path,
        target,
        force: false,
        block: BLOCK,
        facts: &[],
    }
}

/// The keys of reads and writes.
fn keys(records: &[(Volume, Record)]) -> Vec<u32> {
    let mut volumes = Volumes::new();
    let records: Vec<Record> = records
        .iter()
        .map(|(volume, record)| Record {
            volume: volumes.intern(volume),
            ..*record
        })
        .filter(|record| record.op.carries_data())
        .collect();
    let (mut splitter, mut batch) = (Splitter::new(BLOCK), Batch::default());
    splitter.know(&volumes);
    let mut keys = Vec::new();
    for some in records.chunks(1000) {
        splitter.split(&Records::from(some), &mut batch).unwrap();
        keys.extend_from_slice(&batch.keys);
    }
    keys
}

/// The same records, whatever the volumes' places are.
fn assert_same(found: &[(Volume, Record)], wanted: &[(Volume, Record)]) {
    assert_eq!(found.len(), wanted.len());
    for ((volume, record), (other_volume, other)) in found.iter().zip(wanted) {
        let other = Record {
            volume: record.volume,
            ..*other
        };
        assert_eq!((volume, record), (other_volume, &other));
    }
}

#[test]
fn csv_and_parquet_hold_every_record() {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(GENERATED);
    let wanted = read(source);
    assert_eq!(wanted.len(), 200_000);
    for (name, target) in [
        ("a.csv", Target::Csv),
        ("a.csv.zst", Target::Csv),
        ("a.parquet", Target::Parquet),
    ] {
        let path = dir.path().join(name);
        let written = write(source, &path, target);
        assert_eq!(
            (written.read, written.rows, written.left_out),
            (200_000, 200_000, 0)
        );
        assert_eq!(written.bytes, std::fs::metadata(&path).unwrap().len());
        assert_eq!(Target::of_name(&path), Some(target));
        assert_same(&read(&path), &wanted);
    }
}

#[test]
fn oracle_general_holds_the_key_stream_and_the_future() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = keys(&read(Path::new(GENERATED)));
    let plain = dir.path().join("a.oracleGeneral.bin");
    let packed = dir.path().join("a.oracleGeneral.bin.zst");
    for path in [&plain, &packed] {
        let written = write(Path::new(GENERATED), path, Target::OracleGeneral);
        assert_eq!(written.rows, wanted.len() as u64);
        assert!(written.left_out > 0, "flushes and discards");
        assert_eq!(keys(&read(path)), wanted);
    }
    let bytes = std::fs::read(&plain).unwrap();
    assert_eq!(
        zstd::decode_all(&std::fs::read(&packed).unwrap()[..]).unwrap(),
        bytes
    );
    // Against the definition: the next record with the same object.
    let rows: Vec<(u64, i64)> = bytes
        .chunks_exact(24)
        .map(|row| {
            let object = u64::from_le_bytes(row[4..12].try_into().unwrap());
            (object, i64::from_le_bytes(row[16..].try_into().unwrap()))
        })
        .collect();
    let mut next = units::Map::default();
    for (place, &(object, found)) in rows.iter().enumerate().rev() {
        let wanted = next.insert(object, place);
        assert_eq!(
            found,
            wanted.map_or(-1, |place| i64::try_from(place).unwrap())
        );
    }
}

#[test]
fn real_traces_keep_their_key_streams() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "libcachesim/cloudPhysicsIO.vscsi.zst",
        "msr/rsrch_1.csv.zst",
        "disksim/ajw.1week.srt.zst",
        "lirs/sprite.trace.gz",
    ] {
        let Some(source) = trace_fixtures::real_trace(name) else {
            return;
        };
        let wanted = read(&source);
        for (target, ending) in [
            (Target::Csv, "csv.zst"),
            (Target::Parquet, "parquet"),
            (Target::OracleGeneral, "oracleGeneral.zst"),
        ] {
            let path = dir
                .path()
                .join(format!("{}.{ending}", name.replace('/', "-")));
            write(&source, &path, target);
            let found = read(&path);
            assert_eq!(keys(&found), keys(&wanted), "{name} {target}");
            match target {
                Target::Parquet => assert_same(&found, &wanted),
                Target::Csv => assert_eq!(found.len(), wanted.len()),
                Target::OracleGeneral => {}
            }
        }
    }
}

/// Records of one's own, and a fault after them if wanted.
struct Given {
    records: Vec<Record>,
    volumes: Volumes,
    fault: bool,
}

impl Given {
    fn new(records: &[Record]) -> Self {
        let mut volumes = Volumes::new();
        for vm in ["a, \"b\"", "50%", "c"] {
            volumes.intern(&Volume {
                vm: vm.to_owned(),
                name: "#\u{1}1".to_owned(),
            });
        }
        Self {
            records: records.to_vec(),
            volumes,
            fault: false,
        }
    }
}

impl Reader for Given {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        *records = self.records.drain(..).collect();
        if records.is_empty() && self.fault {
            return Err(ReadError::Input {
                file: "given".to_owned(),
                unpacked_bytes: 7,
                remedy: "nothing",
                source: std::io::Error::other("broken"),
            });
        }
        Ok(!records.is_empty())
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

fn record(volume: u32, offset: u64) -> Record {
    let volume = trace::VolumeIndex::new(volume);
    Record::new(5, volume, Op::Write, Offset::new(offset), BLOCK)
}

#[test]
fn parquet_holds_what_only_some_formats_know_and_csv_strange_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut known = record(1, 4096);
    known.hash = Some(ContentHash([7; 16]));
    known.response_us = Some(u32::MAX);
    let records = [record(0, u64::MAX - 8191), known, record(2, 0)];
    let parquet = dir.path().join("x.parquet");
    let mut given = Given::new(&records);
    convert(
        &mut given,
        &conversion(&parquet, Target::Parquet),
        &mut |_| {},
    )
    .unwrap();
    let found = read(&parquet);
    assert_same(&found, &all(&mut Given::new(&records)));
    let csv = dir.path().join("x.csv");
    let mut given = Given::new(&records);
    convert(&mut given, &conversion(&csv, Target::Csv), &mut |_| {}).unwrap();
    let names: Vec<String> = read(&csv)
        .into_iter()
        .map(|(volume, _)| volume.vm)
        .collect();
    assert_eq!(names, ["a, \"b\"", "50%", "c"]);
}

#[test]
fn nothing_is_left_of_what_failed() {
    let dir = tempfile::tempdir().unwrap();
    for target in Target::ALL {
        let path = dir.path().join("x");
        let mut given = Given::new(&[record(0, 0)]);
        given.fault = true;
        let failed = convert(&mut given, &conversion(&path, target), &mut |_| {});
        assert!(matches!(failed, Err(WriteError::Read(_))), "{failed:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
    let far = [record(0, 1 << 60), record(1, 0)];
    let path = dir.path().join("x.bin");
    let to = conversion(&path, Target::OracleGeneral);
    let unfit = convert(&mut Given::new(&far), &to, &mut |_| {});
    assert!(
        matches!(unfit, Err(WriteError::Unfit { record: 2, .. })),
        "{unfit:?}"
    );
    convert(&mut Given::new(&far[..1]), &to, &mut |_| {}).unwrap();
}
