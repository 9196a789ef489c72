//! The records of moves in the store: `moves/VM`.

use crate::clock::now;
use crate::error::MoveError;
use placement::Name;
use placement::moving::{Move, Stage};
use store::{
    Committed, Compare, Everything, Revision, Store, StoreError, Versioned, Write, everything, keys,
};

/// How often a change is tried when others change the record, too.
const TRIES: usize = 5;

/// A move as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The store's revision.
    pub revision: Revision,
    /// The record.
    pub record: Move,
}

/// Every VM's last move, by VM.
///
/// # Errors
/// If the store does not answer.
pub async fn all(store: &dyn Store) -> Result<Vec<Recorded>, StoreError> {
    let found = everything(store, &keys::MOVES.prefix()).await?;
    Ok(understood(&found))
}

/// The records among entries. One of another release is left alone.
pub(crate) fn understood(found: &Everything) -> Vec<Recorded> {
    let records = found
        .entries
        .iter()
        .filter_map(|entry| match recorded(entry) {
            Ok(recorded) => Some(recorded),
            Err(error) => {
                tracing::warn!(%error, "a move is left alone");
                None
            }
        });
    records.collect()
}

/// A VM's last move.
///
/// # Errors
/// If the store does not answer, or the record is not to be understood.
pub async fn read(store: &dyn Store, vm: &str) -> Result<Option<Recorded>, MoveError> {
    let found = store.get(&keys::moving(vm)?).await?;
    Ok(found.as_ref().map(recorded).transpose()?)
}

fn recorded(entry: &Versioned) -> Result<Recorded, StoreError> {
    let record = serde_json::from_slice(&entry.value);
    let record = record.map_err(|error| StoreError::Damaged(format!("{}: {error}", entry.key)))?;
    Ok(Recorded {
        revision: entry.revision,
        record,
    })
}

/// A record as the store takes it.
pub(crate) fn value(record: &Move) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record of names and numbers is JSON")
}

/// Begins a move of a VM, planned. `also` has to hold for that, beside the VM's last move being over.
///
/// # Errors
/// If the VM is on its way, or the store does not answer.
pub async fn begin(
    store: &dyn Store,
    vm: &Name,
    (from, to): (&Name, &Name),
    also: Option<&Compare>,
) -> Result<Recorded, MoveError> {
    let key = keys::moving(vm.as_str())?;
    for _ in 0..TRIES {
        let last = store.get(&key).await?;
        let when = Compare::as_found(&key, last.as_ref());
        let last = last.as_ref().map(recorded).transpose()?;
        let record = match last.map(|last| last.record) {
            None => Move::planned(vm.clone(), from.clone(), to.clone(), now()),
            Some(last) if last.stage.is_final() => {
                Move::after(&last, from.clone(), to.clone(), now())
            }
            Some(last) => {
                let (vm, to, stage) = (last.vm, last.to, last.stage);
                return Err(MoveError::UnderWay { vm, to, stage });
            }
        };
        let when: Vec<_> = [when].into_iter().chain(also.cloned()).collect();
        let put = Write::put(key.clone(), value(&record));
        if let Committed::Done(revision) = store.commit(&when, &[put]).await? {
            return Ok(Recorded { revision, record });
        }
    }
    Err(MoveError::Contended(vm.clone()))
}

/// Approves a planned move: this host drives it from now on.
///
/// # Errors
/// If there is no move of the VM that waits for that, or the store does not answer.
pub async fn approve(store: &dyn Store, me: &Name, vm: &str) -> Result<Recorded, MoveError> {
    let planned = |stage| matches!(stage, Stage::Planned).then_some(Stage::Approved);
    enter(store, me, vm, planned).await
}

/// Cancels a move: this host drives it to its end.
///
/// # Errors
/// If there is none, it is too late for that, or the store does not answer.
pub async fn cancel(store: &dyn Store, me: &Name, vm: &str) -> Result<Recorded, MoveError> {
    enter(store, me, vm, Stage::cancelled).await
}

/// Clears a move that has failed: its VM may be planned with again.
///
/// # Errors
/// If the VM's last move has not failed, or the store does not answer.
pub async fn clear(store: &dyn Store, me: &Name, vm: &str) -> Result<Recorded, MoveError> {
    let failed = |stage| match stage {
        Stage::Failed(cause) => Some(Stage::RolledBack(cause)),
        _ => None,
    };
    enter(store, me, vm, failed).await
}

async fn enter(
    store: &dyn Store,
    me: &Name,
    vm: &str,
    to: impl Fn(Stage) -> Option<Stage>,
) -> Result<Recorded, MoveError> {
    let key = keys::moving(vm)?;
    let none = || MoveError::None(vm.to_owned());
    let mut name = None;
    for _ in 0..TRIES {
        let Recorded { revision, record } = read(store, vm).await?.ok_or_else(none)?;
        let (vm, stage) = (record.vm.clone(), record.stage);
        name = Some(vm.clone());
        let stage = to(stage).ok_or(MoveError::Stage { vm, stage })?;
        let record = record.entered(stage, me, now());
        let when = [Compare::Unchanged(key.clone(), revision)];
        let put = Write::put(key.clone(), value(&record));
        if let Committed::Done(revision) = store.commit(&when, &[put]).await? {
            return Ok(Recorded { revision, record });
        }
    }
    Err(name.map_or_else(none, MoveError::Contended))
}

/// Forgets a VM's last move, which is over, with what its hosts answered.
///
/// # Errors
/// If it is not over, or the store does not answer.
pub async fn forget(store: &dyn Store, of: &Recorded) -> Result<(), MoveError> {
    let record = &of.record;
    let (vm, stage) = (record.vm.clone(), record.stage);
    if !stage.is_final() {
        return Err(MoveError::Stage { vm, stage });
    }
    let key = keys::moving(vm.as_str())?;
    let when = [Compare::Unchanged(key.clone(), of.revision)];
    let then = [
        Write::Delete(key),
        Write::Delete(keys::order(vm.as_str())?),
        Write::Delete(keys::answer(vm.as_str(), record.from.as_str())?),
        Write::Delete(keys::answer(vm.as_str(), record.to.as_str())?),
    ];
    store.commit(&when, &then).await?;
    Ok(())
}
