//! Curves of the real traces: the exact one passes through the reference's LRU rows, the sampled ones
//! stay within the error that the book states.

use std::path::Path;

use curves::{Measured, Method, Settings, measure};
use mrc::{Counted, Writes, even_sizes};
use trace::{Options, open};
use trace_fixtures::real_trace;
use units::Bytes;

fn measured(file: &Path, method: Method) -> Measured {
    let mut opened = open(file, &Options::default()).expect("a known format");
    let settings = Settings {
        method,
        writes: Writes::Allocate,
        block: Bytes::new(units::BLOCK_BYTES),
        per_volume: false,
    };
    measure(&mut *opened.reader, &settings, &mut |_| {}).expect("a whole trace")
}

const MISS_RATIOS: &str = "libcachesim_0.3.5_missratio.csv";

/// The traces that the reference figures are of, by the name that they have there.
const TRACES: [(&str, &str); 6] = [
    ("OLTP", "arc/OLTP.lis.zst"),
    ("P6", "arc/P6.lis.zst"),
    ("P2", "arc/P2.lis.zst"),
    ("cphy", "libcachesim/cloudPhysicsIO.vscsi.zst"),
    ("web2d", "blkreplay/linux-webserver-2-dedup.csv.zst"),
    ("mysql", "blkreplay/linux-mysql.load.gz"),
];

#[test]
fn the_exact_curve_passes_through_every_lru_row_of_the_reference() {
    let rows = trace_fixtures::golden(MISS_RATIOS);
    let mut compared = 0;
    for (name, file) in TRACES {
        let Some(path) = real_trace(file) else {
            return;
        };
        let total = measured(&path, Method::Exact).total;
        for row in rows.iter().filter(|row| row[0] == name && row[2] == "lru") {
            assert_eq!(total.accesses.to_string(), row[3], "{name}");
            let ours = total.all.miss_ratio(row[1].parse().unwrap());
            assert_eq!(format!("{ours:.4}"), row[4], "{name} at {}", row[1]);
            compared += 1;
        }
    }
    assert_eq!(compared, 21);
}

/// Mean absolute errors at 200 even sizes, the mean of several seeds: over all accesses, over reads.
fn errors(path: &Path, exact: &Measured, method: impl Fn(u64) -> Method) -> [f64; 2] {
    const SEEDS: u32 = 4;
    let sizes = even_sizes(exact.total.footprint_blocks, 200);
    let mut sums = [0.0; 2];
    for seed in 0..SEEDS {
        let sampled = measured(path, method(u64::from(seed))).total;
        assert_eq!(sampled.accesses, exact.total.accesses);
        for (sum, counted) in sums.iter_mut().zip([Counted::All, Counted::Reads]) {
            let curve = sampled.of(counted);
            *sum += curve.mean_absolute_error(exact.total.of(counted), &sizes);
        }
    }
    sums.map(|sum| sum / f64::from(SEEDS))
}

#[test]
fn samples_stay_within_the_stated_error_on_every_trace() {
    for (name, file) in TRACES {
        let Some(path) = real_trace(file) else {
            return;
        };
        let exact = measured(&path, Method::Exact);
        let rate = 0.01;
        let [all, reads] = errors(&path, &exact, |seed| Method::FixedRate { rate, seed });
        println!("{name}: at 1 % {all:.4}, reads {reads:.4}");
        assert!(all < 0.012 && reads < 0.035, "{name}: {all}, {reads}");
        let blocks_max = 8192;
        let [all, reads] = errors(&path, &exact, |seed| Method::FixedSize { blocks_max, seed });
        println!("{name}: 8192 blocks {all:.4}, reads {reads:.4}");
        assert!(all < 0.006 && reads < 0.012, "{name}: {all}, {reads}");
    }
}
