//! TLS of the page: its certificate, and the certificates that its operators may show.
//!
//! The files are read when the daemon starts and at each reload. What cannot be used replaces nothing. At the start nothing
//! depends on them but the page, so the daemon serves its disks and tries again.

use configuration::WebConfig;
use nbd_server::{Identity, TlsError, read_certificates};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first pause before files that cannot be used are read again; each doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// The only protocol that the page speaks (ALPN).
const HTTP: &[u8] = b"http/1.1";

/// What the files hold.
#[derive(PartialEq)]
struct Read {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Vec<CertificateDer<'static>>,
}

/// The page's TLS as it holds for a connection, whatever is read later.
pub(crate) struct Ready {
    read: Read,
    acceptor: TlsAcceptor,
}

impl Ready {
    fn of(read: Read) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = if read.authorities.is_empty() {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            for authority in &read.authorities {
                roots.add(authority.clone())?;
            }
            // Who only looks shows none.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()?;
            builder.with_client_cert_verifier(verifier)
        };
        let mut config = builder.with_single_cert(read.chain.clone(), read.key.clone_key())?;
        config.alpn_protocols = vec![HTTP.to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { read, acceptor })
    }

    /// Whether a DNS name or an address is one of the certificate's.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else {
            return false;
        };
        let leaf = self.read.chain.first();
        let leaf = leaf.and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
        leaf.is_some_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    }

    /// Does the handshake; returns the names in the client's certificate, none if it shows none.
    ///
    /// # Errors
    /// What was wrong with the client's side, its certificate for example.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Vec<String>)> {
        let stream = self.acceptor.accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates();
        // The client's own comes first.
        let own = shown.and_then(|chain| chain.first());
        let names = match own.map(|der| Identity::of_certificate(der)).transpose()? {
            Some(Identity::Certificate(names)) => names,
            Some(Identity::Key(_)) | None => Vec::new(),
        };
        Ok((stream, names))
    }
}

/// The page's TLS, and the files that it is read from.
pub(crate) struct PageTls {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    ready: Mutex<Option<Arc<Ready>>>,
}

impl PageTls {
    /// As the configuration has it, nothing read yet; none if the page is served without.
    pub(crate) fn of(web: &WebConfig) -> Option<Self> {
        Some(Self {
            certificate: web.tls_certificate.clone()?,
            key: web.tls_key.clone()?,
            client_ca: web.client_ca.clone(),
            ready: Mutex::new(None),
        })
    }

    /// What holds for a connection that begins now; none before the files were read.
    pub(crate) fn ready(&self) -> Option<Arc<Ready>> {
        self.held().clone()
    }

    /// Reads the files, and has them hold for connections from now on, unless it is a `dry_run`. Returns whether they
    /// differ from those that held.
    ///
    /// # Errors
    /// If they cannot be used: then those before go on to hold.
    pub(crate) fn reread(&self, dry_run: bool) -> Result<bool, TlsError> {
        let read = self.read()?;
        let ready = self.ready();
        if ready.is_some_and(|ready| ready.read == read) {
            return Ok(false);
        }
        let ready = Ready::of(read)?;
        if !dry_run {
            *self.held() = Some(Arc::new(ready));
        }
        Ok(true)
    }

    /// Reads the files until they can be used. Told once for each reason.
    pub(crate) async fn wait(&self) {
        let mut pause = PAUSE_MIN;
        let mut told = String::new();
        while self.ready().is_none() {
            let Err(error) = self.reread(false) else {
                return;
            };
            let reason = units::errors::chain(&error);
            if reason != told {
                tracing::error!(
                    reason,
                    "the page is not served, its TLS cannot be set up; disks are, and the files are read again"
                );
                told = reason;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn read(&self) -> Result<Read, TlsError> {
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|source| TlsError::Pem {
            path: self.key.clone(),
            source,
        })?;
        let authorities = self.client_ca.as_deref().map(read_certificates);
        Ok(Read {
            chain: read_certificates(&self.certificate)?,
            key,
            authorities: authorities.transpose()?.unwrap_or_default(),
        })
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Ready>>> {
        // A panic elsewhere leaves it whole: it is replaced by one assignment.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::path::Path;

    fn write(folder: &Path, names: &[&str]) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .self_signed(&key)
            .unwrap();
        std::fs::write(folder.join("c.pem"), certificate.pem()).unwrap();
        std::fs::write(folder.join("k.pem"), key.serialize_pem()).unwrap();
    }

    fn page(folder: &Path) -> PageTls {
        let web = WebConfig {
            tls_certificate: Some(folder.join("c.pem")),
            tls_key: Some(folder.join("k.pem")),
            ..WebConfig::default()
        };
        PageTls::of(&web).unwrap()
    }

    #[test]
    fn the_page_is_called_what_its_certificate_says() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &["host-1.lan", "*.page.lan", "192.0.2.7", "2001:db8::1"],
        );
        let page = page(folder.path());
        assert!(page.ready().is_none());
        assert!(page.reread(false).unwrap());
        let ready = page.ready().unwrap();
        for name in [
            "host-1.lan",
            "HOST-1.lan",
            "a.page.lan",
            "192.0.2.7",
            "2001:db8::1",
        ] {
            assert!(ready.is_called(name), "{name}");
        }
        for name in [
            "",
            "host-2.lan",
            "x.host-1.lan",
            "page.lan",
            "192.0.2.8",
            "evil.example",
            "a b",
        ] {
            assert!(!ready.is_called(name), "{name}");
        }
    }

    #[test]
    fn new_files_replace_and_wrong_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &["one.lan"]);
        let page = page(folder.path());
        page.reread(false).unwrap();
        assert!(!page.reread(false).unwrap(), "nothing has changed");
        write(folder.path(), &["two.lan"]);
        assert!(page.reread(true).unwrap());
        assert!(
            page.ready().unwrap().is_called("one.lan"),
            "a dry run changes nothing"
        );
        assert!(page.reread(false).unwrap());
        assert!(page.ready().unwrap().is_called("two.lan"));
        std::fs::write(folder.path().join("k.pem"), "nothing").unwrap();
        assert!(page.reread(false).is_err());
        assert!(page.ready().unwrap().is_called("two.lan"));
    }
}
