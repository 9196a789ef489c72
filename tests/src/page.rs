//! A daemon with a page that has operators, and a client of the page: `curl`.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::{
    Authority, DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, free_port, hearth, run,
};

/// What a test with a page needs.
pub const PAGE_TOOLS: [&str; 2] = ["curl", "openssl"];

/// A daemon whose page is served over TLS, with a disk `web`.
pub struct OperatedPage<'a> {
    lab: &'a Lab,
    /// The daemon.
    pub hearth: Hearth,
    /// The page's port, on every address.
    pub port: u16,
}

/// What the page has answered.
#[derive(Debug)]
pub struct PageAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The header's lines.
    pub head: String,
    /// The body, if that is JSON.
    pub body: Value,
}

impl PageAnswer {
    /// It has this status.
    ///
    /// # Errors
    ///
    /// When it has another.
    pub fn ensure(&self, status: u16) -> anyhow::Result<&Self> {
        ensure!(self.status == status, "{status} was expected: {self:?}");
        Ok(self)
    }
}

impl<'a> OperatedPage<'a> {
    /// Starts one whose certificate is for `localhost`, 127.0.0.1 and `page.lan`, and whose operators may show those of
    /// `operators-ca`.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start(lab: &'a Lab) -> anyhow::Result<Self> {
        let page_ca = Authority::new(lab, "page-ca")?;
        page_ca.server("page", "DNS:localhost,DNS:page.lan,IP:127.0.0.1")?;
        let operators = Authority::new(lab, "operators-ca")?;
        operators.client("bob")?;
        operators.client("carol")?;
        let port = free_port()?;
        let at = |name: &str| lab.path(name).display().to_string();
        let section = format!(
            "\n[web]\naddress = '0.0.0.0:{port}'\ntls_certificate = '{}'\ntls_key = '{}'\nclient_ca = '{}'\noperators = '{}'\n",
            at("page-cert.pem"),
            at("page-key.pem"),
            operators.certificate().display(),
            at("operators"),
        );
        let flash = Flash::format(lab, "flash.img", 64)?;
        let image = Image::new(lab, "web.raw", 8)?;
        let settings = HearthSettings::new(&flash)
            .section(&section)
            .disk(&DiskSettings::on_file("web", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        Ok(Self { lab, hearth, port })
    }

    /// Makes an operator; returns the token, if there is one.
    ///
    /// # Errors
    ///
    /// When that is refused.
    pub fn add(&self, name: &str) -> anyhow::Result<String> {
        let answer = self.operator(&["add", name])?;
        Ok(answer["token"].as_str().unwrap_or_default().to_owned())
    }

    /// What `hearth operator` answers.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn operator(&self, words: &[&str]) -> anyhow::Result<Value> {
        let config = self.lab.path("hearth.toml").display().to_string();
        let words = [&["--json", "operator"], words, &["--config", &config]].concat();
        let answer = hearth(&words)?;
        ensure!(answer.code == 0, "{words:?}: {}", answer.stderr);
        serde_json::from_str(&answer.stdout).with_context(|| answer.stdout.clone())
    }

    /// Asks the page for a path by `curl` with these arguments, by the name `page.lan`.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn ask(&self, path: &str, arguments: &[&str]) -> anyhow::Result<PageAnswer> {
        let port = self.port;
        let output = run(Command::new("curl")
            .current_dir(self.lab.folder())
            .args(["-sS", "-i", "--max-time", "30", "--noproxy", "*"])
            .args(["--cacert", "page-ca-cert.pem"])
            .args(["--resolve", &format!("page.lan:{port}:127.0.0.1")])
            .args(arguments)
            .arg(format!("https://page.lan:{port}{path}")))?;
        let (head, body) = output.stdout.split_once("\r\n\r\n").context("a head")?;
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        Ok(PageAnswer {
            status,
            head: head.to_ascii_lowercase(),
            body: serde_json::from_str(body).unwrap_or_default(),
        })
    }

    /// Asks for a change of the disk's limits, with these arguments beside.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn limit(&self, iops: u32, arguments: &[&str]) -> anyhow::Result<PageAnswer> {
        let body = format!(r#"{{"limits":{{"iops":"{iops}"}}}}"#);
        let change = ["-X", "PATCH", "-d", &body];
        self.ask("/v1/disks/web", &[&change, arguments].concat())
    }

    /// The disk's limit of requests.
    ///
    /// # Errors
    ///
    /// When the daemon does not say.
    pub fn iops(&self) -> anyhow::Result<Value> {
        Ok(self.hearth.json(&["disk", "show", "web"])?["limits"]["iops"].clone())
    }
}
