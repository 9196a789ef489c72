//! Demand on the real traces: a sample is as near to the exact sizes as the book says, and leads to the
//! same window.

use mrc::{Counted, Kind, Live, Run, Writes};
use policy::demand::{Chooser, Demand, Exact, Reuses, Sampled, WindowSettings, Windows};
use policy::replacement::Dense;
use trace::{Batch, Op, Options, Splitter, open};
use trace_fixtures::real_trace;
use units::{Bytes, Duration, Instant};

struct Request {
    write: bool,
    run: Run,
    now: Instant,
    keys: Vec<u32>,
}

fn requests(trace: &str) -> Option<Vec<Request>> {
    let path = real_trace(trace)?;
    let mut reader = open(&path, &Options::default())
        .expect("a known format")
        .reader;
    let mut splitter = Splitter::new(Bytes::new(units::BLOCK_BYTES));
    let (mut records, mut batch) = (trace::Records::new(), Batch::default());
    let (mut requests, mut first) = (Vec::new(), None);
    while reader.read_batch(&mut records).expect("a whole trace") {
        splitter
            .split(&records, &mut batch)
            .expect("requests that can be split");
        for request in &batch.requests {
            let record = &request.record;
            let keys = batch.keys_of(request);
            if !record.op.carries_data() || keys.is_empty() {
                continue;
            }
            let begin = *first.get_or_insert(record.time_us);
            requests.push(Request {
                write: record.op == Op::Write,
                run: Run {
                    volume: record.volume.get(),
                    first: record.offset.get() / units::BLOCK_BYTES,
                    count: keys.len() as u64,
                },
                now: Instant::from_nanos(record.time_us.saturating_sub(begin) * 1000),
                keys: keys.to_vec(),
            });
        }
    }
    Some(requests)
}

fn ratio(part: u64, whole: u64) -> f64 {
    let whole = u32::try_from(whole).expect("blocks of a small trace");
    f64::from(u32::try_from(part).expect("blocks of a small trace")) / f64::from(whole)
}

const TRACES: [&str; 5] = [
    "libcachesim/cloudPhysicsIO.vscsi.zst",
    "blkreplay/linux-webserver-2-dedup.csv.zst",
    "blkreplay/linux-mysql.load.gz",
    "disksim/ajw.1week.srt.zst",
    "msr/rsrch_1.csv.zst",
];

/// Mean errors of `WSS` and of `RWSS_1`, over a hundred moments and all windows with so many blocks.
fn errors(requests: &[Request], blocks: u32) -> [f64; 2] {
    const BLOCKS_MIN: u64 = 2_000;
    let windows = Windows::ladder();
    let mut exact = Exact::new(&windows, Dense::new());
    let mut sampled = Sampled::new(&windows, blocks, 1);
    let (mut sums, mut counts) = ([0.0; 2], [0_u32; 2]);
    let every = (requests.len() / 100).max(1);
    for (at, request) in requests.iter().enumerate() {
        for &key in &request.keys {
            exact.access(key, request.now);
        }
        let name = u64::from(request.run.volume) << 40 | request.run.first;
        sampled.access_run(name, request.run.count, request.now);
        if at % every != every - 1 {
            continue;
        }
        for (which, reuses) in [Reuses::NONE, Reuses::ONE].into_iter().enumerate() {
            let there = Demand::<u32>::ladder(&mut exact, reuses, request.now);
            let found = Demand::<u64>::ladder(&mut sampled, reuses, request.now);
            for (&there, found) in there.iter().zip(found) {
                if there >= BLOCKS_MIN {
                    sums[which] += ratio(found.abs_diff(there), there);
                    counts[which] += 1;
                }
            }
        }
    }
    assert!(Demand::<u64>::memory(&sampled) <= Sampled::bound(blocks));
    [0, 1].map(|which| sums[which] / f64::from(counts[which].max(1)))
}

#[test]
fn a_sample_is_within_the_stated_error_on_every_trace() {
    for trace in TRACES {
        let Some(requests) = requests(trace) else {
            return;
        };
        for (blocks, wss_most, rwss_most) in [(1_792, 0.04, 0.1), (7_168, 0.02, 0.04)] {
            let [wss, rwss] = errors(&requests, blocks);
            println!("{trace}: {blocks} blocks: WSS {wss:.4}, RWSS_1 {rwss:.4}");
            assert!(wss < wss_most, "{trace}: {wss} with {blocks}");
            assert!(rwss < rwss_most, "{trace}: {rwss} with {blocks}");
        }
    }
}

/// The windows chosen from a live curve and each measure, a choice every tenth of the trace.
#[test]
fn the_window_chosen_from_samples_is_nearly_the_one_from_everything() {
    for trace in TRACES {
        let Some(requests) = requests(trace) else {
            return;
        };
        let windows = Windows::ladder();
        let chooser = || Chooser::new(windows.clone(), WindowSettings::default()).expect("usual");
        let (mut from_all, mut from_sample) = (chooser(), chooser());
        let mut exact = Exact::new(&windows, Dense::new());
        let mut sampled = Sampled::new(&windows, 7_168, 1);
        let mut live = Live::new(8_192, 1, Writes::Allocate);
        let mut whole = mrc::Exact::new(Writes::Allocate);
        let mut chosen = Vec::new();
        let (mut next, minute) = (Instant::ZERO, Duration::from_secs(60));
        for (at, request) in requests.iter().enumerate() {
            if request.now >= next {
                next = request.now + minute;
                from_all.observe(&Demand::<u32>::ladder(&mut exact, Reuses::ONE, request.now));
                let sizes = Demand::<u64>::ladder(&mut sampled, Reuses::ONE, request.now);
                from_sample.observe(&sizes);
            }
            for &key in &request.keys {
                exact.access(key, request.now);
            }
            let name = u64::from(request.run.volume) << 40 | request.run.first;
            sampled.access_run(name, request.run.count, request.now);
            let kind = if request.write {
                Kind::Write
            } else {
                Kind::Read
            };
            live.access(kind, request.run);
            whole.access(kind, &request.keys);
            if at % (requests.len() / 10) == requests.len() / 10 - 1 {
                let curve = whole.curve(Counted::All);
                let all = from_all.choose(|blocks| curve.hit_ratio(blocks));
                let curve = live.curve(Counted::All);
                let sample = from_sample.choose(|blocks| curve.hit_ratio(blocks));
                chosen.push((all, sample));
            }
        }
        let (all, _) = &chosen[chosen.len() - 1];
        for rung in &all.curve {
            println!(
                "{trace}: {}: {} blocks, {:.3} hits",
                rung.window, rung.blocks, rung.hit_ratio
            );
        }
        let lengths: Vec<_> = chosen
            .iter()
            .map(|(all, sample)| (all.window, sample.window))
            .collect();
        println!("{trace}: {lengths:?}");
        let place = |window| windows.position(window).expect("one of them");
        for (all, sample) in lengths {
            assert!(
                place(all).abs_diff(place(sample)) <= 1,
                "{trace}: {all}, {sample}"
            );
        }
    }
}
