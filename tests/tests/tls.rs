//! With `mode = "require"` a TCP client that does not encrypt is refused, and one that does is
//! served: with a pre-shared key, and with certificates in both directions.

use std::path::Path;
use std::process::Command;

use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Psk, Stack, free_port, nbdsh, run,
    scenario,
};

/// A script that connects to `uri` and uses the disk.
fn using(uri: &str) -> String {
    format!(
        r"
h.set_uri_allow_local_file(True)
h.connect_uri('{uri}')
assert len(h.pread(1 << 20, 0)) == 1 << 20
h.pwrite(b's' * 4096, 0)
assert h.pread(4096, 0) == b's' * 4096
"
    )
}

/// The same, where connecting or the first request must fail: by the server's doing, not for want
/// of a file.
fn is_refused(uri: &str) -> anyhow::Result<()> {
    let script = format!(
        r"
import os
h.set_uri_allow_local_file(True)
try:
    h.connect_uri('{uri}')
    h.pread(4096, 0)
except nbd.Error as error:
    assert 'No such file' not in str(error), error
    assert 'not allowed' not in str(error), error
    print(error)
    os._exit(0)
raise AssertionError('it was served')
"
    );
    nbdsh(None, &script)?;
    Ok(())
}

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
        let psk = Psk::new(lab)?;
        let wrong = lab.write(
            "wrong.psk",
            "vm1:0000000000000000000000000000000000000000000000000000000000000000\n",
        )?;
        let port = psk.port();
        let _hearth = start(lab, &psk.settings())?;
        let uri = |file: &Path| {
            format!(
                "nbds://vm1@127.0.0.1:{port}/disk?tls-psk-file={}",
                file.display()
            )
        };
        is_refused(&format!("nbd://127.0.0.1:{port}/disk"))?;
        is_refused(&uri(&wrong))?;
        nbdsh(None, &using(&uri(&psk.file())))?;
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
        let port = free_port()?;
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
        nbdsh(None, &using(&known))?;

        is_refused(&format!("nbd://localhost:{port}/disk"))?;
        let stranger = lab.path("stranger");
        std::fs::create_dir(&stranger)?;
        std::fs::copy(lab.path("ca-cert.pem"), stranger.join("ca-cert.pem"))?;
        is_refused(&format!(
            "nbds://localhost:{port}/disk?tls-certificates={}",
            stranger.display()
        ))?;
        Ok(())
    });
}

#[test]
fn a_certificate_opens_the_disks_that_name_it() {
    scenario(&["nbdsh", "openssl"], |lab| {
        make_certificates(lab)?;
        let at = |name: &str| lab.path(name).display().to_string();
        let tls = format!(
            "[nbd.tls]\nmode = 'require'\ncertificate = '{}'\nkey = '{}'\nclient_authority = '{}'",
            at("server-cert.pem"),
            at("server-key.pem"),
            at("ca-cert.pem")
        );
        for (clients, is_known) in [("'cert:client', 'cert:x'", true), ("'cert:Client'", false)] {
            let port = free_port()?;
            let keys = format!("tcp_address = '127.0.0.1:{port}'\nclients = [{clients}]\n{tls}");
            let own = lab.host(if is_known { "known" } else { "other" })?;
            let _hearth = start(&own, &keys)?;
            let folder = lab.folder().display();
            let uri = format!("nbds://localhost:{port}/disk?tls-certificates={folder}");
            let outcome = nbdsh(None, &using(&uri));
            match outcome.map_err(|error| format!("{error:#}")) {
                Ok(_) => anyhow::ensure!(is_known, "it was served"),
                Err(said) => {
                    let is_right = !is_known && said.contains("no export named 'disk'");
                    anyhow::ensure!(is_right, said);
                }
            }
        }
        Ok(())
    });
}
