//! NBD URIs: `nbd://host[:port]/export` and `nbd+unix:///export?socket=PATH`; with `nbds` the connection is encrypted.
//!
//! The canonical print of a parsed URI is part of a disk's default identity, so two
//! spellings of one address must print alike: the port is always there, the host is in lower
//! case, and only bytes that must be are percent-encoded.

use crate::authority;
use crate::percent::{decode, encode};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// NBD's registered port.
pub const NBD_PORT: u16 = 10809;
/// Bytes that stand for themselves, beside letters and digits.
const PLAIN: &[u8] = b"-._~/:,";
/// Bytes in the longest export name that the NBD protocol allows.
const EXPORT_BYTES_MAX: usize = 4096;

/// Where an NBD server listens, and which of its exports is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// The connection is encrypted.
    pub tls: bool,
    /// Where it listens.
    pub address: NbdUriAddress,
    /// The export's name; empty for the server's default export.
    pub export: String,
}

/// Where an NBD server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdUriAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// Name or address, in lower case, IPv6 without brackets.
        host: String,
        /// Port.
        port: u16,
    },
}

/// Why a text is no NBD URI that Hearth can use.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' is not an NBD address ({reason}): write nbd://host:port/export or nbd+unix:///export?socket=/path"
)]
pub struct ParseUriError {
    text: String,
    reason: &'static str,
}

impl FromStr for NbdUri {
    type Err = ParseUriError;

    fn from_str(text: &str) -> Result<Self, ParseUriError> {
        let parsed = match text.split_once("://") {
            Some(("nbd", rest)) => parse_tcp(rest, false),
            Some(("nbds", rest)) => parse_tcp(rest, true),
            Some(("nbd+unix", rest)) => parse_unix(rest, false),
            Some(("nbds+unix", rest)) => parse_unix(rest, true),
            _ => Err("unknown scheme"),
        };
        parsed.map_err(|reason| ParseUriError {
            text: text.to_owned(),
            reason,
        })
    }
}

fn parse_unix(rest: &str, tls: bool) -> Result<NbdUri, &'static str> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let export = parse_export(path)?;
    let mut socket = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("socket", value)) if socket.is_none() => socket = Some(decode(value)?),
            _ => return Err("only one parameter, socket, is known"),
        }
    }
    match socket {
        Some(path) if path.starts_with('/') => Ok(NbdUri {
            tls,
            address: NbdUriAddress::Unix(PathBuf::from(path)),
            export,
        }),
        Some(_) => Err("the socket's path must begin with /"),
        None => Err("the socket is missing"),
    }
}

fn parse_tcp(rest: &str, tls: bool) -> Result<NbdUri, &'static str> {
    if rest.contains(['?', '#', '@']) {
        return Err("user, query and fragment mean nothing here");
    }
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let (host, port) = authority::parse(authority, NBD_PORT)?;
    Ok(NbdUri {
        tls,
        address: NbdUriAddress::Tcp { host, port },
        export: parse_export(path)?,
    })
}

fn parse_export(path: &str) -> Result<String, &'static str> {
    let export = match path.strip_prefix('/') {
        Some(export) => decode(export)?,
        None if path.is_empty() => String::new(),
        None => return Err("a unix address has three slashes"),
    };
    if export.len() > EXPORT_BYTES_MAX {
        return Err("an export name has at most 4096 bytes");
    }
    Ok(export)
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "nbds" } else { "nbd" };
        match &self.address {
            NbdUriAddress::Unix(path) => {
                write!(f, "{scheme}+unix:///")?;
                encode(f, &self.export, PLAIN)?;
                f.write_str("?socket=")?;
                encode(f, &path.to_string_lossy(), PLAIN)
            }
            NbdUriAddress::Tcp { host, port } => {
                write!(f, "{scheme}://")?;
                authority::print(f, host, *port)?;
                f.write_str("/")?;
                encode(f, &self.export, PLAIN)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<NbdUri>().unwrap().to_string()
    }

    #[test]
    fn two_spellings_of_one_address_print_alike() {
        assert_eq!(canonical("nbd://Store/vm%2d1"), "nbd://store:10809/vm-1");
        assert_eq!(
            canonical("nbd://store:10809/vm-1"),
            "nbd://store:10809/vm-1"
        );
        assert_eq!(canonical("nbd://[::1]:99/"), "nbd://[::1]:99/");
        assert_eq!(canonical("nbds://Store/e"), "nbds://store:10809/e");
        assert_eq!(
            canonical("nbds+unix:///e?socket=/s"),
            "nbds+unix:///e?socket=/s"
        );
        assert_eq!(
            canonical("nbd+unix:///a%20b?socket=/run/x%20y.sock"),
            "nbd+unix:///a%20b?socket=/run/x%20y.sock"
        );
    }

    #[test]
    fn a_missing_export_is_the_default_one() {
        assert_eq!("nbd://h".parse::<NbdUri>().unwrap().export, "");
        assert_eq!(
            "nbd+unix://?socket=/s".parse::<NbdUri>().unwrap().address,
            NbdUriAddress::Unix("/s".into())
        );
    }

    #[test]
    fn what_is_no_nbd_address_is_refused() {
        for text in [
            "",
            "http://h/",
            "nbdx://h/",
            "nbd://",
            "nbd://h:0/",
            "nbd://h:99999/",
            "nbd://u@h/",
            "nbd://[::1/",
            "nbd://[::1]9/",
            "nbd+unix:///e",
            "nbd+unix:///e?socket=rel",
            "nbd+unix:///e?socket=/a&socket=/b",
            "nbd+unix://host/e?socket=/a",
            "nbd://h/%zz",
            "nbd://h/%00",
            "nbd://h/%ff",
        ] {
            assert!(text.parse::<NbdUri>().is_err(), "{text}");
        }
    }
}
