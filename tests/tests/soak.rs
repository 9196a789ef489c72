//! The soak in twenty seconds: everything at once, everything verified. `cargo run -p e2e --bin soak`
//! goes on for as long as it is told.

#![allow(
    clippy::print_stdout,
    reason = "what happened is told by who runs it by hand"
)]

use std::time::Duration;

use e2e::{GUEST_TOOLS, scenario, soak};

#[test]
fn a_guest_sees_nothing_of_all_that_happens_to_its_host() {
    scenario(&[GUEST_TOOLS, &["nbdsh"]].concat(), |lab| {
        let time = Duration::from_secs(20);
        let report = soak::soak(lab, time, 1, &mut |line| println!("{line}"))?;
        println!("{report}");
        Ok(())
    });
}
