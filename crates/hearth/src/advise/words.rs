//! An advice in words that an operator can act on.

use super::answer::{Answer, AnswerCaution, AnswerMemory, AnswerObstacle, AnswerOutlook};
use crate::terminal::{Side, Table, quantity};
use std::fmt::{self, Write};

/// Writes the advice on one trace: what to do first, the figures below.
pub(super) fn write(out: &mut String, answer: &Answer) -> fmt::Result {
    heading(out, answer)?;
    verdict(out, answer)?;
    for obstacle in &answer.obstacles {
        writeln!(out, "- {}", obstacle_words(obstacle, answer))?;
    }
    for caution in &answer.cautions {
        writeln!(out, "note: {}", caution_words(caution))?;
    }
    writeln!(out)?;
    write!(out, "{}", table(answer))?;
    in_front(out, answer)?;
    assumed(out, answer)
}

fn heading(out: &mut String, answer: &Answer) -> fmt::Result {
    let accesses = answer.reads + answer.writes;
    write!(
        out,
        "{}: {}; {} block accesses, {} of them reads, to {}",
        answer.trace,
        answer.format,
        accesses,
        quantity::percent(answer.reads, accesses),
        quantity::bytes(answer.footprint_blocks.saturating_mul(answer.block_bytes)),
    )?;
    match answer.duration_seconds {
        Some(seconds) => writeln!(out, " in {}\n", quantity::time(seconds)),
        None => writeln!(out, "\n"),
    }
}

fn verdict(out: &mut String, answer: &Answer) -> fmt::Result {
    let Some(advised) = &answer.advised else {
        return writeln!(
            out,
            "A cache does not pay: not one read could hit, whatever its size."
        );
    };
    let size = quantity::bytes(advised.size_bytes);
    if !answer.pays {
        writeln!(
            out,
            "A cache does not pay. The best size would be {size}, but:"
        )?;
        return Ok(());
    }
    let why = if advised.gain_a_month.is_some() {
        "the size that gains most at these prices".to_owned()
    } else if answer.knee_blocks == Some(advised.size_blocks) {
        format!(
            "the knee, where twice as much adds less than {}",
            points(answer.assumed.doubling_gain_min)
        )
    } else if advised.size_blocks < answer.footprint_blocks {
        format!(
            "room for all the rest adds less than {}; the curve has no knee before",
            points(answer.assumed.doubling_gain_min)
        )
    } else {
        "room for all that is touched; the curve rises up to there and has no knee".to_owned()
    };
    writeln!(out, "Give it {size}: {why}.")?;
    writeln!(
        out,
        "{} of the reads hit (at most {} could). The mean access takes {} instead of {}, {:.1} times \
         as fast.",
        quantity::share(advised.read_hit_ratio),
        quantity::share(answer.read_hit_ratio_max),
        micros(advised.access_us),
        micros(advised.access_us_without),
        advised.access_us_without / advised.access_us,
    )?;
    more(out, answer, advised)?;
    saved(out, advised)?;
    wear(out, advised)
}

/// What larger caches would gain.
fn more(out: &mut String, answer: &Answer, advised: &AnswerOutlook) -> fmt::Result {
    let words = answer.larger.iter().map(|larger| {
        format!(
            "{} would hit {} of the reads, {} more",
            quantity::bytes(larger.size_bytes),
            quantity::share(larger.read_hit_ratio),
            points(larger.read_hit_ratio - advised.read_hit_ratio)
        )
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}.", words.join("; "))
}

/// Hits of a hundred reads.
fn points(share: f64) -> String {
    format!("{:.1} of 100 reads", 100.0 * share)
}

/// What the origin need not do.
fn saved(out: &mut String, advised: &AnswerOutlook) -> fmt::Result {
    write!(
        out,
        "The origin saves {} of its time",
        quantity::share(advised.origin_time_saved)
    )?;
    if let Some(seconds) = advised.origin_seconds_saved_a_day {
        write!(out, ", {} of work a day", quantity::time(seconds))?;
    }
    writeln!(out, ".")
}

fn wear(out: &mut String, advised: &AnswerOutlook) -> fmt::Result {
    let Some(a_day) = advised.flash_bytes_a_day else {
        return Ok(());
    };
    write!(out, "Flash is written {} a day", decimal(a_day))?;
    if let Some(writes) = advised.drive_writes_a_day {
        write!(out, ", {writes:.2} times the drive")?;
    }
    if let Some(life) = advised.drive_life_years {
        write!(out, "; it would last {}", years(life))?;
    }
    if let Some(gain) = advised.gain_a_month {
        write!(out, "; the gain is {gain:.2} a month")?;
    }
    writeln!(out, ".")
}

fn obstacle_words(obstacle: &AnswerObstacle, answer: &Answer) -> String {
    match *obstacle {
        AnswerObstacle::HardlyReads { read_share } => format!(
            "only {} of the accesses are reads, and with write policy '{}' writes wait for the origin \
             all the same. If losing the flash may lose data, ask again with --write-policy back; else \
             leave this disk uncached.",
            quantity::share(read_share),
            answer.assumed.write_policy
        ),
        AnswerObstacle::HardlyReuses { read_hit_ratio_max } => format!(
            "only {} of the reads would hit even if everything stayed cached: the rest are first reads of \
             their blocks. Leave it uncached, or give the guest more memory instead.",
            quantity::share(read_hit_ratio_max)
        ),
        AnswerObstacle::FlashNotFaster => format!(
            "a read from flash ({}) is no faster than one from the origin ({}). Faster flash would be \
             needed, not more of it.",
            micros(answer.assumed.flash_read_us),
            micros(answer.assumed.origin_read_us)
        ),
        AnswerObstacle::LittleFaster { gain } if gain < 0.0 => format!(
            "the mean access would take {} instead of {}. Writes wait until the origin has taken earlier ones: it does not \
             keep up with them.",
            micros(answer.advised.map_or(0.0, |advised| advised.access_us)),
            micros(
                answer
                    .advised
                    .map_or(0.0, |advised| advised.access_us_without)
            ),
        ),
        AnswerObstacle::LittleFaster { gain } => format!(
            "the mean access would be only {} faster; the guest would not feel it. What it waits for are \
             its writes or its misses.",
            quantity::share(gain)
        ),
        AnswerObstacle::WearsOut {
            life_years,
            drive_writes_needed,
        } => format!(
            "the drive would last {}, not {}. It takes a drive of {drive_writes_needed:.1} drive writes a \
             day, a larger one, or fewer writes: --write-policy around keeps writes off the flash, and \
             stricter admission keeps blocks off that are read once.",
            years(life_years),
            years(answer.assumed.years)
        ),
        AnswerObstacle::CostsMore { loss_a_month } => format!(
            "at these prices flash costs {loss_a_month:.2} a month more than it saves, and no size does \
             better."
        ),
    }
}

fn caution_words(caution: &AnswerCaution) -> String {
    match *caution {
        AnswerCaution::NoTime => {
            "the trace has no times, so nothing is said of days, wear or money".to_owned()
        }
        AnswerCaution::Short { seconds } => format!(
            "the trace is {} long; what a whole day or week does (backups, scans) is not in it, and \
             figures a day repeat it",
            quantity::time(seconds)
        ),
        AnswerCaution::MostlyFirstAccesses { share } => format!(
            "{} of the accesses are the first to their block: the trace ends before a cache is warm. A \
             longer one would show more hits and ask for more room",
            quantity::share(share)
        ),
        AnswerCaution::SmallSample { blocks } => format!(
            "the curve is from {blocks} sampled blocks only; take --samples 8192 or --exact"
        ),
    }
}

fn table(answer: &Answer) -> Table {
    let first = answer.sizes.first();
    let has_day = first.is_some_and(|size| size.flash_bytes_a_day.is_some());
    let has_life = answer
        .sizes
        .iter()
        .any(|size| size.drive_life_years.is_some());
    let has_gain = first.is_some_and(|size| size.gain_a_month.is_some());
    let mut columns = vec![
        ("size", Side::Right),
        ("read hits", Side::Right),
        ("mean read", Side::Right),
        ("mean access", Side::Right),
        ("origin saved", Side::Right),
        ("flash written", Side::Right),
    ];
    for (is_there, name) in [
        (has_day, "a day"),
        (has_life, "drive lasts"),
        (has_gain, "gain a month"),
    ] {
        if is_there {
            columns.push((name, Side::Right));
        }
    }
    columns.push(("", Side::Left));
    let mut table = Table::new(&columns);
    for size in &answer.sizes {
        let mut cells = vec![
            quantity::bytes(size.size_bytes),
            quantity::share(size.read_hit_ratio),
            micros(size.read_us),
            micros(size.access_us),
            quantity::share(size.origin_time_saved),
            decimal(size.flash_bytes),
        ];
        let day = size.flash_bytes_a_day.map(decimal);
        let life = size.drive_life_years.map(years);
        let gain = size.gain_a_month.map(|gain| format!("{gain:.2}"));
        for (is_there, cell) in [(has_day, day), (has_life, life), (has_gain, gain)] {
            if is_there {
                cells.push(cell.unwrap_or_else(|| "-".to_owned()));
            }
        }
        let is_advised = answer
            .advised
            .is_some_and(|advised| advised.size_blocks == size.size_blocks);
        cells.push(
            if is_advised && answer.pays {
                "advised"
            } else {
                ""
            }
            .to_owned(),
        );
        table.row(cells);
    }
    table
}

/// What memory in front of the flash would change.
fn in_front(out: &mut String, answer: &Answer) -> fmt::Result {
    let (Some(last), Some(advised)) = (answer.memory.last(), answer.advised) else {
        return Ok(());
    };
    let size = |memory: &AnswerMemory| quantity::bytes(memory.size_bytes);
    writeln!(out)?;
    match answer.memory.iter().find(|memory| memory.pays) {
        Some(least) => writeln!(
            out,
            "Memory in front of it pays from {} on: {} of the reads need no flash, and the mean access takes {} less. \
             `frames` and `hot` in [cache.policy] give it.",
            size(least),
            quantity::share(least.read_hit_ratio),
            quantity::share(least.gain),
        )?,
        None => writeln!(
            out,
            "Memory in front of it does not pay: with {} the mean access takes {} less. The guests make more of it.",
            size(last),
            quantity::share(last.gain),
        )?,
    }
    let mut table = Table::new(&[
        ("memory", Side::Right),
        ("reads from it", Side::Right),
        ("mean access", Side::Right),
        ("less", Side::Right),
    ]);
    table.row(vec![
        "none".to_owned(),
        quantity::share(0.0),
        micros(advised.access_us),
        quantity::share(0.0),
    ]);
    for memory in &answer.memory {
        table.row(vec![
            size(memory),
            quantity::share(memory.read_hit_ratio),
            micros(memory.access_us),
            quantity::share(memory.gain),
        ]);
    }
    writeln!(out)?;
    write!(out, "{table}")
}

fn assumed(out: &mut String, answer: &Answer) -> fmt::Result {
    let assumed = &answer.assumed;
    let policy = match assumed.policy.as_str() {
        "lru" => "LRU; every miss is admitted".to_owned(),
        "daemon" => "what hearth serve does by default, its admission included".to_owned(),
        policy => policy.to_owned(),
    };
    let sample = match assumed.simulated_rate {
        rate if rate < 1.0 => format!(", simulated over {} of the trace", quantity::share(rate)),
        _ => String::new(),
    };
    let queues = if assumed.queues {
        "with the origin's queue"
    } else {
        "without queues"
    };
    writeln!(
        out,
        "\nassumed: {policy}{sample}; writes go {}; flash reads {} writes {}, origin reads {} writes {}, {queues}; \
         {:.2} bytes written to flash for a byte {}",
        assumed.write_policy,
        micros(assumed.flash_read_us),
        micros(assumed.flash_write_us),
        micros(assumed.origin_read_us),
        micros(assumed.origin_write_us),
        assumed.write_amplification,
        if assumed.simulated {
            "counted"
        } else {
            "cached"
        },
    )
}

fn micros(micros: f64) -> String {
    quantity::time(micros / 1e6)
}

/// Bytes in decimal units, as drives are sold and worn.
fn decimal(bytes: f64) -> String {
    format!("{}B", quantity::count(bytes))
}

fn years(years: f64) -> String {
    quantity::time(years * 365.0 * 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_is_counted_in_the_units_of_its_data_sheet() {
        assert_eq!(decimal(1.5e9), "1.50GB");
        assert_eq!(decimal(2.0e12), "2.00TB");
    }
}
