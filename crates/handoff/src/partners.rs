//! Which of several hosts a unit goes to or comes from: [`Ownership`] knows one other host at a time, its *partner*.
//!
//! ```text
//!   owner      a host that claims or announces, or shows a client while no move is foreseen ──► it is the partner
//!   standby    the host that the record names ──► it is the partner; one that it was given to is granted it again
//! ```
//!
//! A host turns to another partner as if the session with the last one had ended and the other one had just started. What is
//! decided goes to the partner that it was decided for: nobody turns while a hand-over is under way, and who starts again
//! begins with the host that its last decision names ([`first`]).

use crate::event::{Decision, Holder, Record};
use crate::message::Refusal;
use crate::ownership::{Ownership, Role};

/// What a host says that is not the partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// A guest of its own asks to write.
    Claim,
    /// A guest is about to move.
    Announce,
    /// It has a client of the unit.
    Client,
    /// The record names the host that hears it.
    Grant,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// The host is the partner from now on, and is heard as that.
    Turn,
    /// Its claim is refused.
    Refuse(Refusal),
    /// Nothing.
    Nothing,
}

/// The partner of a unit, of hosts that are told apart by `P`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partners<P> {
    partner: P,
    /// Whom the unit was given to last, by a host that has turned since, and its epoch.
    given: Option<(P, u64)>,
}

impl<P: Clone + PartialEq> Partners<P> {
    /// With this partner first: see [`first`].
    pub fn new(partner: P) -> Self {
        Self {
            partner,
            given: None,
        }
    }

    /// The partner.
    pub fn partner(&self) -> &P {
        &self.partner
    }

    /// A host that is not the partner says something. A claim is heard in any case: a guest waits for it. `is_foreseen`: a
    /// move to or from the partner is.
    pub fn hear(&self, from: &P, word: Word, role: Role, is_foreseen: bool) -> Heard {
        let turns = match (role, word) {
            (Role::Owner, Word::Client) => !is_foreseen,
            // Whoever takes a unit sees what the record says.
            (Role::Owner, Word::Claim | Word::Announce)
            | (Role::Standby, Word::Announce | Word::Grant)
            | (Role::Claiming, Word::Grant) => true,
            (Role::Standby | Role::Claiming, Word::Claim) => self.was_given_to(from),
            _ => false,
        };
        match (role, word) {
            _ if turns => Heard::Turn,
            (Role::Standby | Role::Claiming, Word::Claim) => Heard::Refuse(Refusal::NotOwner),
            (_, Word::Claim) => Heard::Refuse(Refusal::Busy),
            _ => Heard::Nothing,
        }
    }

    fn was_given_to(&self, host: &P) -> bool {
        self.given.as_ref().is_some_and(|(to, _)| to == host)
    }

    /// Turns to another partner. False, and nothing changes, if it is the partner already or a hand-over is under way. If a
    /// session with it stands, the unit is told so next.
    pub fn turn(&mut self, to: P, ownership: &mut Ownership) -> bool {
        if self.partner == to || !ownership.may_turn() {
            return false;
        }
        let last = std::mem::replace(&mut self.partner, to);
        if ownership.serves() {
            self.given = None;
        } else if let Some(epoch) = ownership.epoch() {
            self.given = Some((last, epoch));
        }
        let given = self.given.as_ref().filter(|(to, _)| *to == self.partner);
        ownership.turn(given.map(|(_, epoch)| *epoch));
        true
    }
}

/// The first partner of a host that has just started: whom its last decision gave the unit to, as long as that counts, or
/// else the host that the record names, if it is another one. `None`: any.
pub fn first<P>(decision: Option<(Decision, P)>, record: Option<(Record, P)>) -> Option<P> {
    let (record, named) = record?;
    let counts = |decision: &Decision| match record.owner {
        Holder::Here => record.epoch == decision.epoch,
        Holder::Peer => record.epoch == decision.epoch + 1,
    };
    match decision.filter(|(decision, _)| counts(decision)) {
        Some((_, to)) => Some(to),
        None => (record.owner == Holder::Peer).then_some(named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Action, Event, Found};
    use crate::message::Message;

    /// The host 2 has the unit since epoch 3, which the host 1 has granted it; nothing was changed here since.
    fn granted() -> (Ownership, Partners<u32>) {
        let found = Found {
            record: None,
            decision: None,
        };
        let mut ownership = Ownership::found(found).0;
        let message = Message::Grant { epoch: 3 };
        ownership.take_event(Event::Said {
            message,
            guest_has_stopped: false,
        });
        ownership.take_event(Event::Taken(Ok(())));
        assert!(ownership.serves());
        (ownership, Partners::new(1))
    }

    fn claims_back(ownership: &mut Ownership) -> Vec<Action> {
        let message = Message::Claim { is_return: true };
        ownership.take_event(Event::Said {
            message,
            guest_has_stopped: false,
        })
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn a_unit_goes_back_as_it_was_to_who_gave_it_alone() {
        use crate::guard::{Guard, remove};
        let (mut ownership, _) = granted();
        assert_eq!(claims_back(&mut ownership), [Action::Settle]);
        let of_other = || {
            let (mut ownership, mut partners) = granted();
            assert_eq!(
                partners.hear(&7, Word::Claim, ownership.role(), false),
                Heard::Turn
            );
            assert!(partners.turn(7, &mut ownership));
            claims_back(&mut ownership)
        };
        let why = Refusal::Changed;
        assert_eq!(of_other(), [Action::Send(Message::Refuse { why })]);
        remove(Some(Guard::TurnedIsChanged));
        let without = of_other();
        remove(None);
        assert_eq!(without, [Action::Settle]);
    }

    #[test]
    fn nobody_turns_while_a_hand_over_is_under_way() {
        let (mut ownership, mut partners) = granted();
        assert!(!partners.turn(1, &mut ownership), "it is the partner");
        claims_back(&mut ownership);
        assert!(!partners.turn(7, &mut ownership));
        let busy = Heard::Refuse(Refusal::Busy);
        assert_eq!(
            partners.hear(&7, Word::Claim, ownership.role(), false),
            busy
        );
        for event in [
            Event::Settled(true),
            Event::Closed,
            Event::Decided(true),
            Event::Recorded(true),
            Event::Unlocked,
        ] {
            assert!(!partners.turn(7, &mut ownership), "before {event:?}");
            ownership.take_event(event);
        }
        assert!(partners.turn(7, &mut ownership));
        // The one that it was given to is granted it again.
        assert_eq!(ownership.take_event(Event::Linked), []);
        let role = ownership.role();
        assert_eq!(partners.hear(&1, Word::Claim, role, false), Heard::Turn);
        assert!(partners.turn(1, &mut ownership));
        let granted = [Action::Send(Message::Grant { epoch: 4 })];
        assert_eq!(ownership.take_event(Event::Linked), granted);
    }

    #[test]
    fn who_has_nothing_to_give_says_so() {
        let (ownership, partners) = granted();
        let hear = |word, role, is_foreseen| partners.hear(&7, word, role, is_foreseen);
        let refused = Heard::Refuse(Refusal::NotOwner);
        assert_eq!(hear(Word::Claim, Role::Standby, false), refused);
        assert_eq!(hear(Word::Client, Role::Standby, false), Heard::Nothing);
        assert_eq!(hear(Word::Announce, Role::Standby, false), Heard::Turn);
        assert_eq!(hear(Word::Announce, Role::Claiming, false), Heard::Nothing);
        assert_eq!(hear(Word::Grant, Role::Claiming, true), Heard::Turn);
        assert_eq!(hear(Word::Claim, ownership.role(), true), Heard::Turn);
        assert_eq!(hear(Word::Announce, ownership.role(), true), Heard::Turn);
        assert_eq!(hear(Word::Client, ownership.role(), true), Heard::Nothing);
        assert_eq!(hear(Word::Client, ownership.role(), false), Heard::Turn);
    }

    #[test]
    fn a_host_begins_with_whom_it_decided_for() {
        let record = |owner, epoch| Some((Record { owner, epoch }, 'r'));
        let decision = Some((Decision { epoch: 3 }, 'd'));
        assert_eq!(first(decision, record(Holder::Here, 3)), Some('d'));
        assert_eq!(first(decision, record(Holder::Peer, 4)), Some('d'));
        assert_eq!(first(decision, record(Holder::Here, 4)), None);
        assert_eq!(first(decision, record(Holder::Peer, 5)), Some('r'));
        assert_eq!(first(None, record(Holder::Peer, 5)), Some('r'));
        assert_eq!(first(decision, None), None);
    }
}
