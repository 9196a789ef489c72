//! Advice on a running host, in words.

use crate::terminal::{Side, Table, quantity};
use api::advice::{CacheAdvice, Finding, HostAdvice};
use std::fmt::{self, Write};

/// Writes the advice on every cache: what to do first, the figures below.
pub(crate) fn write(out: &mut String, advice: &HostAdvice) -> fmt::Result {
    if advice.caches.is_empty() {
        return writeln!(
            out,
            "No cache divides its flash among VMs: `enabled = true` in [cache.policy] lets one."
        );
    }
    for (place, cache) in advice.caches.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        of_cache(out, cache)?;
    }
    Ok(())
}

fn of_cache(out: &mut String, cache: &CacheAdvice) -> fmt::Result {
    writeln!(
        out,
        "cache {}: {} to divide; VMs want {:.0}% of it; {} blocks read a second\n",
        cache.cache,
        blocks(cache.capacity_blocks),
        100.0 * cache.load,
        quantity::count(cache.reads_per_second),
    )?;
    for finding in &cache.findings {
        writeln!(out, "- {}", words(finding, cache))?;
    }
    if cache.findings.iter().any(|one| {
        matches!(
            one,
            Finding::TooEarly { .. } | Finding::FirstWindow { .. } | Finding::Idle
        )
    }) {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("flash", Side::Right),
        ("hits a second", Side::Right),
        ("of reads", Side::Right),
        ("", Side::Left),
    ]);
    let mut row = |size: u64, hits: f64, what: &str| {
        let part = if cache.reads_per_second > 0.0 {
            format!("{:.1}%", 100.0 * hits / cache.reads_per_second)
        } else {
            "-".to_owned()
        };
        table.row(vec![
            blocks(size),
            quantity::count(hits),
            part,
            what.to_owned(),
        ]);
    };
    let capacity = cache.capacity_blocks;
    row(capacity, cache.hits_per_second, "as it is divided now");
    row(capacity, cache.best_hits_per_second, "divided best");
    for more in &cache.more_flash {
        row(capacity + more.more_blocks, more.hits_per_second, "");
    }
    writeln!(out)?;
    write!(out, "{table}")?;
    writeln!(
        out,
        "\nassumed: LRU, every miss let in, the reads of the last hours; from the live curves"
    )
}

fn blocks(count: u64) -> String {
    quantity::bytes(count.saturating_mul(units::BLOCK_BYTES))
}

/// Why there is no advice.
fn not_yet(finding: &Finding, cache: &CacheAdvice) -> String {
    match finding {
        Finding::TooEarly {
            read_blocks,
            needed_blocks,
        } => format!(
            "Too early to say: {read_blocks} blocks were read since the start, {needed_blocks} are \
             needed. Ask again later."
        ),
        Finding::FirstWindow { window_seconds } => format!(
            "The first window, of {}, has not ended since the start: ask again when it has, or measure over \
             shorter ones: hearth cache set {} --window 1min.",
            quantity::time(*window_seconds),
            cache.cache
        ),
        _ => "Nothing was read in the last window: ask while the VMs are at work.".to_owned(),
    }
}

fn memory_answers(vm: &str, memory_blocks: u64, rate: &str) -> String {
    let memory = blocks(memory_blocks);
    format!(
        "{vm} would have {rate} from {memory} of memory in front of its flash: `frames` and `hot` in [cache.policy]."
    )
}

fn memory_does_not_pay(memory_blocks: u64) -> String {
    let memory = blocks(memory_blocks);
    format!(
        "Memory in front of the flash does not pay: {memory} would answer less than a tenth of what any VM reads."
    )
}

fn words(finding: &Finding, cache: &CacheAdvice) -> String {
    let rate = |hits: f64| {
        let part = 100.0 * hits / cache.reads_per_second.max(f64::MIN_POSITIVE);
        format!(
            "{} hits a second ({part:.1}% of reads)",
            quantity::count(hits)
        )
    };
    match finding {
        Finding::TooEarly { .. } | Finding::FirstWindow { .. } | Finding::Idle => {
            not_yet(finding, cache)
        }
        Finding::Overloaded { missing_blocks } => format!(
            "The host is overloaded: its VMs want {} more than there is. Move a VM away, give floors to \
             those that matter, or add flash.",
            blocks(*missing_blocks)
        ),
        Finding::BudgetLimits {
            vm,
            refused_blocks,
            part,
        } => {
            let whose = match vm {
                Some(vm) => format!("for {vm}"),
                None => "of the cache".to_owned(),
            };
            format!(
                "The write budget costs hits: {refused_blocks} blocks {whose} were not let in for want of \
                 it, {:.0}% of those that asked. Raise it, or choose a stricter admission.",
                100.0 * part
            )
        }
        Finding::Gains {
            vm,
            more_blocks,
            hits_per_second,
        } => format!(
            "{vm} would gain {} from {} more: hearth vm set {vm} --weight or --floor, or the allocation \
             `utility`, gives it that.",
            rate(*hits_per_second),
            blocks(*more_blocks)
        ),
        Finding::CouldGive {
            vm,
            less_blocks,
            hits_per_second,
        } => format!(
            "{vm} could give {} and lose {}.",
            blocks(*less_blocks),
            rate(*hits_per_second)
        ),
        Finding::MoreFlashPays {
            more_blocks,
            hits_per_second,
        } => format!(
            "More flash pays: {} more would add {}.",
            blocks(*more_blocks),
            rate(*hits_per_second)
        ),
        Finding::FlashIsEnough => {
            "There is flash enough: as much again would hardly add hits.".to_owned()
        }
        Finding::MemoryAnswers {
            vm,
            memory_blocks,
            hits_per_second,
        } => memory_answers(vm, *memory_blocks, &rate(*hits_per_second)),
        Finding::MemoryDoesNotPay { memory_blocks } => memory_does_not_pay(*memory_blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;
    use daemon::advice::{Divided, advise};

    #[test]
    fn advice_names_what_to_do() {
        let cache = Divided {
            cache: samples::share().cache,
            capacity_blocks: 4 << 18,
            load: 1.5,
        };
        let mut out = String::new();
        write(&mut out, &advise(&[cache], &samples::vms())).unwrap();
        assert!(
            out.contains("overloaded: its VMs want 2.00GiB more"),
            "{out}"
        );
        assert!(out.contains("More flash pays"), "{out}");
        assert!(out.contains("Memory in front of the flash"), "{out}");
        assert!(out.contains("as it is divided now"), "{out}");
    }

    #[test]
    fn without_a_policy_there_is_nothing_to_say() {
        let mut out = String::new();
        write(&mut out, &HostAdvice { caches: Vec::new() }).unwrap();
        assert!(out.contains("enabled = true"));
    }
}
