//! What a VM wanted of the flash of its last host comes with its disk: the next host divides its flash by that at once. A VM
//! that is taken from a host which is gone is the negative control: nothing is known of it, and it gets a fair part.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, RoamingPair, SHORT, Session, block,
    scenario, wait_until,
};
use serde_json::Value;

const NAMES: [&str; 2] = RoamingPair::NAMES;
const WEB: &str = "web";
const OTHER: &str = "other";
const MIB: u64 = 1 << 20;
/// What each VM reads again and again.
const WEB_MIB: u64 = 2;
const OTHER_MIB: u64 = 24;
/// The window of the destination: nothing that is seen of the VM there counts in this test.
const WINDOW: Duration = Duration::from_secs(10);

struct Hosts {
    source: Option<Hearth>,
    destination: Hearth,
    other: Session,
}

fn reads(vm: &mut Session, mib: u64) -> anyhow::Result<()> {
    for at in 0..mib {
        vm.read(at * MIB, MIB)?;
    }
    Ok(())
}

/// Two hosts: the first has a disk that roams, and the second a VM that uses most of its flash.
fn start(lab: &Lab) -> anyhow::Result<Hosts> {
    let (links, wire) = e2e::linked(lab)?;
    // It is never cut.
    std::mem::forget(wire);
    let web = Image::new(lab, "web.raw", 8)?;
    let other = Image::new(lab, "other.raw", 32)?;
    let host = |at: usize, window: &str| -> anyhow::Result<Hearth> {
        let own = lab.host(NAMES[at])?;
        let flash = Flash::format(&own, "flash.img", 128)?;
        let disk = DiskSettings::on_file(WEB, web.path())
            .key("roams = true\nwrite_policy = 'through'")
            .key(&format!("id = '{:032x}'", 1));
        let mut settings = HearthSettings::new(&flash)
            .policy_key("allocation = 'rwss'")
            .policy_key(&format!("window = '{window}'"))
            .section(&links[at])
            .disk(&disk);
        if at == 1 {
            settings = settings.disk(&DiskSettings::on_file(OTHER, other.path()));
        }
        Hearth::start(&own, &settings)
    };
    let source = host(0, "1s")?;
    wait_until("the first host to have the disk", SHORT, || {
        Ok(source.json(&["disk", "show", WEB])?["state"] == "attached")
    })?;
    let destination = host(1, &format!("{}s", WINDOW.as_secs()))?;
    let other = Session::open(destination.nbd_socket(), OTHER)?;
    Ok(Hosts {
        source: Some(source),
        destination,
        other,
    })
}

fn share(host: &Hearth, vm: &str) -> anyhow::Result<Value> {
    Ok(host.json(&["vm", "show", vm])?["shares"][0].clone())
}

fn blocks(share: &Value, key: &str) -> anyhow::Result<u64> {
    share[key].as_u64().with_context(|| share.to_string())
}

/// Lets both VMs read until each host has seen what its VM wants; what the first one saw of the VM.
fn warm_up(hosts: &mut Hosts) -> anyhow::Result<u64> {
    let began = Instant::now();
    let source = hosts.source.as_ref().context("the source runs")?;
    let mut web = Session::open(source.nbd_socket(), WEB)?;
    let is_known = |host: &Hearth, vm: &str| -> anyhow::Result<bool> {
        Ok(share(host, vm)?["demand"]["predicted_blocks"].is_number())
    };
    let mut wanted = 0;
    while wanted == 0 || !is_known(&hosts.destination, OTHER)? {
        ensure!(began.elapsed() < 4 * WINDOW, "nothing is seen of them");
        reads(&mut web, WEB_MIB)?;
        reads(&mut hosts.other, OTHER_MIB)?;
        if is_known(source, WEB)? {
            wanted = blocks(&share(source, WEB)?["demand"], "reused_blocks")?;
        }
    }
    web.close()?;
    Ok(wanted)
}

/// What the VM has of the destination's flash, and what both have.
fn at_destination(hosts: &Hosts) -> anyhow::Result<(u64, u64)> {
    wait_until("the destination to have the disk", SHORT, || {
        Ok(hosts.destination.json(&["disk", "show", WEB])?["state"] == "attached")
    })?;
    let web = share(&hosts.destination, WEB)?;
    let other = share(&hosts.destination, OTHER)?;
    let (web, other) = (
        blocks(&web, "share_blocks")?,
        blocks(&other, "share_blocks")?,
    );
    Ok((web, web + other))
}

#[test]
fn a_vm_begins_with_the_share_that_it_wants() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut hosts = start(lab)?;
        let wanted = warm_up(&mut hosts)?;
        ensure!((1..=WEB_MIB * 256).contains(&wanted), "{wanted} blocks");
        // What its client leaves behind is looked at for a second.
        std::thread::sleep(Duration::from_millis(1_200));
        let mut web = Session::open(hosts.destination.nbd_socket(), WEB)?;
        web.write(0, &block(0, 1))?;
        let (own, all) = at_destination(&hosts)?;
        ensure!(
            own * 4 < all,
            "it has {own} of {all} blocks and wanted {wanted}"
        );
        Ok(())
    });
}

#[test]
fn a_vm_of_which_nothing_is_known_gets_a_fair_part() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut hosts = start(lab)?;
        warm_up(&mut hosts)?;
        hosts.source.take().context("the source runs")?.kill()?;
        let take = ["migrate", "take", WEB, "--yes-its-owner-is-dead"];
        wait_until("the disk to be taken", SHORT, || {
            let socket = hosts.destination.admin_socket().display().to_string();
            let words = [&["--socket", socket.as_str()][..], &take].concat();
            Ok(e2e::hearth(&words)?.code == 0)
        })?;
        let (own, all) = at_destination(&hosts)?;
        ensure!(own * 4 >= all, "it has {own} of {all} blocks");
        Ok(())
    });
}
