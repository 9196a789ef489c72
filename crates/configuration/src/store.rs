//! `[store]`: where the hosts of a cluster know of each other.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[store]`: what the hosts of a cluster know together, such as who has which disk. Without `file` and `etcd` this host is
/// in no cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// A file, for the daemons of one host.
    pub file: Option<PathBuf>,
    /// The members of an etcd, for many hosts: `http://10.0.0.1:2379` or `https://`.
    pub etcd: Vec<String>,
    /// The cluster's name: clusters that share an etcd do not see each other.
    pub cluster: String,
    /// What this host is called in the cluster. Without it `link.name`, or else the system's name.
    pub host: Option<String>,
    /// Who signs the certificates of etcd's members; for `https`.
    pub authority: Option<PathBuf>,
    /// This host's certificate, where etcd wants one.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// The user that this host is to etcd, where that wants one.
    pub user: Option<String>,
    /// The file with the user's password.
    pub password_file: Option<PathBuf>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            file: None,
            etcd: Vec::new(),
            cluster: "main".to_owned(),
            host: None,
            authority: None,
            certificate: None,
            key: None,
            user: None,
            password_file: None,
        }
    }
}

impl StoreConfig {
    /// Whether there is a store.
    pub fn is_on(&self) -> bool {
        self.file.is_some() || !self.etcd.is_empty()
    }
}
