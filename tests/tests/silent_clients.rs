//! Clients that never finish their handshake are sent away, and do not keep others out.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Origin, OriginSettings, SHORT, nbdsh,
    scenario,
};

#[test]
fn a_silent_client_is_sent_away_and_others_are_served_meanwhile() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash)
            .nbd_key("handshake_timeout = '1s'")
            .disk(&DiskSettings::on_nbd("disk", &origin.uri()));
        let hearth = Hearth::start(lab, &settings)?;
        let mut silent = Vec::new();
        for _ in 0..20 {
            let socket = UnixStream::connect(hearth.nbd_socket())?;
            socket.set_read_timeout(Some(SHORT))?;
            silent.push(socket);
        }
        nbdsh(
            Some(&hearth.uri("disk")),
            "assert len(h.pread(4096, 0)) == 4096",
        )?;
        for mut socket in silent {
            // The greeting, then the end of the connection; a timeout would be an error here.
            let mut greeting = Vec::new();
            socket.read_to_end(&mut greeting)?;
            ensure!(
                greeting.starts_with(b"NBDMAGIC"),
                "no NBD greeting: {greeting:?}"
            );
        }
        ensure!(
            SHORT > Duration::from_secs(1),
            "the deadline of the test is the longer one"
        );
        Ok(())
    });
}
