//! This host's part in moves from it and to it: what their drivers order, one after the other for each VM.

use crate::answers::HostAnswer;
use crate::error::MoveError;
use crate::mailbox::{Order, Said};
use crate::pace::pace_of;
use crate::records::read;
use placement::Name;
use placement::moving::{Action, Fence};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::{Changes, Revision, Store, StoreError, everything, keys};
use tokio::task::JoinSet;

/// How often orders are looked for when the store tells of none.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How soon after an order was carried out the next ones are looked for.
const LOOK_SOON: Duration = Duration::from_millis(200);

/// Which of a move's two hosts this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The VM is here until the grant.
    Source,
    /// It goes here.
    Target,
}

/// What a host is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The VM.
    pub vm: Name,
    /// Its source.
    pub from: Name,
    /// Its target.
    pub to: Name,
    /// Which of the two this host is.
    pub side: Side,
    /// What is to be done. It may have been done before.
    pub action: Action,
    /// What the migration may send in a second, in bytes, if somebody says so.
    pub pace: Option<u64>,
    /// The trace that it belongs to, as the W3C's `traceparent`, if its driver says so.
    pub trace: Option<String>,
}

/// A host as moves need it: its disks and its hypervisor.
pub trait HostPart: Send + Sync {
    /// Carries out an action; as often as it is asked for.
    fn carry_out<'a>(
        &'a self,
        task: &'a Task,
    ) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + 'a>>;
}

/// Carries out what drivers order of this host, for as long as this runs.
pub async fn keep_part(store: Arc<dyn Store>, me: Name, host: Arc<dyn HostPart>) {
    let mut part = Part {
        store,
        me,
        host,
        done: BTreeMap::new(),
        busy: BTreeSet::new(),
        tasks: JoinSet::new(),
    };
    let mut changes = Changes::new(keys::ORDERS.prefix());
    loop {
        let seen = part.look().await;
        let seen =
            seen.inspect_err(|error| tracing::debug!(%error, "orders of moves are not seen"));
        part.collect(&mut changes, seen.ok()).await;
    }
}

/// What was carried out of a VM's orders.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    ticket: u64,
    fence: Fence,
}

struct Part {
    store: Arc<dyn Store>,
    me: Name,
    host: Arc<dyn HostPart>,
    done: BTreeMap<String, Carried>,
    busy: BTreeSet<String>,
    tasks: JoinSet<(String, Carried)>,
}

impl Part {
    /// Looks for orders, and begins what is to be done.
    async fn look(&mut self) -> Result<Revision, StoreError> {
        let orders = everything(&*self.store, &keys::ORDERS.prefix()).await?;
        for entry in &orders.entries {
            let vm = entry.key.below(&keys::ORDERS.prefix());
            let (Some(vm), Some(order)) = (vm, Order::of(entry)) else {
                continue;
            };
            let carried = self.done.get(vm).copied().unwrap_or_default();
            if self.busy.contains(vm) || carried.ticket == order.ticket {
                continue;
            }
            self.busy.insert(vm.to_owned());
            let (store, me) = (Arc::clone(&self.store), self.me.clone());
            let (host, vm) = (Arc::clone(&self.host), vm.to_owned());
            self.tasks.spawn(async move {
                let carried = obey(&*store, &me, &*host, (&vm, &order), carried).await;
                (vm, carried)
            });
        }
        Ok(orders.revision)
    }

    /// Waits until something may be to be done.
    async fn collect(&mut self, changes: &mut Changes, seen: Option<Revision>) {
        let at_most = if self.tasks.is_empty() && seen.is_some() {
            LOOK_EVERY
        } else {
            LOOK_SOON
        };
        changes.wait(&*self.store, seen, at_most).await;
        while let Some(ended) = self.tasks.try_join_next() {
            match ended {
                Ok((vm, carried)) => {
                    self.busy.remove(&vm);
                    self.done.insert(vm, carried);
                }
                // A panic of the host's part: nothing more is carried out for that VM until the next start.
                Err(error) => tracing::error!(%error, "an order of a move was not carried out"),
            }
        }
    }
}

/// Carries out one order, if it is for this host and in time, and answers.
async fn obey(
    store: &dyn Store,
    me: &Name,
    host: &dyn HostPart,
    (vm, order): (&str, &Order),
    carried: Carried,
) -> Carried {
    match try_obey(store, me, host, (vm, order), carried).await {
        Ok(carried) => carried,
        Err(error) => {
            tracing::debug!(vm, %error, "an order of a move is tried again");
            carried
        }
    }
}

async fn try_obey(
    store: &dyn Store,
    me: &Name,
    host: &dyn HostPart,
    (vm, order): (&str, &Order),
    mut carried: Carried,
) -> Result<Carried, MoveError> {
    let Some(recorded) = read(store, vm).await? else {
        return Ok(carried);
    };
    let record = recorded.record;
    let side = match (record.from == *me, record.to == *me) {
        (true, _) => Side::Source,
        (_, true) => Side::Target,
        _ => {
            carried.ticket = order.ticket;
            return Ok(carried);
        }
    };
    if carried.ticket == 0 && has_answered(store, vm, me, order).await? {
        // Before this host was restarted.
        carried.ticket = order.ticket;
        return Ok(carried);
    }
    if order.step != record.step || !carried.fence.admits(order.step) {
        carried.ticket = order.ticket;
        return Ok(carried);
    }
    let pace = pace_of(store, vm).await?;
    let (from, to) = (record.from.clone(), record.to.clone());
    let task = Task {
        vm: record.vm,
        from,
        to,
        side,
        action: order.action,
        pace,
        trace: order.trace.clone(),
    };
    let answer = host.carry_out(&task).await;
    if let Some(problem) = answer.problem() {
        tracing::warn!(vm, action = ?order.action, problem, "a move");
    }
    let said = Said {
        ticket: order.ticket,
        step: order.step,
        answer,
    };
    said.put(store, vm, me.as_str()).await?;
    carried.ticket = order.ticket;
    Ok(carried)
}

async fn has_answered(
    store: &dyn Store,
    vm: &str,
    me: &Name,
    order: &Order,
) -> Result<bool, MoveError> {
    let found = store.get(&keys::answer(vm, me.as_str())?).await?;
    let said = found.as_ref().and_then(Said::of);
    Ok(said.is_some_and(|said| said.ticket == order.ticket))
}
