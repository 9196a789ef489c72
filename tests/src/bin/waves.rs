//! `cargo run --release -p e2e --bin waves -- [GROUPS] [LINK] [SEED]`: groups of two to four guests move at the same time over
//! a link of so many bytes a second, each group once with equal bandwidth and once with what is dealt so that all end
//! together. How far the time that `hearth group plan` would say is from the time that they take. It needs no `hearth`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use e2e::waves::{Member, Moved, move_wave};
use e2e::{GUEST_TOOLS, GuestKit, Words, scenario};
use groups::{Rate, Split};
use units::Prng;
use units::number::real;

const GROUPS: u64 = 12;
const LINK: &str = "32MiB/s";
/// What a guest rewrites in a second, in KiB.
const DIRTY_KIB: [u64; 6] = [0, 256, 512, 1024, 2048, 3072];
/// How much memory a guest rewrites, in MiB.
const LEAST_MIB: u64 = 24;
const MOST_MIB: u64 = 104;

/// Two to four guests of different sizes.
fn drawn(dice: &mut Prng) -> Vec<Member> {
    let guests = 2 + dice.below(3);
    let member = |_| Member {
        mib: LEAST_MIB + dice.below(MOST_MIB - LEAST_MIB + 1),
        kib_a_second: DIRTY_KIB[usize::try_from(dice.below(6)).unwrap_or(0)],
    };
    (0..guests).map(member).collect()
}

fn show(group: u64, split: Split, moved: &Moved) {
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let loads = moved.loads.iter().map(|load| {
        let (size, dirty) = (real(load.size.get()), load.dirty.bytes_per_second());
        format!("{:.0} + {:.1}", mib(size), mib(dirty))
    });
    let across = moved
        .across
        .iter()
        .map(|time| format!("{:.1}", time.as_secs_f64()));
    println!(
        "| {group} | {} | {} | {:.2} | {:.2} | {:+.1} % | {} | {:.1} % | {} |",
        split.word(),
        loads.collect::<Vec<_>>().join(", "),
        moved.predicted.time_s,
        moved.time().as_secs_f64(),
        100.0 * moved.error(),
        across.collect::<Vec<_>>().join(", "),
        100.0 * moved.gap(),
        moved.lost_pages,
    );
}

/// The mean and the most of what `part` says of some waves, in percent.
fn summary(moved: &[Moved], part: impl Fn(&Moved) -> f64) -> (f64, f64) {
    let parts: Vec<f64> = moved.iter().map(|moved| 100.0 * part(moved)).collect();
    let sum: f64 = parts.iter().sum();
    (
        sum / real(parts.len().max(1) as u64),
        parts.iter().copied().fold(0.0, f64::max),
    )
}

fn main() -> anyhow::Result<()> {
    let words = Words::of_process();
    let (groups, seed) = (words.number(0, GROUPS)?, words.number(2, 1)?);
    let link: Rate = words.word(1, LINK).parse()?;
    println!(
        "{groups} groups over {link}, seed {seed}; guests as MiB to send + MiB a second dirty\n"
    );
    println!(
        "| group | split | guests | predicted, s | took, s | error | each across, s | gap | lost pages |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut dice = Prng::new(seed);
    let mut of_split = Split::ALL.map(|split| (split, Vec::new()));
    for group in 1..=groups {
        let members = drawn(&mut dice);
        for (split, all) in &mut of_split {
            scenario(GUEST_TOOLS, |lab| {
                let kit = GuestKit::build()?;
                let moved = move_wave(lab, &kit, &members, link, *split)?;
                show(group, *split, &moved);
                all.push(moved);
                Ok(())
            });
        }
    }
    println!("\n| split | waves | error, mean | most | gap, mean | most |");
    println!("|---|---|---|---|---|---|");
    for (split, moved) in &of_split {
        let (error, error_max) = summary(moved, |moved| moved.error().abs());
        let (gap, gap_max) = summary(moved, Moved::gap);
        println!(
            "| {} | {} | {error:.1} % | {error_max:.1} % | {gap:.1} % | {gap_max:.1} % |",
            split.word(),
            moved.len()
        );
    }
    Ok(())
}
