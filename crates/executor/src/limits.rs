//! How many moves are under way at a time. A move that is approved waits for its turn.

use crate::records::{Recorded, understood};
use placement::moving::Move;
use serde::{Deserialize, Serialize};
use store::{Compare, Store, StoreError, Write, everything, keys};

/// Limits on moves at a time, whoever began them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// VMs that one host sends.
    pub outbound: usize,
    /// VMs that one host takes.
    pub arrivals: usize,
    /// Moves of the whole cluster.
    pub cluster: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            outbound: 1,
            arrivals: 1,
            cluster: 5,
        }
    }
}

impl Limits {
    /// Whether a move may begin beside those that are under way.
    pub(crate) fn admit(&self, of: &Move, all: &[Recorded]) -> bool {
        let under_way = || {
            let records = all.iter().map(|one| &one.record);
            records.filter(|one| one.vm != of.vm && one.stage.is_under_way())
        };
        let outbound = under_way().filter(|one| one.from == of.from).count();
        let arrivals = under_way().filter(|one| one.to == of.to).count();
        outbound < self.outbound && arrivals < self.arrivals && under_way().count() < self.cluster
    }
}

/// What a commit compares and writes so that of two moves which begin at once the later one sees the earlier.
///
/// # Errors
/// If the store does not answer.
pub(crate) async fn turn(
    store: &dyn Store,
    of: &Move,
    limits: Limits,
) -> Result<Option<(Compare, Write)>, StoreError> {
    let key = keys::turns();
    let found = store.get(&key).await?;
    let all = understood(&everything(store, &keys::MOVES.prefix()).await?);
    if !limits.admit(of, &all) {
        return Ok(None);
    }
    let last = found.as_ref().map_or("", |found| {
        std::str::from_utf8(&found.value).unwrap_or_default()
    });
    let next = last.parse::<u64>().unwrap_or(0) + 1;
    let compare = Compare::as_found(&key, found.as_ref());
    Ok(Some((
        compare,
        Write::put(key, next.to_string().into_bytes()),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{name, recorded};
    use placement::moving::Stage;

    #[test]
    fn each_limit_holds_by_itself() {
        let going = recorded("v", ("a", "b"), Stage::Prepared);
        let waits = recorded("x", ("a", "b"), Stage::Approved);
        let of = |from: &str, to: &str| {
            Move::planned(name("w"), name(from), name(to), going.record.since)
        };
        let all = [going.clone(), waits];
        let limits = Limits::default();
        assert!(limits.admit(&of("c", "d"), &all));
        assert!(!limits.admit(&of("a", "d"), &all));
        assert!(!limits.admit(&of("c", "b"), &all));
        let one = Limits {
            cluster: 1,
            ..limits
        };
        assert!(!one.admit(&of("c", "d"), &all));
        let two = Limits {
            outbound: 2,
            arrivals: 2,
            ..limits
        };
        assert!(two.admit(&of("a", "b"), &all));
    }
}
