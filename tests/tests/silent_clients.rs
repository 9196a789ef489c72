//! Clients that never finish their handshake are sent away, and do not keep others out; nor do those that
//! send half a request to the admin API or for metrics.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Origin, OriginSettings, SHORT, free_port,
    nbdsh, scenario,
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

#[test]
fn silent_clients_take_no_place_among_the_connections() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash)
            .nbd_key("connections_max = 4")
            // Longer than the test may take: nobody is helped by silent clients' time being up.
            .nbd_key("handshake_timeout = '10min'")
            .disk(&DiskSettings::on_file("disk", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let silent: Vec<UnixStream> = (0..400)
            .map(|_| UnixStream::connect(hearth.nbd_socket()))
            .collect::<Result<_, _>>()?;
        for _ in 0..8 {
            let script = "assert len(h.pread(4096, 0)) == 4096";
            nbdsh(Some(&hearth.uri("disk")), script)?;
        }
        drop(silent);
        hearth.stop().map(drop)
    });
}

#[test]
fn half_a_request_to_the_admin_api_or_for_metrics_is_not_waited_for() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let port = free_port()?;
        let settings = HearthSettings::new(&flash)
            .metrics_address(&format!("127.0.0.1:{port}"))
            .disk(&DiskSettings::on_file("disk", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let half_head = "GET /v1/status HTTP/1.1\r\nHost: h\r\n";
        let half_body = "POST /v1/disks HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n{";
        let (mut admin, mut metrics) = (Vec::new(), Vec::new());
        for half in ["", half_head, half_body] {
            let mut socket = UnixStream::connect(hearth.admin_socket())?;
            socket.set_read_timeout(Some(SHORT))?;
            socket.write_all(half.as_bytes())?;
            admin.push(socket);
            let mut socket = TcpStream::connect(("127.0.0.1", port))?;
            socket.set_read_timeout(Some(SHORT))?;
            socket.write_all(half.as_bytes())?;
            metrics.push(socket);
        }
        // A timeout would be an error here.
        for mut socket in admin {
            socket.read_to_end(&mut Vec::new())?;
        }
        for mut socket in metrics {
            socket.read_to_end(&mut Vec::new())?;
        }
        hearth.stop().map(drop)
    });
}
