//! `trace::info` on the real traces, and on traces that were ruined on purpose.

use trace::info::{Collector, Info, Known, Severity};
use trace::{Op, Options, Reader, Record, Records, Volume, Volumes};
use units::{Bytes, Offset};

const BLOCK: Bytes = Bytes::kib(4);

fn collect(known: Known, records: &[Record], volumes: &Volumes) -> Info {
    let mut collector = Collector::new(known, BLOCK);
    for batch in records.chunks(1000) {
        collector.add(&Records::from(batch), volumes).unwrap();
    }
    collector.finish(volumes)
}

/// Every record of a real trace, with its volumes.
fn read(name: &str) -> Option<(Known, Vec<Record>, Volumes)> {
    let path = trace_fixtures::real_trace(name)?;
    let mut opened = trace::open(&path, &Options::default()).unwrap();
    let (mut all, mut batch) = (Vec::new(), Records::new());
    while opened.reader.read_batch(&mut batch).unwrap() {
        all.extend(&batch);
    }
    Some((
        Known::of(opened.format),
        all,
        opened.reader.volumes().clone(),
    ))
}

fn codes(info: &Info) -> Vec<&'static str> {
    info.warnings.iter().map(|warning| warning.code).collect()
}

fn generated(text: &str) -> (Vec<Record>, Volumes) {
    let generator = trace::generate::Generator::new(&text.parse().unwrap());
    let volumes = generator.volumes().clone();
    (generator.collect(), volumes)
}

const EVERYTHING: Known = Known {
    time: true,
    operation: true,
    place: true,
};

#[test]
fn real_traces_are_as_their_table_says_and_warn_of_what_is_true() {
    // Requests, accesses and distinct blocks are those of the traces' own table.
    let rows: [(&str, u64, u64, u64, &[&str]); 9] = [
        (
            "libcachesim/cloudPhysicsIO.vscsi.zst",
            113_872,
            1_141_869,
            269_210,
            &["misaligned"],
        ),
        (
            "blkreplay/linux-webserver-2-dedup.csv.zst",
            136_719,
            582_447,
            488_036,
            &[],
        ),
        (
            "blkreplay/linux-mysql.load.gz",
            80_794,
            296_417,
            142_563,
            &[],
        ),
        (
            "blkreplay/windows-shared-server.load.gz",
            1_371,
            1_381,
            266,
            &["one-operation"],
        ),
        ("disksim/ajw.1week.srt.zst", 44_519, 73_671, 7_344, &[]),
        ("msr/rsrch_1.csv.zst", 13_780, 42_413, 28_775, &[]),
        (
            "arc/OLTP.lis.zst",
            914_145,
            914_145,
            186_880,
            &["no-time", "no-operation"],
        ),
        (
            "lirs/sprite.trace.gz",
            133_996,
            133_996,
            7_075,
            &["no-time", "no-operation", "keys-only"],
        ),
        (
            "lirs/2_pools.trace.gz",
            100_000,
            100_000,
            9_939,
            &["no-time", "no-operation", "keys-only"],
        ),
    ];
    for (name, requests, accesses, blocks, warnings) in rows {
        let Some((known, records, volumes)) = read(name) else {
            return;
        };
        let info = collect(known, &records, &volumes);
        let footprint = info.footprint;
        assert_eq!(info.requests, requests, "{name}");
        assert_eq!(
            (footprint.accesses, footprint.blocks),
            (accesses, blocks),
            "{name}"
        );
        let by_volume: u64 = info.volumes.iter().map(|volume| volume.blocks).sum();
        assert_eq!(by_volume, blocks, "{name}");
        assert_eq!(codes(&info), warnings, "{name}");
    }
}

/// What a trace becomes when a device below logs each request again, 16 us later, every eighth in two.
fn logged_twice(records: &[Record]) -> Vec<Record> {
    let mut twice = Vec::new();
    for (place, record) in records.iter().enumerate() {
        twice.push(*record);
        let mut below = Record {
            time_us: record.time_us + 16,
            ..*record
        };
        if place % 8 == 0 && below.length.get() > 4096 {
            let half = Bytes::new(below.length.get() / 1024 * 512);
            twice.push(Record {
                length: half,
                ..below
            });
            below.offset += half;
            below.length = below.length - half;
        }
        twice.push(below);
    }
    twice.sort_by_key(|record| record.time_us);
    twice
}

#[test]
fn a_log_that_holds_every_request_twice_is_told_from_one_that_does_not() {
    for name in [
        "libcachesim/cloudPhysicsIO.vscsi.zst",
        "blkreplay/linux-webserver-2-dedup.csv.zst",
        "blkreplay/linux-mysql.load.gz",
        "disksim/ajw.1week.srt.zst",
        "msr/wdev_1.csv",
    ] {
        let Some((known, records, volumes)) = read(name) else {
            return;
        };
        assert!(!codes(&collect(known, &records, &volumes)).contains(&"duplicated-logging"));
        let info = collect(known, &logged_twice(&records), &volumes);
        let warning = &info.warnings[0];
        assert_eq!(warning.code, "duplicated-logging", "{name}");
        assert_eq!(warning.severity, Severity::Ruins);
        assert!(warning.seen.contains("within 16us"), "{}", warning.seen);
        assert!(
            warning.first_record.is_some_and(|first| first <= 20),
            "{warning:?}"
        );
    }
}

#[test]
fn generated_traces_have_nothing_to_warn_of() {
    // The hottest block of this one is a tenth of all requests, thousands a second.
    let hot = "zipf,theta=1.2,blocks=100k,requests=200k,rate=5000";
    for text in [
        hot,
        "uniform,requests=20k",
        "base-image,requests=50k",
        "sequential,requests=20k",
    ] {
        let (records, volumes) = generated(text);
        let info = collect(EVERYTHING, &records, &volumes);
        assert_eq!(
            codes(&info),
            Vec::<&str>::new(),
            "{text}: {:?}",
            info.warnings
        );
    }
}

/// What is warned of after `ruin` had its way with a sound trace.
fn ruined(ruin: impl Fn(usize, &mut Record)) -> Info {
    let (mut records, volumes) = generated("uniform,blocks=100M,requests=20k,seed=5");
    for (place, record) in records.iter_mut().enumerate() {
        ruin(place, record);
    }
    collect(EVERYTHING, &records, &volumes)
}

fn only(info: &Info) -> (&'static str, Severity, Option<u64>, &str) {
    let [warning] = &info.warnings[..] else {
        panic!("one warning: {:?}", info.warnings)
    };
    (
        warning.code,
        warning.severity,
        warning.first_record,
        &warning.seen,
    )
}

#[test]
fn disorder_of_parallel_loggers_is_no_clock_that_was_set() {
    let disorder = ruined(|place, record| {
        if place % 100 == 50 {
            record.time_us -= 40_000;
        }
    });
    let (code, severity, first, seen) = only(&disorder);
    assert_eq!(
        (code, severity, first),
        ("unsorted-time", Severity::Suspicious, Some(51))
    );
    assert!(seen.starts_with("200 of 20000 records"), "{seen}");
    let set_back = ruined(|place, record| {
        record.time_us += if place < 10_000 { 3_600_000_000 } else { 0 };
    });
    let (code, severity, first, _) = only(&set_back);
    assert_eq!(
        (code, severity, first),
        ("clock-jump", Severity::Ruins, Some(10_001))
    );
    let set_on = ruined(|place, record| {
        record.time_us += if place < 10_000 {
            0
        } else {
            40 * 86_400_000_000
        };
    });
    let (code, severity, first, seen) = only(&set_on);
    assert_eq!(
        (code, severity, first),
        ("clock-jump", Severity::Suspicious, Some(10_001))
    );
    assert!(seen.contains("40.0 days"), "{seen}");
}

#[test]
fn offsets_that_no_disk_has_are_told_by_kind() {
    let cut = ruined(|_, record| record.offset = Offset::new(record.offset.get() & 0xffff_ffff));
    assert_eq!(only(&cut).1, Severity::Suspicious);
    assert!(
        only(&cut).3.contains("cut off at 32 bits"),
        "{:?}",
        only(&cut)
    );
    let sectors = ruined(|_, record| record.offset = Offset::new(record.offset.get() / 512));
    assert_eq!(
        (only(&sectors).0, only(&sectors).1),
        ("mangled-offsets", Severity::Ruins)
    );
    assert!(
        only(&sectors).3.contains("no multiples of 512"),
        "{:?}",
        only(&sectors)
    );
    let tripled = ruined(|_, record| record.offset = Offset::new(record.offset.get() * 3));
    assert!(
        only(&tripled).3.contains("multiple of 12288 bytes"),
        "{:?}",
        only(&tripled)
    );
    let hashed = ruined(|_, record| {
        let hash = record.offset.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        record.offset = Offset::new(hash & !511);
    });
    assert!(
        only(&hashed).3.contains("beyond 1 PiB"),
        "{:?}",
        only(&hashed)
    );
    let long = ruined(|place, record| {
        if place == 7 {
            record.length = Bytes::new(u64::MAX);
        }
    });
    assert_eq!(
        (only(&long).0, only(&long).2),
        ("impossible-requests", Some(8))
    );
}

#[test]
fn what_is_missing_is_told() {
    let reads = ruined(|_, record| record.op = Op::Read);
    assert_eq!(only(&reads).0, "one-operation");
    let still = ruined(|_, record| record.time_us = 77);
    assert_eq!((only(&still).0, still.arrival.is_none()), ("no-time", true));
    let disorder = ruined(|place, record| {
        let second = record.time_us / 1_000_000;
        record.time_us = (second + u64::from(place % 50 == 0)) * 1_000_000;
    });
    assert_eq!(codes(&disorder), ["unsorted-time", "coarse-time"]);
    let shifted = ruined(|_, record| record.offset += Bytes::new(63 * 512));
    assert_eq!(only(&shifted).0, "misaligned");
    let coarse = ruined(|_, record| record.time_us = record.time_us / 1_000_000 * 1_000_000);
    assert_eq!(only(&coarse).0, "coarse-time");
    let nothing = ruined(|_, record| record.op = Op::Flush);
    assert_eq!(only(&nothing).0, "no-data");
    let empty = ruined(|place, record| {
        if place % 2 == 0 {
            record.length = Bytes::ZERO;
        }
    });
    assert_eq!(only(&empty).0, "zero-length");
}

/// A read of so many blocks of 4 KiB from a block on.
fn read_of(volume: trace::VolumeIndex, block: u64, blocks: u64) -> Record {
    let (offset, length) = (
        Offset::new(block * BLOCK.get()),
        Bytes::new(blocks * BLOCK.get()),
    );
    Record::new(0, volume, Op::Read, offset, length)
}

#[test]
fn a_base_image_is_touched_once_and_seen_by_each_of_its_vms() {
    let mut volumes = Volumes::new();
    let mut image_of = |vm: &str| {
        volumes.intern(&Volume {
            vm: vm.to_owned(),
            name: "base:debian".to_owned(),
        })
    };
    let (web, db) = (image_of("web"), image_of("db"));
    let known = Known {
        time: false,
        operation: true,
        place: true,
    };
    // db reads blocks 2 to 5, two of which web has read, and one of these again.
    let records = [read_of(web, 0, 4), read_of(db, 2, 4), read_of(db, 3, 1)];
    let info = collect(known, &records, &volumes);
    assert_eq!((info.footprint.accesses, info.footprint.blocks), (9, 6));
    assert_eq!(info.reuse.rereferences, 3);
    let seen: Vec<(&str, u64)> = info
        .volumes
        .iter()
        .map(|row| (row.vm.as_str(), row.blocks))
        .collect();
    assert_eq!(seen, [("db", 4), ("web", 4)]);
}
