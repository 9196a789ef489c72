//! Encrypted connections to a real NBD server, nbdkit, which speaks TLS by `GnuTLS`: certificates of both sides, pre-shared
//! keys, and what is not let through.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use origin::{NbdSpec, OpenError, OriginSpec, TlsSpec};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use std::path::{Path, PathBuf};
use support::nbdkit::Nbdkit;
use support::{Rig, SIZE, bodies};

/// An authority, and what it has signed, in files as `GnuTLS` wants them.
struct Pki {
    folder: tempfile::TempDir,
}

impl Pki {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority
            .distinguished_name
            .push(DnType::CommonName, "authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = authority.self_signed(&key).unwrap();
        let pki = Self { folder };
        std::fs::write(pki.file("ca-cert.pem"), certificate.pem()).unwrap();
        let issuer = Issuer::new(authority, key);
        for (name, usage) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let key = KeyPair::generate().unwrap();
            let names = vec!["storage.example.org".to_owned()];
            let mut parameters = CertificateParams::new(names).unwrap();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.extended_key_usages = vec![usage];
            let signed = parameters.signed_by(&key, &issuer).unwrap();
            std::fs::write(pki.file(&format!("{name}-cert.pem")), signed.pem()).unwrap();
            std::fs::write(pki.file(&format!("{name}-key.pem")), key.serialize_pem()).unwrap();
        }
        pki
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn certificates(&self) -> TlsSpec {
        TlsSpec::Certificates {
            authority: Some(self.file("ca-cert.pem")),
            own: Some((self.file("client-cert.pem"), self.file("client-key.pem"))),
            server_name: Some("storage.example.org".to_owned()),
        }
    }
}

fn server(arguments: &[String]) -> Nbdkit {
    let size = SIZE.get().to_string();
    let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    all.extend(["memory", &size]);
    Nbdkit::start(&all)
}

fn with(server: &Nbdkit, tls: TlsSpec) -> NbdSpec {
    NbdSpec {
        tls: Some(tls),
        ..server.spec()
    }
}

fn refused(spec: NbdSpec) -> String {
    match origin::open(&OriginSpec::Nbd(spec), false) {
        Err(OpenError::Refused { reason, .. }) => reason,
        other => panic!("it is not refused: {other:?}"),
    }
}

fn key(name: &str, file: &Path) -> TlsSpec {
    let (name, file) = (name.to_owned(), file.to_owned());
    TlsSpec::Key { name, file }
}

#[test]
fn a_server_with_certificates_keeps_the_contract_and_a_false_one_is_refused() {
    if !Nbdkit::is_here() {
        return;
    }
    let (pki, other) = (Pki::new(), Pki::new());
    let folder = pki.folder.path().display();
    let arguments = [
        "--tls=require".to_owned(),
        "--tls-verify-peer".to_owned(),
        format!("--tls-certificates={folder}"),
    ];
    for (name, body) in bodies::ALL {
        eprintln!("{name}");
        body(&mut Rig::nbd(with(&server(&arguments), pki.certificates())));
    }
    let server = server(&arguments);
    let plain = refused(server.spec());
    assert!(plain.contains("TLS"), "{plain}");
    let in_the_clear = self::server(&[]);
    let clear = with(&in_the_clear, pki.certificates());
    assert!(refused(clear).contains("offers no TLS"));
    let of_others = refused(with(&server, other.certificates()));
    assert!(of_others.contains("certificate"), "{of_others}");
    let misnamed = TlsSpec::Certificates {
        authority: Some(pki.file("ca-cert.pem")),
        own: Some((pki.file("client-cert.pem"), pki.file("client-key.pem"))),
        server_name: Some("elsewhere.example.org".to_owned()),
    };
    let misnamed = refused(with(&server, misnamed));
    assert!(misnamed.contains("certificate"), "{misnamed}");
    let missing = TlsSpec::Certificates {
        authority: Some(pki.file("nowhere.pem")),
        own: None,
        server_name: None,
    };
    let missing = refused(with(&server, missing));
    assert!(missing.contains("nowhere.pem"), "{missing}");
}

#[test]
fn a_server_with_keys_keeps_the_contract_and_one_that_knows_none_is_refused() {
    if !Nbdkit::is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.psk");
    let own = folder.path().join("own.psk");
    std::fs::write(&file, "host-1:000102030405060708090a0b0c0d0e0f\n").unwrap();
    std::fs::write(&own, "host-1:ffff02030405060708090a0b0c0d0e0f\n").unwrap();
    let arguments = [
        "--tls=require".to_owned(),
        format!("--tls-psk={}", file.display()),
    ];
    for (name, body) in bodies::ALL {
        eprintln!("{name}");
        body(&mut Rig::nbd(with(
            &server(&arguments),
            key("host-1", &file),
        )));
    }
    let by_key = server(&arguments);
    assert!(refused(with(&by_key, key("host-1", &own))).contains("handshake"));
    assert!(refused(with(&by_key, key("host-2", &file))).contains("no key of the name"));
    let pki = Pki::new();
    let by_certificate = server(&[
        "--tls=require".to_owned(),
        format!("--tls-certificates={}", pki.folder.path().display()),
    ]);
    // Its certificate proves nothing to who knows a key.
    assert!(refused(with(&by_certificate, key("host-1", &file))).contains("handshake"));
}

#[test]
fn an_encrypted_connection_that_is_lost_is_made_anew() {
    if !Nbdkit::is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, image) = (folder.path().join("keys.psk"), folder.path().join("image"));
    std::fs::write(&file, "host-1:000102030405060708090a0b0c0d0e0f\n").unwrap();
    std::fs::File::create(&image)
        .unwrap()
        .set_len(SIZE.get())
        .unwrap();
    let (psk, image) = (
        format!("--tls-psk={}", file.display()),
        image.display().to_string(),
    );
    let mut server = Nbdkit::start(&["--tls=require", &psk, "file", &image]);
    let mut rig = Rig::nbd(with(&server, key("host-1", &file)));
    for block in 0..64 {
        rig.write(block * 4096, 5, 4096, false);
    }
    server.kill();
    for block in 64..128 {
        rig.write(block * 4096, 6, 4096, false);
    }
    server.start_again();
    assert!(rig.finish(128).values().all(|one| one.result == Ok(())));
    rig.expect(0, 64 * 4096, 5);
    rig.expect(64 * 4096, 64 * 4096, 6);
}
