//! A move of a VM's disks as spans, at each of its two hosts.
//!
//! ```text
//!   at the source                                at the target
//!   move ──────────────────────── Traced ──────► move
//!    ├─ move drain     what is dirty, ahead       ├─ move pre-copy    the cache, ahead
//!    └─ move cutover   guests' requests wait      ├─ move cutover     a guest waits for the disks
//!        ├─ move settle                           │   └─ move take
//!        ├─ move close                            └─ move post-copy   what is left of the cache, behind
//!        ├─ move decide
//!        ├─ move record
//!        └─ move unlock
//! ```
//!
//! Whichever host hears of the move first begins it and tells the other one, whose spans are below. A move ends with an outcome:
//! `given` or `taken`; or `withdrawn`, `late`, `given-up`, and the disks stay where they are.
//!
//! Invariant: a move has [`STAGES_MAX`] spans at most, however often its steps are tried.

use super::{Disks, Member};
use api::roaming::MovePhase;
use handoff::{Action, Event, Role, TakeError};
use link_protocol::{Frame, Message as Said};
use telemetry::{Context, Kind, Parent, Span, Tracer};

/// Spans of one move at one host: an owner that refuses claims may try each step many times.
const STAGES_MAX: u32 = 64;

/// By whose word a move has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// An operator or a hook of either host has announced it.
    Announced,
    /// A guest at the target asks for the disks.
    Claimed,
    /// An operator takes the disks from an owner that is gone.
    TakenOver,
}

impl Begun {
    const fn word(self) -> &'static str {
        match self {
            Self::Announced => "announced",
            Self::Claimed => "claimed",
            Self::TakenOver => "taken-over",
        }
    }
}

/// A move that is under way.
struct UnderWay {
    begun: Begun,
    span: Span,
    ahead: Option<Span>,
    drain: Option<Span>,
    cutover: Option<Span>,
    step: Option<Span>,
    /// How many spans it has.
    stages: u32,
    /// The peer knows of it.
    is_told: bool,
    /// The last refusal of a claim, which is repeated every few milliseconds.
    refused: String,
}

impl UnderWay {
    /// Begins a span below another one; none, if there were too many.
    fn stage(&mut self, above: &Parent, name: &'static str) -> Option<Span> {
        self.stages += 1;
        if self.stages > STAGES_MAX {
            let left_out = self.stages - STAGES_MAX;
            self.span.set("hearth.move.stages_left_out", left_out);
            return None;
        }
        Some(above.child(name))
    }

    fn cut_over(&mut self) {
        if self.cutover.is_none() {
            let above = self.span.parent();
            self.cutover = self.stage(&above, "move cutover");
        }
    }

    /// Ends what is under way of the cutover, as failed if there is a reason.
    fn stop(&mut self, failure: Option<(&str, &str)>) {
        // The step first, which is below.
        for mut span in [self.step.take(), self.cutover.take()]
            .into_iter()
            .flatten()
        {
            if let Some((kind, why)) = failure {
                span.fail(kind, why);
            }
        }
    }
}

/// The moves of a VM's disks as spans, one after the other.
pub(super) struct MoveTrace {
    tracer: Tracer,
    /// What the peer does about a move, as it has said.
    above: Option<Context>,
    now: Option<UnderWay>,
    /// A move that has ended, and what comes behind it.
    behind: Option<(Parent, Option<Span>)>,
}

impl MoveTrace {
    /// No move is under way.
    pub(super) fn new(tracer: Tracer) -> Self {
        Self {
            tracer,
            above: None,
            now: None,
            behind: None,
        }
    }

    /// The peer says to which trace the move belongs that it is about to name.
    pub(super) fn heard(&mut self, message: &Said) {
        if let Said::Traced {
            trace,
            span,
            is_sampled,
            ..
        } = message
        {
            self.above = Context::new(*trace, *span, *is_sampled);
        }
    }

    /// A move begins, unless one is under way: below who asks for it here, or below the peer's.
    pub(super) fn begin(&mut self, begun: Begun, above: &Parent, (disks, role): (&Disks, Role)) {
        let told = self.above.take();
        if self.is_another(told) {
            self.leaves(None);
        }
        if let Some(now) = &mut self.now {
            if begun == Begun::Announced {
                now.begun = begun;
            }
            return;
        }
        let mut span = match above.context() {
            Some(_) => above.child("move"),
            None => self.tracer.span("move", Kind::Internal, told),
        };
        if span.context().is_none() {
            return;
        }
        let names = disks
            .iter()
            .map(|disk| disk.steps().entry.config.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let (vm, partner) = (disks[0].steps().entry.vm(), disks.partner());
        let role = match role {
            Role::Owner | Role::Granting | Role::Giving => "source",
            Role::Standby | Role::Claiming | Role::Taking => "target",
        };
        span.set("hearth.vm", vm.as_str());
        span.set("hearth.disk", names.as_str());
        span.set("hearth.peer", partner.there());
        span.set("hearth.move.role", role);
        span.set("hearth.move.begun", begun.word());
        self.now = Some(UnderWay {
            begun,
            is_told: told.is_some() && above.context().is_none(),
            span,
            ahead: None,
            drain: None,
            cutover: None,
            step: None,
            stages: 0,
            refused: String::new(),
        });
    }

    /// Whether the peer has given the move up that is under way, and begins another one.
    fn is_another(&self, told: Option<Context>) -> bool {
        let now = self.now.as_ref().and_then(|now| now.span.context());
        let trace = Context::trace;
        now.zip(told)
            .is_some_and(|(now, told)| trace(now) != trace(told))
    }

    /// Tells the peer of the move, once, if it takes such words.
    pub(super) async fn tell(&mut self, disks: &Disks) {
        let Some(now) = self.now.as_mut().filter(|now| !now.is_told) else {
            return;
        };
        let Some(context) = now.span.context() else {
            return;
        };
        if disks.partner().takes_traces() {
            now.is_told = true;
            let message = Said::Traced {
                unit: disks.unit(),
                trace: context.trace(),
                span: context.span(),
                is_sampled: context.is_sampled(),
            };
            disks.say(Frame::notice(message)).await;
        }
    }

    /// Looks what goes on beside the hand-over.
    pub(super) fn see(&mut self, disks: &mut Disks) {
        let mut is_in = |phase| disks.iter_mut().any(|disk| disk.loans().phase() == phase);
        let (is_ahead, is_behind) = (is_in(MovePhase::Ahead), is_in(MovePhase::Behind));
        let is_draining = disks.iter().any(Member::is_draining);
        if let Some(now) = &mut self.now {
            let above = now.span.parent();
            if is_ahead != now.ahead.is_some() {
                now.ahead = if is_ahead {
                    now.stage(&above, "move pre-copy")
                } else {
                    None
                };
            }
            if is_draining != now.drain.is_some() {
                now.drain = if is_draining {
                    now.stage(&above, "move drain")
                } else {
                    None
                };
            }
        }
        match &mut self.behind {
            Some((above, span)) if is_behind => {
                span.get_or_insert_with(|| above.child("move post-copy"));
            }
            _ => self.behind = None,
        }
    }

    /// A guest here asks for the disks, and waits: the peer is about to get a claim.
    pub(super) async fn claims(&mut self, disks: &Disks) {
        self.begin(Begun::Claimed, &Parent::default(), (disks, Role::Claiming));
        if let Some(now) = &mut self.now {
            now.cut_over();
        }
        self.tell(disks).await;
    }

    /// A step of the hand-over begins. Below what it is to run.
    pub(super) fn step(&mut self, action: &Action) -> Parent {
        let Some(now) = &mut self.now else {
            return Parent::default();
        };
        let name = match action {
            Action::Settle => "move settle",
            Action::Close => "move close",
            Action::Decide(_) => "move decide",
            Action::Record { .. } => "move record",
            Action::Unlock => "move unlock",
            Action::Take { .. } => "move take",
            Action::Send(_) | Action::Serve | Action::Fail | Action::EndOldClients => {
                return Parent::default();
            }
        };
        now.cut_over();
        let above = now.cutover.as_ref().unwrap_or(&now.span).parent();
        now.step = now.stage(&above, name);
        now.step.as_ref().map(Span::parent).unwrap_or_default()
    }

    /// Something has happened to the unit.
    pub(super) fn took(&mut self, event: &Event, disks: &Disks) {
        let Some(now) = &mut self.now else {
            return;
        };
        let why = || disks.failure().unwrap_or_default();
        match event {
            Event::Settled(true) | Event::Closed | Event::Decided(true) | Event::Recorded(true) => {
                now.step = None;
            }
            Event::Settled(false) => now.stop(Some(("not-settled", &why()))),
            Event::Decided(false) | Event::Recorded(false) | Event::Taken(Err(_)) => {
                if let Some(mut step) = now.step.take() {
                    let kind = match event {
                        Event::Taken(Err(TakeError::NotOurs)) => "not-ours",
                        _ => "failed",
                    };
                    step.fail(kind, &why());
                }
            }
            Event::Unlocked => self.ends("given", None),
            Event::Taken(Ok(())) => {
                self.behind = Some((now.span.parent(), None));
                self.ends("taken", None);
            }
            Event::PatienceEnded => {
                let failure = ("timeout", "the disks did not come in time");
                now.stop(Some(failure));
                self.leaves(Some(failure));
            }
            Event::LinkLost => {
                now.is_told = false;
                now.span
                    .moment("link lost", "hearth.peer", disks.partner().there());
                if now.cutover.is_none() {
                    self.leaves(Some(("link-lost", "the connection to the peer was lost")));
                }
            }
            _ => {}
        }
    }

    /// A claim is refused, here or by the peer.
    pub(super) fn refused(&mut self, why: &str) {
        if let Some(now) = self.now.as_mut().filter(|now| now.refused != why) {
            why.clone_into(&mut now.refused);
            now.span.moment("claim refused", "hearth.move.reason", why);
        }
    }

    /// Guests here are served: what was under way of a cutover has come to nothing.
    pub(super) fn serves(&mut self) {
        if let Some(now) = &mut self.now {
            now.stop(Some((
                "guest-asked",
                "the guest here asked for something meanwhile",
            )));
        }
    }

    /// Who asked for the disks asks no more. What was announced may still come.
    pub(super) fn leaves(&mut self, failure: Option<(&str, &str)>) {
        let begun = self.now.as_ref().map(|now| now.begun);
        if begun == Some(Begun::Claimed) {
            self.ends("given-up", failure);
        }
    }

    /// The move is over, so or so.
    pub(super) fn ends(&mut self, outcome: &str, failure: Option<(&str, &str)>) {
        if let Some(mut now) = self.now.take() {
            now.stop(failure);
            now.span.set("hearth.move.outcome", outcome);
            if let Some((kind, why)) = failure {
                now.span.fail(kind, why);
            }
        }
    }
}
