//! What is wrong with `[store]`.

use super::link::{is_dns_name, is_host_and_port};
use crate::fault::{Fault, absolute};
use crate::model::Config;
use crate::store::StoreConfig;

pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let store = &config.store;
    files(store, faults);
    let mut fault = |key: &str, message: &str| faults.push(Fault::new(key, message));
    if store.file.is_some() && !store.etcd.is_empty() {
        fault(
            "store.file",
            "goes without store.etcd: a file is for the daemons of one host, etcd for many hosts",
        );
    }
    let is_secure = |endpoint: &String| endpoint.starts_with("https://");
    for endpoint in &store.etcd {
        let place = endpoint
            .strip_prefix("http://")
            .or_else(|| endpoint.strip_prefix("https://"));
        if !place.is_some_and(is_host_and_port) {
            fault(
                "store.etcd",
                "must be addresses such as http://10.0.0.1:2379 or https://etcd-1.example:2379",
            );
            break;
        }
    }
    let wants_tls = store.etcd.iter().any(is_secure);
    if wants_tls && store.authority.is_none() {
        fault(
            "store.authority",
            "is needed for https: who signs the certificates of etcd's members",
        );
    }
    let uses_etcd = !store.etcd.is_empty();
    if uses_etcd && store.certificate.is_some() != store.key.is_some() {
        fault(
            "store.certificate",
            "goes with store.key, and store.key with it",
        );
    }
    if uses_etcd && store.user.is_some() != store.password_file.is_some() {
        fault(
            "store.user",
            "goes with store.password_file, and store.password_file with it",
        );
    }
    if !is_dns_name(&store.cluster) {
        fault(
            "store.cluster",
            "must be a name of letters, digits, dots and hyphens",
        );
    }
    if let Some(host) = &store.host
        && !is_dns_name(host)
    {
        fault("store.host", "must be a DNS name, such as node-a.example");
    }
    if let (Some(host), Some(name)) = (&store.host, &config.link.name)
        && host != name
    {
        fault(
            "store.host",
            "is not link.name: a host has one name for those that its disks go to; leave this out",
        );
    }
}

fn files(store: &StoreConfig, faults: &mut Vec<Fault>) {
    for (key, path) in [
        ("store.file", &store.file),
        ("store.authority", &store.authority),
        ("store.certificate", &store.certificate),
        ("store.key", &store.key),
        ("store.password_file", &store.password_file),
    ] {
        if let Some(path) = path {
            absolute(path, key, faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let config: Config = toml::from_str(text).unwrap();
        let mut found = Vec::new();
        faults(&config, &mut found);
        found.into_iter().map(|fault| fault.key).collect()
    }

    #[test]
    fn a_store_is_one_place_with_what_it_needs() {
        for right in [
            "",
            "[store]\nfile = '/var/lib/hearth/cluster.json'",
            "[store]\netcd = ['http://10.0.0.1:2379', 'http://[::1]:2379']\nhost = 'node-a'",
            "[store]\netcd = ['https://etcd-1.example:2379']\nauthority = '/a.pem'",
        ] {
            assert_eq!(found(right), Vec::<String>::new(), "{right}");
        }
        for (wrong, key) in [
            ("file = 'cluster.json'", "store.file"),
            ("file = '/a'\netcd = ['http://a:1']", "store.file"),
            ("etcd = ['10.0.0.1:2379']", "store.etcd"),
            ("etcd = ['http://10.0.0.1']", "store.etcd"),
            ("etcd = ['https://a:1']", "store.authority"),
            ("etcd = ['http://a:1']\nkey = '/k.pem'", "store.certificate"),
            ("etcd = ['http://a:1']\nuser = 'hearth'", "store.user"),
            ("file = '/a'\ncluster = 'a/b'", "store.cluster"),
            ("file = '/a'\nhost = ''", "store.host"),
        ] {
            assert_eq!(found(&format!("[store]\n{wrong}")), [key], "{wrong}");
        }
        let two_names = "[store]\nfile = '/a'\nhost = 'node-b'\n[link]\nname = 'node-a'";
        assert_eq!(found(two_names), ["store.host"]);
    }
}
