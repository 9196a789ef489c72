//! With `mode = "require"` a client that does not encrypt is refused, and one that does is served:
//! with a pre-shared key, and with certificates in both directions.

use std::net::TcpListener;
use std::process::Command;

use anyhow::ensure;
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Stack, nbdsh, run, scenario};

const READ: &str = "assert len(h.pread(1 << 20, 0)) == 1 << 20\nh.pwrite(b's' * 4096, 0)\nassert h.pread(4096, 0) == b's' * 4096";

fn start(lab: &Lab, nbd_keys: &str) -> anyhow::Result<Hearth> {
    let image = Image::new(lab, "origin.raw", 16)?;
    let flash = Flash::format(lab, "flash.img", 128)?;
    let disk = DiskSettings::on_file(Stack::DISK, image.path());
    Hearth::start(
        lab,
        &HearthSettings::new(&flash).nbd_key(nbd_keys).disk(&disk),
    )
}

#[test]
fn a_pre_shared_key_opens_what_plain_clients_may_not_see() {
    scenario(&["nbdsh"], |lab| {
        let keys = lab.write(
            "keys.psk",
            "vm1:6b2f0f3f8c0d4f57a4a1c1a1f2f5c2b9e0c4a87f1d3d6e52b8a9c0d1e2f30415\n",
        )?;
        let wrong = lab.write(
            "wrong.psk",
            "vm1:0000000000000000000000000000000000000000000000000000000000000000\n",
        )?;
        let hearth = start(
            lab,
            &format!(
                "[nbd.tls]\nmode = 'require'\npsk_file = '{}'",
                keys.display()
            ),
        )?;
        let socket = hearth.nbd_socket().display();
        let uri = |file: &std::path::Path| {
            format!(
                "nbds+unix://vm1@/disk?socket={socket}&tls-psk-file={}",
                file.display()
            )
        };
        ensure!(
            nbdsh(Some(&hearth.uri("disk")), "pass").is_err(),
            "a plain client was served"
        );
        ensure!(
            nbdsh(Some(&uri(&wrong)), "pass").is_err(),
            "a wrong key opened the door"
        );
        nbdsh(Some(&uri(&keys)), READ)?;
        Ok(())
    });
}

/// Makes an authority, a server's certificate for `localhost` and a client's, under libnbd's names.
fn make_certificates(lab: &Lab) -> anyhow::Result<()> {
    let openssl = |line: &str| {
        run(Command::new("openssl")
            .current_dir(lab.folder())
            .args(line.split(' ')))
    };
    lab.write(
        "server.ext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n",
    )?;
    lab.write("client.ext", "extendedKeyUsage=clientAuth\n")?;
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout ca-key.pem -out ca-cert.pem -days 2 -subj /CN=test-authority"
    ))?;
    for who in ["server", "client"] {
        openssl(&format!(
            "req {key} -keyout {who}-key.pem -out {who}.csr -subj /CN={who}"
        ))?;
        openssl(&format!(
            "x509 -req -in {who}.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -out {who}-cert.pem -days 2 -extfile {who}.ext"
        ))?;
    }
    Ok(())
}

#[test]
fn certificates_are_asked_of_both_sides() {
    scenario(&["nbdsh", "openssl"], |lab| {
        make_certificates(lab)?;
        // Freed again before the daemon takes it; nothing else binds ports in between here.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let at = |name: &str| lab.path(name).display().to_string();
        let _hearth = start(
            lab,
            &format!(
                "tcp_address = '127.0.0.1:{port}'\n[nbd.tls]\nmode = 'require'\ncertificate = '{}'\nkey = '{}'\nclient_authority = '{}'",
                at("server-cert.pem"),
                at("server-key.pem"),
                at("ca-cert.pem")
            ),
        )?;
        let known = format!(
            "nbds://localhost:{port}/disk?tls-certificates={}",
            lab.folder().display()
        );
        nbdsh(Some(&known), READ)?;

        ensure!(
            nbdsh(Some(&format!("nbd://localhost:{port}/disk")), "pass").is_err(),
            "a plain client was served"
        );
        let stranger = lab.path("stranger");
        std::fs::create_dir(&stranger)?;
        std::fs::copy(lab.path("ca-cert.pem"), stranger.join("ca-cert.pem"))?;
        let unknown = format!(
            "nbds://localhost:{port}/disk?tls-certificates={}",
            stranger.display()
        );
        ensure!(
            nbdsh(Some(&unknown), "h.pread(4096, 0)").is_err(),
            "a client without a certificate was served"
        );
        Ok(())
    });
}
