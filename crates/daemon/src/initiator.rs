//! This host's name as an iSCSI initiator.

use xxhash_rust::xxh3::xxh3_64;

/// Where open-iscsi keeps the host's name.
const NAME_FILE: &str = "/etc/iscsi/initiatorname.iscsi";
/// Where the system keeps the machine's identity.
const MACHINE_FILE: &str = "/etc/machine-id";

/// The name that the host has, or one made of the machine's identity.
pub(crate) fn name() -> String {
    let text = std::fs::read_to_string(NAME_FILE).unwrap_or_default();
    if let Some(name) = in_file(&text) {
        return name.to_owned();
    }
    let machine = std::fs::read_to_string(MACHINE_FILE).unwrap_or_default();
    format!(
        "iqn.2026-01.invalid.hearth:{:016x}",
        xxh3_64(machine.as_bytes())
    )
}

fn in_file(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    let name = lines
        .find_map(|line| line.strip_prefix("InitiatorName="))?
        .trim();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_name_is_found() {
        let text = "## a comment\nInitiatorName=iqn.1993-08.org.debian:01:ab \n";
        assert_eq!(in_file(text), Some("iqn.1993-08.org.debian:01:ab"));
        for none in [
            "",
            "#InitiatorName=iqn.a",
            "GenerateName=yes",
            "InitiatorName=",
        ] {
            assert_eq!(in_file(none), None, "{none}");
        }
    }
}
