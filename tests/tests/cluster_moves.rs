//! VMs move between two hosts of a cluster by `hearth move`, with a libvirt at each, whichever daemon dies: a driver that was
//! lost at any stage is replaced, a source or a target that is killed goes on, and the guest's database is whole.

use anyhow::{Context as _, ensure};
use e2e::{
    CrashedExt4, Etcd, GUEST_TOOLS, GuestKit, LONG, Lab, Libvirt, RoamingPair, RoamingSettings,
    SHORT, free_port, is_root, scenario, wait_until,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A VM of one disk has its name.
const VM: &str = Libvirt::VM;
/// A host that was never there: a driver that died right after its commit.
const DEAD: &str = "node-c";

/// Two hosts of a cluster, each with a libvirt, and a VM that is at one of them.
struct Stand {
    pair: RoamingPair,
    etcd: Etcd,
    libvirts: [Libvirt; 2],
    at: usize,
    /// Transactions that the guest has committed.
    through: u64,
}

impl Stand {
    fn start(lab: &Lab, vhost_user: bool, kit: &GuestKit) -> anyhow::Result<Self> {
        let etcd = Etcd::start(lab, 1)?;
        let settings = RoamingSettings {
            vhost_user,
            flash_mib: 512,
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::over(lab, kit.disk(lab)?, settings)?;
        let store = etcd.as_section("");
        let port = free_port()?;
        for at in [0, 1] {
            let folder = pair.lab(1 - at).path("");
            // What is the same at both hosts of a data centre is in two folders here.
            let other = folder.display().to_string();
            let other = other
                .trim_end_matches('/')
                .trim_end_matches(RoamingPair::NAMES[1 - at]);
            let section = format!(
                "{store}[hypervisor]\nmigrate_with = 'virsh'\nconnect = '{}'\ndestination = '{}'\n\
                 options = ['--live', '--p2p', '--migrateuri', 'tcp://127.0.0.1:{port}', '--xml', '{other}{{host}}/web.xml']\n",
                uri(&pair, at),
                uri(&pair, 1 - at).replace(RoamingPair::NAMES[1 - at], "{host}"),
            );
            pair.configure(at, &section);
        }
        pair.start_host(0)?;
        pair.wait_until_owned_by(0)?;
        pair.start_host(1)?;
        let libvirts = [Libvirt::start(&mut pair, 0)?, Libvirt::start(&mut pair, 1)?];
        let mut definitions: Vec<PathBuf> = Vec::new();
        for (at, libvirt) in libvirts.iter().enumerate() {
            definitions.push(libvirt.define(&mut pair, at, kit)?);
            ensure!(libvirt.uri() == uri(&pair, at), "{}", libvirt.uri());
        }
        libvirts[0].virsh(&["create", &definitions[0].display().to_string()])?;
        let through = libvirts[0].wait_for_transactions(0)?;
        let mut stand = Self {
            pair,
            etcd,
            libvirts,
            at: 0,
            through,
        };
        stand.wait_for_both()?;
        Ok(stand)
    }

    fn wait_for_both(&mut self) -> anyhow::Result<()> {
        for at in [0, 1] {
            wait_until("both hosts to be heard of", SHORT, || {
                let status = self.pair.host(at).json(&["cluster", "status"])?;
                let disk = &status["disks"][0];
                let hosts = status["hosts"].as_array().map(Vec::len);
                Ok(hosts == Some(2) && disk["host"] == RoamingPair::NAMES[self.at])
            })?;
        }
        Ok(())
    }

    fn names(&self) -> (&'static str, &'static str) {
        (RoamingPair::NAMES[self.at], RoamingPair::NAMES[1 - self.at])
    }

    fn shown(&mut self, at: usize) -> anyhow::Result<Value> {
        self.pair.host(at).json(&["move", "show", VM])
    }

    /// What the guest needs before it may go.
    fn make_ready(&self) -> anyhow::Result<()> {
        self.libvirts[self.at].move_in_one_pass()?;
        // Its next QEMU begins this file anew.
        let _ = std::fs::remove_file(self.libvirts[1 - self.at].console_path());
        Ok(())
    }

    /// Begins a move to the other host, told to one of the daemons.
    fn begin(&mut self, told: usize) -> anyhow::Result<()> {
        self.make_ready()?;
        let (_, to) = self.names();
        self.pair
            .host(told)
            .command(&["move", "start", VM, "--to", to])?;
        Ok(())
    }

    /// Leaves a move to the other host as a driver did that died right after it had committed this stage.
    fn leave(&mut self, stage: &str) -> anyhow::Result<()> {
        let way = self.names();
        self.leave_on(way, stage)
    }

    /// The same for the move by which the VM came here.
    fn leave_behind(&mut self, stage: &str) -> anyhow::Result<()> {
        let (to, from) = self.names();
        self.leave_on((from, to), stage)?;
        self.wait_for(0, &["done"])?;
        self.pair.wait_until_owned_by(self.at)
    }

    fn leave_on(&mut self, (from, to): (&str, &str), stage: &str) -> anyhow::Result<()> {
        let last = self
            .shown(self.at)
            .map_or(0, |shown| shown["step"].as_u64().unwrap_or(0));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let record = json!({
            "vm": VM, "from": from, "to": to, "stage": { "name": stage }, "driver": DEAD,
            "since_ns": u64::try_from(now.as_nanos())?, "step": last + 1,
        });
        let key = format!("/hearth/main/moves/{VM}");
        self.etcd.control(&["put", &key, &record.to_string()])?;
        Ok(())
    }

    /// Waits until the move has one of these stages.
    fn wait_for(&mut self, told: usize, stages: &[&str]) -> anyhow::Result<String> {
        let mut seen = String::new();
        let waited = wait_until("the move's stage", LONG, || {
            let shown = self.shown(told)?;
            shown["stage"]
                .as_str()
                .context("a stage")?
                .clone_into(&mut seen);
            Ok(stages.contains(&seen.as_str()))
        });
        waited.with_context(|| format!("the move is {seen}: {:?}", self.shown(told)))?;
        Ok(seen)
    }

    /// Waits for the move's end, and sees the guest go on where it is then.
    fn wait_for_end(&mut self, expected: &[&str]) -> anyhow::Result<()> {
        let stage = self.wait_for(0, &["done", "rolled-back", "failed"])?;
        let shown = self.shown(0)?;
        ensure!(expected.contains(&stage.as_str()), "{shown}");
        if stage == "done" {
            self.through = self.through.max(self.libvirts[self.at].committed());
            self.at = 1 - self.at;
        }
        let libvirt = &self.libvirts[self.at];
        self.through = libvirt.wait_for_transactions(self.through)?;
        self.pair.wait_until_owned_by(self.at)?;
        self.wait_for_both()
    }

    /// Ends the VM, and counts what its guest has committed.
    fn account(mut self, lab: &Lab, kit: &GuestKit) -> anyhow::Result<()> {
        let libvirt = &self.libvirts[self.at];
        libvirt.virsh(&["destroy", VM])?;
        self.through = self.through.max(libvirt.committed());
        self.pair.flush_to_origin(self.at)?;
        let image = self.pair.image.path().to_owned();
        self.pair.stop_both()?;
        let disk = CrashedExt4::at(&image);
        disk.check()?;
        disk.account(lab, kit, Libvirt::DATABASE, self.through)
            .map(drop)
    }
}

fn uri(pair: &RoamingPair, at: usize) -> String {
    let socket = pair.lab(at).path("libvirt/sock/libvirt-sock");
    format!("qemu+unix:///system?socket={}", socket.display())
}

fn moves_whichever_daemon_dies(lab: &Lab, vhost_user: bool) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let mut stand = Stand::start(lab, vhost_user, &kit)?;
    // An operator at the host that the VM goes to.
    stand.make_ready()?;
    let (_, to) = stand.names();
    let again = ["move", "start", VM, "--to", to, "--wait"];
    stand.pair.host(1).command(&again)?;
    stand.wait_for_end(&["done"])?;
    for at in [0, 1] {
        let ended = ["events", "--kind", "move-ended,disk-taken,disk-given"];
        let text = stand.pair.host(at).command(&ended)?.stdout;
        let disk = if at == 0 { "disk-given" } else { "disk-taken" };
        ensure!(
            text.contains("the VM has moved") && text.contains(disk),
            "{text}"
        );
    }
    let refused = stand.pair.host(0).refused_command(&again)?.stderr;
    ensure!(refused.contains("is at node-b already"), "{refused}");
    // A driver that died, at each stage.
    for stage in ["approved", "prepared", "migrating"] {
        stand.make_ready()?;
        stand.leave(stage)?;
        stand.wait_for_end(&["done"])?;
    }
    for stage in ["granted", "draining"] {
        stand.leave_behind(stage)?;
    }
    // The source, the target, and the daemon that drives are killed on the way.
    for (stage, is_target) in kills(vhost_user) {
        let victim = if *is_target { 1 - stand.at } else { stand.at };
        // The one that is told drives.
        stand.begin(victim)?;
        stand.wait_for(1 - victim, &[stage, "draining", "done"])?;
        stand.pair.kill(victim)?;
        stand.pair.start_host(victim)?;
        stand.wait_for_end(&["done", "rolled-back"])?;
    }
    stand.account(lab, &kit)
}

/// At which stage the target, or else the source, is killed. This libvirt does not let QEMU connect anew over NBD: there only
/// a target is killed to which no QEMU is connected yet.
fn kills(vhost_user: bool) -> &'static [(&'static str, bool)] {
    if vhost_user {
        &[
            ("prepared", false),
            ("prepared", true),
            ("migrating", false),
            ("migrating", true),
        ]
    } else {
        &[("prepared", true)]
    }
}

fn tools() -> Vec<&'static str> {
    [GUEST_TOOLS, RoamingPair::TOOLS, Libvirt::TOOLS, Etcd::TOOLS].concat()
}

#[test]
fn over_nbd() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| moves_whichever_daemon_dies(lab, false));
    }
}

#[test]
fn over_vhost_user() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| moves_whichever_daemon_dies(lab, true));
    }
}
