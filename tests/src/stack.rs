//! The usual set-up: an image behind an origin, a flash file, and Hearth between them and one disk.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::{
    DiskSettings, Fio, Flash, Hearth, HearthSettings, Image, LONG, Lab, Origin, OriginSettings,
    Process, image, wait_until,
};

/// What differs from the usual.
pub struct StackSettings {
    /// Size of the image, and so of the disk.
    pub image_mib: u64,
    /// Size of the flash file.
    pub flash_mib: u64,
    /// `around` or `through`.
    pub write_policy: &'static str,
    /// How the origin behaves.
    pub origin: OriginSettings,
    /// More keys of the disk's origin.
    pub origin_keys: &'static str,
    /// More lines of the `[[cache]]` section.
    pub cache_keys: &'static str,
    /// More sections of the configuration.
    pub sections: String,
}

impl Default for StackSettings {
    fn default() -> Self {
        Self {
            image_mib: 64,
            flash_mib: 256,
            write_policy: "through",
            origin: OriginSettings::default(),
            origin_keys: "",
            cache_keys: "",
            sections: String::new(),
        }
    }
}

/// An origin, a flash file and a daemon, with one disk called [`Stack::DISK`].
pub struct Stack {
    /// The disk's bytes at the origin.
    pub image: Image,
    /// The server of the origin.
    pub origin: Origin,
    /// The flash file.
    pub flash: Flash,
    /// The daemon; `None` between a stop and the next start.
    hearth: Option<Hearth>,
    settings: HearthSettings,
}

impl Stack {
    /// What the disk is called.
    pub const DISK: &'static str = "disk";

    /// Makes an image, formats the flash, starts the origin and Hearth.
    ///
    /// # Errors
    ///
    /// When any of them fails.
    pub fn start(lab: &Lab, settings: &StackSettings) -> anyhow::Result<Self> {
        let image = Image::new(lab, "origin.raw", settings.image_mib)?;
        Self::start_on(lab, image, settings)
    }

    /// The same over an image that is there already.
    ///
    /// # Errors
    ///
    /// When any of them fails.
    pub fn start_on(lab: &Lab, image: Image, settings: &StackSettings) -> anyhow::Result<Self> {
        let origin = Origin::start(lab, &image, settings.origin.clone())?;
        let flash = Flash::format(lab, "flash.img", settings.flash_mib)?;
        let disk = DiskSettings::on_nbd_with(Self::DISK, &origin.uri(), settings.origin_keys)
            .key(&format!("write_policy = '{}'", settings.write_policy));
        let hearth_settings = HearthSettings::new(&flash)
            .cache_key(settings.cache_keys)
            .disk(&disk)
            .section(&settings.sections);
        let hearth = Hearth::start(lab, &hearth_settings)?;
        Ok(Self {
            image,
            origin,
            flash,
            hearth: Some(hearth),
            settings: hearth_settings,
        })
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
    ///
    /// # Panics
    ///
    /// As [`Stack::hearth`].
    pub fn uri(&mut self) -> String {
        self.hearth().uri(Self::DISK)
    }

    /// The NBD server's socket.
    ///
    /// # Panics
    ///
    /// As [`Stack::hearth`].
    pub fn socket(&mut self) -> PathBuf {
        self.hearth().nbd_socket().to_path_buf()
    }

    /// Kills the daemon without warning.
    ///
    /// # Errors
    ///
    /// When it was not running.
    pub fn kill_hearth(&mut self) -> anyhow::Result<()> {
        self.hearth.take().context("hearth runs")?.kill()
    }

    /// Stops the daemon cleanly.
    ///
    /// # Errors
    ///
    /// When it does not stop as it should.
    pub fn stop_hearth(&mut self) -> anyhow::Result<()> {
        self.hearth
            .take()
            .context("hearth runs")?
            .stop()
            .map(|_| ())
    }

    /// Starts the daemon again, with the same configuration.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start_hearth(&mut self, lab: &Lab) -> anyhow::Result<()> {
        ensure!(self.hearth.is_none(), "hearth runs");
        self.hearth = Some(Hearth::start(lab, &self.settings)?);
        Ok(())
    }

    /// Has fio write 4 KiB at random and verify it, while the origin ends twice as `end` says and comes
    /// back; then compares the disk with the origin.
    ///
    /// # Errors
    ///
    /// When fio sees an error or a wrong block, or they differ.
    pub fn write_while_the_origin_ends(
        &mut self,
        lab: &Lab,
        fio: Fio,
        end: impl Fn(&mut Origin) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut command = fio
            .with("rw=randwrite")
            .with("bs=4k")
            .verified()
            .into_command();
        let fio = Process::start(lab, "fio", &mut command)?;
        for wanted in [1000, 3000] {
            wait_until("writes to reach the origin", LONG, || {
                Ok(self.origin.requests()?.len() > wanted)
            })?;
            end(&mut self.origin)?;
            self.origin.restart(lab)?;
        }
        ensure!(
            fio.wait(LONG)?.success(),
            "fio saw an error or a wrong block"
        );
        self.check_disk_equals_origin(lab)
    }

    /// Reads the whole disk through Hearth, in order, and gives the bytes.
    ///
    /// # Errors
    ///
    /// When the copy fails.
    pub fn read_disk(&mut self, lab: &Lab) -> anyhow::Result<Vec<u8>> {
        let uri = self.uri();
        image::read_export(lab, &uri)
    }

    /// Checks that the disk through Hearth is, byte for byte, the origin's image.
    ///
    /// # Errors
    ///
    /// At the first block that differs.
    pub fn check_disk_equals_origin(&mut self, lab: &Lab) -> anyhow::Result<()> {
        let uri = self.uri();
        self.image.check_equals_export(lab, &uri)
    }
}
