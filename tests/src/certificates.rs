//! Certificates for tests, made by `openssl`.

use std::path::PathBuf;
use std::process::Command;

use crate::{Lab, run};

/// An authority in a lab's folder, and what it signs there: `NAME-cert.pem` and `NAME-key.pem`.
pub struct Authority<'a> {
    lab: &'a Lab,
    name: &'static str,
}

/// The keys of all: short, and known to every client.
const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

impl<'a> Authority<'a> {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// When `openssl` fails.
    pub fn new(lab: &'a Lab, name: &'static str) -> anyhow::Result<Self> {
        let made = Self { lab, name };
        made.openssl(&format!(
            "req -x509 {KEY} -keyout {name}-key.pem -out {name}-cert.pem -days 2 -subj /CN={name}"
        ))?;
        Ok(made)
    }

    /// Makes the certificate of a server with these alternative names, `DNS:localhost,IP:127.0.0.1` for example.
    ///
    /// # Errors
    ///
    /// When `openssl` fails.
    pub fn server(&self, name: &str, names: &str) -> anyhow::Result<()> {
        let usage = format!("subjectAltName={names}\nextendedKeyUsage=serverAuth\n");
        self.sign(name, &usage)
    }

    /// Makes a client's certificate, whose common name is its file's.
    ///
    /// # Errors
    ///
    /// When `openssl` fails.
    pub fn client(&self, name: &str) -> anyhow::Result<()> {
        self.sign(name, "extendedKeyUsage=clientAuth\n")
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.lab.path(&format!("{}-cert.pem", self.name))
    }

    fn sign(&self, name: &str, extensions: &str) -> anyhow::Result<()> {
        let own = self.name;
        self.lab.write(&format!("{name}.ext"), extensions)?;
        self.openssl(&format!(
            "req {KEY} -keyout {name}-key.pem -out {name}.csr -subj /CN={name}"
        ))?;
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {own}-cert.pem -CAkey {own}-key.pem -CAcreateserial -out {name}-cert.pem -days 2 -extfile {name}.ext"
        ))
    }

    fn openssl(&self, line: &str) -> anyhow::Result<()> {
        let mut command = Command::new("openssl");
        run(command.current_dir(self.lab.folder()).args(line.split(' '))).map(drop)
    }
}
