//! What the operators of a cluster have set for all its hosts: `settings/balance`.

use crate::error::MoveError;
use crate::limits::Limits;
use placement::{Mode, Name, RulesFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{Committed, Compare, Key, Store, StoreError, Versioned, Write, keys};

/// What operators set. Until they do: advice only, our rules, one move a host and five of the cluster at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What becomes of plans.
    pub mode: Mode,
    /// How many moves there are at a time.
    pub limits: Limits,
    /// By which rules plans are made.
    pub rules: RulesFile,
    /// VMs that stay where they are.
    pub pins: BTreeSet<Name>,
}

/// The settings of the cluster.
///
/// # Errors
/// If the store does not answer, or the settings are not to be understood.
pub async fn read_settings(store: &dyn Store) -> Result<Settings, MoveError> {
    Ok(settings_of(store.get(&key()).await?.as_ref())?)
}

/// Changes the settings of the cluster, and returns them as they are then.
///
/// # Errors
/// If the store does not answer, or others change them at the same time.
pub async fn change_settings(
    store: &dyn Store,
    change: impl Fn(&mut Settings) + Send + Sync,
) -> Result<Settings, MoveError> {
    let key = key();
    loop {
        let found = store.get(&key).await?;
        let mut settings = settings_of(found.as_ref())?;
        change(&mut settings);
        let value = serde_json::to_vec(&settings).expect("settings are JSON");
        let when = [Compare::as_found(&key, found.as_ref())];
        let put = Write::put(key.clone(), value);
        if let Committed::Done(_) = store.commit(&when, &[put]).await? {
            return Ok(settings);
        }
    }
}

fn key() -> Key {
    keys::setting("balance").expect("a word is a name")
}

fn settings_of(found: Option<&Versioned>) -> Result<Settings, StoreError> {
    let Some(found) = found else {
        return Ok(Settings::default());
    };
    serde_json::from_slice(&found.value)
        .map_err(|error| StoreError::Damaged(format!("{}: {error}", found.key)))
}
