//! Hosts and ports in addresses (RFC 3986, section 3.2).

use std::fmt;

/// The host, in lower case and without brackets, and the port.
pub(crate) fn parse(authority: &str, usual_port: u16) -> Result<(String, u16), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, port) = bracketed.split_once(']').ok_or("a bracket is open")?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err("a colon and a port follow the bracket"),
                port => (host, port),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = match port {
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err("the port is not a number from 1 to 65535"),
        },
        None => usual_port,
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// Writes a host and a port as they are read.
pub(crate) fn print(f: &mut fmt::Formatter<'_>, host: &str, port: u16) -> fmt::Result {
    if host.contains(':') {
        write!(f, "[{host}]:{port}")
    } else {
        write!(f, "{host}:{port}")
    }
}
