//! The section on memory in front of the flash: hits by kind, what was prefetched, what was refused and why.

use super::bars::{Bar, Bars};
use super::label::{self, escape, percent_exact};
use super::page;
use crate::number::{ratio, real};
use crate::result::RunResult;
use std::fmt::{self, Write};

/// What memory was worth in a run.
pub(super) struct Use {
    /// The run, as bars and rows name it.
    pub(super) name: String,
    /// The memory.
    pub(super) size_bytes: u64,
    /// Blocks that were read.
    pub(super) reads: u64,
    /// Those of them that admission had staged.
    pub(super) staged: u64,
    /// Those of them that had been prefetched and were read for the first time.
    pub(super) ahead: u64,
    /// Those of them that had been read before.
    pub(super) hot: u64,
    /// What was prefetched, if anybody guessed.
    pub(super) prefetched: Option<Prefetched>,
    /// What was refused, by reason.
    pub(super) refused: Vec<(&'static str, u64)>,
}

/// What became of blocks that were prefetched.
pub(super) struct Prefetched {
    pub(super) fetched: u64,
    pub(super) used: u64,
    pub(super) wasted: u64,
    /// Used blocks, out of those of which is known what became of them.
    pub(super) precision: Option<f64>,
    /// Memory of miners and prices.
    pub(super) memory_bytes: u64,
}

/// Bars of a picture; more could not be read.
const BARS_SHOWN: usize = 24;

/// What each run over a trace had of memory: staged blocks and the memory in front. Empty if no run had any.
pub(super) fn of_runs(runs: &[RunResult]) -> Vec<Use> {
    let has_memory = |run: &&RunResult| run.ram_blocks > 0 || run.counters.ram_hits() > 0;
    let of_run = |run: &RunResult| {
        let counters = &run.counters;
        let refused = run.refused.iter().filter(|(_, blocks)| *blocks > 0);
        Use {
            name: format!("{}, {}", run.method(), label::bytes(real(run.size_bytes()))),
            size_bytes: u64::from(run.ram_blocks) * run.block_bytes + run.admission_memory.get(),
            reads: counters.reads,
            staged: counters.ram_read_hits - counters.ram_hot_read_hits,
            ahead: 0,
            hot: counters.ram_hot_read_hits,
            prefetched: None,
            refused: refused
                .map(|(reason, blocks)| (reason.name(), blocks))
                .collect(),
        }
    };
    runs.iter().filter(has_memory).map(of_run).collect()
}

/// The section; nothing if no run had memory.
pub(super) fn section(out: &mut String, uses: &[Use]) -> fmt::Result {
    if uses.is_empty() {
        return Ok(());
    }
    out.push_str("<section><h3>Memory and prefetch</h3><div class=\"figures\">");
    hits(uses).write(
        out,
        "Blocks read from memory",
        "By why they were there: staged by admission, prefetched (ahead), or read before (hot).",
    )?;
    if uses.iter().any(|one| one.prefetched.is_some()) {
        outcomes(uses).write(
            out,
            "Blocks prefetched",
            "Used, or wasted: gone unread. What is neither yet is left out.",
        )?;
    }
    out.push_str("</div>");
    table(out, uses)?;
    out.push_str("</section>");
    Ok(())
}

impl Bars {
    /// Writes the figure, with as many bars as can be read.
    fn write(mut self, out: &mut String, title: &str, caption: &str) -> fmt::Result {
        let all = self.rows.len();
        self.rows.truncate(BARS_SHOWN);
        let mut caption = caption.to_owned();
        if all > BARS_SHOWN {
            write!(
                caption,
                " The first {BARS_SHOWN} of {all}; the table has all."
            )?;
        }
        page::figure(out, title, &caption, &self.html()?, false)
    }
}

fn hits(uses: &[Use]) -> Bars {
    let bar = |one: &Use| Bar {
        name: one.name.clone(),
        pieces: [one.staged, one.ahead, one.hot]
            .map(|blocks| ratio(blocks, one.reads))
            .to_vec(),
    };
    Bars {
        label: "part of the blocks read",
        tick: label::percent,
        kinds: &[("staged", 0), ("ahead", 1), ("hot", 2)],
        rows: uses.iter().map(bar).collect(),
    }
}

fn outcomes(uses: &[Use]) -> Bars {
    let bar = |one: &Use| {
        let prefetched = one.prefetched.as_ref()?;
        Some(Bar {
            name: one.name.clone(),
            pieces: [prefetched.used, prefetched.wasted]
                .map(|blocks| ratio(blocks, one.reads))
                .to_vec(),
        })
    };
    Bars {
        label: "blocks prefetched for each block read",
        tick: label::trimmed,
        kinds: &[("used", 2), ("wasted", 1)],
        rows: uses.iter().filter_map(bar).collect(),
    }
}

fn table(out: &mut String, uses: &[Use]) -> fmt::Result {
    let has_prefetch = uses.iter().any(|one| one.prefetched.is_some());
    out.push_str(
        "<div class=\"scroll\"><table id=\"memory\"><thead><tr><th class=\"word\">run</th><th>memory</th><th>blocks read</th>\
         <th>staged</th><th>ahead</th><th>hot</th><th>hits in memory</th>",
    );
    if has_prefetch {
        out.push_str(
            "<th>prefetched</th><th>used</th><th>wasted</th><th>precision</th><th>waste</th><th>miners</th>",
        );
    }
    out.push_str("<th class=\"word\">refused, and why</th></tr></thead><tbody>");
    for one in uses {
        write!(
            out,
            "<tr><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            escape(&one.name),
            label::bytes(real(one.size_bytes)),
            one.reads,
            one.staged,
            one.ahead,
            one.hot,
            percent_exact(ratio(one.staged + one.ahead + one.hot, one.reads)),
        )?;
        if has_prefetch {
            prefetch_cells(out, one)?;
        }
        write!(out, "<td class=\"word\">{}</td></tr>", refused(one))?;
    }
    out.push_str("</tbody></table></div>");
    Ok(())
}

fn prefetch_cells(out: &mut String, one: &Use) -> fmt::Result {
    let Some(of) = &one.prefetched else {
        out.push_str(&"<td>-</td>".repeat(6));
        return Ok(());
    };
    write!(
        out,
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.3}</td><td>{}</td>",
        of.fetched,
        of.used,
        of.wasted,
        of.precision.map_or_else(|| "-".to_owned(), percent_exact),
        ratio(of.wasted, one.reads),
        label::bytes(real(of.memory_bytes)),
    )
}

fn refused(one: &Use) -> String {
    let reasons = one.refused.iter();
    let words: Vec<String> = reasons
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    if words.is_empty() {
        return "-".to_owned();
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::some_run;

    fn some_use() -> Use {
        Use {
            name: "readahead".to_owned(),
            size_bytes: 1 << 20,
            reads: 200,
            staged: 10,
            ahead: 40,
            hot: 50,
            prefetched: Some(Prefetched {
                fetched: 60,
                used: 40,
                wasted: 10,
                precision: Some(0.8),
                memory_bytes: 1024,
            }),
            refused: vec![("by price", 7)],
        }
    }

    fn written(uses: &[Use]) -> String {
        let mut out = String::new();
        section(&mut out, uses).unwrap();
        out
    }

    #[test]
    fn hits_are_told_by_kind_and_guesses_by_what_became_of_them() {
        let page = written(&[some_use()]);
        let row = "<td class=\"word\">readahead</td><td>1 MiB</td><td>200</td><td>10</td><td>40</td><td>50</td>\
                   <td>50.00%</td><td>60</td><td>40</td><td>10</td><td>80.00%</td><td>0.050</td><td>1 KiB</td>\
                   <td class=\"word\">7 by price</td>";
        assert!(page.contains(row), "{page}");
        for piece in [
            "staged: 5%",
            "ahead: 20%",
            "hot: 25%",
            "used: 0.2",
            "wasted: 0.05",
        ] {
            assert!(page.contains(piece), "{piece}\n{page}");
        }
    }

    #[test]
    fn runs_without_memory_have_no_section() {
        assert_eq!(written(&of_runs(&[some_run("lru", 100)])), "");
    }

    #[test]
    fn what_is_in_front_is_hot_and_what_admission_keeps_is_staged() {
        let mut run = some_run("lru", 100);
        run.ram_policy = "s3-fifo".to_owned();
        run.ram_blocks = 16;
        run.counters.ram_read_hits = 20;
        run.counters.ram_hot_read_hits = 12;
        let uses = of_runs(&[run]);
        assert_eq!((uses[0].staged, uses[0].ahead, uses[0].hot), (8, 0, 12));
        let page = written(&uses);
        assert!(!page.contains("precision"), "{page}");
        assert!(
            page.contains(
                "<td>64 KiB</td><td>80</td><td>8</td><td>0</td><td>12</td><td>25.00%</td>"
            ),
            "{page}"
        );
    }

    #[test]
    fn a_picture_has_bars_that_can_be_read_and_the_table_all() {
        let uses: Vec<Use> = (0..30).map(|_| some_use()).collect();
        let page = written(&uses);
        assert_eq!(page.matches("ahead: 20%").count(), BARS_SHOWN);
        assert_eq!(page.matches("7 by price").count(), 30);
    }
}
