//! `hearth recover destage` brings a guest's discard to the origin as zeroes, as the daemon does: a
//! server may ignore a trim, and the guest has read zeroes since.

use std::process::Command;

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Process, SHORT, nbdsh, scenario,
    wait_until, writes,
};

/// Serves an image, and answers a trim without doing anything.
fn server_that_ignores_trim(lab: &Lab, image: &Image) -> anyhow::Result<(Process, String)> {
    let socket = lab.path("origin.sock");
    let file = image.path().display();
    let count = "iflag=fullblock,count_bytes,skip_bytes";
    let mut command = Command::new("nbdkit");
    command
        .args(["-f", "-e", "disk", "-U"])
        .arg(&socket)
        .arg("eval")
        .arg(format!("get_size=stat -c %s {file}"))
        .arg(format!("pread=dd if={file} bs=64k {count} count=$3 skip=$4 status=none"))
        .arg(format!(
            "pwrite=dd of={file} bs=64k iflag=fullblock oflag=seek_bytes conv=notrunc seek=$4 status=none"
        ))
        .args(["can_trim=exit 0", "trim=exit 0"])
        .args(["can_flush=exit 0", "flush=exit 0"]);
    let server = Process::start(lab, "origin", &mut command)?;
    wait_until("the origin to listen", SHORT, || {
        Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())
    })?;
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    Ok((server, uri))
}

#[test]
fn discarded_bytes_do_not_come_back_from_a_server_that_ignores_trim() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let (_server, uri) = server_that_ignores_trim(lab, &image)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_nbd(Back::DISK, &uri).keeping_dirty(100);
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let discard = "h.trim(8 * 4096, 16 * 4096)\nh.flush()\n\
                       assert h.pread(4096, 16 * 4096) == bytes(4096)\n";
        nbdsh(Some(&hearth.uri(Back::DISK)), &(writes(0, 4, 3) + discard))?;
        hearth.stop()?;

        let [flash, config] = [flash.path().to_owned(), lab.path("hearth.toml")]
            .map(|path| path.display().to_string());
        let at = ["--disk", Back::DISK, "--config", &config];
        let done = e2e::hearth(&[&["recover", "destage", &flash][..], &at].concat())?;
        ensure!(done.code == 0, "{}", done.stderr);
        let zeroes = image.read(16 * 4096, 8 * 4096)?;
        ensure!(
            zeroes.iter().all(|byte| *byte == 0),
            "discarded bytes came back"
        );
        ensure!(image.read(4096, 1)? == [1], "what was written is there");
        Ok(())
    });
}
