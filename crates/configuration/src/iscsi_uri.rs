//! Addresses of logical units: `iscsi://portal[:port]/target/unit`.
//!
//! The canonical print is part of a disk's default identity: the port is always there, the host is in lower case.

use crate::authority;
use crate::percent::{decode, encode};
use std::fmt;
use std::str::FromStr;

/// What comes before every address.
pub const ISCSI_SCHEME: &str = "iscsi://";
/// iSCSI's registered port.
const ISCSI_PORT: u16 = 3260;
/// Bytes in the longest name of a target (RFC 7143, section 4.2.7.1).
const TARGET_BYTES_MAX: usize = 223;

/// Where a unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiUri {
    /// Name or address of the portal, in lower case, IPv6 without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The target's name.
    pub target: String,
    /// The unit's number.
    pub unit: u16,
}

/// Why a text is no address of a unit.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' is not the address of an iSCSI unit ({reason}): write iscsi://portal/iqn.2026-01.org.example:target/1"
)]
pub struct ParseIscsiUriError {
    text: String,
    reason: &'static str,
}

impl IscsiUri {
    /// Where the target listens, as `host:port`.
    pub fn portal(&self) -> String {
        struct Portal<'a>(&'a IscsiUri);
        impl fmt::Display for Portal<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                authority::print(f, &self.0.host, self.0.port)
            }
        }
        Portal(self).to_string()
    }
}

impl FromStr for IscsiUri {
    type Err = ParseIscsiUriError;

    fn from_str(text: &str) -> Result<Self, ParseIscsiUriError> {
        parse(text).map_err(|reason| ParseIscsiUriError {
            text: text.to_owned(),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<IscsiUri, &'static str> {
    let rest = text.strip_prefix(ISCSI_SCHEME).ok_or("unknown scheme")?;
    if rest.contains('@') {
        return Err("the secret of CHAP is in a file, see chap_secret_file");
    }
    if rest.contains(['?', '#']) {
        return Err("query and fragment mean nothing here");
    }
    let mut parts = rest.split('/');
    let (Some(authority), Some(target), Some(unit), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("a portal, a target and a unit are separated by slashes");
    };
    let (host, port) = authority::parse(authority, ISCSI_PORT)?;
    let target = decode(target)?;
    let is_name = ["iqn.", "eui.", "naa."]
        .iter()
        .any(|kind| target.starts_with(kind));
    if !is_name || target.len() > TARGET_BYTES_MAX {
        return Err("a target's name begins with iqn., eui. or naa., and has at most 223 bytes");
    }
    let unit = unit.parse().map_err(|_| "the unit is not a number")?;
    Ok(IscsiUri {
        host,
        port,
        target,
        unit,
    })
}

impl fmt::Display for IscsiUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ISCSI_SCHEME}{}/", self.portal())?;
        encode(f, &self.target, b"-._~:,")?;
        write!(f, "/{}", self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_unit_print_alike() {
        let canonical = "iscsi://store:3260/iqn.2026-01.org.example:vms/1";
        for text in ["iscsi://Store/iqn.2026-01.org.example:vms/1", canonical] {
            let uri: IscsiUri = text.parse().unwrap();
            assert_eq!(uri.to_string(), canonical);
            assert_eq!(uri.portal(), "store:3260");
        }
        let six: IscsiUri = "iscsi://[::1]:99/iqn.2026-01.a:b/0".parse().unwrap();
        assert_eq!(six.to_string(), "iscsi://[::1]:99/iqn.2026-01.a:b/0");
    }

    #[test]
    fn what_is_no_unit_is_refused() {
        for text in [
            "iscsi://store",
            "iscsi://store/iqn.a:b",
            "iscsi://store/disk/1",
            "iscsi://store/iqn.a:b/x",
            "iscsi://store/iqn.a:b/1/2",
            "iscsi://u%p@store/iqn.a:b/1",
            "iscsi:///iqn.a:b/1",
            "iscsi://store/iqn.a:b/70000",
        ] {
            assert!(text.parse::<IscsiUri>().is_err(), "{text}");
        }
    }
}
