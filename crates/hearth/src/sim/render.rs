//! Results for people.

use super::Simulated;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{Side, Table, quantity, to_json};
use simulator::{Counters, RunResult, policy};
use std::fmt::{self, Write};

/// The policies that there are.
pub(super) fn policies(json: bool) -> Result<Vec<u8>, CliError> {
    let known = policy::known();
    if json {
        return to_json(&known);
    }
    let mut table = Table::new(&[
        ("policy", Side::Left),
        ("parameters", Side::Left),
        ("paper", Side::Left),
    ]);
    for policy in known {
        let parameters: Vec<String> = policy
            .parameters
            .iter()
            .map(|parameter| format!("{}={}", parameter.name, parameter.takes))
            .collect();
        table.row(vec![
            policy.name.to_owned(),
            parameters.join("; "),
            policy.paper.to_owned(),
        ]);
    }
    Ok(table.to_string().into_bytes())
}

/// A table for each trace.
pub(super) fn results(all: &[Simulated], volumes: bool) -> Result<Vec<u8>, CliError> {
    let mut out = String::new();
    write_results(&mut out, all, volumes).map_err(|error| CliError::of(Exit::Failed, &error))?;
    Ok(out.into_bytes())
}

fn write_results(out: &mut String, all: &[Simulated], volumes: bool) -> fmt::Result {
    for (place, one) in all.iter().enumerate() {
        if place > 0 {
            out.push('\n');
        }
        heading(out, one)?;
        write!(out, "{}", runs(&one.result.runs))?;
        for run in one.result.runs.iter().filter(|run| !run.vms.is_empty()) {
            writeln!(out, "\n{} at {}, by VM", run.method(), run.size)?;
            write!(out, "{}", of_vms(run))?;
        }
        if volumes {
            for run in &one.result.runs {
                writeln!(out, "\n{} at {}, by volume", run.method(), run.size)?;
                write!(out, "{}", of_volumes(run))?;
            }
        }
    }
    Ok(())
}

fn heading(out: &mut String, one: &Simulated) -> fmt::Result {
    write!(out, "{}: {}", one.name, one.format)?;
    if let Some(why) = &one.recognised_by {
        write!(out, " (recognised by {why})")?;
    }
    let Some(run) = one.result.runs.first() else {
        return writeln!(out);
    };
    let footprint = u64::from(run.footprint_blocks);
    writeln!(
        out,
        "; {} accesses counted, {} distinct blocks of {} ({})\n",
        run.counters.accesses(),
        footprint,
        quantity::bytes(run.block_bytes),
        quantity::bytes(footprint.saturating_mul(run.block_bytes)),
    )
}

fn runs(runs: &[RunResult]) -> Table {
    let mut columns = vec![
        ("policy", Side::Left),
        ("size", Side::Right),
        ("blocks", Side::Right),
        ("miss ratio", Side::Right),
        ("read hits", Side::Right),
        ("write hits", Side::Right),
        ("byte hits", Side::Right),
        ("origin reads", Side::Right),
        ("origin writes", Side::Right),
        ("flash blocks", Side::Right),
        ("amplified", Side::Right),
    ];
    let has_admission = runs
        .iter()
        .any(|run| run.admission != "always" || run.ram_blocks > 0);
    if has_admission {
        columns.push(("in RAM", Side::Right));
        columns.push(("flash/access", Side::Right));
    }
    let has_latency = runs.iter().any(|run| run.latency.is_some());
    if has_latency {
        for name in ["mean", "p50", "p90", "p95", "p99", "requests/s"] {
            columns.push((name, Side::Right));
        }
    }
    let mut table = Table::new(&columns);
    for run in runs {
        table.row(cells(run, has_admission, has_latency));
    }
    table
}

fn cells(run: &RunResult, has_admission: bool, has_latency: bool) -> Vec<String> {
    let counters = &run.counters;
    let mut cells = vec![
        run.method(),
        quantity::bytes(run.size_bytes()),
        run.size_blocks.to_string(),
        format!("{:.4}", counters.miss_ratio()),
        quantity::percent(counters.read_hits, counters.reads),
        quantity::percent(counters.write_hits, counters.writes),
        quantity::percent(counters.hit_bytes, counters.bytes),
        counters.origin_reads.to_string(),
        counters.origin_writes.to_string(),
        counters.flash_writes_blocks().to_string(),
        format!("{:.2}x", counters.write_amplification()),
    ];
    if has_admission {
        cells.push(quantity::percent(counters.ram_hits(), counters.accesses()));
        cells.push(format!("{:.4}", run.flash_writes_per_access()));
    }
    if !has_latency {
        return cells;
    }
    match &run.latency {
        None => cells.extend(std::iter::repeat_n("-".to_owned(), 6)),
        Some(latency) => {
            let all = &latency.all;
            for micros in [all.mean_us, all.p50_us, all.p90_us, all.p95_us, all.p99_us] {
                cells.push(quantity::time(micros / 1e6));
            }
            cells.push(quantity::count(latency.requests_per_s));
        }
    }
    cells
}

fn of_vms(run: &RunResult) -> Table {
    let mut table = Table::new(&[
        ("vm", Side::Left),
        ("share", Side::Right),
        ("held", Side::Right),
        ("demand", Side::Right),
        ("accesses", Side::Right),
        ("miss ratio", Side::Right),
        ("read hits", Side::Right),
        ("in RAM", Side::Right),
        ("flash blocks", Side::Right),
    ]);
    for vm in &run.vms {
        let counters: &Counters = &vm.counters;
        let demand = vm.demand_blocks.map(|blocks| blocks.to_string());
        table.row(vec![
            vm.vm.clone(),
            vm.share_blocks.to_string(),
            vm.held_blocks.to_string(),
            demand.unwrap_or_else(|| "-".to_owned()),
            counters.accesses().to_string(),
            format!("{:.4}", counters.miss_ratio()),
            quantity::percent(counters.read_hits, counters.reads),
            quantity::percent(counters.ram_hits(), counters.accesses()),
            counters.admitted_blocks().to_string(),
        ]);
    }
    table
}

fn of_volumes(run: &RunResult) -> Table {
    let mut table = Table::new(&[
        ("volume", Side::Left),
        ("accesses", Side::Right),
        ("miss ratio", Side::Right),
        ("read hits", Side::Right),
        ("write hits", Side::Right),
        ("byte hits", Side::Right),
        ("origin reads", Side::Right),
        ("origin writes", Side::Right),
    ]);
    for volume in &run.volumes {
        let counters: &Counters = &volume.counters;
        table.row(vec![
            volume.volume.to_string(),
            counters.accesses().to_string(),
            format!("{:.4}", counters.miss_ratio()),
            quantity::percent(counters.read_hits, counters.reads),
            quantity::percent(counters.write_hits, counters.writes),
            quantity::percent(counters.hit_bytes, counters.bytes),
            counters.origin_reads.to_string(),
            counters.origin_writes.to_string(),
        ]);
    }
    table
}
