//! `cargo run --release -p e2e --bin migration-bars -- pause [MOVES] | link [MIB] | neighbours [TURNS]`: the bars of moves, each
//! measured beside its measure in one run. They need `hearth` built with the same profile, or `$HEARTH_BIN`, and a machine
//! that does nothing else.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

mod link;
mod neighbours;
mod pause;

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |absent: u32| {
        let word = words.get(1);
        word.map_or(Ok(absent), |word| word.parse().context(word.clone()))
    };
    match words.first().map(String::as_str) {
        Some("pause") => pause::measure(number(100)?),
        Some("link") => link::measure(number(1024)?),
        Some("neighbours") => neighbours::measure(number(3)?),
        _ => anyhow::bail!("say which bar: pause, link or neighbours"),
    }
    Ok(())
}
