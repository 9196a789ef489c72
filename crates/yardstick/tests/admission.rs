//! The admission policies on the real traces, beside figures of simplified rules from a small probe.
//!
//! In place behind LRU, all accesses alike, with as much memory as each rule had. Rows of the rules whose
//! definition is ours must be equal to the last digit. The probe's `s3fifo_flash` let the small queue in RAM
//! grow to the size of the flash as long as that was not full; a model of it gives its figures, and
//! `probation`, whose RAM is bounded, must be near: `book/src/admission.md` has both.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a test"
)]

use policy::admission::staging::Staging;
use policy::admission::{Share, Spec};
use units::Bytes;
use yardstick::admission::{Front, Seen};

mod s3_fifo_of_the_probe;

/// A digit of the table: its halves were rounded as the machine's numbers do.
const DIGIT: f64 = 0.000_101;

/// How far `probation` may stay behind the probe's form of S3-FIFO: hits (mysql at 14,000 blocks, where
/// flash is never full and so the probe's RAM takes 14,000 blocks), and writes.
const HITS_LESS: f64 = 0.11;
const WRITES_MORE: f64 = 0.02;

/// A rule of the table as policies of ours: admission, replacement, addresses as a multiple of the cache.
fn rule(name: &str) -> (&'static str, &'static str, u64) {
    match name {
        "lru" => ("always", "lru", 0),
        "sieve" => ("always", "sieve", 0),
        "larc" => ("larc", "lru", 1),
        "rws1_A=C" => ("staging:kind=address", "lru", 1),
        "rws1_A=4C" => ("staging:kind=address", "lru", 4),
        "rws2_A=4C" => ("staging:kind=address,n=2", "lru", 4),
        other => panic!("what is {other}?"),
    }
}

/// Ratios of hits and of writes.
type Ratios = (f64, f64);

fn run(spec: &str, replacement: &str, blocks: u64, staging: Bytes, keys: &[u32]) -> Ratios {
    let spec: Spec = spec.parse().unwrap();
    let share = Share::new(blocks, staging);
    let mut front = Front::new(&spec, share, replacement, blocks);
    for key in keys {
        front.access(Seen::plain(*key));
    }
    (front.counts.hit_ratio(), front.counts.admitted_ratio())
}

fn ours(name: &str, blocks: u64, keys: &[u32]) -> Ratios {
    if name == "s3fifo_flash" {
        let (hits, writes) = s3_fifo_of_the_probe::run(keys, usize::try_from(blocks).unwrap());
        let all = keys.len() as f64;
        return (hits as f64 / all, writes as f64 / all);
    }
    let (spec, replacement, addresses) = rule(name);
    // A row more is in use while a newcomer pushes the oldest out.
    let staging = Bytes::new(Staging::<u64>::address_bytes() * (addresses * blocks + 1));
    run(spec, replacement, blocks, staging, keys)
}

fn check(trace: &str, only: impl Fn(u64, &str) -> bool) {
    let streams = trace_fixtures::golden("streams.csv");
    let file = &streams.iter().find(|row| row[0] == trace).unwrap()[1];
    let Some(path) = trace_fixtures::real_trace(file) else {
        return;
    };
    let keys = yardstick::keys_of(&path);
    let mut rows = 0;
    for row in trace_fixtures::golden("admission_reference.csv") {
        let blocks = row[1].parse().unwrap();
        if row[0] != trace || !only(blocks, &row[2]) {
            continue;
        }
        let name = &row[2];
        let [hits, writes]: [f64; 2] = [&row[3], &row[4]].map(|text| text.parse().unwrap());
        let (our_hits, our_writes) = ours(name, blocks, &keys);
        println!("{trace},{blocks},{name},{hits},{writes},ours,{our_hits:.4},{our_writes:.4}");
        assert!(
            (our_hits - hits).abs() < DIGIT,
            "hits of {name} at {blocks}"
        );
        assert!(
            (our_writes - writes).abs() < DIGIT,
            "writes of {name} at {blocks}"
        );
        if name == "s3fifo_flash" {
            let flash = blocks * 9 / 10;
            let spec = "probation:data=0.1111,ghosts=1";
            let (our_hits, our_writes) = run(spec, "clock:bits=2", flash, Bytes::gib(1), &keys);
            println!(
                "{trace},{blocks},probation,{hits},{writes},ours,{our_hits:.4},{our_writes:.4}"
            );
            assert!(hits - our_hits < HITS_LESS, "{our_hits:.4} at {blocks}");
            assert!(
                our_writes - writes < WRITES_MORE,
                "{our_writes:.4} at {blocks}"
            );
        }
        rows += 1;
    }
    assert!(rows >= 6);
}

#[test]
fn oltp_gives_the_figures_of_the_probe() {
    check("OLTP", |_, _| true);
}

#[test]
fn cphy_gives_the_figures_of_the_probe() {
    check("cphy", |_, _| true);
}

#[test]
fn web2d_gives_the_figures_of_the_probe() {
    check("web2d", |_, _| true);
}

#[test]
fn mysql_gives_the_figures_of_the_probe() {
    check("mysql", |_, _| true);
}

#[test]
fn p6_gives_the_figures_of_the_probe_at_one_size() {
    // The model is slow, and on this trace .001 off: it is a guess at what the probe was.
    check("P6", |blocks, name| {
        blocks == 32_768 && name != "s3fifo_flash"
    });
}
