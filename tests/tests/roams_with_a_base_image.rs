//! The cache of a base image follows a VM that reads it: the host that the VM comes to has what the other one has cached, from
//! the first read on, and what it had before does not travel. An image with other bytes stays at home, and a daemon that
//! is killed meanwhile costs only warmth.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, Request,
    RoamingPair, SHORT, Session, Wire, block, hearth, scenario, wait_until,
};
use serde_json::Value;

const NAMES: [&str; 2] = RoamingPair::NAMES;
const VMS: [&str; 2] = ["web", "db"];
const IMAGE: &str = "debian";
const IMAGE_MIB: u64 = 8;
const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// Blocks by which a host tells an image from another one.
const SAMPLED: u64 = 64;
const FOLLOWED: &str = "the base image's cache has followed";
const LONG: Duration = Duration::from_secs(30);

/// Two hosts, two VMs with a disk each, and an image that both VMs read at either host.
struct Pair {
    hosts: [Option<Hearth>; 2],
    labs: [Lab; 2],
    settings: [HearthSettings; 2],
    wire: Wire,
}

#[derive(Clone, Copy, Default)]
struct Setting {
    rate: Option<&'static str>,
    encrypted: bool,
}

impl Pair {
    /// With the image's origin at each host.
    fn start(lab: &Lab, bases: &[DiskSettings; 2], setting: Setting) -> anyhow::Result<Self> {
        let (links, wire) = e2e::linked(lab)?;
        let disks = [0, 1].map(|at| Image::new(lab, &format!("{}.raw", VMS[at]), 1));
        let [web, db] = disks;
        let (web, db) = (web?, db?);
        let host = |at: usize| -> anyhow::Result<(Lab, HearthSettings)> {
            let own = lab.host(NAMES[at])?;
            let flash = Flash::format(&own, "flash.img", 128)?;
            // No busy machine reaches the timeout: the tests count what was lent.
            let rate = format!(
                "[link]\nlend_timeout = '30s'\nrate = '{}'\n",
                setting.rate.unwrap_or("auto")
            );
            let mut base = bases[at]
                .clone()
                .key("shared = true\nroams = true")
                .key(&format!("id = '{:032x}'", 9));
            if setting.encrypted {
                let key = own.write("key", &format!("{}", at + 1).repeat(64))?;
                base = base
                    .key("[disk.encryption]")
                    .key(&format!("key_file = '{}'", key.display()));
            }
            let mut settings = HearthSettings::new(&flash)
                .log("info,daemon=debug")
                .section(&links[at].replacen("[link]\n", &rate, 1));
            for (vm, image) in VMS.iter().zip([&web, &db]) {
                let id = vm.len();
                let disk = DiskSettings::on_file(vm, image.path())
                    .key(&format!("roams = true\nid = '{id:032x}'"));
                settings = settings
                    .disk(&disk)
                    .vm(vm, &format!("images = ['{IMAGE}']"));
            }
            Ok((own, settings.disk(&base)))
        };
        let [(lab_0, settings_0), (lab_1, settings_1)] = [host(0)?, host(1)?];
        let mut pair = Self {
            hosts: [None, None],
            labs: [lab_0, lab_1],
            settings: [settings_0, settings_1],
            wire,
        };
        pair.start_host(0)?;
        for vm in VMS {
            pair.wait_until_at(0, vm)?;
        }
        pair.start_host(1)?;
        Ok(pair)
    }

    fn start_host(&mut self, at: usize) -> anyhow::Result<()> {
        self.hosts[at] = Some(Hearth::start(&self.labs[at], &self.settings[at])?);
        Ok(())
    }

    fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        self.hosts[at].take().context("the host runs")?.kill()
    }

    fn host(&self, at: usize) -> anyhow::Result<&Hearth> {
        self.hosts[at].as_ref().context("the host runs")
    }

    fn client(&self, at: usize, export: &str) -> anyhow::Result<Session> {
        Session::open(self.host(at)?.nbd_socket(), export)
    }

    fn wait_until_at(&self, at: usize, vm: &str) -> anyhow::Result<()> {
        wait_until("the host to have the disk", SHORT, || {
            let shown = self.host(at)?.json(&["disk", "show", vm])?;
            Ok(shown["state"] == "attached")
        })
    }

    fn log(&self, at: usize) -> anyhow::Result<String> {
        std::fs::read_to_string(self.labs[at].path("hearth.log")).context("a host's log")
    }

    /// How the image's cache follows at a host.
    fn image(&self, at: usize) -> anyhow::Result<Value> {
        let shown = self.host(at)?.json(&["migrate", "show", IMAGE])?;
        ensure!(shown["name"] == IMAGE, "{shown}");
        Ok(shown)
    }

    fn came(&self, at: usize) -> anyhow::Result<u64> {
        self.image(at)?["came_bytes"].as_u64().context("came_bytes")
    }

    fn wait_for_rounds(&self, at: usize, count: usize) -> anyhow::Result<()> {
        wait_until("the image's cache to follow", LONG, || {
            Ok(self.log(at)?.matches(FOLLOWED).count() >= count)
        })
        .with_context(|| {
            self.image(at)
                .map_or_else(|e| e.to_string(), |v| v.to_string())
        })
    }

    /// A VM comes to a host: its QEMU there opens both disks. They are open until it writes.
    fn comes(&self, at: usize, vm: &str) -> anyhow::Result<[Session; 2]> {
        Ok([
            self.client(at, vm)?,
            self.client(at, &format!("{IMAGE}@{vm}"))?,
        ])
    }

    /// What `migrate check` of a VM says.
    fn check(&self, at: usize, vm: &str) -> anyhow::Result<(i32, Value)> {
        let socket = self.host(at)?.admin_socket().display().to_string();
        let to = NAMES[1 - at];
        let words = [
            "--socket", &socket, "--json", "migrate", "check", vm, "--to", to,
        ];
        let answer = hearth(&words)?;
        let said = serde_json::from_str(&answer.stdout).with_context(|| answer.stderr.clone())?;
        Ok((answer.code, said))
    }

    fn stop(self) -> anyhow::Result<()> {
        let mut hosts = self.hosts.into_iter().flatten();
        hosts.try_for_each(|host| host.stop().map(drop))
    }
}

/// Reads a range of the image in MiB, and compares it.
fn read(client: &mut Session, bytes: &[u8], mib: std::ops::Range<u64>) -> anyhow::Result<()> {
    for at in mib {
        let seen = client.read(at * MIB, MIB)?;
        let start = usize::try_from(at * MIB)?;
        ensure!(
            seen[..] == bytes[start..][..seen.len()],
            "MiB {at} is another one"
        );
    }
    Ok(())
}

/// An image whose blocks all differ, and its bytes.
fn filled(lab: &Lab, name: &str, round: u8) -> anyhow::Result<(Image, Vec<u8>)> {
    let image = Image::new(lab, name, IMAGE_MIB)?;
    let of_block = |at: u64| [at.to_le_bytes(), [round; 8]].concat().repeat(256);
    let blocks = (0..IMAGE_MIB * MIB / BLOCK).flat_map(of_block);
    let bytes: Vec<u8> = blocks.collect();
    std::fs::write(image.path(), &bytes)?;
    Ok((image, bytes))
}

fn on_file(path: &Path) -> DiskSettings {
    DiskSettings::on_file(IMAGE, path)
}

/// Both VMs go to the other host, one after the other.
fn follows(setting: Setting) {
    let tools = [RoamingPair::TOOLS, &["nbdkit"]].concat();
    scenario(&tools, |lab| {
        let (image, bytes) = filled(lab, "base.raw", 1)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let base = DiskSettings::on_nbd(IMAGE, &origin.uri());
        let pair = Pair::start(lab, &[base.clone(), base], setting)?;
        let [mut root, mut base] = pair.comes(0, "web")?;
        root.write(0, &block(0, 1))?;
        read(&mut base, &bytes, 0..IMAGE_MIB)?;
        // What the other host has already.
        read(&mut pair.client(1, "debian@db")?, &bytes, 0..2)?;

        let before = origin.requests()?.len();
        let [mut root_there, mut base_there] = pair.comes(1, "web")?;
        pair.wait_for_rounds(1, 1)?;
        let asked = Request::blocks(&origin.reads_since(before)?).len();
        ensure!(
            asked as u64 <= 2 * SAMPLED,
            "{asked} blocks were read at the origin"
        );
        let came = pair.came(1)?;
        let missing = (IMAGE_MIB - 2) * MIB;
        ensure!(
            (missing - SAMPLED * BLOCK..=missing).contains(&came),
            "{came} bytes came, and {missing} were missing"
        );
        let lent = pair.image(0)?["lent_bytes"]
            .as_u64()
            .context("lent_bytes")?;
        ensure!(lent == came, "{lent} bytes were lent, and {came} came");

        let before = origin.requests()?.len();
        read(&mut base_there, &bytes, 0..IMAGE_MIB)?;
        let asked = origin.reads_since(before)?.len();
        ensure!(asked == 0, "{asked} reads missed at the destination");

        drop((root, base));
        root_there.write(0, &block(0, 2))?;
        pair.wait_until_at(1, "web")?;
        pair.wait_for_rounds(1, 2)?;
        // The other VM finds it there.
        pair.client(0, "db")?.write(0, &block(0, 1))?;
        let [mut db, mut base_of_db] = pair.comes(1, "db")?;
        pair.wait_for_rounds(1, 3)?;
        db.write(0, &block(0, 2))?;
        read(&mut base_of_db, &bytes, 0..IMAGE_MIB)?;
        pair.wait_until_at(1, "db")?;
        pair.wait_for_rounds(1, 4)?;
        ensure!(pair.came(1)? == came, "what was there has travelled");
        let asked = origin.reads_since(before)?.len();
        ensure!(asked == 0, "{asked} reads missed at the destination");
        pair.stop()
    });
}

#[test]
fn what_the_destination_lacks_travels() {
    follows(Setting::default());
}

#[test]
fn what_the_destination_lacks_of_an_encrypted_image_travels() {
    follows(Setting {
        encrypted: true,
        ..Setting::default()
    });
}

#[test]
fn an_image_with_other_bytes_stays_at_home() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (ours, bytes) = filled(lab, "base.raw", 1)?;
        let (theirs, others) = filled(lab, "other.raw", 2)?;
        let pair = Pair::start(
            lab,
            &[on_file(ours.path()), on_file(theirs.path())],
            Setting::default(),
        )?;
        let (code, said) = pair.check(0, "web")?;
        ensure!(
            code == 4 && said.to_string().contains("image-differs"),
            "{code}: {said}"
        );
        let [_root, mut base] = pair.comes(0, "web")?;
        read(&mut base, &bytes, 0..IMAGE_MIB)?;
        let [_root, mut base] = pair.comes(1, "web")?;
        wait_until("the image to be refused", SHORT, || {
            let shown = pair.image(1)?;
            let problem = shown["problem"].as_str().unwrap_or_default();
            Ok(problem.contains("has another image"))
        })?;
        read(&mut base, &others, 0..IMAGE_MIB)?;
        ensure!(pair.came(1)? == 0, "blocks of another image came");
        pair.stop()
    });
}

/// The hosts have the same bytes as different images: the VM can go, and the cache stays.
fn stays(lab: &Lab, bases: &[DiskSettings; 2], bytes: &[u8]) -> anyhow::Result<()> {
    let pair = Pair::start(lab, bases, Setting::default())?;
    let (code, said) = pair.check(0, "web")?;
    ensure!(code == 0, "{code}: {said}");
    let told = said.to_string();
    ensure!(told.contains("another file or address"), "{said}");
    let [_root, mut base] = pair.comes(0, "web")?;
    read(&mut base, bytes, 0..IMAGE_MIB)?;
    let [_root, mut base] = pair.comes(1, "web")?;
    wait_until("the image to be refused", SHORT, || {
        Ok(pair.image(1)?["problem"].is_string())
    })?;
    read(&mut base, bytes, 0..IMAGE_MIB)?;
    ensure!(pair.came(1)? == 0, "blocks of another image came");
    pair.stop()
}

#[test]
fn a_copy_of_the_file_is_not_taken_for_it() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (ours, bytes) = filled(lab, "base.raw", 1)?;
        let (copy, _) = filled(lab, "copy.raw", 1)?;
        stays(lab, &[on_file(ours.path()), on_file(copy.path())], &bytes)
    });
}

#[test]
fn an_export_at_another_address_is_not_taken_for_it() {
    let tools = [RoamingPair::TOOLS, &["nbdkit"]].concat();
    scenario(&tools, |lab| {
        let (image, bytes) = filled(lab, "base.raw", 1)?;
        let [one, two] = [lab.host("one")?, lab.host("two")?];
        let settings = OriginSettings::default;
        let one = Origin::start(&one, &image, settings())?;
        let two = Origin::start(&two, &image, settings())?;
        let bases = [one.uri(), two.uri()].map(|uri| DiskSettings::on_nbd(IMAGE, &uri));
        stays(lab, &bases, &bytes)
    });
}

/// A host is killed while the image's cache is on its way.
fn killed(victim: usize) {
    scenario(RoamingPair::TOOLS, |lab| {
        let (image, bytes) = filled(lab, "base.raw", 1)?;
        let base = on_file(image.path());
        let slow = Setting {
            rate: Some("1MiB"),
            ..Setting::default()
        };
        let mut pair = Pair::start(lab, &[base.clone(), base], slow)?;
        let [_root, mut base] = pair.comes(0, "web")?;
        read(&mut base, &bytes, 0..IMAGE_MIB)?;
        let [_root, mut base] = pair.comes(1, "web")?;
        wait_until("some of it to come", LONG, || Ok(pair.came(1)? > 0))?;
        ensure!(!pair.log(1)?.contains(FOLLOWED), "all of it has come");
        pair.kill(victim)?;
        if victim == 0 {
            read(&mut base, &bytes, 0..IMAGE_MIB)?;
        }
        pair.start_host(victim)?;
        let [_root, mut base] = pair.comes(1, "web")?;
        read(&mut base, &bytes, 0..IMAGE_MIB)?;
        pair.wait_for_rounds(1, 1)?;
        read(&mut base, &bytes, 0..IMAGE_MIB)?;
        pair.wire.cut();
        read(&mut base, &bytes, 0..IMAGE_MIB)?;
        pair.stop()
    });
}

#[test]
fn killed_at_the_source_it_costs_warmth() {
    killed(0);
}

#[test]
fn killed_at_the_destination_it_costs_warmth() {
    killed(1);
}

#[test]
fn a_rate_that_is_set_for_a_vm_holds_for_its_image() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (image, _) = filled(lab, "base.raw", 1)?;
        let base = on_file(image.path());
        let pair = Pair::start(lab, &[base.clone(), base], Setting::default())?;
        let _clients = pair.comes(1, "web")?;
        let set = ["migrate", "set", "web", "--rate", "3MiB"];
        pair.host(1)?.command(&set)?;
        wait_until("the image's rate", LONG, || {
            let shown = pair.host(1)?.json(&["migrate", "show", IMAGE])?;
            Ok(shown["rate"] == "3MiB")
        })?;
        pair.stop()
    });
}
