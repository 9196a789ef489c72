//! A plan for people.

use super::answer::{Answer, MethodAnswer, VmAnswer, WaveAnswer};
use super::run::Ran;
use crate::terminal::{Side, Table, facts, quantity};
use std::fmt::{self, Write};
use units::number::count_near;

/// The plan, what does not converge, and what was compared.
pub(super) fn text(out: &mut String, answer: &Answer) -> fmt::Result {
    let vms: usize = answer.waves.iter().map(|wave| wave.vms.len()).sum();
    let shared = match answer.split {
        "equal" => "with equal bandwidth in a wave",
        _ => "dealt so that a wave ends together",
    };
    facts(
        out,
        &[
            (
                "moves",
                format!(
                    "{} in {} by {}",
                    counted(vms, "VM"),
                    counted(answer.waves.len(), "wave"),
                    answer.method
                ),
            ),
            (
                "link",
                format!("{}, {shared}", rate(answer.link_bytes_per_second)),
            ),
            (
                "takes",
                answer
                    .time_seconds
                    .map_or_else(|| "does not end".to_owned(), quantity::time),
            ),
            ("crosses while split", volume(answer)),
        ],
    )?;
    write!(out, "\n{}", table(answer))?;
    let has_notes = !answer.converges
        || !answer.vms_without_traffic.is_empty()
        || answer.vms_that_stay > 0
        || answer.rates_cut_down > 0;
    if has_notes {
        out.push('\n');
    }
    for (at, wave) in answer.waves.iter().enumerate() {
        trouble(out, at + 1, wave, answer)?;
    }
    notes(out, answer)?;
    if !answer.methods.is_empty() {
        write!(out, "\n{}", compared(&answer.methods))?;
    }
    Ok(())
}

/// What has become of a plan.
pub(super) fn ran(out: &mut String, ran: &Ran) -> fmt::Result {
    let mut table = Table::new(&[
        ("wave", Side::Right),
        ("vm", Side::Left),
        ("from", Side::Left),
        ("to", Side::Left),
        ("move", Side::Left),
    ]);
    for (at, wave) in ran.waves.iter().enumerate() {
        for vm in &wave.vms {
            table.row(vec![
                (at + 1).to_string(),
                vm.vm.clone(),
                vm.from.clone(),
                vm.to.clone(),
                vm.stage.clone(),
            ]);
        }
    }
    write!(out, "{table}")?;
    for (at, wave) in ran.waves.iter().enumerate() {
        let seconds = |of: Option<f64>| of.map_or_else(|| "unknown".to_owned(), quantity::time);
        writeln!(
            out,
            "wave {}: took {}, planned {}; the last VM was across {} after the first",
            at + 1,
            seconds(wave.took_seconds),
            seconds(wave.planned_seconds),
            seconds(wave.apart_seconds)
        )?;
    }
    if !ran.there_before.is_empty() {
        writeln!(out, "there before: {}", ran.there_before.join(", "))?;
    }
    Ok(())
}

fn volume(answer: &Answer) -> String {
    let Some(volume) = answer.volume_bytes else {
        return "does not end".to_owned();
    };
    let bytes = bytes(volume);
    match answer.saved {
        Some(saved) if saved >= 0.0 => format!(
            "{bytes}, {} less than one VM at a time",
            quantity::share(saved)
        ),
        Some(saved) => format!(
            "{bytes}, {} more than one VM at a time",
            quantity::share(-saved)
        ),
        None => format!("{bytes}; one VM at a time does not end"),
    }
}

fn table(answer: &Answer) -> Table {
    let mut table = Table::new(&[
        ("wave", Side::Right),
        ("vm", Side::Left),
        ("to", Side::Left),
        ("moves", Side::Right),
        ("dirty", Side::Right),
        ("bandwidth", Side::Right),
        ("takes", Side::Right),
        ("across after", Side::Right),
        ("split", Side::Right),
    ]);
    for (at, wave) in answer.waves.iter().enumerate() {
        for (place, vm) in wave.vms.iter().enumerate() {
            let is_first = place == 0;
            let once = |text: String| if is_first { text } else { String::new() };
            let mut cells = vec![once((at + 1).to_string())];
            cells.extend(of_vm(vm));
            cells.push(once(wave.ends_seconds.map_or_else(dash, quantity::time)));
            cells.push(once(rate(wave.split_bytes_per_second)));
            table.row(cells);
        }
    }
    table
}

fn of_vm(vm: &VmAnswer) -> [String; 6] {
    [
        vm.vm.clone(),
        vm.to.clone().unwrap_or_else(dash),
        quantity::bytes(vm.bytes),
        rate(vm.dirty_bytes_per_second),
        vm.bandwidth_bytes_per_second.map_or_else(dash, rate),
        vm.time_seconds.map_or_else(dash, quantity::time),
    ]
}

/// What does not converge, and what to do.
fn trouble(out: &mut String, at: usize, wave: &WaveAnswer, answer: &Answer) -> fmt::Result {
    if wave.time_seconds.is_some() {
        return Ok(());
    }
    for name in &wave.never_alone {
        writeln!(
            out,
            "wave {at} does not converge: {name} makes as many bytes dirty as the whole link copies.\n  \
             try: slow it down while it moves (auto-converge), move it by post-copy, or stop it"
        )?;
    }
    let together: Vec<&str> = wave
        .blamed
        .iter()
        .filter(|name| !wave.never_alone.contains(name))
        .map(String::as_str)
        .collect();
    if together.is_empty() {
        return Ok(());
    }
    let remedy = match (answer.split, answer.sizes.as_str()) {
        ("equal", _) => "--split dealt, or fewer VMs in a wave",
        (_, "auto") => "a smaller --largest",
        _ => "fewer VMs in a wave: --sizes auto cuts so that each wave converges",
    };
    writeln!(
        out,
        "wave {at} does not converge: with {} it makes more bytes dirty than its part of the link copies.\n  try: {remedy}",
        together.join(", ")
    )
}

fn notes(out: &mut String, answer: &Answer) -> fmt::Result {
    if !answer.vms_without_traffic.is_empty() {
        writeln!(
            out,
            "No traffic is known of {}.",
            answer.vms_without_traffic.join(", ")
        )?;
    }
    if answer.vms_that_stay > 0 {
        writeln!(
            out,
            "VMs that have traffic and do not move: {}. What they exchange with those that move ({}) crosses the link \
             for good.",
            answer.vms_that_stay,
            rate(answer.stays_bytes_per_second)
        )?;
    }
    if answer.rates_cut_down > 0 {
        writeln!(
            out,
            "{} above 10 TB a second: cut down to that.",
            counted(answer.rates_cut_down, "rate")
        )?;
    }
    Ok(())
}

fn compared(methods: &[MethodAnswer]) -> Table {
    let mut table = Table::new(&[
        ("method", Side::Left),
        ("waves", Side::Right),
        ("takes", Side::Right),
        ("crosses while split", Side::Right),
        ("saved", Side::Right),
    ]);
    for one in methods {
        table.row(vec![
            one.method.to_owned(),
            one.waves.map_or_else(dash, |waves| waves.to_string()),
            one.time_seconds.map_or_else(dash, quantity::time),
            one.volume_bytes
                .map_or_else(|| "does not end".to_owned(), bytes),
            one.saved.map_or_else(dash, quantity::share),
        ]);
    }
    table
}

fn dash() -> String {
    "-".to_owned()
}

fn counted(count: usize, thing: &str) -> String {
    quantity::counted(count as u64, thing)
}

fn bytes(count: f64) -> String {
    quantity::bytes(count_near(count))
}

fn rate(per_second: f64) -> String {
    format!("{}/s", bytes(per_second))
}
