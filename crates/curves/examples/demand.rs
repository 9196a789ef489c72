//! The demand tables of the book, on one trace: `N` = 0, 1, 2 side by side, and the methods of prediction.
//!
//! ```text
//! cargo run --release -p curves --example demand -- libcachesim/cloudPhysicsIO.vscsi.zst 10min
//! ```

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example that prints figures"
)]

use curves::{ForecastSettings, ReuseSettings, forecast_rows, reuse_rows};
use policy::demand::Reuses;
use policy::prediction::{Filter, Spec};
use trace::{Options, open};
use units::{Bytes, Duration};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let trace = arguments
        .next()
        .expect("which trace, below the traces' folder");
    let window: Duration = arguments
        .next()
        .expect("a window, such as 10min")
        .parse()
        .unwrap();
    let path = trace_fixtures::real_trace(&trace).expect("the trace");
    let reader = || open(&path, &Options::default()).unwrap().reader;
    let block = Bytes::new(units::BLOCK_BYTES);
    for window in [None, Some(window)] {
        let name = window.map_or_else(|| "for ever".to_owned(), |window| window.to_string());
        println!("{trace}, {name}:\nN\thits\tread hits\tflash writes\tmean usage\tpeak usage");
        let rows = reuse_rows(&mut *reader(), &ReuseSettings { window, block }).unwrap();
        for row in rows {
            println!(
                "{}\t{:.4}\t{:.4}\t{:.4}\t{:.0}\t{}",
                row.reuses,
                row.hit_ratio(),
                row.read_hit_ratio(),
                row.flash_write_ratio(),
                row.usage_mean,
                row.usage_peak
            );
        }
    }
    let settings = ForecastSettings {
        methods: Spec::ALL
            .iter()
            .map(|about| about.name.parse().unwrap())
            .collect(),
        filter: Filter::default(),
        reuses: Reuses::ONE,
        window,
        block,
    };
    println!("{trace}, {window}:\nmethod\twindows\terror\tallocated\tobserved\thits");
    for row in forecast_rows(&mut *reader(), &settings).unwrap() {
        println!(
            "{}\t{}\t{:.3}\t{:.0}\t{:.0}\t{:.4}",
            row.method,
            row.windows,
            row.error.unwrap_or(f64::NAN),
            row.allocated_blocks,
            row.observed_blocks,
            row.hit_ratio()
        );
    }
}
