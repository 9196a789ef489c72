//! Who has a disk stands in etcd: one host of two, also if both start at once, its host is gone or etcd stands still. Nothing
//! that a VM waits for asks it.

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Etcd, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, SHORT,
    Session, block, scenario, wait_until,
};
use std::time::{Duration, Instant};

const TOOLS: &[&str] = &["etcd", "etcdctl", "nbdkit"];
const DISK: &str = "disk";
const ID: &str = "00112233445566778899aabbccddeeff";
const NAMES: [&str; 2] = ["node-a", "node-b"];
/// How long a start may take whose store does not answer.
const WITHOUT_STORE: Duration = Duration::from_mins(1);

/// Two hosts that list a disk on an export, and the etcd that they share.
struct Two {
    etcd: Etcd,
    labs: [Lab; 2],
    settings: [HearthSettings; 2],
    _origin: Origin,
}

impl Two {
    fn new(lab: &Lab, write_policy: &str) -> anyhow::Result<Self> {
        let etcd = Etcd::start(lab, 1)?;
        let image = Image::new(lab, "origin.raw", 8)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let host = |name: &str| -> anyhow::Result<(Lab, HearthSettings)> {
            let own = lab.host(name)?;
            let flash = Flash::format(&own, "flash.img", 128)?;
            let disk = DiskSettings::on_nbd_with(DISK, &origin.uri(), "settle_time = '1s'")
                .key(&format!("id = '{ID}'"))
                .key(&format!("write_policy = '{write_policy}'"));
            let store = etcd.as_section(&format!("host = '{name}'"));
            let settings = HearthSettings::new(&flash).section(&store).disk(&disk);
            Ok((own, settings))
        };
        let [(lab_0, settings_0), (lab_1, settings_1)] = [host(NAMES[0])?, host(NAMES[1])?];
        Ok(Self {
            etcd,
            labs: [lab_0, lab_1],
            settings: [settings_0, settings_1],
            _origin: origin,
        })
    }

    fn start(&self, at: usize) -> anyhow::Result<Hearth> {
        Hearth::start(&self.labs[at], &self.settings[at])
    }

    fn start_in_trouble(&self, at: usize) -> anyhow::Result<Hearth> {
        let settings = self.settings[at].clone().in_trouble(DISK);
        Hearth::start(&self.labs[at], &settings)
    }

    /// Which host has it attached, as etcd says.
    fn attached_at(&self) -> anyhow::Result<Option<String>> {
        let record: serde_json::Value = serde_json::from_str(&self.etcd.record(ID)?)?;
        let host = record["attachment"]["host"].as_str();
        Ok(host.map(str::to_owned))
    }
}

fn state(hearth: &Hearth) -> anyhow::Result<String> {
    let shown = hearth.json(&["disk", "show", DISK])?;
    Ok(shown["state"].as_str().context("a state")?.to_owned())
}

fn wait_until_attached(hearth: &Hearth, deadline: Duration) -> anyhow::Result<()> {
    wait_until("the disk to be attached", deadline, || {
        Ok(state(hearth)? == "attached")
    })
}

#[test]
fn one_host_has_the_disk_until_it_lets_it_go() {
    scenario(TOOLS, |lab| {
        let two = Two::new(lab, "through")?;
        let a = two.start(0)?;
        let b = two.start_in_trouble(1)?;
        let shown = b.command(&["disk", "show", DISK])?.stdout;
        ensure!(shown.contains("attached at 'node-a'"), "{shown}");
        for host in [&a, &b] {
            let mut status = serde_json::Value::Null;
            wait_until("both hosts to be heard of, with their disk", SHORT, || {
                status = host.json(&["cluster", "status"])?;
                let lists = status["disks"][0]["lists"].as_array();
                Ok(lists.is_some_and(|lists| lists.len() == 2))
            })?;
            let disk = &status["disks"][0];
            ensure!(disk["host"] == "node-a" && disk["name"] == DISK, "{status}");
        }
        let text = b.command(&["cluster", "status"])?.stdout;
        ensure!(text.contains("here        node-b"), "{text}");
        a.command(&["disk", "detach", DISK])?;
        wait_until_attached(&b, Duration::from_mins(1))?;
        ensure!(two.attached_at()?.as_deref() == Some("node-b"));
        a.stop()?;
        b.stop()?;
        ensure!(
            two.attached_at()?.as_deref() == Some("node-b"),
            "a daemon that stops keeps its disks"
        );
        Ok(())
    });
}

#[test]
fn of_two_hosts_that_start_at_once_one_has_the_disk() {
    scenario(TOOLS, |lab| {
        let two = Two::new(lab, "through")?;
        let [a, b] = std::thread::scope(|scope| {
            let starting = [0, 1].map(|at| {
                let two = &two;
                scope.spawn(move || two.start_in_trouble(at))
            });
            starting.map(|host| host.join().expect("a start does not panic"))
        });
        let (a, b) = (a?, b?);
        wait_until("one of both to have it", SHORT, || {
            Ok([&a, &b]
                .iter()
                .any(|host| state(host).is_ok_and(|is| is == "attached")))
        })?;
        let have = [state(&a)?, state(&b)?].map(|state| state == "attached");
        ensure!(have[0] != have[1], "{have:?}");
        let owner = usize::from(have[1]);
        ensure!(two.attached_at()?.as_deref() == Some(NAMES[owner]));
        a.stop()?;
        b.stop()?;
        Ok(())
    });
}

/// Every row of the design's table of what goes on while etcd is down, for disks that do not roam.
#[test]
fn while_etcd_stands_still_a_host_goes_on_with_what_it_has() {
    scenario(TOOLS, |lab| {
        let two = Two::new(lab, "back")?;
        let a = two.start(0)?;
        let mut client = Session::open(a.nbd_socket(), DISK)?;
        client.write(0, &block(0, 1))?;
        client.flush()?;
        two.etcd.pause()?;
        // I/O, flushes, destage: nothing asks.
        let began = Instant::now();
        for round in 2..200 {
            client.write(0, &block(0, round))?;
            client.flush()?;
        }
        ensure!(client.read(0, 4096)? == block(0, 199));
        let took = began.elapsed();
        ensure!(took < Duration::from_secs(20), "requests waited: {took:?}");
        a.command(&["disk", "flush", DISK, "--wait"])?;
        client.write(0, &block(0, 200))?;
        client.flush()?;
        client.close()?;
        // A daemon that was killed, and one that was stopped, have their disks again.
        a.kill()?;
        let a = two.start_in_trouble(0)?;
        wait_until_attached(&a, WITHOUT_STORE)?;
        a.stop()?;
        let a = two.start_in_trouble(0)?;
        wait_until_attached(&a, WITHOUT_STORE)?;
        let mut client = Session::open(a.nbd_socket(), DISK)?;
        ensure!(
            client.read(0, 4096)? == block(0, 200),
            "what was flushed is there"
        );
        // A host that never had it does not take it.
        let b = two.start_in_trouble(1)?;
        wait_until("the disk to wait at node-b", SHORT, || {
            let shown = b.command(&["disk", "show", DISK])?.stdout;
            Ok(shown.contains("another host may have the disk"))
        })?;
        let status = a.json(&["cluster", "status"])?;
        ensure!(status["store"]["answers"] == false, "{status}");
        ensure!(status["store"]["remedy"].is_string(), "{status}");
        two.etcd.go_on()?;
        wait_until("node-b to hear of node-a", SHORT, || {
            let shown = b.command(&["disk", "show", DISK])?.stdout;
            Ok(shown.contains("attached at 'node-a'"))
        })?;
        client.write(0, &block(0, 201))?;
        client.flush()?;
        client.close()?;
        a.command(&["disk", "detach", DISK, "--flush"])?;
        wait_until_attached(&b, Duration::from_mins(1))?;
        let mut client = Session::open(b.nbd_socket(), DISK)?;
        ensure!(client.read(0, 4096)? == block(0, 201));
        client.close()?;
        a.stop()?;
        b.stop()?;
        Ok(())
    });
}

/// A disk of another host's, taken by the operator's word while etcd stands still.
#[test]
fn a_disk_is_attached_without_etcd_by_the_operators_word() {
    scenario(TOOLS, |lab| {
        let two = Two::new(lab, "back")?;
        let b = two.start(1)?;
        write(&b, 9)?;
        b.command(&["disk", "detach", DISK, "--flush"])?;
        b.stop()?;
        let a = two.start(0)?;
        write(&a, 1)?;
        refused_while_etcd_answers(&a, lab)?;
        a.command(&["disk", "detach", DISK, "--flush"])?;
        two.etcd.pause()?;
        let b = two.start_in_trouble(1)?;
        wait_until_it_waits(&b)?;
        b.command(&["disk", "attach", DISK, "--without-store"])?;
        let shown = b.json(&["disk", "show", DISK])?;
        ensure!(
            shown["dropped"] == "another cache had the disk meanwhile",
            "it is cold: {shown}"
        );
        let reason = shown["reason"].as_str().context("a reason")?;
        ensure!(reason.contains("has yet to be told"), "{reason}");
        ensure!(reason.contains("without write-back"), "{reason}");
        ensure!(read(&b)? == block(0, 1), "what node-a has written");
        write(&b, 2)?;
        // What is owed outlives the daemon, and what it has cached since.
        b.kill()?;
        let b = two.start_in_trouble(1)?;
        wait_until_attached(&b, WITHOUT_STORE)?;
        let shown = b.json(&["disk", "show", DISK])?;
        ensure!(shown["dropped"].is_null(), "it is warm: {shown}");
        ensure!(read(&b)? == block(0, 2), "what was flushed is there");
        let refused = b.refused_command(&["disk", "detach", DISK])?;
        ensure!(
            refused.stderr.contains("is not detached"),
            "{}",
            refused.stderr
        );
        ensure!(state(&b)? == "attached");
        two.etcd.go_on()?;
        wait_until("the store to be told", SHORT, || {
            Ok(two.attached_at()?.as_deref() == Some("node-b"))
        })?;
        wait_until(
            "the disk to come under write-back",
            Duration::from_mins(1),
            || Ok(b.json(&["disk", "show", DISK])?["reason"].is_null()),
        )?;
        write(&b, 3)?;
        b.command(&["disk", "detach", DISK, "--flush"])?;
        a.stop()?;
        let a = two.start(0)?;
        ensure!(read(&a)? == block(0, 3), "nothing that node-a had cached");
        a.stop()?;
        b.stop()?;
        Ok(())
    });
}

/// The operator was wrong: the host that is found to have the disk is named, and its record stays.
#[test]
fn a_disk_that_two_hosts_serve_is_a_problem_until_one_lets_it_go() {
    scenario(TOOLS, |lab| {
        let two = Two::new(lab, "through")?;
        let a = two.start(0)?;
        write(&a, 1)?;
        two.etcd.pause()?;
        let b = two.start_in_trouble(1)?;
        wait_until_it_waits(&b)?;
        b.command(&["disk", "attach", DISK, "--without-store"])?;
        two.etcd.go_on()?;
        wait_until("node-b to find node-a's record", SHORT, || {
            let shown = b.command(&["disk", "show", DISK])?.stdout;
            Ok(shown.contains("attached at 'node-a'"))
        })?;
        ensure!(b.log()?.contains("attached at 'node-a'"), "it is logged");
        ensure!(two.attached_at()?.as_deref() == Some("node-a"));
        // Let go here, where it should not have been.
        b.command(&["disk", "detach", DISK])?;
        ensure!(two.attached_at()?.as_deref() == Some("node-a"));
        a.stop()?;
        b.stop()?;
        Ok(())
    });
}

/// The word is not taken where it is not needed.
fn refused_while_etcd_answers(a: &Hearth, lab: &Lab) -> anyhow::Result<()> {
    let storage = lab.host("storage")?;
    let image = Image::new(&storage, "other.raw", 8)?;
    let path = image.path().display().to_string();
    let origin = Origin::start(&storage, &image, OriginSettings::default())?;
    for (origin, why) in [
        (path, "is a file, and its record is beside it"),
        (origin.uri(), "the cluster's store answers"),
    ] {
        let words = ["disk", "attach", "other", "--origin", &origin];
        let refused = a.refused_command(&[&words[..], &["--without-store"]].concat())?;
        ensure!(refused.stderr.contains(why), "{}", refused.stderr);
        ensure!(
            refused.stderr.contains("without --without-store"),
            "{}",
            refused.stderr
        );
    }
    let refused = a.refused_command(&["disk", "attach", DISK, "--without-store"])?;
    ensure!(refused.stderr.contains("is attached"), "{}", refused.stderr);
    let disks = a.json(&["disk", "list"])?;
    ensure!(
        disks["disks"].as_array().map(Vec::len) == Some(1),
        "{disks}"
    );
    Ok(())
}

fn wait_until_it_waits(hearth: &Hearth) -> anyhow::Result<()> {
    wait_until("the disk to wait for the store", WITHOUT_STORE, || {
        let shown = hearth.command(&["disk", "show", DISK])?.stdout;
        Ok(shown.contains("another host may have the disk"))
    })
}

fn write(hearth: &Hearth, round: u8) -> anyhow::Result<()> {
    let mut client = Session::open(hearth.nbd_socket(), DISK)?;
    client.write(0, &block(0, round))?;
    client.flush()?;
    client.close()
}

fn read(hearth: &Hearth) -> anyhow::Result<Vec<u8>> {
    let mut client = Session::open(hearth.nbd_socket(), DISK)?;
    let bytes = client.read(0, 4096)?;
    client.close()?;
    Ok(bytes)
}

/// A lease never owns a disk: a host that is not heard of any more still has it.
#[test]
fn a_host_that_is_gone_keeps_its_disk() {
    scenario(TOOLS, |lab| {
        let two = Two::new(lab, "back")?;
        let a = two.start(0)?;
        let b = two.start_in_trouble(1)?;
        wait_until("both hosts to be heard of", SHORT, || {
            let status = b.json(&["cluster", "status"])?;
            Ok(status["hosts"]
                .as_array()
                .is_some_and(|hosts| hosts.len() == 2))
        })?;
        a.kill()?;
        let gone = Duration::from_mins(1);
        wait_until("node-a's lease to end", gone, || {
            let status = b.json(&["cluster", "status"])?;
            Ok(status["hosts"]
                .as_array()
                .is_some_and(|hosts| hosts.len() == 1))
        })?;
        let text = b.command(&["cluster", "status"])?.stdout;
        ensure!(text.contains("node-a  not heard of"), "{text}");
        // It is tried again and again.
        std::thread::sleep(Duration::from_secs(5));
        ensure!(state(&b)? == "waiting", "node-b took it");
        ensure!(two.attached_at()?.as_deref() == Some("node-a"));
        let a = two.start(0)?;
        a.stop()?;
        b.stop()?;
        Ok(())
    });
}
