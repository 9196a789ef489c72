//! What is wrong with `[hypervisor]`.

use crate::fault::{Fault, absolute};
use crate::hypervisor::MigrateWith;
use crate::model::Config;

pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let hypervisor = &config.hypervisor;
    if let Some(hook) = &hypervisor.hook {
        absolute(hook, "hypervisor.hook", faults);
    }
    let mut needs = |key: &str, text: &str, place: &str| {
        if !text.contains(place) {
            let message =
                format!("must have {place} in it, which differs from one move to the next");
            faults.push(Fault::new(key, &message));
        }
    };
    match hypervisor.migrate_with {
        MigrateWith::Off => return,
        MigrateWith::Virsh => needs("hypervisor.destination", &hypervisor.destination, "{host}"),
        MigrateWith::Qmp => {
            needs("hypervisor.socket", &hypervisor.socket, "{vm}");
            needs("hypervisor.incoming", &hypervisor.incoming, "{host}");
        }
        MigrateWith::Hook if hypervisor.hook.is_none() => {
            let message = "is needed for migrate_with = \"hook\": the program that migrates";
            faults.push(Fault::new("hypervisor.hook", message));
        }
        MigrateWith::Hook => {}
    }
    if !config.store.is_on() {
        let message = "needs [store]: moves of a cluster are kept there";
        faults.push(Fault::new("hypervisor.migrate_with", message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let store = "[store]\nfile = '/cluster.json'\n[hypervisor]\n";
        let config: Config = toml::from_str(&format!("{store}{text}")).unwrap();
        let mut found = Vec::new();
        faults(&config, &mut found);
        found.into_iter().map(|fault| fault.key).collect()
    }

    #[test]
    fn who_migrates_has_what_it_needs() {
        for right in [
            "",
            "migrate_with = 'virsh'",
            "migrate_with = 'qmp'",
            "migrate_with = 'hook'\nhook = '/etc/hearth/migrate'",
        ] {
            assert_eq!(found(right), Vec::<String>::new(), "{right}");
        }
        for (wrong, key) in [
            (
                "migrate_with = 'virsh'\ndestination = 'qemu+ssh://b/system'",
                "hypervisor.destination",
            ),
            (
                "migrate_with = 'qmp'\nsocket = '/run/vm.qmp'",
                "hypervisor.socket",
            ),
            (
                "migrate_with = 'qmp'\nincoming = 'tcp:b:1'",
                "hypervisor.incoming",
            ),
            ("migrate_with = 'hook'", "hypervisor.hook"),
            ("hook = 'migrate'", "hypervisor.hook"),
        ] {
            assert_eq!(found(wrong), [key], "{wrong}");
        }
        let alone = toml::from_str("[hypervisor]\nmigrate_with = 'virsh'").unwrap();
        let mut found = Vec::new();
        faults(&alone, &mut found);
        assert_eq!(found[0].key, "hypervisor.migrate_with");
    }
}
