//! Encryption of NBD sessions: certificates by rustls, pre-shared keys by OpenSSL.
//!
//! QEMU, libnbd and nbdkit speak `GnuTLS` and use either kind. rustls has no external pre-shared
//! keys, hence the second library; everything behind the handshake is the same.

use crate::identity::Identity;
use crate::psk;
use crate::tls_error::TlsError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// What a listener offers to its clients.
#[derive(Clone, Debug)]
pub enum TlsOffer {
    /// No encryption.
    Off,
    /// The client chooses.
    Allow(Tls),
    /// Plain sessions are refused.
    Require(Tls),
}

/// How sessions are encrypted and clients authenticated. Cloning shares it.
#[derive(Clone)]
pub struct Tls {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Certificates(TlsAcceptor),
    Keys(psk::Acceptor),
}

impl Tls {
    /// Certificates (x509). With `client_authority` a client must show a certificate that one
    /// of these authorities signed. Files are PEM, the server's chain leaf first.
    ///
    /// # Errors
    /// If a file cannot be read or used.
    pub fn certificates(
        certificate: &Path,
        key: &Path,
        client_authority: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match client_authority {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in read_certificates(path)? {
                    roots.add(authority)?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = read_certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Pem {
            path: key.to_owned(),
            source,
        })?;
        let config = builder.with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let kind = Kind::Certificates(acceptor);
        Ok(Self { kind })
    }

    /// Pre-shared keys from a file as `psktool` writes it: `name:hexadecimal key` a line.
    ///
    /// # Errors
    /// If the file cannot be read or a line is no key.
    pub fn keys(path: &Path) -> Result<Self, TlsError> {
        let acceptor = psk::Acceptor::new(psk::read(path)?)?;
        let kind = Kind::Keys(acceptor);
        Ok(Self { kind })
    }

    /// Does the handshake.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<Secured>
    where
        S: Stream + 'static,
    {
        match &self.kind {
            Kind::Certificates(acceptor) => {
                let stream = acceptor.accept(stream).await?;
                let shown = stream.get_ref().1.peer_certificates();
                // The client's own comes first.
                let own = shown.and_then(|chain| chain.first());
                let identity = own.map(|der| Identity::of_certificate(der)).transpose()?;
                Ok(Secured {
                    stream: Box::pin(stream),
                    identity,
                })
            }
            Kind::Keys(acceptor) => {
                let (stream, name) = acceptor.accept(stream).await?;
                Ok(Secured {
                    stream: Box::pin(stream),
                    identity: name.map(Identity::Key),
                })
            }
        }
    }
}

/// A session after its TLS handshake.
pub(crate) struct Secured {
    pub(crate) stream: Pin<Box<dyn Stream>>,
    /// None of a client that was not asked for a certificate.
    pub(crate) identity: Option<Identity>,
}

impl fmt::Debug for Tls {
    /// Says nothing of keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Certificates(_) => "Tls(certificates)",
            Kind::Keys(_) => "Tls(keys)",
        })
    }
}

/// A session's bytes, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The certificates of a PEM file, in their order; there is one or more.
///
/// # Errors
/// If the file cannot be read, or has none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |source| TlsError::Pem {
        path: path.to_owned(),
        source,
    };
    let found = CertificateDer::pem_file_iter(path)
        .map_err(refused)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(refused)?;
    if found.is_empty() {
        let path = path.to_owned();
        return Err(TlsError::NoCertificate { path });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.pem");
        std::fs::write(&path, "nothing\n").unwrap();
        let error = Tls::certificates(&path, &path, None).unwrap_err();
        assert!(error.to_string().contains("empty.pem"), "{error}");
    }

    #[test]
    fn keys_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.psk");
        std::fs::write(&path, "alice:00112233445566778899aabbccddeeff\n").unwrap();
        let tls = Tls::keys(&path).unwrap();
        assert_eq!(format!("{tls:?}"), "Tls(keys)");
    }
}
