//! A disk roams among three hosts: it goes around, back, and where its last host has gone down, and each host that it comes to
//! finds who has it.

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Expected, Flash, Hearth, HearthSettings, Image, Lab, SHORT, Session, scenario,
    wait_until,
};
use units::Prng;

const NAMES: [&str; 3] = ["node-a", "node-b", "node-c"];
const TOOLS: &[&str] = &["openssl"];
const DISK: &str = "disk";
const ID: &str = "00112233445566778899aabbccddeeff";

/// Three hosts over one image.
struct Three {
    image: Image,
    labs: Vec<Lab>,
    settings: Vec<HearthSettings>,
    hosts: Vec<Option<Hearth>>,
}

impl Three {
    fn start(lab: &Lab, write_policy: &str) -> anyhow::Result<Self> {
        let image = Image::new(lab, "origin.raw", 8)?;
        let links = e2e::links_among(lab, &NAMES)?;
        let (mut labs, mut settings) = (Vec::new(), Vec::new());
        for (name, link) in NAMES.iter().zip(&links) {
            let own = lab.host(name)?;
            let flash = Flash::format(&own, "flash.img", 128)?;
            let disk = DiskSettings::on_file(DISK, image.path())
                .key(&format!("id = '{ID}'\nroams = true"))
                .key(&format!("write_policy = '{write_policy}'"));
            let made = HearthSettings::new(&flash).log("info,daemon=debug");
            settings.push(made.section(link).disk(&disk));
            labs.push(own);
        }
        let mut three = Self {
            image,
            labs,
            settings,
            hosts: vec![None, None, None],
        };
        three.start_host(0)?;
        three.wait_until_owned_by(0)?;
        three.start_host(1)?;
        three.start_host(2)?;
        Ok(three)
    }

    fn start_host(&mut self, at: usize) -> anyhow::Result<()> {
        self.hosts[at] = Some(Hearth::start(&self.labs[at], &self.settings[at])?);
        Ok(())
    }

    fn host(&self, at: usize) -> anyhow::Result<&Hearth> {
        self.hosts[at].as_ref().context("the host runs")
    }

    fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        self.hosts[at].take().context("the host runs")?.kill()
    }

    fn client(&self, at: usize) -> anyhow::Result<Session> {
        Session::open(self.host(at)?.nbd_socket(), DISK)
    }

    fn is_owner(&self, at: usize) -> anyhow::Result<bool> {
        let shown = self.host(at)?.json(&["disk", "show", DISK])?;
        Ok(shown["state"] == "attached")
    }

    /// Waits until a host has the disk, and checks that no other one has.
    fn wait_until_owned_by(&self, at: usize) -> anyhow::Result<()> {
        wait_until("the host to have the disk", SHORT, || self.is_owner(at))?;
        for other in (0..3).filter(|other| *other != at) {
            let has = self.hosts[other].is_some() && self.is_owner(other)?;
            ensure!(!has, "{} has it, too", NAMES[other]);
        }
        Ok(())
    }

    /// The VM goes to a host: its QEMU there reads, the one here ends, and it goes on there.
    fn goes(
        &self,
        source: Session,
        to: usize,
        expected: &mut Expected,
        round: u8,
    ) -> anyhow::Result<Session> {
        let first = u64::from(round % 7);
        let mut destination = self.client(to)?;
        expected
            .check("the destination, before", &mut destination)
            .with_context(|| NAMES[to])?;
        source.close()?;
        expected.write(&mut destination, (first..400).step_by(7), round)?;
        destination.flush()?;
        self.wait_until_owned_by(to)?;
        expected.check("the destination", &mut destination)?;
        Ok(destination)
    }

    fn stop(self) -> anyhow::Result<()> {
        let mut hosts = self.hosts.into_iter().flatten();
        hosts.try_for_each(|host| host.stop().map(drop))
    }
}

#[test]
fn a_disk_goes_around_and_back() {
    for write_policy in ["through", "back"] {
        scenario(TOOLS, |lab| {
            let three = Three::start(lab, write_policy)?;
            let mut expected = Expected::of(&three.image)?;
            let mut vm = three.client(0)?;
            expected.write(&mut vm, (0..400).step_by(3), 1)?;
            vm.flush()?;
            for (round, to) in [1, 2, 0, 2, 1, 0].into_iter().enumerate() {
                vm = three.goes(vm, to, &mut expected, u8::try_from(round)? + 2)?;
                let shown = three.host(to)?.json(&["migrate", "show", DISK])?;
                ensure!(shown["role"] == "owner", "{shown}");
            }
            three.host(0)?.command(&["disk", "flush", DISK, "--wait"])?;
            vm.close()?;
            let last = three.host(0)?.json(&["migrate", "list"])?;
            ensure!(last["peers"].as_array().map(Vec::len) == Some(2), "{last}");
            let image = std::fs::read(three.image.path())?;
            expected.compare("the origin", &image)?;
            three.stop()
        });
    }
}

/// An operator says where the VM goes: both hosts prepare for each other.
#[test]
fn a_move_is_prepared_with_the_host_that_is_named() {
    scenario(TOOLS, |lab| {
        let three = Three::start(lab, "back")?;
        let mut expected = Expected::of(&three.image)?;
        let mut vm = three.client(0)?;
        expected.write(&mut vm, (0..400).step_by(3), 1)?;
        vm.flush()?;
        for (from, to) in [(0, 2), (2, 1)] {
            let check = ["migrate", "check", DISK, "--to", NAMES[to]];
            three.host(from)?.command(&check)?;
            let prepare = ["migrate", "prepare", DISK, "--to", NAMES[to]];
            three.host(from)?.command(&prepare)?;
            wait_until("the other host to expect it", SHORT, || {
                let shown = three.host(to)?.json(&["migrate", "show", DISK])?;
                let phase = shown["cache_move"]["phase"].as_str().unwrap_or_default();
                Ok(shown["peer"]["name"] == NAMES[from] && phase == "ahead")
            })?;
            let shown = three.host(from)?.json(&["migrate", "show", DISK])?;
            ensure!(shown["peer"]["name"] == NAMES[to], "{shown}");
            vm = three.goes(vm, to, &mut expected, u8::try_from(to)? + 2)?;
        }
        let refused = three
            .host(0)?
            .refused_command(&["migrate", "check", DISK, "--to", "node-x"])?;
        ensure!(refused.stderr.contains("node-b"), "{}", refused.stderr);
        vm.close()?;
        three.stop()
    });
}

/// Hosts are killed and start again wherever the disk is.
#[test]
fn it_goes_on_where_hosts_are_killed() {
    scenario(TOOLS, |lab| {
        let mut three = Three::start(lab, "back")?;
        let mut expected = Expected::of(&three.image)?;
        let mut dice = Prng::new(7);
        let mut vm = three.client(0)?;
        expected.write(&mut vm, (0..400).step_by(3), 1)?;
        vm.flush()?;
        let mut at = 0;
        for round in 2..12 {
            let to = (at + 1 + usize::try_from(dice.below(2))?) % 3;
            vm = three.goes(vm, to, &mut expected, round)?;
            let last = std::mem::replace(&mut at, to);
            let killed = [at, last, 3 - at - last][usize::try_from(dice.below(3))?];
            if killed == at {
                drop(vm);
            }
            three.kill(killed)?;
            three.start_host(killed)?;
            three.wait_until_owned_by(at)?;
            vm = three.client(at)?;
            expected.check("after the kill", &mut vm)?;
        }
        three
            .host(at)?
            .command(&["disk", "flush", DISK, "--wait"])?;
        vm.close()?;
        let image = std::fs::read(three.image.path())?;
        expected.compare("the origin", &image)?;
        three.stop()
    });
}
