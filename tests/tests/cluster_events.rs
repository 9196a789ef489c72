//! What two hosts of a cluster tell of it, in events and metrics, with a real etcd: who plans, a move that a host refuses, a host that
//! is killed and back, and etcd that stands still.

use anyhow::{Context as _, ensure};
use e2e::{
    Etcd, Hearth, Image, LONG, Lab, Origin, OriginSettings, RoamingPair, RoamingSettings, SHORT,
    scenario, wait_until,
};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

const TOOLS: &[&str] = &["etcd", "etcdctl", "nbdkit", "openssl"];
/// A VM of one disk has its name.
const VM: &str = RoamingPair::DISK;
const NAMES: [&str; 2] = RoamingPair::NAMES;

/// Two hosts of a cluster.
fn pair(lab: &Lab) -> anyhow::Result<(RoamingPair, Origin)> {
    let etcd = Etcd::start(lab, 1)?;
    let image = Image::new(lab, "origin.raw", RoamingPair::IMAGE_MIB)?;
    let origin = Origin::start(lab, &image, OriginSettings::default())?;
    let settings = RoamingSettings::default();
    let pair = RoamingPair::in_cluster(lab, etcd, &origin.uri(), settings, image)?;
    Ok((pair, origin))
}

/// The hypervisors of both have no VM, as an operator's program says.
fn without_vms(lab: &Lab, pair: &mut RoamingPair) -> anyhow::Result<()> {
    let hook = lab.path("hook");
    std::fs::write(
        &hook,
        "#!/bin/sh\n[ \"$1\" = state ] && echo gone\nexit 0\n",
    )?;
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755))?;
    for at in [0, 1] {
        let hook = hook.display();
        let section = format!("[hypervisor]\nmigrate_with = 'hook'\nhook = '{hook}'\n");
        pair.configure(at, &section);
    }
    Ok(())
}

fn events(host: &Hearth, kind: &str) -> anyhow::Result<Vec<Value>> {
    let events = host.json(&["events", "--kind", kind])?;
    Ok(events["events"].as_array().context("a list")?.clone())
}

/// Waits until a host has told of this, of what the event's field says.
fn wait_for(host: &Hearth, kind: &str, (field, value): (&str, &str)) -> anyhow::Result<Value> {
    let mut found = Value::Null;
    wait_until(&format!("{kind} of {value}"), LONG, || {
        let events = events(host, kind)?;
        let is_it = |event: &&Value| event[field].as_str().is_some_and(|is| is.contains(value));
        found = events.iter().rfind(is_it).cloned().unwrap_or_default();
        Ok(!found.is_null())
    })?;
    Ok(found)
}

/// What a host counts.
fn metric(host: &Hearth, series: &str) -> anyhow::Result<Option<f64>> {
    let mut admin = UnixStream::connect(host.admin_socket())?;
    write!(admin, "GET /metrics HTTP/1.0\r\nHost: hearth\r\n\r\n")?;
    let mut text = String::new();
    admin.read_to_string(&mut text)?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(value.map(str::parse).transpose()?)
}

fn wait_for_metric(host: &Hearth, series: &str, value: f64) -> anyhow::Result<()> {
    wait_until(&format!("{series} {value}"), LONG, || {
        Ok(metric(host, series)? == Some(value))
    })
}

/// A move that its source refuses: it has no such VM.
fn a_move_is_refused(pair: &mut RoamingPair) -> anyhow::Result<()> {
    // B is told, and drives.
    let start = ["move", "start", VM, "--to", NAMES[1]];
    pair.host(1).command(&start)?;
    for at in [0, 1] {
        let host = pair.host(at);
        let ended = wait_for(host, "move-ended", ("vm", VM))?;
        let (from, to) = (&ended["from"], &ended["to"]);
        ensure!(from == NAMES[0] && to == NAMES[1], "{ended}");
        ensure!(ended["severity"] == "warning", "{ended}");
        let text = ended["text"].as_str().unwrap_or_default();
        ensure!(text.contains("a host refused to prepare it"), "{ended}");
        ensure!(events(host, "move-begun")?.len() == 1);
    }
    let told = wait_for(pair.host(1), "setting-changed", ("vm", VM))?;
    let text = told["text"].as_str().unwrap_or_default();
    ensure!(text.contains(NAMES[1]), "{told}");
    // The host that drove it counts it.
    let ended = "hearth_cluster_moves_ended_total{outcome=\"rolled-back\"}";
    wait_for_metric(pair.host(1), ended, 1.0)?;
    ensure!(metric(pair.host(0), ended)? == Some(0.0));
    Ok(())
}

#[test]
fn hosts_tell_of_their_cluster() {
    scenario(TOOLS, |lab| {
        let (mut pair, _origin) = pair(lab)?;
        without_vms(lab, &mut pair)?;
        pair.start_host(0)?;
        pair.wait_until_owned_by(0)?;
        wait_for(pair.host(0), "planner-elected", ("host", NAMES[0]))?;
        wait_for_metric(pair.host(0), "hearth_cluster_planner", 1.0)?;
        pair.start_host(1)?;
        wait_for(pair.host(0), "host-back", ("host", NAMES[1]))?;
        let heard = "hearth_cluster_hosts{state=\"heard\"}";
        wait_for_metric(pair.host(0), heard, 2.0)?;
        wait_until("both hosts to list the disk", SHORT, || {
            let status = pair.host(1).json(&["cluster", "status"])?;
            Ok(status["disks"][0]["lists"].as_array().map(Vec::len) == Some(2))
        })?;
        ensure!(metric(pair.host(1), "hearth_cluster_planner")? == Some(0.0));
        a_move_is_refused(&mut pair)?;
        wait_until("a load and a plan", LONG, || {
            let capacity = metric(pair.host(0), "hearth_cluster_capacity_bytes")?;
            let plans = metric(pair.host(0), "hearth_cluster_plans_total")?;
            Ok(capacity > Some(0.0) && plans > Some(0.0))
        })?;

        pair.kill(1)?;
        wait_for(pair.host(0), "host-lost", ("host", NAMES[1]))?;
        let missing = "hearth_cluster_hosts{state=\"missing\"}";
        wait_for_metric(pair.host(0), missing, 1.0)?;
        pair.start_host(1)?;
        wait_for_metric(pair.host(0), missing, 0.0)?;
        ensure!(events(pair.host(0), "host-back")?.len() == 2);

        pair.etcd().pause()?;
        let host = pair.host(0);
        wait_for(host, "store-lost", ("text", "does not answer"))?;
        wait_for_metric(host, "hearth_cluster_store_answers", 0.0)?;
        ensure!(metric(host, "hearth_cluster_view_age_seconds")? > Some(0.0));
        pair.etcd().go_on()?;
        let host = pair.host(0);
        wait_for(host, "store-back", ("text", "again"))?;
        wait_for_metric(host, "hearth_cluster_store_answers", 1.0)?;
        pair.stop_both()
    });
}

/// Nobody migrates VMs there, so nothing has begun, and nothing has to be taken back.
#[test]
fn a_move_of_hosts_without_a_hypervisor_is_rolled_back_at_once() {
    scenario(TOOLS, |lab| {
        let (mut pair, _origin) = pair(lab)?;
        pair.start_host(0)?;
        pair.wait_until_owned_by(0)?;
        pair.start_host(1)?;
        wait_until("both hosts to list the disk", SHORT, || {
            let status = pair.host(1).json(&["cluster", "status"])?;
            Ok(status["disks"][0]["lists"].as_array().map(Vec::len) == Some(2))
        })?;
        let start = ["move", "start", VM, "--to", NAMES[1]];
        pair.host(0).command(&start)?;
        wait_until("the move to be rolled back", SHORT, || {
            let shown = pair.host(1).json(&["move", "show", VM])?;
            Ok(shown["stage"] == "rolled-back")
        })?;
        pair.stop_both()
    });
}
