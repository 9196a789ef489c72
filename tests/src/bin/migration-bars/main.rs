//! `cargo run --release -p e2e --bin migration-bars -- pause [MOVES] | link [MIB] | neighbours [TURNS]`: the bars of moves, each
//! measured beside its measure in one run. They need `hearth` built with the same profile, or `$HEARTH_BIN`, and a machine
//! that does nothing else.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

mod link;
mod neighbours;
mod pause;

use e2e::Words;

fn main() -> anyhow::Result<()> {
    let words = Words::of_process();
    match words.word(0, "") {
        "pause" => pause::measure(words.number(1, 100)?),
        "link" => link::measure(words.number(1, 1024)?),
        "neighbours" => neighbours::measure(words.number(1, 3)?),
        _ => anyhow::bail!("say which bar: pause, link or neighbours"),
    }
    Ok(())
}
