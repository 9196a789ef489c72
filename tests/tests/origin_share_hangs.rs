//! The server of a mounted file system that a disk's file lies on stops answering: what is cached is served on, the rest
//! fails after `request_timeout` and not later, no other disk waits, and everything is right when the server goes on.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Lab, Process, is_root, nbdsh, run,
    scenario, wait_for_listener, wait_until,
};
use rustix::process::Signal;

/// A file system whose only file is served by another process, which can stand still as a server of NFS can.
struct Share {
    server: Process,
    mounted: PathBuf,
    _fuse: Process,
}

impl Share {
    fn mount(lab: &Lab, image: &Image) -> anyhow::Result<Self> {
        let socket = lab.path("share.sock");
        let mut server = Command::new("nbdkit");
        server
            .arg("-f")
            .arg("-U")
            .arg(&socket)
            .arg("file")
            .arg(image.path());
        let server = Process::start(lab, "share-server", &mut server)?;
        wait_for_listener(&socket)?;
        let mounted = lab.path("share");
        std::fs::create_dir(&mounted)?;
        let mut fuse = Command::new("nbdfuse");
        fuse.arg(&mounted).arg("--unix").arg(&socket);
        let fuse = Process::start(lab, "share", &mut fuse)?;
        let file = mounted.join("nbd");
        wait_until("the file to be there", LONG, || Ok(file.exists()))?;
        Ok(Self {
            server,
            mounted,
            _fuse: fuse,
        })
    }

    fn file(&self) -> PathBuf {
        self.mounted.join("nbd")
    }
}

/// A server that stands still. It goes on when this is dropped: the kernel ends no process that waits for it.
struct Paused<'a>(&'a Process);

impl<'a> Paused<'a> {
    fn new(server: &'a Process) -> anyhow::Result<Self> {
        server.pause()?;
        Ok(Self(server))
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let _ = self.0.signal(Signal::CONT);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.mounted));
    }
}

#[test]
fn a_share_without_its_server_holds_nobody_for_longer_than_the_time_limit() {
    scenario(&["nbdsh", "nbdkit", "nbdfuse", "umount"], |lab| {
        if !is_root("a mounted file system") {
            return Ok(());
        }
        let image = Image::new(lab, "share.img", 64)?;
        let other = Image::new(lab, "other.img", 64)?;
        let share = Share::mount(lab, &image)?;
        let flash = Flash::format(lab, "flash.img", 256)?;
        let on_share =
            DiskSettings::on_file_with("shared", &share.file(), "request_timeout = '1s'");
        let settings = HearthSettings::new(&flash)
            .disk(&on_share)
            .disk(&DiskSettings::on_file("local", other.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let (shared, local) = (hearth.uri("shared"), hearth.uri("local"));
        nbdsh(
            Some(&shared),
            "h.pread(1 << 20, 0)\nh.pwrite(b'a' * 4096, 8 << 20)\nh.flush()",
        )?;

        let paused = Paused::new(&share.server)?;
        // One after the other: each has its own time.
        let stuck = r"
import errno
def fails(what):
    try:
        what()
    except nbd.Error as error:
        assert error.errnum in (errno.ETIMEDOUT, errno.EIO), error
    else:
        raise AssertionError('nobody was there to do it')
fails(lambda: h.pread(4096, 32 << 20))
fails(lambda: h.pwrite(b'b' * 4096, 9 << 20))
fails(lambda: h.flush())
fails(lambda: h.pread(4096, 9 << 20))
assert len(h.pread(1 << 20, 0)) == 1 << 20
";
        nbdsh(Some(&shared), stuck)?;
        nbdsh(
            Some(&local),
            "assert len(h.pread(4096, 0)) == 4096\nh.pwrite(b'c' * 4096, 0)\nh.flush()",
        )?;
        let shown = hearth.json(&["disk", "show", "shared"])?;
        ensure!(shown["origin_connected"] == false, "{shown}");
        drop(paused);
        wait_until("the origin to answer again", LONG, || {
            Ok(hearth.json(&["disk", "show", "shared"])?["origin_connected"] == true)
        })?;
        let again = "
assert h.pread(4096, 8 << 20) == b'a' * 4096
h.pwrite(b'd' * 4096, 9 << 20)
h.flush()
assert h.pread(4096, 9 << 20) == b'd' * 4096
";
        nbdsh(Some(&shared), again)?;
        ensure!(
            image.read(9 << 20, 4096)? == [b'd'; 4096],
            "the late write undid a newer one"
        );
        is_not_opened(&share, &hearth)?;
        hearth.stop()?;
        Ok(())
    });
}

/// A disk is not opened there while nobody answers, and whoever asks hears so in time.
fn is_not_opened(share: &Share, hearth: &Hearth) -> anyhow::Result<()> {
    hearth.command(&["disk", "detach", "shared"])?;
    let paused = Paused::new(&share.server)?;
    let file = share.file();
    let origin = file.to_str().context("a path of ASCII")?;
    for name in ["second", "third"] {
        let attach = [
            "disk",
            "attach",
            name,
            "--origin",
            origin,
            "--request-timeout",
            "1s",
        ];
        let refused = hearth.refused_command(&attach)?.stderr;
        ensure!(refused.contains("does not answer"), "{refused}");
    }
    nbdsh(
        Some(&hearth.uri("local")),
        "assert h.pread(4096, 0) == b'c' * 4096",
    )?;
    drop(paused);
    wait_until("the share to take the disk", LONG, || {
        Ok(hearth
            .command(&["disk", "attach", "second", "--origin", origin])
            .is_ok())
    })?;
    nbdsh(
        Some(&hearth.uri("second")),
        "assert h.pread(4096, 8 << 20) == b'a' * 4096",
    )?;
    Ok(())
}
