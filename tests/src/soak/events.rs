//! What happens to the daemon in a soak.

use std::path::Path;

use anyhow::{Context as _, ensure};

use super::Scene;
use crate::{Hearth, LONG, hearth, wait_until};

/// The disk that comes and goes, with a client over NBD that remembers all that it was answered.
const COMES: &str = "comes";
/// The one that comes for a verified load over vhost-user.
const BURSTS: &str = "bursts";
/// Policies, in the order that the guest's disks go through them.
const POLICIES: [&str; 4] = ["back", "around", "through", "back"];
/// What enters the flash.
const ADMISSIONS: [&str; 2] = ["always", "reuse-age"];

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// `kill -9`, and another daemon.
    Killed,
    /// A clean stop, and another daemon.
    Stopped,
    /// The daemon becomes another one in place.
    Renewed,
    /// `kill -9` while a client writes whose every answered write is looked for afterwards.
    KilledAmidWrites,
    /// Write policy of both of the guest's disks and admission change.
    Policies,
    /// A disk is attached, written and verified over both front ends, and detached.
    ComesAndGoes,
    /// The origin of one of the guest's disks is away for a moment.
    OriginAway,
    /// Nothing.
    Quiet,
}

impl Event {
    pub(super) const ALL: [Self; 8] = [
        Self::Killed,
        Self::Stopped,
        Self::Renewed,
        Self::KilledAmidWrites,
        Self::Policies,
        Self::ComesAndGoes,
        Self::OriginAway,
        Self::Quiet,
    ];

    /// The restarts stand first.
    const RESTARTS: usize = 4;

    /// The guest boots meanwhile.
    pub(super) fn first() -> Self {
        Self::Quiet
    }

    /// What happens after `last`: a restart if it is time for one.
    pub(super) fn next(last: Self, dice: &mut u64, restarts: bool) -> Self {
        let among = if restarts {
            &Self::ALL[..Self::RESTARTS]
        } else {
            &Self::ALL[Self::RESTARTS..]
        };
        loop {
            // Knuth's multiplier: the upper bits are even enough for a choice.
            *dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let event = among[(*dice >> 33) as usize % among.len()];
            if event != last {
                return event;
            }
        }
    }

    pub(super) fn is_restart(self) -> bool {
        Self::ALL[..Self::RESTARTS].contains(&self)
    }
}

impl Scene<'_> {
    pub(super) fn happen(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Killed => {
                self.take()?.kill()?;
                self.start()
            }
            Event::Stopped => {
                self.take()?.stop()?;
                self.start()
            }
            Event::Renewed => self.hearth.as_mut().context("a daemon")?.renew(),
            Event::KilledAmidWrites => self.kill_amid_writes(),
            Event::Policies => self.change_policies(),
            Event::ComesAndGoes => self.come_and_go(),
            Event::OriginAway => {
                self.origin.kill()?;
                self.wait_a_round()?;
                self.origin.restart(self.lab)
            }
            Event::Quiet => Ok(()),
        }
    }

    fn take(&mut self) -> anyhow::Result<Hearth> {
        self.hearth.take().context("no daemon is running")
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let hearth = Hearth::start_under(self.lab, &self.settings, &self.manager)?;
        self.hearth = Some(hearth);
        Ok(())
    }

    /// The guest may well hang on the disk whose origin is away, or be busy with the other one.
    fn wait_a_round(&self) -> anyhow::Result<()> {
        let began = std::time::Instant::now();
        let before = self.rounds();
        wait_until("the guest, or two seconds", LONG, || {
            Ok(self.rounds() > before || began.elapsed().as_secs() >= 2)
        })
    }

    fn attach(&self, disk: &str) -> anyhow::Result<()> {
        let origin = self.lab.path(&format!("{disk}.raw")).display().to_string();
        let socket = self.socket(disk);
        let words = ["disk", "attach", disk, "--origin", &origin];
        let more = ["--vhost-socket", &socket];
        self.daemon()?.command(&[&words[..], &more].concat())?;
        Ok(())
    }

    fn socket(&self, disk: &str) -> String {
        self.lab.path(&format!("{disk}.sock")).display().to_string()
    }

    fn detach(&self, disk: &str) -> anyhow::Result<()> {
        let words = ["disk", "detach", disk, "--flush"];
        self.daemon()?.command(&words)?;
        let socket = self.socket(disk);
        ensure!(!Path::new(&socket).exists(), "{socket} is still there");
        Ok(())
    }

    fn kill_amid_writes(&mut self) -> anyhow::Result<()> {
        self.attach(COMES)?;
        let uri = self.daemon()?.uri(COMES);
        let writer = self.versions.write(&uri, 60)?;
        self.take()?.kill()?;
        writer.was_cut_off()?;
        self.start()?;
        self.versions.verify(&uri)?;
        self.detach(COMES)
    }

    fn come_and_go(&mut self) -> anyhow::Result<()> {
        self.attach(COMES)?;
        let uri = self.daemon()?.uri(COMES);
        // The versions of all lives so far are still there.
        self.versions.write_for(&uri, 1)?;
        self.versions.verify(&uri)?;
        self.detach(COMES)?;
        self.attach(BURSTS)?;
        let target = format!("vhost-user:{}", self.socket(BURSTS));
        let load = [
            "--json",
            "bench",
            &target,
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=16",
            "--size=16m",
            "--verify=crc32c",
        ];
        let report = hearth(&load)?.json()?;
        let job = &report["jobs"][0];
        ensure!(job["error"] == 0 && job["verify"]["wrong"] == 0, "{job}");
        self.detach(BURSTS)
    }

    fn change_policies(&mut self) -> anyhow::Result<()> {
        self.policy += 1;
        for (at, disk) in ["vhost", "nbd"].into_iter().enumerate() {
            let policy = POLICIES[(self.policy + at) % POLICIES.len()];
            let words = ["disk", "set", disk, "--policy", policy];
            self.daemon()?.command(&words)?;
        }
        let admission = ADMISSIONS[self.policy % ADMISSIONS.len()];
        let words = ["cache", "set", "flash", "--admission", admission];
        self.daemon()?.command(&words)?;
        Ok(())
    }
}
