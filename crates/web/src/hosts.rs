//! Whether a request means this host: the guard against a foreign name that is made to lead here (DNS rebinding).

use std::net::{IpAddr, Ipv6Addr};

/// The name or address in the header `Host` of a request, without brackets and port; none if the header is no host.
pub fn name_of_host(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_plain = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return (is_plain && address.parse::<Ipv6Addr>().is_ok()).then_some(address);
    }
    match host.split_once(':') {
        Some((name, port)) if is_port(port) => Some(name),
        Some(_) => None,
        None => Some(host),
    }
}

/// Whether the header `Host` of a request names this host: `localhost` or an address of the loopback, with any port, since a
/// tunnel may have another one than the daemon.
pub fn is_this_host(host: &str) -> bool {
    let Some(name) = name_of_host(host) else {
        return false;
    };
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_loopback_are_this_host() {
        for here in [
            "localhost",
            "LocalHost:9811",
            "127.0.0.1:9811",
            "127.1.2.3",
            "[::1]",
            "[::1]:80",
        ] {
            assert!(is_this_host(here), "{here}");
        }
        for elsewhere in [
            "",
            "evil.example",
            "evil.example:9811",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9811",
            "192.0.2.1",
            "[::2]",
            "[::1",
            "[::1]evil",
            "::1",
            "localhost:port",
        ] {
            assert!(!is_this_host(elsewhere), "{elsewhere}");
        }
    }
}
