//! A disk under write-back on a file origin: what the tests of write-back begin with.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::{
    Answer, DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, hearth, limits, wait_until,
};

/// How soon writes go to the origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As soon as the daemon likes.
    Eager,
    /// Not before somebody asks for it.
    Held,
}

/// An image, a flash file and a daemon with one disk called [`Back::DISK`] under write-back.
pub struct Back {
    /// The disk's bytes at the origin.
    pub image: Image,
    /// The flash file.
    pub flash: Flash,
    settings: HearthSettings,
    hearth: Option<Hearth>,
}

impl Back {
    /// What the disk is called.
    pub const DISK: &'static str = "disk";
    /// Size of the image.
    pub const IMAGE_MIB: u64 = 64;
    /// Size of the flash file.
    pub const FLASH_MIB: u64 = 256;

    /// Makes an image, formats the flash, starts the daemon.
    ///
    /// # Errors
    ///
    /// When any of them fails.
    pub fn start(lab: &Lab, pace: Pace) -> anyhow::Result<Self> {
        Self::start_on(lab, Image::new(lab, "origin.raw", Self::IMAGE_MIB)?, pace)
    }

    /// The same over an image that is there already.
    ///
    /// # Errors
    ///
    /// When any of them fails.
    pub fn start_on(lab: &Lab, image: Image, pace: Pace) -> anyhow::Result<Self> {
        let flash = Flash::format(lab, "flash.img", Self::FLASH_MIB)?;
        let settings = HearthSettings::new(&flash).disk(&Self::disk(&image, pace));
        let hearth = Some(Hearth::start(lab, &settings)?);
        Ok(Self {
            image,
            flash,
            settings,
            hearth,
        })
    }

    /// The disk's section.
    pub fn disk(image: &Image, pace: Pace) -> DiskSettings {
        let mut disk = DiskSettings::on_file(Self::DISK, image.path())
            .key("write_policy = 'back'")
            .key("[disk.write_back]")
            .key("dirty_max = '100MiB'");
        let times = match pace {
            Pace::Eager => ["age_max = '200ms'", "idle_after = '10ms'"],
            Pace::Held => ["age_max = '1000s'", "idle_after = '1000s'"],
        };
        for time in times {
            disk = disk.key(time);
        }
        disk
    }

    /// The running daemon.
    ///
    /// # Panics
    ///
    /// When it was stopped or killed and not started again: a fault of the test.
    pub fn hearth(&mut self) -> &mut Hearth {
        self.hearth
            .as_mut()
            .expect("the test started hearth again before it used it")
    }

    /// The disk's address.
    pub fn uri(&mut self) -> String {
        self.hearth().uri(Self::DISK)
    }

    /// Kills the daemon without warning.
    ///
    /// # Errors
    ///
    /// When it was not running.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.hearth.take().context("hearth runs")?.kill()
    }

    /// Takes away what a killed daemon has left in memory, as a power cut of its host does.
    ///
    /// # Errors
    ///
    /// When there is nothing.
    pub fn lose_memory(&self, lab: &Lab) -> anyhow::Result<()> {
        ensure!(self.hearth.is_none(), "hearth runs");
        std::fs::remove_file(lab.path("flash.lasting")).context("a killed daemon's memory")
    }

    /// Waits until somebody else has killed the daemon.
    ///
    /// # Errors
    ///
    /// When nobody does.
    pub fn wait_until_killed(&mut self) -> anyhow::Result<()> {
        let mut hearth = self.hearth.take().context("hearth runs")?;
        wait_until("hearth to be killed", limits::SHORT, || {
            Ok(!hearth.is_running())
        })
    }

    /// Stops the daemon cleanly.
    ///
    /// # Errors
    ///
    /// When it does not stop as it should.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let hearth = self.hearth.take().context("hearth runs")?;
        hearth.stop().map(drop)
    }

    /// Starts the daemon again, with the same configuration.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start_again(&mut self, lab: &Lab) -> anyhow::Result<()> {
        ensure!(self.hearth.is_none(), "hearth runs");
        self.hearth = Some(Hearth::start(lab, &self.settings)?);
        Ok(())
    }

    /// What the daemon says of the disk's write-back.
    ///
    /// # Errors
    ///
    /// When it says nothing.
    pub fn write_back(&mut self) -> anyhow::Result<serde_json::Value> {
        let disk = self.hearth().json(&["disk", "show", Self::DISK])?;
        ensure!(disk["write_back"].is_object(), "{disk}");
        Ok(disk["write_back"].clone())
    }

    /// Bytes that the origin lacks.
    ///
    /// # Errors
    ///
    /// When the daemon does not say.
    pub fn dirty_bytes(&mut self) -> anyhow::Result<u64> {
        let now = self.write_back()?;
        now["dirty_bytes"].as_u64().context("a number")
    }

    /// Brings everything to the origin, and checks that it is then what the disk is.
    ///
    /// # Errors
    ///
    /// At the first block that differs.
    pub fn flush_and_compare(&mut self, lab: &Lab) -> anyhow::Result<()> {
        self.hearth()
            .command(&["disk", "flush", Self::DISK, "--wait"])?;
        let uri = self.uri();
        self.image.check_equals_export(lab, &uri)
    }

    /// The owner's record beside the image.
    ///
    /// # Errors
    ///
    /// When there is none, or it is no JSON.
    pub fn owner(&self) -> anyhow::Result<serde_json::Value> {
        let text = std::fs::read_to_string(self.owner_path()).context("the owner's record")?;
        serde_json::from_str(&text).context(text)
    }

    /// Where it is.
    pub fn owner_path(&self) -> PathBuf {
        let mut path = self.image.path().as_os_str().to_owned();
        path.push(".hearth");
        PathBuf::from(path)
    }

    /// Runs `hearth recover` on the flash.
    ///
    /// # Errors
    ///
    /// When it cannot be run.
    pub fn recover(&self, lab: &Lab, words: &[&str], more: &[&str]) -> anyhow::Result<Answer> {
        let config = lab.path("hearth.toml").display().to_string();
        let flash = self.flash.path().display().to_string();
        let first = [&["recover"], words, &[&flash, "--config", &config]].concat();
        hearth(&[&first[..], more].concat())
    }
}

/// A script of nbdsh that writes `count` blocks, each with its own number and `round` in every
/// byte pair, from block `first` on, and flushes.
pub fn writes(first: u64, count: u64, round: u8) -> String {
    let mut script = String::new();
    let _ = write!(
        script,
        "for b in range({first}, {}):\n    h.pwrite(bytes([b % 251, {round}]) * 2048, b * 4096)\nh.flush()\n",
        first + count
    );
    script
}

/// A script of nbdsh that reads what [`writes`] has written.
pub fn reads(first: u64, count: u64, round: u8) -> String {
    format!(
        "for b in range({first}, {}):\n    assert h.pread(4096, b * 4096) == bytes([b % 251, {round}]) * 2048, b\n",
        first + count
    )
}

/// What [`writes`] puts into a block.
pub fn block(number: u64, round: u8) -> Vec<u8> {
    let low = u8::try_from(number % 251).unwrap_or_default();
    [low, round].repeat(2048)
}
