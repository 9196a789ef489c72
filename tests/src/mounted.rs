//! An NBD export as a file, by FUSE: flash that can be pulled out, recorded, or made to refuse.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Flash, Image, Lab, Process, limits, run, tools, wait_until};

/// The programs that it needs.
pub const MOUNT_TOOLS: &[&str] = &["nbdkit", "nbdfuse", "umount"];

/// A file in the lab that is an NBD export. It is gone when this is dropped.
pub(crate) struct Mounted {
    folder: PathBuf,
    /// The file.
    pub(crate) file: PathBuf,
    fuse: Option<Process>,
}

impl Mounted {
    /// Mounts the export at `uri`.
    pub(crate) fn new(lab: &Lab, uri: &str) -> anyhow::Result<Self> {
        let folder = lab.path("mounted");
        std::fs::create_dir(&folder)?;
        let file = folder.join("flash");
        let mut command = Command::new("nbdfuse");
        let fuse = Process::start(lab, "nbdfuse", command.arg(&file).arg(uri))?;
        // Made before the wait, so that a mount which comes late is undone as well.
        let mounted = Self {
            folder,
            file,
            fuse: Some(fuse),
        };
        wait_until("the flash to be mounted", limits::SHORT, || {
            Ok(mounted.file.exists())
        })?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Whatever goes wrong here shows when the folder cannot be removed.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.folder));
        self.fuse = None;
    }
}

/// Whether this machine lets us mount. Says so if not.
pub fn can_mount(what_for: &str) -> bool {
    let fuse = Path::new("/dev/fuse").exists();
    if !fuse {
        println!("skipped: {what_for} needs /dev/fuse");
    }
    fuse && tools::is_root(what_for)
}

/// Flash with a plug.
pub struct WeakFlash {
    /// As the daemon is to use it.
    pub flash: Flash,
    _mounted: Mounted,
    server: Option<Process>,
    /// Its writes are refused, or take long, while this file exists.
    failing: PathBuf,
}

impl WeakFlash {
    /// Formats flash of `mib` MiB.
    ///
    /// # Errors
    ///
    /// When it cannot be mounted.
    pub fn format(lab: &Lab, mib: u64) -> anyhow::Result<Self> {
        let inside = Flash::format(lab, "weak-flash.img", mib)?;
        let failing = lab.path("flash-is-full");
        let mut command = Command::new("nbdkit");
        command
            .args(["--filter=error", "file"])
            .arg(inside.path())
            .args(["error-pwrite=ENOSPC", "error-pwrite-rate=100%"])
            .arg(format!("error-pwrite-file={}", failing.display()));
        Self::serve(lab, command, failing)
    }

    /// Formats flash of `mib` MiB each of whose writes can be made to take seconds.
    ///
    /// # Errors
    ///
    /// When it cannot be mounted.
    pub fn format_slow(lab: &Lab, mib: u64, seconds: u32) -> anyhow::Result<Self> {
        let inside = Flash::format(lab, "weak-flash.img", mib)?;
        let failing = lab.path("flash-is-slow");
        let (file, slow) = (inside.path().display(), failing.display());
        let tenths = 10 * seconds;
        let count = "bs=64k iflag=fullblock,count_bytes,skip_bytes";
        let seek = "bs=64k iflag=fullblock oflag=seek_bytes conv=notrunc";
        let mut command = Command::new("nbdkit");
        command
            .arg("eval")
            // Reads do not wait behind writes that take long.
            .arg("thread_model=echo parallel")
            .arg(format!("get_size=stat -c %s {file}"))
            .arg(format!(
                "pread=dd if={file} {count} count=$3 skip=$4 status=none"
            ))
            .arg(format!(
                "pwrite=n=0; while [ -e {slow} ] && [ $n -lt {tenths} ]; do sleep .1; n=$((n + 1)); done; \
                 dd of={file} {seek} seek=$4 status=none"
            ))
            .arg("can_multi_conn=exit 0")
            .arg("can_flush=exit 0")
            .arg(format!("flush=sync {file}"));
        Self::serve(lab, command, failing)
    }

    /// Mounts what nbdkit serves by the rest of this command.
    fn serve(lab: &Lab, mut command: Command, failing: PathBuf) -> anyhow::Result<Self> {
        let socket = lab.path("weak.sock");
        command.args(["-f", "-e", "flash", "-U"]).arg(&socket);
        let server = Process::start(lab, "weak-flash", &mut command)?;
        wait_until("the flash to be there", limits::SHORT, || {
            Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())
        })?;
        let uri = format!("nbd+unix:///flash?socket={}", socket.display());
        let mounted = Mounted::new(lab, &uri)?;
        Ok(Self {
            flash: Flash::existing(&mounted.file),
            _mounted: mounted,
            server: Some(server),
            failing,
        })
    }

    /// From now on it has no room for anything, or each write takes long.
    ///
    /// # Errors
    ///
    /// When the lab takes no files.
    pub fn fail(&self) -> anyhow::Result<()> {
        Ok(std::fs::write(&self.failing, "")?)
    }

    /// From now on it takes what it is given, and at once.
    ///
    /// # Errors
    ///
    /// When the file that says so cannot be removed.
    pub fn recover(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(&self.failing)?)
    }

    /// From now on everything that is asked of it is an error.
    pub fn pull(&mut self) {
        self.server = None;
    }
}

/// An image that an nbdkit of its own serves, mounted as a file in a folder that takes other files, too: an owner's record
/// is to lie beside it.
struct Served {
    file: PathBuf,
    _mounted: Mounted,
    _server: Process,
}

impl Served {
    /// Mounts what nbdkit serves that has these arguments.
    fn mount<S: AsRef<OsStr>>(
        lab: &Lab,
        name: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Self> {
        let socket = lab.path(&format!("{name}.sock"));
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-e", "image", "-U"]).arg(&socket);
        let server = Process::start(lab, name, command.args(arguments))?;
        wait_until("the origin to listen", limits::SHORT, || {
            Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())
        })?;
        let uri = format!("nbd+unix:///image?socket={}", socket.display());
        let mounted = Mounted::new(lab, &uri)?;
        let file = lab.path(&format!("{name}.raw"));
        std::fs::write(&file, "")?;
        run(Command::new("mount")
            .arg("--bind")
            .arg(&mounted.file)
            .arg(&file))?;
        Ok(Self {
            file,
            _mounted: mounted,
            _server: server,
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Whatever goes wrong here shows when the folder cannot be removed.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.file));
    }
}

/// A file whose sync can be made to fail: an origin that loses writes.
pub struct UnsyncedOrigin {
    served: Served,
    failing: PathBuf,
}

impl UnsyncedOrigin {
    /// Mounts an image.
    ///
    /// # Errors
    ///
    /// When it cannot be mounted.
    pub fn mount(lab: &Lab, image: &Image) -> anyhow::Result<Self> {
        let failing = lab.path("sync-fails");
        let (file, fails) = (image.path().display(), failing.display());
        let count = "bs=64k iflag=fullblock,count_bytes,skip_bytes";
        let seek = "bs=64k iflag=fullblock oflag=seek_bytes conv=notrunc";
        let plugin = [
            "eval".to_owned(),
            format!("get_size=stat -c %s {file}"),
            format!("pread=dd if={file} {count} count=$3 skip=$4 status=none"),
            format!("pwrite=dd of={file} {seek} seek=$4 status=none"),
            "can_flush=exit 0".to_owned(),
            format!("flush=if [ -e {fails} ]; then echo EIO lost >&2; exit 1; fi"),
        ];
        let served = Served::mount(lab, "unsynced", plugin)?;
        Ok(Self { served, failing })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.served.file
    }

    /// Each sync of it fails while there is something here.
    pub fn failing(&self) -> &Path {
        &self.failing
    }
}

/// A file each of whose reads and writes takes long: an origin that is far away.
pub struct SlowOrigin(Served);

impl SlowOrigin {
    /// Mounts an image; `delay` is how long each request takes, as nbdkit writes it (`5ms`).
    ///
    /// # Errors
    ///
    /// When it cannot be mounted.
    pub fn mount(lab: &Lab, image: &Image, delay: &str) -> anyhow::Result<Self> {
        let plugin = [
            "--filter=delay".to_owned(),
            "file".to_owned(),
            image.path().display().to_string(),
            format!("rdelay={delay}"),
            format!("wdelay={delay}"),
        ];
        Served::mount(lab, "slow", plugin).map(Self)
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.0.file
    }
}
