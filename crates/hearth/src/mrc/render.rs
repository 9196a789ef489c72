//! `hearth mrc` for people: a plot and a table for each trace and volume.

use super::answer::Answer;
use super::plot;
use crate::terminal::{Side, Table, quantity};
use mrc::Counted;
use std::fmt::{self, Write};
use units::number::real;

/// Where the table looks, in percent of the footprint.
const PERCENTS: [u64; 11] = [1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100];

/// Fewer sampled blocks than this are worth a warning.
const SAMPLED_MIN: u64 = mrc::advice::limits::SAMPLED_BLOCKS_MIN;

/// The curves of one trace or volume, one a policy.
pub(super) fn group(
    out: &mut String,
    answers: &[&Answer],
    counted: Counted,
    sizes: &[u64],
) -> fmt::Result {
    let Some(first) = answers.first() else {
        return Ok(());
    };
    heading(out, first)?;
    let widest = answers.iter().map(|one| one.footprint_blocks).max();
    let widest = widest.unwrap_or(0);
    draw(out, answers, counted, widest)?;
    writeln!(out)?;
    let sizes: Vec<u64> = if sizes.is_empty() {
        let part = |percent: &u64| (widest / 100 * percent + widest % 100 * percent / 100).max(1);
        let mut sizes: Vec<u64> = PERCENTS.iter().map(part).collect();
        sizes.extend(answers.iter().filter_map(|answer| answer.knee_blocks));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    } else {
        sizes.to_vec()
    };
    write!(out, "{}", table(answers, counted, &sizes))?;
    for answer in answers {
        notes(out, answer)?;
    }
    Ok(())
}

/// What the curves are of.
pub(super) fn heading(out: &mut String, answer: &Answer) -> fmt::Result {
    write!(out, "{}", answer.trace)?;
    if let Some(volume) = &answer.volume {
        write!(out, ", volume {volume}")?;
    } else {
        write!(out, ": {}", answer.format)?;
    }
    let about = if answer.rate < 1.0 { "about " } else { "" };
    writeln!(
        out,
        "; {} accesses, {} of them reads; {about}{} distinct blocks of {} ({})\n",
        answer.accesses,
        quantity::percent(answer.reads, answer.accesses),
        answer.footprint_blocks,
        quantity::bytes(answer.block_bytes),
        quantity::bytes(answer.footprint_blocks.saturating_mul(answer.block_bytes)),
    )
}

fn draw(out: &mut String, answers: &[&Answer], counted: Counted, widest: u64) -> fmt::Result {
    let at = |answer: &Answer, part: f64| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a number of blocks"
        )]
        let blocks = (part * real(widest)) as u64;
        answer.curves.of(counted).miss_ratio(blocks)
    };
    let functions: Vec<Box<dyn Fn(f64) -> f64 + '_>> = answers
        .iter()
        .map(|answer| Box::new(move |part| at(answer, part)) as Box<dyn Fn(f64) -> f64>)
        .collect();
    let functions: Vec<&dyn Fn(f64) -> f64> = functions.iter().map(AsRef::as_ref).collect();
    let names: Vec<String> = answers
        .iter()
        .enumerate()
        .map(|(place, answer)| format!("{} {}", plot::letter(place), answer.policy))
        .collect();
    let title = format!(
        "{} by size of the cache: {}",
        over(counted),
        names.join("  ")
    );
    let block = answers.first().map_or(1, |answer| answer.block_bytes);
    let right = quantity::bytes(widest.saturating_mul(block));
    plot::draw(out, &functions, &title, &right)
}

const fn over(counted: Counted) -> &'static str {
    match counted {
        Counted::All => "misses of reads and writes",
        Counted::Reads => "misses of reads",
    }
}

fn table(answers: &[&Answer], counted: Counted, sizes: &[u64]) -> Table {
    let mut table = Table::new(&[
        ("size", Side::Right),
        ("blocks", Side::Right),
        ("policy", Side::Left),
        ("miss ratio", Side::Right),
        ("read miss ratio", Side::Right),
        ("", Side::Left),
    ]);
    for &blocks in sizes {
        for answer in answers {
            let knee = match answer.knee_blocks {
                Some(knee) if knee == blocks => "knee",
                _ => "",
            };
            table.row(vec![
                quantity::bytes(blocks.saturating_mul(answer.block_bytes)),
                blocks.to_string(),
                answer.policy.clone(),
                format!("{:.4}", answer.curves.of(counted).miss_ratio(blocks)),
                format!("{:.4}", answer.curves.reads.miss_ratio(blocks)),
                knee.to_owned(),
            ]);
        }
    }
    table
}

fn notes(out: &mut String, answer: &Answer) -> fmt::Result {
    if answer.sampled_blocks < SAMPLED_MIN && answer.sampled_blocks < answer.footprint_blocks {
        writeln!(
            out,
            "note: {} is from {} sampled blocks only, so the curve may be off by several hundredths; \
             take --samples 8192 or --exact",
            answer.policy, answer.sampled_blocks
        )?;
    }
    Ok(())
}
