//! What is wrong with `[web]`.

use crate::fault::{Fault, absolute};
use crate::model::Config;
use crate::text::{Address, Switch};
use units::Duration;

/// The shortest time between two points of a chart: each point asks every cache once.
const HISTORY_STEP_LEAST: Duration = Duration::from_secs(1);

pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let web = &config.web;
    if let Switch::On(Address(address)) = web.address.0
        && !address.ip().is_loopback()
        && web.tls_certificate.is_none()
    {
        let port = address.port();
        let message = format!(
            "would show this host to everybody who reaches {address} without TLS: write 127.0.0.1:{port}, and look from \
             elsewhere through ssh -L {port}:127.0.0.1:{port} HOST; or set web.tls_certificate and web.tls_key"
        );
        faults.push(Fault::new("web.address", message));
    }
    for (key, path) in [
        ("web.tls_certificate", &web.tls_certificate),
        ("web.tls_key", &web.tls_key),
        ("web.client_ca", &web.client_ca),
        ("web.operators", &web.operators),
    ] {
        if let Some(path) = path {
            absolute(path, key, faults);
        }
    }
    let mut refuse = |key: &str, message: &str| faults.push(Fault::new(key, message));
    if web.tls_certificate.is_some() != web.tls_key.is_some() {
        let message = "tls_certificate and tls_key are given together or not at all";
        refuse("web.tls_certificate", message);
    }
    if web.client_ca.is_some() && web.tls_certificate.is_none() {
        let message = "needs a certificate and a key of the page: set tls_certificate and tls_key";
        refuse("web.client_ca", message);
    } else if web.client_ca.is_some() && web.operators.is_none() {
        let message =
            "lets nobody change anything: set web.operators, and hearth operator add cert:NAME";
        refuse("web.client_ca", message);
    }
    if web.history_step.0 < HISTORY_STEP_LEAST {
        let message = format!("must be at least {HISTORY_STEP_LEAST}");
        faults.push(Fault::new("web.history_step", message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Fault> {
        let config: Config = toml::from_str(text).unwrap();
        let mut found = Vec::new();
        faults(&config, &mut found);
        found
    }

    #[test]
    fn without_tls_the_page_is_served_on_the_loopback_alone() {
        for right in ["off", "127.0.0.1:9811", "127.8.8.8:1", "[::1]:9811"] {
            assert!(found(&format!("[web]\naddress = '{right}'")).is_empty());
        }
        for wrong in ["0.0.0.0:9811", "[::]:9811", "192.0.2.7:80"] {
            let found = found(&format!("[web]\naddress = '{wrong}'"));
            assert_eq!(found[0].key, "web.address", "{wrong}");
            assert!(found[0].message.contains("ssh -L"), "{}", found[0].message);
        }
    }

    #[test]
    fn with_tls_the_page_is_served_anywhere() {
        let tls = "tls_certificate = '/c'\ntls_key = '/k'";
        for address in ["0.0.0.0:9811", "127.0.0.1:9811"] {
            assert!(found(&format!("[web]\naddress = '{address}'\n{tls}")).is_empty());
        }
        for (wrong, key) in [
            ("tls_certificate = '/c'", "web.tls_certificate"),
            ("tls_key = '/k'", "web.tls_certificate"),
            ("client_ca = '/a'\noperators = '/o'", "web.client_ca"),
            (&format!("client_ca = '/a'\n{tls}"), "web.client_ca"),
            ("operators = 'o'", "web.operators"),
        ] {
            let found = found(&format!("[web]\n{wrong}"));
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert_eq!(found[0].key, key, "{wrong}");
        }
    }

    #[test]
    fn points_are_a_second_apart_or_more() {
        assert!(found("[web]\nhistory_step = '1s'").is_empty());
        let found = found("[web]\nhistory_step = '999ms'");
        assert_eq!(found[0].key, "web.history_step");
    }
}
