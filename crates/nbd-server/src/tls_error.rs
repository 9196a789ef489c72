//! What can be wrong with certificates and keys.

use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use std::io;
use std::path::PathBuf;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
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
    #[error("the certificate and its key cannot be used")]
    Certificate(#[from] rustls::Error),
    /// The client authority is refused.
    #[error("the client authority cannot be used")]
    Authority(#[from] VerifierBuilderError),
    /// The key file cannot be read.
    #[error("cannot read keys from {}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of the key file is no key.
    #[error("{}, line {line}: {problem}", path.display())]
    KeyLine {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// OpenSSL refuses the set-up.
    #[error("pre-shared keys cannot be set up")]
    OpenSsl(#[from] openssl::error::ErrorStack),
}
