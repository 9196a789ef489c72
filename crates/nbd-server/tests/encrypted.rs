//! Sessions under TLS, with certificates and with pre-shared keys.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nbd_protocol::wire;
use nbd_server::{Tls, TlsOffer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::Path;
use support::raw::Raw;
use support::tools::{has, has_nbdsh, nbdsh, run, try_run};
use support::{DISK_BYTES, Options, Rig};

const KEY: &str = "alice:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const WRONG_KEY: &str = "alice:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

/// Writes an authority, and certificates of a server and of a client that it signed, under
/// the names that QEMU and libnbd look for.
fn make_certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    fs::write(folder.join("ca-cert.pem"), authority.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for who in ["server", "client"] {
        let names = vec!["localhost".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        fs::write(folder.join(format!("{who}-cert.pem")), signed.pem()).unwrap();
        let key = key.serialize_pem();
        fs::write(folder.join(format!("{who}-key.pem")), key).unwrap();
    }
}

fn certificates(folder: &Path, ask_client: bool) -> Tls {
    make_certificates(folder);
    let authority = folder.join("ca-cert.pem");
    Tls::certificates(
        &folder.join("server-cert.pem"),
        &folder.join("server-key.pem"),
        ask_client.then_some(&*authority),
    )
    .unwrap()
}

fn keys(folder: &Path) -> Tls {
    fs::write(folder.join("keys.psk"), KEY).unwrap();
    Tls::keys(&folder.join("keys.psk")).unwrap()
}

fn rig(tls: TlsOffer) -> Rig {
    Rig::with(&Options {
        tls,
        ..Options::default()
    })
}

fn certificates_uri(rig: &Rig, folder: &Path) -> String {
    let port = rig.tcp.port();
    let folder = folder.display();
    format!("nbds://localhost:{port}/disk?tls-certificates={folder}")
}

fn keys_uri(rig: &Rig, folder: &Path) -> String {
    let (socket, keys) = (rig.socket(), folder.join("keys.psk"));
    let (socket, keys) = (socket.display(), keys.display());
    format!("nbds+unix://alice@/disk?socket={socket}&tls-psk-file={keys}")
}

#[test]
fn a_plain_client_is_told_that_tls_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(TlsOffer::Require(keys(folder.path())));
    let mut raw = Raw::connect(&rig.socket());
    raw.greet();
    assert_eq!(raw.go("disk"), wire::option_reply::ERR_TLS_REQD);
    raw.option(wire::option::LIST, &[]);
    assert_eq!(raw.option_reply().0, wire::option_reply::ERR_TLS_REQD);
    if has("nbdinfo") {
        assert!(!try_run("nbdinfo", &[&rig.uri("disk")]).status.success());
    }
}

#[test]
fn a_plain_client_is_served_where_tls_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(TlsOffer::Allow(keys(folder.path())));
    Raw::attached(&rig.socket(), "disk");
}

#[test]
fn noise_instead_of_tls_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    for tls in [keys(folder.path()), certificates(folder.path(), false)] {
        let rig = rig(TlsOffer::Require(tls));
        let mut raw = Raw::connect(&rig.socket());
        raw.greet();
        raw.option(wire::option::STARTTLS, &[]);
        assert_eq!(raw.option_reply().0, wire::option_reply::ACK);
        raw.send(&[0x41; 200]);
        let mut rest = Vec::new();
        // An alert may come first; then it is over.
        let _reset = std::io::Read::read_to_end(&mut raw.stream, &mut rest);
        assert!(rest.len() < 100);
    }
}

#[test]
fn certificates_secure_a_session_of_libnbd() {
    if !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tls = certificates(folder.path(), false);
    let rig = rig(TlsOffer::Require(tls));
    let info = run("nbdinfo", &[&certificates_uri(&rig, folder.path())]);
    assert!(info.contains("with TLS"), "{info}");
    let other = tempfile::tempdir().unwrap();
    make_certificates(other.path());
    let stranger = certificates_uri(&rig, other.path());
    assert!(!try_run("nbdinfo", &[&stranger]).status.success());
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_asked_for() {
    if !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tls = certificates(folder.path(), true);
    let rig = rig(TlsOffer::Require(tls));
    run("nbdinfo", &[&certificates_uri(&rig, folder.path())]);
    fs::remove_file(folder.path().join("client-cert.pem")).unwrap();
    fs::remove_file(folder.path().join("client-key.pem")).unwrap();
    let bare = certificates_uri(&rig, folder.path());
    assert!(!try_run("nbdinfo", &[&bare]).status.success());
}

#[test]
fn keys_secure_a_session_of_libnbd() {
    if !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(TlsOffer::Require(keys(folder.path())));
    let info = run("nbdinfo", &[&keys_uri(&rig, folder.path())]);
    assert!(info.contains("with TLS"), "{info}");
    fs::write(folder.path().join("keys.psk"), WRONG_KEY).unwrap();
    let wrong = keys_uri(&rig, folder.path());
    assert!(!try_run("nbdinfo", &[&wrong]).status.success());
    let unknown = wrong.replace("alice", "mallory");
    fs::write(
        folder.path().join("keys.psk"),
        KEY.replace("alice", "mallory"),
    )
    .unwrap();
    assert!(!try_run("nbdinfo", &[&unknown]).status.success());
}

#[test]
fn qemu_attaches_with_a_key() {
    if !has("qemu-img") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(TlsOffer::Require(keys(folder.path())));
    let credentials = format!(
        "tls-creds-psk,id=tls0,dir={},username=alice,endpoint=client",
        folder.path().display()
    );
    qemu_round_trip(&rig, &credentials);
}

#[test]
fn qemu_attaches_with_certificates() {
    if !has("qemu-img") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tls = certificates(folder.path(), true);
    let rig = rig(TlsOffer::Require(tls));
    let credentials = format!(
        "tls-creds-x509,id=tls0,dir={},endpoint=client",
        folder.path().display()
    );
    qemu_round_trip(&rig, &credentials);
}

fn qemu_round_trip(rig: &Rig, credentials: &str) {
    let image = format!(
        "driver=nbd,server.type=inet,server.host=localhost,server.port={},export=disk,tls-creds=tls0",
        rig.tcp.port()
    );
    let io = |command: &str| {
        run(
            "qemu-io",
            &[
                "--object",
                credentials,
                "--image-opts",
                "-c",
                command,
                &image,
            ],
        )
    };
    io("write -P 0x5a 1M 8M");
    let output = io("read -P 0x5a 1M 8M");
    assert!(!output.contains("verification failed"), "{output}");
}

#[test]
fn large_transfers_go_both_ways_at_once_under_tls() {
    if !has_nbdsh() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(TlsOffer::Require(keys(folder.path())));
    let script = format!(
        r#"
h.set_uri_allow_local_file(True)
h.connect_uri("{}")
assert h.get_tls_negotiated()
pattern = bytes(range(256)) * 4096
cookies = []
for n in range(32):
    cookies.append(h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(pattern)), n << 20))
    cookies.append(h.aio_pread(nbd.Buffer(1 << 20), ({DISK_BYTES} // 2) + (n << 20)))
while h.aio_in_flight() > 0:
    h.poll(-1)
for cookie in cookies:
    assert h.aio_command_completed(cookie)
for n in range(32):
    assert h.pread(1 << 20, n << 20) == pattern
h.shutdown()
"#,
        keys_uri(&rig, folder.path())
    );
    nbdsh(&script);
}

#[test]
fn an_encrypted_clients_place_is_free_again_after_it_left() {
    if !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(&Options {
        tls: TlsOffer::Require(keys(folder.path())),
        server: nbd_server::limits::ServerLimits {
            connections: 1,
            connections_per_export: 1,
            ..nbd_server::limits::ServerLimits::default()
        },
        ..Options::default()
    });
    for _ in 0..5 {
        run("nbdinfo", &["--size", &keys_uri(&rig, folder.path())]);
    }
}
