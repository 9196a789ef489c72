//! `hearth group run` moves two VMs at once over a link that they share, by QEMU's monitors: what the cluster's limits do not
//! allow is refused before anything moves, both guests go on at the other host, and a second run finds them there.

use anyhow::ensure;
use e2e::{
    Etcd, GUEST_TOOLS, Guest, GuestKit, Image, LONG, Lab, RoamingPair, RoamingSettings, SHORT,
    scenario, wait_for_listener, wait_until,
};
use serde_json::Value;
use std::path::PathBuf;

/// The VMs: the pair's disk has one's name.
const VMS: [&str; 2] = [RoamingPair::DISK, "other"];
const STEPS: &str = "commit,db=/srv/ledger.db,transactions=1000000,wal=1";
/// Transactions that each guest commits at the other host at least.
const MORE: u64 = 3;

/// Where a QEMU at a host waits for a VM.
fn incoming(lab: &Lab, vm: &str, host: &str) -> PathBuf {
    lab.path(&format!("{vm}-{host}.move"))
}

/// Two hosts of a cluster with two disks, each of a VM of its own.
fn start(lab: &Lab, kit: &GuestKit) -> anyhow::Result<(RoamingPair, Etcd)> {
    let etcd = Etcd::start(lab, 1)?;
    let settings = RoamingSettings {
        flash_mib: 512,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::over(lab, kit.disk(lab)?, settings)?;
    let other = lab.path("other.raw");
    std::fs::copy(pair.image.path(), &other)?;
    let other = Image::existing(&other)?;
    let folder = lab.path("");
    let folder = folder.display().to_string();
    let folder = folder.trim_end_matches('/');
    for (at, host) in RoamingPair::NAMES.into_iter().enumerate() {
        let sections = format!(
            "{}[hypervisor]\nmigrate_with = 'qmp'\nsocket = '{folder}/{{vm}}-{host}-monitor.sock'\n\
             incoming = 'unix:{folder}/{{vm}}-{{host}}.move'\n\
             [[disk]]\nname = '{vm}'\nid = '{id}'\norigin = {{ file = '{origin}' }}\nroams = true\n\
             write_policy = 'back'\nmigration = {{ dirty = 'drain' }}\n",
            etcd.as_section(""),
            vm = VMS[1],
            id = "00112233445566778899aabbccddee00",
            origin = other.path().display(),
        );
        pair.configure(at, &sections);
    }
    pair.start_host(0)?;
    pair.wait_until_owned_by(0)?;
    pair.start_host(1)?;
    Ok((pair, etcd))
}

/// A QEMU of a VM at a host, that waits for the VM or boots it.
fn qemu(
    lab: &Lab,
    kit: &GuestKit,
    pair: &mut RoamingPair,
    (vm, at): (&str, usize),
) -> anyhow::Result<Guest> {
    let host = RoamingPair::NAMES[at];
    let disk = format!(
        "driver=nbd,node-name=disk,server.type=unix,server.path={},export={vm},reconnect-delay=30",
        pair.host(at).nbd_socket().display()
    );
    let link = incoming(lab, vm, host);
    let uri = format!("unix:{}", link.display());
    let mut arguments = vec!["-blockdev", &disk, "-device", "virtio-blk-pci,drive=disk"];
    if at == 1 {
        arguments.extend(["-incoming", &uri]);
    }
    let guest = Guest::boot_as_told(lab, kit, &format!("{vm}-{host}"), STEPS, &arguments)?;
    if at == 1 {
        wait_for_listener(&link)?;
    } else {
        guest.monitor()?.move_in_one_pass()?;
    }
    Ok(guest)
}

fn have_committed(guests: &[Guest], before: [u64; 2]) -> anyhow::Result<()> {
    wait_until("both guests to commit", LONG, || {
        let both = guests.iter().zip(before);
        Ok(both.fold(true, |all, (guest, before)| {
            all && guest.committed() >= before + MORE
        }))
    })
}

fn crosses(lab: &Lab) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let (mut pair, _etcd) = start(lab, &kit)?;
    let mut guests = Vec::new();
    for vm in VMS {
        guests.push(qemu(lab, &kit, &mut pair, (vm, 0))?);
    }
    have_committed(&guests, [0; 2])?;
    let mut waiting = Vec::new();
    for vm in VMS {
        waiting.push(qemu(lab, &kit, &mut pair, (vm, 1))?);
    }
    let traffic = lab.write("traffic.csv", &format!("{},{},1MiB/s\n", VMS[0], VMS[1]))?;
    let loads = VMS.map(|vm| format!("{vm},80MiB,1MiB/s\n")).concat();
    let loads = lab.write("vms.csv", &loads)?;
    let (traffic, loads) = (traffic.display().to_string(), loads.display().to_string());
    let run = [
        "group",
        "run",
        "--traffic",
        &traffic,
        "--vms",
        &loads,
        "--link-rate",
        "120MiB/s",
        "--to",
        RoamingPair::NAMES[1],
        "--sizes",
        "2",
    ];
    wait_until("both hosts to be heard of", SHORT, || {
        let status = pair.host(1).json(&["cluster", "status"])?;
        let is_at = |disk: &Value| disk["host"] == RoamingPair::NAMES[0];
        let disks = status["disks"].as_array().cloned().unwrap_or_default();
        let hosts = status["hosts"].as_array().map(Vec::len);
        Ok(hosts == Some(2) && disks.len() == 2 && disks.iter().all(is_at))
    })?;
    let refused = pair.host(1).refused_command(&run)?.stderr;
    let remedy = "hearth cluster set --send-max 2 --take-max 2 --moves-max 2";
    ensure!(refused.contains(remedy), "{refused}");
    let limits = remedy.split(' ').skip(1).collect::<Vec<_>>();
    pair.host(0).command(&limits)?;
    let ran = pair.host(1).json(&run)?;
    for vm in 0..2 {
        ensure!(ran["waves"][0]["vms"][vm]["stage"] == "done", "{ran}");
    }
    have_committed(&waiting, [0; 2])?;
    pair.wait_until_owned_by(1)?;
    let again = pair.host(0).json(&run)?;
    ensure!(
        again["there_before"].as_array().map(Vec::len) == Some(2),
        "{again}"
    );
    for guest in waiting.into_iter().chain(guests) {
        guest.kill()?;
    }
    pair.stop_both()
}

#[test]
fn two_vms_cross_together() {
    let tools = [GUEST_TOOLS, RoamingPair::TOOLS, Etcd::TOOLS].concat();
    scenario(&tools, crosses);
}
