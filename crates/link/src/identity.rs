//! Who this host is, and whom it believes.

use rustls::client::verify_server_name;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Why certificate, key and authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read as PEM.
    #[error("cannot read certificates or a key from {}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A file has no certificate in it.
    #[error("no certificate in {}", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key are refused.
    #[error("the certificate {} and its key cannot be used", path.display())]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authority is refused.
    #[error("the authority {} cannot be used", path.display())]
    Authority {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: Box<VerifierBuilderError>,
    },
    /// The certificate is another host's.
    #[error("the certificate {} is not one of '{name}'", path.display())]
    OtherName {
        /// Its file.
        path: PathBuf,
        /// The host's name.
        name: String,
    },
    /// A peer's name is no DNS name.
    #[error("'{name}' is no DNS name, which a peer is known by")]
    PeerName {
        /// The name.
        name: String,
    },
}

/// This host's certificate and key, and the authority that has signed those of its peers. TLS 1.3 only, and both
/// sides show a certificate.
pub struct Identity {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Identity {
    /// Reads the PEM files of the host that is called `name`; the certificate's chain is leaf first. The certificate must be good for both ends of a
    /// connection: its extended key usage has `serverAuth` and `clientAuth`, or there is none.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn load(
        name: &str,
        certificate: &Path,
        key: &Path,
        authority: &Path,
    ) -> Result<Self, IdentityError> {
        let refused = |source| IdentityError::Certificate {
            path: certificate.to_owned(),
            source,
        };
        let chain = read_certificates(certificate)?;
        let server_name = peer_name(name)?;
        if !chain.first().is_some_and(|leaf| is_of(leaf, &server_name)) {
            return Err(IdentityError::OtherName {
                path: certificate.to_owned(),
                name: name.to_owned(),
            });
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|source| IdentityError::Pem {
            path: key.to_owned(),
            source,
        })?;
        let mut roots = RootCertStore::empty();
        for root in read_certificates(authority)? {
            roots
                .add(root)
                .map_err(|source| IdentityError::Certificate {
                    path: authority.to_owned(),
                    source,
                })?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|source| IdentityError::Authority {
                    path: authority.to_owned(),
                    source: Box::new(source),
                })?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(refused)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(refused)?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }

    pub(crate) fn connector(&self) -> &TlsConnector {
        &self.connector
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

/// A peer's name, as certificates have it.
pub(crate) fn peer_name(name: &str) -> Result<ServerName<'static>, IdentityError> {
    match ServerName::try_from(name.to_owned()) {
        Ok(parsed @ ServerName::DnsName(_)) => Ok(parsed),
        _ => Err(IdentityError::PeerName {
            name: name.to_owned(),
        }),
    }
}

/// Whether a certificate that was verified is this peer's.
pub(crate) fn is_of(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let failed = |source| IdentityError::Pem {
        path: path.to_owned(),
        source,
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if certificates.is_empty() {
        return Err(IdentityError::NoCertificate {
            path: path.to_owned(),
        });
    }
    Ok(certificates)
}
