//! Two VMs move between two hosts at the same time in both directions, again and again, each under a load that is
//! verified: neither loses anything, and neither disk is ever at both hosts.

#![allow(clippy::print_stdout, reason = "how long each VM paused")]

use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Expected, Flash, Hearth, HearthSettings, Image, Lab, RoamingPair, SHORT, Session,
    block, scenario, wait_until,
};

const DISKS: [&str; 2] = ["first", "second"];
const IMAGE_MIB: u64 = 8;
const FLASH_MIB: u64 = 128;
/// For how long a VM runs before it moves: longer than it takes a client to look as if a migration came.
const RUNS: Duration = Duration::from_millis(1_500);
const ROUNDS: u8 = 4;
const BLOCK: u64 = 4096;
/// How long a VM may wait for its disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// Both hosts and both disks.
struct Hosts {
    hosts: [Hearth; 2],
    images: [Image; 2],
}

impl Hosts {
    fn start(lab: &Lab, write_policy: &str) -> anyhow::Result<Self> {
        let (links, wire) = e2e::linked(lab)?;
        // It is never cut.
        std::mem::forget(wire);
        let images = [
            Image::new(lab, "first.raw", IMAGE_MIB)?,
            Image::new(lab, "second.raw", IMAGE_MIB)?,
        ];
        let host = |at: usize| -> anyhow::Result<Hearth> {
            let own = lab.host(RoamingPair::NAMES[at])?;
            let flash = Flash::format(&own, "flash.img", FLASH_MIB)?;
            let mut settings = HearthSettings::new(&flash).section(&links[at]);
            for (number, (name, image)) in DISKS.into_iter().zip(&images).enumerate() {
                let disk = DiskSettings::on_file(name, image.path())
                    .key("roams = true")
                    .key(&format!("id = '{number:032x}'"))
                    .key(&format!("write_policy = '{write_policy}'"));
                settings = settings.disk(&disk);
            }
            Hearth::start(&own, &settings)
        };
        let first = host(0)?;
        let hosts = [first, host(1)?];
        Ok(Self { hosts, images })
    }

    fn client(&self, at: usize, disk: usize) -> anyhow::Result<Session> {
        Session::open(self.hosts[at].nbd_socket(), DISKS[disk])
    }

    /// Waits until a host has a disk, and checks that the other one has not.
    fn wait_until_owned_by(&mut self, at: usize, disk: usize) -> anyhow::Result<()> {
        let is_at = |host: &mut Hearth| -> anyhow::Result<bool> {
            Ok(host.json(&["disk", "show", DISKS[disk]])?["state"] == "attached")
        };
        wait_until("the host to have the disk", SHORT, || {
            is_at(&mut self.hosts[at])
        })?;
        ensure!(
            !is_at(&mut self.hosts[1 - at])?,
            "both have {}",
            DISKS[disk]
        );
        Ok(())
    }
}

/// A VM: what runs, and what its disk must hold.
struct Vm {
    expected: Expected,
    running: Session,
    dice: u64,
    requests: u64,
}

impl Vm {
    fn dice(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % sides
    }

    /// Writes, reads and flushes for a while. Each read is compared.
    fn load(&mut self, time: Duration, round: u8) -> anyhow::Result<()> {
        let began = Instant::now();
        while began.elapsed() < time {
            self.requests += 1;
            let number = self.dice(self.expected.blocks());
            match self.dice(8) {
                0 => self.running.flush()?,
                1..4 => {
                    let one = std::iter::once(number);
                    self.expected.write(&mut self.running, one, round)?;
                }
                _ => {
                    let seen = self.running.read(number * BLOCK, BLOCK)?;
                    ensure!(
                        self.expected.has(number * BLOCK, &seen),
                        "block {number} is another one"
                    );
                }
            }
        }
        Ok(())
    }

    /// Runs, stops when the other one does, and goes on at the destination. How long its first write took there.
    fn moves(
        &mut self,
        destination: Session,
        round: u8,
        both: &Barrier,
    ) -> anyhow::Result<Duration> {
        let ran = self.load(RUNS, round);
        let flushed = self.running.flush();
        // The other one must not wait for ever.
        both.wait();
        ran.and(flushed)?;
        let source = std::mem::replace(&mut self.running, destination);
        let (began, number) = (Instant::now(), self.dice(self.expected.blocks()));
        let data = block(number, round);
        // QEMU resumes the VM until its disk has come.
        loop {
            let written = self.running.try_write(number * BLOCK, &data)?;
            self.expected.put(number * BLOCK, &data);
            if written.is_ok() {
                break;
            }
            ensure!(began.elapsed() < PATIENCE, "the disk does not come");
        }
        let paused = began.elapsed();
        self.load(RUNS / 2, round)?;
        drop(source);
        self.expected
            .check("the VM that has moved", &mut self.running)?;
        Ok(paused)
    }
}

type Moving = JoinHandle<anyhow::Result<(Vm, Duration)>>;

fn both_ways(lab: &Lab, write_policy: &str) -> anyhow::Result<()> {
    let mut hosts = Hosts::start(lab, write_policy)?;
    let mut vms = Vec::new();
    for disk in 0..DISKS.len() {
        // The first disk is at the first host, and the second one at the second.
        let mut vm = Vm {
            expected: Expected::of(&hosts.images[disk])?,
            running: hosts.client(disk, disk)?,
            dice: 2 * disk as u64 + 7,
            requests: 0,
        };
        wait_until("the disk to come to its VM", SHORT, || {
            Ok(vm.running.try_write(0, &block(0, 200))?.is_ok())
        })?;
        vm.expected.put(0, &block(0, 200));
        hosts.wait_until_owned_by(disk, disk)?;
        vms.push(vm);
    }
    for round in 1..=ROUNDS {
        let there = |disk: usize| (disk + usize::from(round)) % 2;
        let both = Arc::new(Barrier::new(DISKS.len()));
        let mut moving: Vec<Moving> = Vec::new();
        for (disk, mut vm) in vms.drain(..).enumerate() {
            let (destination, both) = (hosts.client(there(disk), disk)?, Arc::clone(&both));
            moving.push(std::thread::spawn(move || {
                let paused = vm.moves(destination, round, &both);
                Ok((vm, paused?))
            }));
        }
        for (disk, moved) in moving.into_iter().enumerate() {
            let moved = moved.join().map_err(|_| anyhow::anyhow!("a panic"))?;
            let (vm, paused) = moved.with_context(|| format!("round {round}, {}", DISKS[disk]))?;
            println!(
                "round {round}: {} at host {}, paused for {paused:?}, {} requests",
                DISKS[disk],
                there(disk),
                vm.requests
            );
            hosts.wait_until_owned_by(there(disk), disk)?;
            vms.push(vm);
        }
    }
    for (disk, vm) in vms.into_iter().enumerate() {
        let at = (disk + usize::from(ROUNDS)) % 2;
        let host = &mut hosts.hosts[at];
        host.command(&["disk", "flush", DISKS[disk], "--wait"])?;
        let bytes = std::fs::read(hosts.images[disk].path())?;
        vm.expected.compare("the origin", &bytes)?;
        vm.running.close()?;
    }
    hosts
        .hosts
        .into_iter()
        .try_for_each(|host| host.stop().map(drop))
}

#[test]
fn two_vms_change_places_under_load() {
    scenario(RoamingPair::TOOLS, |lab| both_ways(lab, "back"));
}

#[test]
fn two_vms_change_places_whose_disks_are_written_through() {
    scenario(RoamingPair::TOOLS, |lab| both_ways(lab, "through"));
}
