//! `hearth monitor`, which reads what the host and its VMs use, and `hearth resources`, which shows it.

pub mod args;
mod libvirt;
mod monitor;
mod qmp;
mod sources;

pub(crate) use monitor::run as monitor;

use crate::terminal::{Side, Table, quantity};
use ::monitor::VmFigures;
use api::resources::{ResourceSample, Resources};
use std::fmt::{self, Write};

/// Writes what is known.
pub(crate) fn write(out: &mut String, resources: &Resources) -> fmt::Result {
    let (Some(age), Some(last)) = (resources.age_seconds, resources.samples.last()) else {
        return writeln!(
            out,
            "No monitor says what the host uses: `systemctl enable --now hearth-monitor`, or run `hearth monitor`."
        );
    };
    if resources.samples.len() > 1 {
        return write!(out, "{}", over_time(resources));
    }
    writeln!(
        out,
        "host: {} of the processors, {} of {} of memory, {}bit/s over the network, {}/s to and from disks",
        quantity::share(last.host.cpu_share),
        quantity::share(last.host.memory_share),
        quantity::bytes(last.host.memory_bytes),
        quantity::count(last.host.network_bits_per_second),
        quantity::rate(last.host.disk_bytes_per_second),
    )?;
    writeln!(
        out,
        "over {}, {} ago\n",
        quantity::time(last.seconds),
        quantity::time(age)
    )?;
    write!(out, "{}", vms(last))
}

/// A line for each sample.
fn over_time(resources: &Resources) -> Table {
    let mut table = Table::new(&[
        ("ago", Side::Right),
        ("cpu", Side::Right),
        ("memory", Side::Right),
        ("network", Side::Right),
        ("disks", Side::Right),
    ]);
    let now = resources
        .samples
        .last()
        .map_or(0.0, |last| last.uptime_seconds);
    let now = now + resources.age_seconds.unwrap_or(0.0);
    for sample in &resources.samples {
        table.row(vec![
            quantity::time((now - sample.uptime_seconds).max(0.0)),
            quantity::share(sample.host.cpu_share),
            quantity::share(sample.host.memory_share),
            format!(
                "{}bit/s",
                quantity::count(sample.host.network_bits_per_second)
            ),
            format!("{}/s", quantity::rate(sample.host.disk_bytes_per_second)),
        ]);
    }
    table
}

/// A line for each VM. What QEMU or libvirt says has columns if either says something.
fn vms(sample: &ResourceSample) -> Table {
    let is_told = sample
        .vms
        .iter()
        .any(|vm| vm.figures != VmFigures::default());
    let mut columns = vec![
        ("vm", Side::Left),
        ("processes", Side::Right),
        ("cpu", Side::Right),
        ("memory", Side::Right),
        ("", Side::Right),
        ("weight", Side::Right),
    ];
    if is_told {
        columns.extend(
            ["vcpus", "given", "balloon", "disks read", "written"].map(|name| (name, Side::Right)),
        );
    }
    let mut table = Table::new(&columns);
    for vm in &sample.vms {
        let mut row = vec![
            vm.vm.clone(),
            vm.processes.to_string(),
            quantity::share(vm.cpu_share),
            quantity::share(vm.memory_share),
            quantity::bytes(vm.memory_bytes),
            format!("{:.2}", vm.weight),
        ];
        if is_told {
            row.extend(told(&vm.figures));
        }
        table.row(row);
    }
    table
}

/// What QEMU or libvirt says of a VM; dashes for the rest.
fn told(of: &VmFigures) -> [String; 5] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        or_dash(of.vcpus.map(|vcpus| vcpus.to_string())),
        or_dash(of.given_memory_bytes.map(quantity::bytes)),
        or_dash(of.balloon_bytes.map(quantity::bytes)),
        or_dash(of.block.map(|block| quantity::bytes(block.read_bytes))),
        or_dash(of.block.map(|block| quantity::bytes(block.written_bytes))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    fn text(resources: &Resources) -> String {
        let mut out = String::new();
        write(&mut out, resources).unwrap();
        out
    }

    #[test]
    fn what_the_host_and_its_vms_use_is_shown() {
        let shown = text(&samples::resources());
        for whole in [
            "host: 25.0% of the processors",
            "web-1",
            "12.5%",
            "40.0Mbit/s",
            "3.00GiB",
        ] {
            assert!(shown.contains(whole), "{whole}\n{shown}");
        }
    }

    #[test]
    fn what_nobody_says_has_no_column() {
        let mut resources = samples::resources();
        assert!(text(&resources).contains("BALLOON"));
        resources.samples[0].vms[0].figures = VmFigures::default();
        assert!(!text(&resources).contains("BALLOON"));
    }

    #[test]
    fn several_samples_are_a_line_each() {
        let mut resources = samples::resources();
        let later = ResourceSample {
            uptime_seconds: resources.samples[0].uptime_seconds + 10.0,
            ..resources.samples[0].clone()
        };
        resources.samples.push(later);
        let shown = text(&resources);
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(
            shown.contains("12.0s") && shown.contains("2.00s"),
            "{shown}"
        );
    }

    #[test]
    fn without_a_monitor_it_is_said_how_to_have_one() {
        let none = Resources {
            age_seconds: None,
            host: None,
            samples: Vec::new(),
            vm_cpu: Vec::new(),
        };
        assert!(text(&none).contains("enable --now hearth-monitor"));
    }
}
