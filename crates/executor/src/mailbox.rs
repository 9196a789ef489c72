//! How a driver and the two hosts of its move speak: `orders/VM` and `answers/VM/HOST`.

use crate::answers::HostAnswer;
use crate::error::MoveError;
use placement::Name;
use placement::moving::{Action, Move};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{
    Committed, Compare, Prefix, Revision, Store, StoreError, Versioned, Write, everything, keys,
};
use tokio::time::Instant;

/// How often answers are looked for, at first and at most.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_LATER: Duration = Duration::from_millis(500);

/// What a driver wants of the two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) action: Action,
    /// The record's step.
    pub(crate) step: u64,
    /// What the answers to this order carry.
    pub(crate) ticket: u64,
    /// The trace that it belongs to, as the W3C's `traceparent`. Hosts of releases before this one pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
}

/// What a host has answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Of the order.
    pub(crate) ticket: u64,
    /// The step that the order carried.
    pub step: u64,
    /// The answer.
    pub answer: HostAnswer,
}

impl Order {
    /// What is at `orders/VM`, unless it is of another release.
    pub(crate) fn of(found: &Versioned) -> Option<Self> {
        serde_json::from_slice(&found.value).ok()
    }

    /// Puts an order while the record has this revision.
    pub(crate) async fn put(
        &self,
        store: &dyn Store,
        vm: &str,
        revision: Revision,
    ) -> Result<Committed, MoveError> {
        let when = [Compare::Unchanged(keys::moving(vm)?, revision)];
        let value = serde_json::to_vec(self).expect("an order is JSON");
        let put = Write::put(keys::order(vm)?, value);
        Ok(store.commit(&when, &[put]).await?)
    }
}

impl Said {
    /// What is at `answers/VM/HOST`, unless it is of another release.
    pub(crate) fn of(found: &Versioned) -> Option<Self> {
        serde_json::from_slice(&found.value).ok()
    }

    /// Puts an answer.
    pub(crate) async fn put(
        &self,
        store: &dyn Store,
        vm: &str,
        host: &str,
    ) -> Result<(), MoveError> {
        let value = serde_json::to_vec(self).expect("an answer is JSON");
        let put = Write::put(keys::answer(vm, host)?, value);
        store.commit(&[], &[put]).await?;
        Ok(())
    }
}

/// What hosts have answered last to the drivers of VMs' moves.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<String, Said>);

impl Answers {
    /// To all drivers.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn all(store: &dyn Store) -> Result<Self, StoreError> {
        Self::below(store, &keys::ANSWERS.prefix()).await
    }

    /// To the driver of one VM's move.
    ///
    /// # Errors
    /// If the store does not answer, or this is no VM's name.
    pub async fn of(store: &dyn Store, vm: &str) -> Result<Self, MoveError> {
        let prefix = Prefix::below(&keys::ANSWERS.prefix().key(vm)?);
        Ok(Self::below(store, &prefix).await?)
    }

    async fn below(store: &dyn Store, prefix: &Prefix) -> Result<Self, StoreError> {
        let found = everything(store, prefix).await?;
        let said = found.entries.iter().filter_map(|entry| {
            let place = entry.key.below(&keys::ANSWERS.prefix())?;
            Some((place.to_owned(), Said::of(entry)?))
        });
        Ok(Self(said.collect()))
    }

    /// Of a host about a VM's move.
    pub fn get(&self, vm: &Name, host: &Name) -> Option<&Said> {
        self.0.get(&format!("{vm}/{host}"))
    }
}

/// What the two hosts of a move answered to an order: the source and the target.
pub(crate) type Both = (Option<HostAnswer>, Option<HostAnswer>);

/// Waits until both hosts have answered, `is_enough` says that what there is is enough, or this time has passed.
pub(crate) async fn answers(
    store: &dyn Store,
    of: &Move,
    ticket: u64,
    at_most: Duration,
    is_enough: impl Fn(&Both) -> bool,
) -> Result<Both, MoveError> {
    let began = Instant::now();
    let mut pause = LOOK_FIRST;
    loop {
        let source = said(store, of, of.from.as_str(), ticket).await?;
        let target = said(store, of, of.to.as_str(), ticket).await?;
        let both = (source, target);
        let is_all = both.0.is_some() && both.1.is_some();
        if is_all || is_enough(&both) || began.elapsed() >= at_most {
            return Ok(both);
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LOOK_LATER);
    }
}

async fn said(
    store: &dyn Store,
    of: &Move,
    host: &str,
    ticket: u64,
) -> Result<Option<HostAnswer>, MoveError> {
    let key = keys::answer(of.vm.as_str(), host)?;
    let found: Result<_, StoreError> = store.get(&key).await;
    let said = found?.as_ref().and_then(Said::of);
    let said = said.filter(|said| said.ticket == ticket);
    Ok(said.map(|said| said.answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An order as the release before traces wrote and read it.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Before {
        action: Action,
        step: u64,
        ticket: u64,
    }

    #[test]
    fn hosts_with_and_without_traces_read_each_others_orders() {
        let before = Before {
            action: Action::Prepare,
            step: 3,
            ticket: 9,
        };
        let mut order = Order {
            action: Action::Prepare,
            step: 3,
            ticket: 9,
            trace: None,
        };
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::to_string(&order).unwrap(), text);
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        order.trace = Some("00-x".to_owned());
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        assert_eq!(serde_json::from_str::<Before>(&text).unwrap(), before);
    }
}
