//! What was planned, and what came of it: `plans/VM/STEP`, for 30 days.

use crate::error::MoveError;
use placement::moving::Move;
use placement::{Compared, Proposed};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{
    Committed, Compare, Prefix, Revision, Store, StoreError, Versioned, Write, everything, keys,
};

/// For how long a plan is kept.
const KEPT: Duration = Duration::from_hours(30 * 24);

/// A planned move, with what was expected of it and what its target found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// The step of the move's record when it was planned.
    pub step: u64,
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// The move, why, and what is expected.
    pub proposed: Proposed,
    /// What its target published once it was done; none before that.
    pub found: Option<Compared>,
    /// When that was compared, in seconds since 1970.
    pub found_at_s: Option<u64>,
}

impl Planned {
    /// Puts it in the store, if it is as it was read there.
    pub(crate) async fn put(
        &self,
        store: &dyn Store,
        read: Option<Revision>,
    ) -> Result<(), MoveError> {
        let vm = self.proposed.vm.as_str();
        let key = keys::plan(&format!("{vm}/{}", self.step))?;
        let when = match read {
            Some(revision) => Compare::Unchanged(key.clone(), revision),
            None => Compare::Absent(key.clone()),
        };
        let lease = store.lease(KEPT).await?;
        let put = Write::Put {
            key,
            value: serde_json::to_vec(self).expect("a plan is JSON"),
            lease: Some(lease),
        };
        if store.commit(&[when], &[put]).await? == Committed::Refused {
            store.revoke(lease).await?;
        }
        Ok(())
    }
}

/// The plans of the last 30 days, each with its revision.
///
/// # Errors
/// If the store does not answer.
pub async fn all_planned(store: &dyn Store) -> Result<Vec<(Revision, Planned)>, StoreError> {
    below(store, &keys::PLANS.prefix()).await
}

/// Those of one VM.
///
/// # Errors
/// If the store does not answer, or this is no VM's name.
pub async fn planned_of(
    store: &dyn Store,
    vm: &str,
) -> Result<Vec<(Revision, Planned)>, MoveError> {
    Ok(below(store, &Prefix::below(&keys::plan(vm)?)).await?)
}

async fn below(store: &dyn Store, prefix: &Prefix) -> Result<Vec<(Revision, Planned)>, StoreError> {
    let found = everything(store, prefix).await?;
    let understood = |entry: &Versioned| {
        let planned = serde_json::from_slice(&entry.value).ok()?;
        Some((entry.revision, planned))
    };
    Ok(found.entries.iter().filter_map(understood).collect())
}

/// The plan that a move is of: the VM's last one before the record's step, if it is of this way.
pub fn plan_of<'a>(record: &Move, planned: &'a [(Revision, Planned)]) -> Option<&'a Planned> {
    let of_vm = planned
        .iter()
        .map(|(_, planned)| planned)
        .filter(|planned| {
            let of = &planned.proposed;
            of.vm == record.vm && planned.step <= record.step
        });
    let last = of_vm.max_by_key(|planned| planned.step)?;
    (last.proposed.from == record.from && last.proposed.to == record.to).then_some(last)
}
