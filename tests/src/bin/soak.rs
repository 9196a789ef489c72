//! `cargo run -p e2e --bin soak -- [MINUTES] [SEED]`: an hour of everything at once, see
//! [`e2e::soak`]. It needs `hearth` built with the same profile, or `$HEARTH_BIN`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use std::time::Duration;

use e2e::{GUEST_TOOLS, Words, scenario, soak};

const MINUTES: u64 = 60;

fn main() -> anyhow::Result<()> {
    let words = Words::of_process();
    let (minutes, seed) = (words.number(0, MINUTES)?, words.number(1, 1)?);
    let time = Duration::from_mins(minutes);
    println!("soaking for {minutes} minutes, seed {seed}");
    scenario(&[GUEST_TOOLS, &["nbdsh"]].concat(), |lab| {
        let report = soak::soak(lab, time, seed, &mut |line| println!("{line}"))?;
        println!("{report}");
        Ok(())
    });
    Ok(())
}
