//! One move's driver at this host, with the store and the two hosts around it.

use crate::answers::together;
use crate::clock::now;
use crate::error::MoveError;
use crate::limits::turn;
use crate::mailbox::{Order, answers};
use crate::records::{read, value};
use crate::says::FleetSays;
use crate::settings::read_settings;
use placement::Name;
use placement::moving::{Action, Answer, Driver, Effect, Event, Move, Stage, Timeouts};
use std::sync::Arc;
use std::time::Duration;
use store::{Committed, Compare, Revision, Store, StoreError, Write, keys};

/// How long a host may take to answer. A check asks the other host, and a migration that is cancelled ends first.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Drives a move until it has ended or another host drives it. `first` is what the driver is told at first.
pub(crate) async fn drive(
    store: Arc<dyn Store>,
    (me, says): (Name, Arc<dyn FleetSays>),
    vm: Name,
    timeouts: Timeouts,
    first: Option<Event>,
    every: Duration,
) {
    let (driver, effect) = Driver::new(me.clone(), timeouts);
    let mut driving = Driving {
        store: &*store,
        me,
        says: &*says,
        vm,
        driver,
        is_gone: false,
    };
    driving.carry_out(Some(effect)).await;
    if let Some(event) = first {
        driving.tell(event).await;
    }
    while driving.goes_on() {
        tokio::time::sleep(every).await;
        driving.tell(Event::Tick).await;
    }
}

struct Driving<'a> {
    store: &'a dyn Store,
    me: Name,
    says: &'a dyn FleetSays,
    vm: Name,
    driver: Driver,
    /// The record was removed.
    is_gone: bool,
}

impl Driving<'_> {
    /// Whether the move may still be this driver's. One that does not know the record reads it.
    fn goes_on(&self) -> bool {
        let is_mine =
            |record: &Move| !record.stage.is_final() && record.driver.as_ref() == Some(&self.me);
        !self.is_gone && self.driver.record().is_none_or(is_mine)
    }

    async fn tell(&mut self, event: Event) {
        let effect = self.driver.take(event, now());
        self.carry_out(effect).await;
    }

    /// Carries out what the driver wants, and what follows from that.
    async fn carry_out(&mut self, mut effect: Option<Effect>) {
        while let Some(wanted) = effect {
            let event = match wanted {
                Effect::Read => self.read().await,
                Effect::Commit { expected, then } => self.commit(expected, &then).await,
                Effect::Act { action, step } => Event::Answered(self.act(action, step).await),
            };
            effect = self.driver.take(event, now());
        }
    }

    async fn read(&mut self) -> Event {
        match read(self.store, self.vm.as_str()).await {
            Ok(Some(recorded)) => Event::Record {
                revision: recorded.revision.0,
                record: recorded.record,
            },
            Ok(None) => {
                self.is_gone = true;
                Event::Away
            }
            Err(error) => {
                tracing::debug!(vm = %self.vm, %error, "the move cannot be read");
                Event::Away
            }
        }
    }

    async fn commit(&self, expected: Option<u64>, then: &Move) -> Event {
        match self.try_commit(expected, then).await {
            Ok(Some(Committed::Done(revision))) => Event::Committed(revision.0),
            Ok(Some(Committed::Refused)) => Event::Refused,
            // It waits for its turn, and looks again with the next tick.
            Ok(None) => Event::Away,
            Err(MoveError::Store(StoreError::Unknown(_))) => Event::Unknown,
            Err(error) => {
                tracing::debug!(vm = %self.vm, %error, "the move's stage cannot be committed");
                Event::Away
            }
        }
    }

    /// Commits a record; not, if it has to wait for its turn.
    async fn try_commit(
        &self,
        expected: Option<u64>,
        then: &Move,
    ) -> Result<Option<Committed>, MoveError> {
        let key = keys::moving(self.vm.as_str())?;
        let mut when = Vec::new();
        when.extend(expected.map(|revision| Compare::Unchanged(key.clone(), Revision(revision))));
        let mut puts = vec![Write::put(key, value(then))];
        let begins = self.driver.record().map(|record| record.stage) == Some(Stage::Approved);
        if begins && then.stage.is_under_way() {
            let limits = read_settings(self.store).await?.limits;
            let Some((compare, put)) = turn(self.store, then, limits).await? else {
                return Ok(None);
            };
            when.push(compare);
            puts.push(put);
        }
        Ok(Some(self.store.commit(&when, &puts).await?))
    }

    async fn act(&self, action: Action, step: u64) -> Answer {
        match self.try_act(action, step).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(vm = %self.vm, ?action, %error, "the hosts of the move were not asked");
                Answer::Silence
            }
        }
    }

    async fn try_act(&self, action: Action, step: u64) -> Result<Answer, MoveError> {
        let (Some(record), Some(revision)) = (self.driver.record(), self.driver.revision()) else {
            return Ok(Answer::Silence);
        };
        let order = Order {
            action,
            step,
            ticket: now().as_nanos(),
            trace: self.says.trace_of(&self.vm),
        };
        let revision = Revision(revision);
        let put = order.put(self.store, self.vm.as_str(), revision).await?;
        if put == Committed::Refused {
            // Another host drives; the next tick reads so.
            return Ok(Answer::Silence);
        }
        let is_enough = |(_, target): &(_, Option<crate::HostAnswer>)| {
            target.as_ref().is_some_and(crate::HostAnswer::says_granted)
        };
        let (source, target) =
            answers(self.store, record, order.ticket, ANSWERS_WITHIN, is_enough).await?;
        Ok(together(action, source, target))
    }
}
