//! The moves that this host drives, as spans: each move, and below it each stage that it comes to.
//!
//! What the move's two hosts do is below the stage, by the orders that they get. A driver that takes over what another host has left
//! begins a trace of its own: the other one's spans have ended with it.

use executor::Recorded;
use placement::Name;
use placement::moving::{Cause, Move, Stage};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use telemetry::{Kind, Parent, Span, Tracer};

/// A move that is driven here.
struct One {
    span: Span,
    stage: Stage,
    of_stage: Span,
}

#[derive(Default)]
struct Moves {
    /// Who asked for moves whose drivers have not begun.
    asked: BTreeMap<String, Parent>,
    driven: BTreeMap<Name, One>,
}

/// The moves that this host drives.
pub(crate) struct Driven {
    me: Name,
    tracer: Tracer,
    moves: Mutex<Moves>,
}

impl Driven {
    /// None yet.
    pub(crate) fn new(me: Name, tracer: Tracer) -> Self {
        Self {
            me,
            tracer,
            moves: Mutex::default(),
        }
    }

    fn moves(&self) -> MutexGuard<'_, Moves> {
        // A panic elsewhere leaves a span open at worst.
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody asks for a move, or approves it: what runs here.
    pub(crate) fn asked(&self, vm: &str) {
        let above = Parent::here();
        if above.context().is_some() {
            self.moves().asked.insert(vm.to_owned(), above);
        }
    }

    /// Nothing has come of that.
    pub(crate) fn asked_in_vain(&self, vm: &str) {
        self.moves().asked.remove(vm);
    }

    /// Each VM's last move, as it is now.
    pub(crate) fn saw(&self, seen: &[Recorded]) {
        let mut moves = self.moves();
        let Moves { asked, driven } = &mut *moves;
        for Recorded { record, .. } in seen {
            let is_mine = record.driver.as_ref() == Some(&self.me);
            if !is_mine {
                if record.driver.is_some() {
                    // Another host has gone on with it.
                    driven.remove(&record.vm);
                    asked.remove(record.vm.as_str());
                }
                continue;
            }
            if !record.stage.is_final() && !driven.contains_key(&record.vm) {
                let above = asked.remove(record.vm.as_str()).unwrap_or_default();
                driven.insert(record.vm.clone(), self.begun(record, &above));
            }
            if record.stage.is_final() {
                // What has ended before anything was done for it was asked for in vain.
                asked.remove(record.vm.as_str());
                if let Some(one) = driven.remove(&record.vm) {
                    ended(one, record.stage);
                }
            } else if let Some(one) = driven.get_mut(&record.vm)
                && one.stage != record.stage
            {
                one.stage = record.stage;
                // The one before ends here.
                one.of_stage = of_stage(&one.span, record.stage);
            }
        }
        driven.retain(|vm, _| seen.iter().any(|one| one.record.vm == *vm));
    }

    /// Below what the hosts of a VM's move are to begin their spans.
    pub(crate) fn trace_of(&self, vm: &Name) -> Option<String> {
        let moves = self.moves();
        let context = moves.driven.get(vm)?.of_stage.context()?;
        Some(context.to_string())
    }

    fn begun(&self, record: &Move, above: &Parent) -> One {
        let mut span = match above.context() {
            Some(_) => above.child("cluster move"),
            None => self.tracer.span("cluster move", Kind::Internal, None),
        };
        span.set("hearth.vm", record.vm.as_str());
        span.set("hearth.move.source", record.from.as_str());
        span.set("hearth.move.target", record.to.as_str());
        let of_stage = of_stage(&span, record.stage);
        One {
            span,
            stage: record.stage,
            of_stage,
        }
    }
}

fn of_stage(span: &Span, stage: Stage) -> Span {
    let name = match stage {
        Stage::Approved => "move approved",
        Stage::Prepared => "move prepared",
        Stage::Migrating => "move migrating",
        Stage::Granted => "move granted",
        Stage::Draining => "move draining",
        Stage::Withdrawing(_) => "move withdrawing",
        // Nobody drives it yet, or any more.
        Stage::Planned | Stage::Done | Stage::RolledBack(_) | Stage::Failed(_) => {
            return Span::off();
        }
    };
    let mut of_stage = span.parent().child(name);
    if let Some(cause) = stage.cause() {
        of_stage.set("hearth.move.reason", cause.words());
    }
    of_stage
}

fn ended(one: One, stage: Stage) {
    let One {
        mut span, of_stage, ..
    } = one;
    of_stage.end();
    span.set("hearth.move.outcome", stage.word());
    let cause = stage.cause().map_or("", Cause::words);
    match stage {
        Stage::RolledBack(Cause::Cancelled) => span.set("hearth.move.reason", cause),
        Stage::RolledBack(_) | Stage::Failed(_) => span.fail(stage.word(), cause),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::instant_of_seconds;
    use store::Revision;
    use telemetry::Context;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// Spans that are numbered and reach nobody.
    fn tracer() -> Tracer {
        let nobody = telemetry::Collector {
            tls: false,
            host: "127.0.0.1".to_owned(),
            port: 1,
            authority: String::new(),
            target: "/".to_owned(),
            headers_file: None,
            authorities: None,
        };
        let resource = telemetry::Resource {
            service: String::new(),
            version: String::new(),
            host: String::new(),
        };
        telemetry::start(nobody, resource).unwrap().0
    }

    #[tokio::test]
    async fn what_hosts_do_is_below_the_stage_below_who_asked() {
        let (me, other, vm) = (name("a"), name("b"), name("v"));
        let tracer = tracer();
        let driven = Driven::new(me.clone(), tracer.clone());
        let asked = tracer.below(Context::new(7, 8, true).unwrap());
        asked.within(async { driven.asked(vm.as_str()) }).await;
        let now = instant_of_seconds(1);
        let planned = Move::planned(vm.clone(), me.clone(), other.clone(), now);
        let saw = |record: &Move| {
            driven.saw(&[Recorded {
                revision: Revision(1),
                record: record.clone(),
            }]);
            let of: Context = driven.trace_of(&vm)?.parse().unwrap();
            Some((of.trace(), of.span()))
        };
        assert_eq!(saw(&planned), None, "nobody drives it");
        let approved = planned.entered(Stage::Approved, &me, now);
        let first = saw(&approved).unwrap();
        assert_eq!(first.0, 7);
        assert_eq!(saw(&approved), Some(first), "the same stage");
        let prepared = approved.entered(Stage::Prepared, &me, now);
        let second = saw(&prepared).unwrap();
        assert_eq!(second.0, 7);
        assert_ne!(first.1, second.1);
        let taken_over = prepared.entered(Stage::Prepared, &other, now);
        assert_eq!(saw(&taken_over), None);
        // Here again: a trace of its own.
        assert_ne!(saw(&prepared).unwrap().0, 7);
        let done = prepared.entered(Stage::Done, &me, now);
        assert_eq!(saw(&done), None);
        assert!(driven.moves().driven.is_empty() && driven.moves().asked.is_empty());
    }
}
