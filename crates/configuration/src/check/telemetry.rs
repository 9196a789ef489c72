//! What is wrong with `[telemetry]`.

use crate::fault::{Fault, absolute};
use crate::model::Config;

/// Bytes of the longest name of a service.
const SERVICE_NAME_BYTES_MAX: usize = 64;

pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let telemetry = &config.telemetry;
    for (key, path) in [
        ("telemetry.headers_file", &telemetry.headers_file),
        ("telemetry.authority", &telemetry.authority),
    ] {
        if let Some(path) = path {
            absolute(path, key, faults);
        }
    }
    let name = &telemetry.service_name;
    let is_name = (1..=SERVICE_NAME_BYTES_MAX).contains(&name.len());
    if !is_name || name.chars().any(char::is_control) {
        let message =
            format!("must have 1 to {SERVICE_NAME_BYTES_MAX} bytes in one line, such as hearth");
        faults.push(Fault::new("telemetry.service_name", message));
    }
    let collector = telemetry.otlp.0.as_ref();
    if let (Some(collector), Some(_)) = (collector, &telemetry.authority)
        && !collector.tls
    {
        let message = format!(
            "is for a collector with TLS, and telemetry.otlp has none: write https://{}, or leave this out",
            collector.authority()
        );
        faults.push(Fault::new("telemetry.authority", message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let config: Config = toml::from_str(&format!("[telemetry]\n{text}")).unwrap();
        let mut found = Vec::new();
        faults(&config, &mut found);
        found.into_iter().map(|fault| fault.key).collect()
    }

    #[test]
    fn files_have_whole_paths_and_an_authority_belongs_to_tls() {
        assert!(found("otlp = 'http://c:4318'\nheaders_file = '/h'").is_empty());
        assert!(found("otlp = 'https://c'\nauthority = '/ca.pem'").is_empty());
        assert!(found("").is_empty());
        for (wrong, key) in [
            ("headers_file = 'h'", "telemetry.headers_file"),
            ("authority = 'ca.pem'", "telemetry.authority"),
            (
                "otlp = 'http://c'\nauthority = '/ca.pem'",
                "telemetry.authority",
            ),
            ("service_name = ''", "telemetry.service_name"),
            ("service_name = \"a\\nb\"", "telemetry.service_name"),
        ] {
            assert_eq!(found(wrong), [key], "{wrong}");
        }
    }
}
