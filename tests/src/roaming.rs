//! Two hosts that a disk roams between: each with a daemon and flash of its own, a link with certificates,
//! and one image that both reach.
//!
//! ```text
//!   host 0 ── link, through a cable that can be cut ── host 1
//!      └──────────────── origin.raw ────────────────────┘
//!                        origin.raw.hearth: whose the disk is
//! ```

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::links::{self, link_section, make_certificates};
use crate::records::Records;
use crate::roaming_settings::RoamingSettings;
use crate::{
    DiskSettings, Etcd, Expected, Flash, Hearth, HearthSettings, Image, Lab, Origin,
    OriginSettings, Session, Wire, free_port, limits, wait_until,
};

/// The folder of owner's records in the lab.
const SHARED: &str = "owners";
const VHOST_SOCKET: &str = "vda.sock";
const KEY: &str = "key";
const BLOCK: u64 = 4096;

/// Two hosts, one disk called [`RoamingPair::DISK`].
pub struct RoamingPair {
    /// The disk's bytes at the origin.
    pub image: Image,
    /// The cable of the link.
    pub wire: Wire,
    labs: [Lab; 2],
    settings: [HearthSettings; 2],
    hosts: [Option<Hearth>; 2],
    records: Records,
    is_vhost_user: bool,
    /// The server, if this made it.
    _origin: Option<Origin>,
}

impl RoamingPair {
    /// Programs that it needs.
    pub const TOOLS: &'static [&'static str] = &["openssl"];
    /// What the disk is called.
    pub const DISK: &'static str = "disk";
    /// What the hosts are called on the link.
    pub const NAMES: [&'static str; 2] = links::NAMES;
    /// The disk's identity.
    pub const ID: &'static str = "00112233445566778899aabbccddeeff";
    /// Keys of an export as an origin: what a daemon leaves in its server's hands is over soon.
    pub const EXPORT_KEYS: &'static str =
        "reconnect_pause_max = '200ms', request_timeout = '60s', settle_time = '1s'";
    /// Size of a new image.
    pub const IMAGE_MIB: u64 = 8;

    /// Two hosts over a new image, of which neither runs.
    ///
    /// # Errors
    ///
    /// When something of it cannot be made.
    pub fn new(lab: &Lab, settings: RoamingSettings) -> anyhow::Result<Self> {
        let image = Image::new(lab, "origin.raw", Self::IMAGE_MIB)?;
        Self::over(lab, image, settings)
    }

    /// The same over an image that is there.
    ///
    /// # Errors
    ///
    /// When something of it cannot be made.
    pub fn over(lab: &Lab, image: Image, settings: RoamingSettings) -> anyhow::Result<Self> {
        if !settings.on_export {
            let records = Records::beside(&image);
            return Self::on(lab, image, settings, (None, records));
        }
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let export = (origin.uri(), Self::EXPORT_KEYS);
        let pair = Self::over_export(lab, image, (&export.0, export.1), settings)?;
        Ok(Self {
            _origin: Some(origin),
            ..pair
        })
    }

    /// The same where both reach the image over an NBD export at this address, and share a folder of owner's records.
    /// `keys` are those of the origin.
    ///
    /// # Errors
    ///
    /// When something of it cannot be made.
    pub fn over_export(
        lab: &Lab,
        image: Image,
        (uri, keys): (&str, &str),
        settings: RoamingSettings,
    ) -> anyhow::Result<Self> {
        let export = DiskSettings::on_nbd_with(Self::DISK, uri, keys);
        Self::over_disk(lab, image, export, settings)
    }

    /// The same where both reach the disk as these settings say, and share a folder of owner's records. The image has the
    /// bytes of the disk.
    ///
    /// # Errors
    ///
    /// When something of it cannot be made.
    pub fn over_disk(
        lab: &Lab,
        image: Image,
        disk: DiskSettings,
        settings: RoamingSettings,
    ) -> anyhow::Result<Self> {
        let shared = lab.path(SHARED);
        std::fs::create_dir_all(&shared).context("the folder of owner's records")?;
        Self::on(lab, image, settings, (Some(disk), Records::Folder(shared)))
    }

    /// The same where they are in a cluster whose state is in etcd.
    ///
    /// # Errors
    ///
    /// When something of it cannot be made.
    pub fn in_cluster(
        lab: &Lab,
        etcd: Etcd,
        uri: &str,
        settings: RoamingSettings,
        image: Image,
    ) -> anyhow::Result<Self> {
        let export = DiskSettings::on_nbd_with(Self::DISK, uri, Self::EXPORT_KEYS);
        Self::on(lab, image, settings, (Some(export), Records::Etcd(etcd)))
    }

    /// Where the state of their cluster is.
    ///
    /// # Panics
    ///
    /// When they are in none: a fault of the test.
    pub fn etcd(&mut self) -> &mut Etcd {
        match &mut self.records {
            Records::Etcd(etcd) => etcd,
            _ => panic!("the hosts are in a cluster"),
        }
    }

    fn on(
        lab: &Lab,
        image: Image,
        settings: RoamingSettings,
        (export, records): (Option<DiskSettings>, Records),
    ) -> anyhow::Result<Self> {
        make_certificates(lab, &settings.certified)?;
        let ports = [free_port()?, free_port()?];
        let (wire, through_wire) = Wire::new(ports)?;
        let origin = if settings.roams {
            None
        } else {
            Some(Origin::start(lab, &image, OriginSettings::default())?)
        };
        let moves = format!(
            "migration = {{ strategy = '{}', dirty = '{}' }}",
            settings.strategy, settings.dirty
        );
        let disk = match &origin {
            None => export
                .unwrap_or_else(|| DiskSettings::on_file(Self::DISK, image.path()))
                .key("roams = true")
                .key(&moves),
            Some(origin) => DiskSettings::on_nbd(Self::DISK, &origin.uri()),
        }
        .key(&format!("id = '{}'", Self::ID))
        .key(&format!("write_policy = '{}'", settings.write_policy));
        let names = Self::NAMES;
        let host = |at: usize| -> anyhow::Result<(Lab, HearthSettings)> {
            let own = lab.host(names[at])?;
            let flash = Flash::format(&own, "flash.img", settings.flash_mib)?;
            let other = 1 - at;
            let link = link_section(lab, at, ports[at], through_wire[other]);
            let keys = format!(
                "[link]\nrate = '{}'\nlend_timeout = '{}'\n",
                settings.link_rates[at], settings.lend_timeout
            );
            let link = link.replacen("[link]\n", &keys, 1);
            let mut disk = disk.clone();
            if settings.write_policy == "back" {
                // Nothing goes to the origin before somebody asks for it.
                let room = settings.dirty_max[at];
                disk = disk.key(&format!(
                    "write_back = {{ dirty_max = '{room}', age_max = '1000s', idle_after = '1000s' }}"
                ));
            }
            if settings.vhost_user {
                disk = disk.vhost_user(&own.path(VHOST_SOCKET), "");
            }
            if settings.encrypted {
                let digit = if at == 0 { "a" } else { "b" };
                let key = own.write(KEY, &digit.repeat(64))?;
                disk = disk
                    .key("[disk.encryption]")
                    .key(&format!("key_file = '{}'", key.display()));
            }
            let made = records.configured(HearthSettings::new(&flash));
            let made = made.log("info,daemon=debug").section(&link).disk(&disk);
            Ok((own, made))
        };
        let [(lab_0, settings_0), (lab_1, settings_1)] = [host(0)?, host(1)?];
        Ok(Self {
            image,
            wire,
            labs: [lab_0, lab_1],
            settings: [settings_0, settings_1],
            hosts: [None, None],
            is_vhost_user: settings.vhost_user,
            records,
            _origin: origin,
        })
    }

    /// Two hosts over a new image, both running: host 0 has the disk.
    ///
    /// # Errors
    ///
    /// When a daemon does not come up, or they do not meet.
    pub fn start(lab: &Lab, settings: RoamingSettings) -> anyhow::Result<Self> {
        Self::new(lab, settings)?.started()
    }

    /// The same over an image that is there.
    ///
    /// # Errors
    ///
    /// When a daemon does not come up, or they do not meet.
    pub fn start_over(lab: &Lab, image: Image, settings: RoamingSettings) -> anyhow::Result<Self> {
        Self::over(lab, image, settings)?.started()
    }

    /// Starts both daemons, the second when the first has the disk.
    ///
    /// # Errors
    ///
    /// When one does not come up, or they do not meet.
    pub fn started(mut self) -> anyhow::Result<Self> {
        self.start_host(0)?;
        self.wait_until_owned_by(0)?;
        self.start_host(1)?;
        Ok(self)
    }

    /// Starts a daemon, for the first time or again.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start_host(&mut self, at: usize) -> anyhow::Result<()> {
        ensure!(self.hosts[at].is_none(), "host {at} runs");
        self.hosts[at] = Some(Hearth::start(&self.labs[at], &self.settings[at])?);
        Ok(())
    }

    /// The same where the disk is not ready, and does not become so.
    ///
    /// # Errors
    ///
    /// When the daemon does not come up.
    pub fn start_host_in_trouble(&mut self, at: usize) -> anyhow::Result<()> {
        ensure!(self.hosts[at].is_none(), "host {at} runs");
        let settings = self.settings[at].clone().in_trouble(Self::DISK);
        self.hosts[at] = Some(Hearth::start(&self.labs[at], &settings)?);
        Ok(())
    }

    /// Adds sections to a host's configuration; they hold from its next start.
    pub fn configure(&mut self, at: usize, sections: &str) {
        self.settings[at] = self.settings[at].clone().section(sections);
    }

    /// A running daemon.
    ///
    /// # Panics
    ///
    /// When it does not run: a fault of the test.
    pub fn host(&mut self, at: usize) -> &mut Hearth {
        self.hosts[at]
            .as_mut()
            .expect("the test started the host before it used it")
    }

    /// Whether each host has a socket for vhost-user.
    pub fn is_vhost_user(&self) -> bool {
        self.is_vhost_user
    }

    /// Where a host serves the disk over vhost-user.
    pub fn vhost_socket(&self, at: usize) -> PathBuf {
        self.labs[at].path(VHOST_SOCKET)
    }

    /// Where the key of a host is, of 64 hexadecimal digits.
    pub fn key(&self, at: usize) -> PathBuf {
        self.labs[at].path(KEY)
    }

    /// The folder of a host.
    pub fn lab(&self, at: usize) -> &Lab {
        &self.labs[at]
    }

    /// What a host's configuration says.
    pub fn settings(&self, at: usize) -> &HearthSettings {
        &self.settings[at]
    }

    /// Kills a daemon without warning.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        self.hosts[at].take().context("the host runs")?.kill()
    }

    /// Stops a daemon cleanly.
    ///
    /// # Errors
    ///
    /// When it does not stop as it should.
    pub fn stop(&mut self, at: usize) -> anyhow::Result<()> {
        let hearth = self.hosts[at].take().context("the host runs")?;
        hearth.stop().map(drop)
    }

    /// Stops both cleanly.
    ///
    /// # Errors
    ///
    /// When one does not stop as it should.
    pub fn stop_both(mut self) -> anyhow::Result<()> {
        self.stop(0)?;
        self.stop(1)
    }

    /// A new client of a host.
    ///
    /// # Errors
    ///
    /// When it is not let in.
    pub fn client(&mut self, at: usize) -> anyhow::Result<Session> {
        let socket = self.host(at).nbd_socket().to_path_buf();
        Session::open(&socket, Self::DISK).with_context(|| format!("a client of host {at}"))
    }

    /// What a host says of the disk.
    ///
    /// # Errors
    ///
    /// When it says nothing.
    pub fn shown(&mut self, at: usize) -> anyhow::Result<Value> {
        self.host(at).json(&["disk", "show", Self::DISK])
    }

    /// Whether a host serves the disk from its own cache.
    ///
    /// # Errors
    ///
    /// When it does not say.
    pub fn is_owner(&mut self, at: usize) -> anyhow::Result<bool> {
        Ok(self.shown(at)?["state"] == "attached")
    }

    /// Waits until a host has the disk, and checks that the other one, if it runs, has not.
    ///
    /// # Errors
    ///
    /// When that does not come.
    pub fn wait_until_owned_by(&mut self, at: usize) -> anyhow::Result<()> {
        wait_until("the host to have the disk", limits::SHORT, || {
            self.is_owner(at)
        })?;
        if self.hosts[1 - at].is_some() {
            ensure!(!self.is_owner(1 - at)?, "both hosts have the disk");
        }
        Ok(())
    }

    /// Checks that exactly one host has the disk, waiting for one that is about to take it.
    ///
    /// # Errors
    ///
    /// When none, or both, have it.
    pub fn owner(&mut self) -> anyhow::Result<usize> {
        let mut owner = None;
        wait_until("a host to have the disk", limits::SHORT, || {
            let have = [self.is_owner(0)?, self.is_owner(1)?];
            ensure!(have != [true; 2], "both hosts have the disk");
            owner = have.iter().position(|has| *has);
            Ok(owner.is_some())
        })?;
        owner.context("an owner")
    }

    /// The record of who has the disk.
    pub fn record_path(&self) -> PathBuf {
        self.records.path()
    }

    /// Whom the record names, and with which epoch.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn record(&self) -> anyhow::Result<(String, u64)> {
        let record = self.records.read(Self::ID)?;
        let holder = &record["holder"];
        let host = holder["host"].as_str().context("the holder's name")?;
        let epoch = holder["epoch"].as_u64().context("the holder's epoch")?;
        Ok((host.to_owned(), epoch))
    }

    /// Waits until the record names a host.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn wait_until_recorded(&self, at: usize) -> anyhow::Result<()> {
        wait_until("the record to name the host", limits::SHORT, || {
            Ok(self.record()?.0 == Self::NAMES[at])
        })
    }

    /// Where a host notes that it gives the disk away.
    pub fn decision_path(&self, at: usize) -> PathBuf {
        self.labs[at].path(&format!("state/given-{}", Self::ID))
    }

    /// What a host has logged.
    ///
    /// # Errors
    ///
    /// When its log cannot be read.
    pub fn log(&self, at: usize) -> anyhow::Result<String> {
        let path = self.labs[at].path("hearth.log");
        std::fs::read_to_string(path).context("a host's log")
    }

    /// Brings everything to the origin.
    ///
    /// # Errors
    ///
    /// When the host does not have the disk.
    pub fn flush_to_origin(&mut self, at: usize) -> anyhow::Result<()> {
        self.host(at)
            .command(&["disk", "flush", Self::DISK, "--wait"])
            .map(drop)
    }

    /// Brings everything to the origin, and checks that it is then what is expected.
    ///
    /// # Errors
    ///
    /// At the first block that differs.
    pub fn flush_and_compare(&mut self, expected: &Expected) -> anyhow::Result<()> {
        let owner = self.owner()?;
        self.flush_and_compare_at(owner, expected)
    }

    /// The same where a host has the disk, whatever became of the other one.
    ///
    /// # Errors
    ///
    /// At the first block that differs.
    pub fn flush_and_compare_at(&mut self, at: usize, expected: &Expected) -> anyhow::Result<()> {
        self.flush_to_origin(at)?;
        let bytes = std::fs::read(self.image.path()).context("the image")?;
        expected.compare("the origin", &bytes)
    }

    /// Gives the origin other bytes, but of one block, so that nobody can mistake where bytes come from. What it had.
    ///
    /// # Errors
    ///
    /// When the image cannot be read or written.
    pub fn replace_origin(&self, but: u64) -> anyhow::Result<Vec<u8>> {
        let origin = std::fs::read(self.image.path())?;
        let mut other_bytes = vec![0xee; origin.len()];
        let bytes = usize::try_from(but * BLOCK)?..usize::try_from((but + 1) * BLOCK)?;
        other_bytes[bytes.clone()].copy_from_slice(&origin[bytes]);
        std::fs::write(self.image.path(), other_bytes)?;
        Ok(origin)
    }
}
