//! What is wrong with `[web]`.

use crate::fault::Fault;
use crate::model::Config;
use crate::text::{Address, Switch};
use units::Duration;

/// The shortest time between two points of a chart: each point asks every cache once.
const HISTORY_STEP_LEAST: Duration = Duration::from_secs(1);

pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let web = &config.web;
    if let Switch::On(Address(address)) = web.address.0
        && !address.ip().is_loopback()
    {
        let port = address.port();
        let message = format!(
            "would show this host to everybody who reaches {address}, without a password and without TLS: \
             write 127.0.0.1:{port}, and look from elsewhere through ssh -L {port}:127.0.0.1:{port} HOST"
        );
        faults.push(Fault::new("web.address", message));
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
    fn the_page_is_served_on_the_loopback_alone() {
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
    fn points_are_a_second_apart_or_more() {
        assert!(found("[web]\nhistory_step = '1s'").is_empty());
        let found = found("[web]\nhistory_step = '999ms'");
        assert_eq!(found[0].key, "web.history_step");
    }
}
