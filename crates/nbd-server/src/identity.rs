//! Who a client has proved to be: the names in its certificate, or the name of its key.

use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::x509::X509;

/// What a client's session proves of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It showed a certificate that the server's client authority has signed. Its common name, and
    /// its alternative names that are DNS names, mail addresses or URIs.
    Certificate(Vec<String>),
    /// It knows the pre-shared key of this name.
    Key(String),
}

impl Identity {
    /// The names in a certificate that has been verified, in DER.
    ///
    /// # Errors
    /// If it is no certificate.
    pub fn of_certificate(der: &[u8]) -> Result<Self, ErrorStack> {
        let certificate = X509::from_der(der)?;
        let subject = certificate.subject_name();
        let common = subject.entries_by_nid(Nid::COMMONNAME);
        // A name that is no text equals no text of the configuration.
        let common = common.filter_map(|entry| entry.data().to_string().ok());
        let mut names: Vec<String> = common.collect();
        for other in certificate.subject_alt_names().into_iter().flatten() {
            let text = other.dnsname().or(other.email()).or(other.uri());
            names.extend(text.map(str::to_owned));
        }
        Ok(Self::Certificate(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    #[test]
    fn a_certificate_has_its_common_name_and_its_alternative_names() {
        let mut params = CertificateParams::new(vec!["host-1.lan".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "web");
        let uri = "spiffe://lan/web".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let identity = Identity::of_certificate(certificate.der()).unwrap();
        let names = ["web", "host-1.lan", "spiffe://lan/web"].map(str::to_owned);
        assert_eq!(identity, Identity::Certificate(names.into()));
        assert!(Identity::of_certificate(b"no certificate").is_err());
    }
}
