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

/// What an operator changes of them. What is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsChange {
    /// [`Settings::mode`].
    pub mode: Option<Mode>,
    /// [`Limits::outbound`].
    pub outbound: Option<usize>,
    /// [`Limits::arrivals`].
    pub arrivals: Option<usize>,
    /// [`Limits::cluster`].
    pub cluster: Option<usize>,
    /// [`Settings::rules`], all of them anew.
    pub rules: Option<RulesFile>,
    /// VMs that stay from now on.
    pub pin: Vec<Name>,
    /// VMs that may be moved again.
    pub unpin: Vec<Name>,
}

impl SettingsChange {
    /// What of it cannot be.
    pub fn fault(&self) -> Option<String> {
        let limits = [self.outbound, self.arrivals, self.cluster];
        if limits.contains(&Some(0)) {
            return Some("a limit on moves is at least 1; the mode off plans none".to_owned());
        }
        if let Some(both) = self.pin.iter().find(|vm| self.unpin.contains(vm)) {
            return Some(format!("the VM {both} is both pinned and not"));
        }
        let rules = self.rules.as_ref()?.rules();
        rules.err().map(|error| error.to_string())
    }

    /// Changes them.
    pub fn apply(&self, settings: &mut Settings) {
        let limits = &mut settings.limits;
        settings.mode = self.mode.unwrap_or(settings.mode);
        limits.outbound = self.outbound.unwrap_or(limits.outbound);
        limits.arrivals = self.arrivals.unwrap_or(limits.arrivals);
        limits.cluster = self.cluster.unwrap_or(limits.cluster);
        if let Some(rules) = &self.rules {
            settings.rules.clone_from(rules);
        }
        settings.pins.extend(self.pin.iter().cloned());
        settings.pins.retain(|vm| !self.unpin.contains(vm));
    }
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
/// If the store does not answer.
///
/// # Panics
/// Never: settings are plain data.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::name;

    #[test]
    fn a_change_changes_what_it_says() {
        let mut settings = Settings::default();
        let change = SettingsChange {
            mode: Some(Mode::Auto),
            cluster: Some(2),
            pin: vec![name("v"), name("w")],
            ..SettingsChange::default()
        };
        assert_eq!(change.fault(), None);
        change.apply(&mut settings);
        assert_eq!((settings.mode, settings.limits.cluster), (Mode::Auto, 2));
        assert_eq!(settings.limits.outbound, 1);
        let unpin = SettingsChange {
            unpin: vec![name("v")],
            ..SettingsChange::default()
        };
        unpin.apply(&mut settings);
        assert_eq!(Vec::from_iter(settings.pins), [name("w")]);
    }

    #[test]
    fn a_change_that_makes_no_sense_is_refused() {
        let none = SettingsChange {
            outbound: Some(0),
            ..SettingsChange::default()
        };
        let both = SettingsChange {
            pin: vec![name("v")],
            unpin: vec![name("v")],
            ..SettingsChange::default()
        };
        let rules = SettingsChange {
            rules: Some(RulesFile {
                margin: Some(3.0),
                ..RulesFile::default()
            }),
            ..SettingsChange::default()
        };
        for wrong in [none, both, rules] {
            assert!(wrong.fault().is_some(), "{wrong:?}");
        }
    }
}
