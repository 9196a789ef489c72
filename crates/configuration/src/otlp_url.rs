//! Where a collector of traces listens: `http://host[:port][/path]`, or `https`.

use crate::authority;
use std::fmt;
use std::str::FromStr;

/// The port that OTLP over HTTP has.
pub const OTLP_PORT: u16 = 4318;
/// What traces are sent to below a collector's address.
const TRACES: &str = "/v1/traces";

/// The address of a collector that takes OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpUrl {
    /// The connection is encrypted.
    pub tls: bool,
    /// Name or address, in lower case, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What comes before [`OtlpUrl::target`]'s end: empty, or with a slash at its beginning and none at its end.
    path: String,
}

/// Why a text is no address of a collector.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' is not the address of a collector ({reason}): write http://host:4318 or https://host:4318"
)]
pub struct ParseOtlpUrlError {
    text: String,
    reason: &'static str,
}

impl OtlpUrl {
    /// The path that traces are sent to.
    pub fn target(&self) -> String {
        format!("{}{TRACES}", self.path)
    }

    /// Host and port, as the header `Host` has them.
    pub fn authority(&self) -> String {
        struct Printed<'u>(&'u OtlpUrl);
        impl fmt::Display for Printed<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                authority::print(f, &self.0.host, self.0.port)
            }
        }
        Printed(self).to_string()
    }
}

impl fmt::Display for OtlpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://")?;
        authority::print(f, &self.host, self.port)?;
        f.write_str(&self.path)
    }
}

impl FromStr for OtlpUrl {
    type Err = ParseOtlpUrlError;

    fn from_str(text: &str) -> Result<Self, ParseOtlpUrlError> {
        let parsed = match text.split_once("://") {
            Some(("http", rest)) => parse(rest, false),
            Some(("https", rest)) => parse(rest, true),
            _ => Err("it begins with neither http:// nor https://"),
        };
        parsed.map_err(|reason| {
            // What may be a password is not repeated.
            let text = text.split_once('@').map_or(text, |(_, behind)| behind);
            ParseOtlpUrlError {
                text: text.to_owned(),
                reason,
            }
        })
    }
}

fn parse(rest: &str, tls: bool) -> Result<OtlpUrl, &'static str> {
    if rest.contains('@') {
        return Err("a password in it would be shown: put a header into telemetry.headers_file");
    }
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let (host, port) = authority::parse(authority, OTLP_PORT)?;
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if !host.bytes().all(is_of_host) {
        return Err("the host is no DNS name and no IP address");
    }
    let path = path.trim_end_matches('/');
    // An address with the whole path is as often copied as one without.
    let path = path.strip_suffix(TRACES).unwrap_or(path);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
    if !path.bytes().all(is_plain) {
        return Err("the path has letters, digits and /-._~% alone");
    }
    Ok(OtlpUrl {
        tls,
        host,
        port,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_collector_is_read_and_printed_in_one_spelling() {
        for (text, printed, target) in [
            (
                "http://127.0.0.1:4318",
                "http://127.0.0.1:4318",
                "/v1/traces",
            ),
            (
                "http://Tempo.Example",
                "http://tempo.example:4318",
                "/v1/traces",
            ),
            (
                "https://c:443/otlp/",
                "https://c:443/otlp",
                "/otlp/v1/traces",
            ),
            ("http://c:1/v1/traces", "http://c:1", "/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318", "/v1/traces"),
        ] {
            let url: OtlpUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), printed, "{text}");
            assert_eq!(url.target(), target, "{text}");
            assert_eq!(printed.parse(), Ok(url), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_of_a_collector_is_refused_with_what_to_write() {
        for (wrong, reason) in [
            ("127.0.0.1:4318", "neither http:// nor https://"),
            ("grpc://c:4317", "neither http:// nor https://"),
            ("http://", "host"),
            ("http://c:0x10", "port"),
            ("http://c d:4318", "no DNS name"),
            ("http://c\r\nX: y", "port"),
            ("http://c\r\n", "no DNS name"),
            ("http://c:4318/a b", "the path has"),
            ("http://c/?key=1", "the path has"),
            ("http://user:secret@c", "headers_file"),
        ] {
            let error = wrong.parse::<OtlpUrl>().unwrap_err().to_string();
            assert!(error.contains(reason), "{wrong}: {error}");
            assert!(error.contains("write http://host:4318"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
