//! The real traces are recognised by what is in them, and hold what their table says.

use trace::{Options, Records, open};

/// File, format, requests.
const TRACES: [(&str, &str, usize); 23] = [
    ("arc/OLTP.lis.zst", "lis", 914_145),
    ("arc/P2.lis.zst", "lis", 666_176),
    ("arc/P6.lis.zst", "lis", 519_711),
    ("blkreplay/linux-mysql.load.gz", "blkreplay", 80_794),
    (
        "blkreplay/linux-webserver-2-dedup.csv.zst",
        "blkreplay-csv",
        136_719,
    ),
    (
        "blkreplay/windows-shared-server.load.gz",
        "blkreplay",
        1_371,
    ),
    ("blktrace/eternity8-sdb.blktrace.30.zst", "blktrace", 2_448),
    ("blktrace/hdfs-write.blkparse.txt.zst", "blkparse", 15_524),
    ("blktrace/sample.blktrace.0.zst", "blktrace", 963),
    ("disksim/ajw.1week.srt.zst", "srt", 44_519),
    ("libcachesim/cloudPhysicsIO.vscsi.zst", "vscsi", 113_872),
    ("lirs/2_pools.trace.gz", "text", 100_000),
    ("lirs/loop.trace.gz", "text", 505_500),
    ("lirs/multi1.trace.gz", "text", 15_858),
    ("lirs/sprite.trace.gz", "text", 133_996),
    ("msr/rsrch_1.csv.zst", "msr", 13_780),
    ("msr/wdev_1.csv", "msr", 1_055),
    ("msr/wdev_3.csv", "msr", 682),
    (
        "snia-samples/meta-block_traces_1.csv.zst",
        "tectonic",
        1_023,
    ),
    ("snia-samples/msr-cambridge1-sample.csv", "msr", 1_000),
    (
        "snia-samples/systor17-additional-sample.csv.gz",
        "systor",
        999,
    ),
    ("snia-samples/systor17-traces-sample.csv.gz", "systor", 999),
    (
        "snia-samples/tencent_cloud_storage-sample.bz2",
        "tencent",
        50_000,
    ),
];

#[test]
fn real_traces_are_recognised_and_read_whole() {
    for (file, format, requests) in TRACES {
        let Some(path) = trace_fixtures::real_trace(file) else {
            return;
        };
        let mut opened = open(&path, &Options::default()).unwrap();
        assert_eq!(opened.format.name(), format, "{file}");
        let (mut records, mut count) = (Records::new(), 0);
        while opened.reader.read_batch(&mut records).unwrap() {
            count += records.len();
        }
        assert_eq!(count, requests, "{file}");
    }
}

#[test]
fn a_table_of_results_is_no_trace() {
    let Some(path) = trace_fixtures::real_trace("published/lru_mrc_targets.csv") else {
        return;
    };
    let error = open(&path, &Options::default()).err().unwrap().to_string();
    assert!(error.contains("no known format"), "{error}");
}
