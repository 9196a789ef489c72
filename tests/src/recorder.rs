//! Flash and origin on a recording device of our own (`clients/recorder.py`), and the disks that a
//! power cut at any moment could have left of them.
//!
//! ```text
//!   hearth ─┬─ flash: a loop device ── nbdfuse ── NBD ─┐
//!           │                                          ├─ recorder ── one log of writes and flushes
//!           └─ origin: NBD ────────────────────────────┘                        │
//!                                                        a moment, a seed ──► replay ──► two images
//! ```
//!
//! The loop device is there because it turns a durable write into a write and a flush, which reach the
//! recorder. A file on FUSE does not: its kernel part takes `RWF_DSYNC` and drops it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::mounted::{Mounted, can_mount};
use crate::{Flash, Image, Lab, Process, limits, run, wait_until};

/// The programs that it needs.
pub const RECORDER_TOOLS: &[&str] = &["nbdfuse", "losetup", "umount", "nbdcopy", "python3"];

/// A running recorder with one flash and one origin.
pub struct Recorder<'a> {
    lab: &'a Lab,
    /// The flash as Hearth is to use it.
    pub flash: Flash,
    // Taken down in this order.
    loop_device: LoopDevice,
    mounted: Mounted,
    server: Process,
}

struct LoopDevice(PathBuf);

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Whatever goes wrong here shows when the folder below it cannot be removed.
        let _ = run(Command::new("losetup").arg("--detach").arg(&self.0));
    }
}

/// What was recorded, after the recorder has ended.
pub struct Recording<'a> {
    lab: &'a Lab,
    points: Vec<Point>,
}

/// A moment at which the power may be cut.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The operation that is under way.
    pub number: usize,
    /// When, on the clock that all programs of this host share, in seconds.
    pub at: f64,
    /// It is a flush.
    pub is_flush: bool,
    /// It is one of the origin's.
    pub is_origin: bool,
}

const FLASH: &str = "flash";
const ORIGIN: &str = "disk";

fn program() -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/clients/recorder.py"));
    command
}

impl<'a> Recorder<'a> {
    /// Whether this machine lets us mount and make loop devices. Says so if not.
    pub fn is_possible() -> bool {
        let control = Path::new("/dev/loop-control").exists();
        if !control {
            println!("skipped: recording the flash needs /dev/loop-control");
        }
        control && can_mount("recording the flash")
    }

    /// Serves copies of `flash` and `image`, whose own bytes stay as what the log begins with. The
    /// origin's address is that of [`crate::Origin`] in this lab.
    ///
    /// # Errors
    ///
    /// When a server does not come up.
    pub fn start(lab: &'a Lab, flash: &Flash, image: &Image) -> anyhow::Result<Self> {
        let copy = |name: &str, of: &Path| -> anyhow::Result<PathBuf> {
            let to = lab.path(name);
            run(Command::new("cp").arg("--sparse=always").arg(of).arg(&to))?;
            Ok(to)
        };
        let places = [
            (
                FLASH,
                "flash.sock",
                copy("recorded-flash.img", flash.path())?,
            ),
            (
                ORIGIN,
                "origin.sock",
                copy("recorded-origin.img", image.path())?,
            ),
        ];
        std::fs::copy(flash.path(), lab.path("base-flash"))?;
        std::fs::copy(image.path(), lab.path("base-disk"))?;
        let mut command = program();
        command.arg("serve").arg(lab.path("recording"));
        for (export, socket, file) in &places {
            let socket = lab.path(socket);
            command.arg(format!("{}={export}={}", socket.display(), file.display()));
        }
        let server = Process::start(lab, "recorder", &mut command)?;
        for (_, socket, _) in &places {
            let socket = lab.path(socket);
            wait_until("the recorder to listen", limits::SHORT, || {
                Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())
            })?;
        }
        let uri = format!(
            "nbd+unix:///{FLASH}?socket={}",
            lab.path("flash.sock").display()
        );
        let mounted = Mounted::new(lab, &uri)?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]);
        let device = PathBuf::from(run(losetup.arg(&mounted.file))?.stdout.trim_end());
        Ok(Self {
            lab,
            flash: Flash::existing(&device),
            loop_device: LoopDevice(device),
            mounted,
            server,
        })
    }

    /// How many operations there are so far.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn operations(&self) -> anyhow::Result<usize> {
        let text = std::fs::read_to_string(self.lab.path("recording"))?;
        Ok(text.lines().count())
    }

    /// Ends the recording. Nobody may use its disks any more.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn finish(self) -> anyhow::Result<Recording<'a>> {
        let lab = self.lab;
        let Self {
            loop_device,
            mounted,
            server,
            ..
        } = self;
        drop(loop_device);
        drop(mounted);
        drop(server);
        let said = run(program().arg("points").arg(lab.path("recording")))?.stdout;
        let points: Option<Vec<Point>> = said.lines().map(point).collect();
        let points = points.context("a line for each point")?;
        // The same addresses are for the replayed ones now.
        for socket in ["flash.sock", "origin.sock"] {
            std::fs::remove_file(lab.path(socket))?;
        }
        Ok(Recording { lab, points })
    }
}

fn point(line: &str) -> Option<Point> {
    let mut words = line.split_whitespace();
    Some(Point {
        number: words.next()?.parse().ok()?,
        at: words.next()?.parse().ok()?,
        is_flush: words.next()? == "flush",
        is_origin: words.next()? == ORIGIN,
    })
}

impl Recording<'_> {
    /// `count` points spread evenly over those from operation `from` on that are as wanted.
    pub fn points(&self, from: usize, count: usize, wanted: impl Fn(&Point) -> bool) -> Vec<Point> {
        let all: Vec<Point> = self.points[from.min(self.points.len())..]
            .iter()
            .copied()
            .filter(wanted)
            .collect();
        let count = count.min(all.len());
        // Neither the first nor the last only: the middle of each of `count` parts.
        (0..count)
            .map(|part| all[(2 * part + 1) * all.len() / (2 * count)])
            .collect()
    }

    /// The origin as a power cut at `point` may leave it; another seed is another cut.
    ///
    /// # Errors
    ///
    /// When the log cannot be replayed.
    pub fn origin_at(&self, point: Point, seed: u64, name: &str) -> anyhow::Result<Image> {
        Image::existing(&self.replay(ORIGIN, point, seed, name)?)
    }

    /// The flash at the same moment.
    ///
    /// # Errors
    ///
    /// When the log cannot be replayed.
    pub fn flash_at(&self, point: Point, seed: u64, name: &str) -> anyhow::Result<Flash> {
        Ok(Flash::existing(&self.replay(FLASH, point, seed, name)?))
    }

    fn replay(&self, export: &str, point: Point, seed: u64, name: &str) -> anyhow::Result<PathBuf> {
        let out = self.lab.path(name);
        let _ = std::fs::remove_file(&out);
        let base = self.lab.path(&format!("base-{export}"));
        let mut command = program();
        command.arg("replay").arg(self.lab.path("recording"));
        command
            .arg(export)
            .arg(base)
            .arg(seed.to_string())
            .arg(&out);
        run(command.arg(point.number.to_string()))?;
        ensure!(out.exists(), "a replay wrote nothing");
        Ok(out)
    }
}
