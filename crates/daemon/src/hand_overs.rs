//! What an operator sees of a disk that roams: this host's role, and the hand-overs since the start.
//!
//! The disk's task notes each change; whoever is asked looks. Both hold the lock for a few assignments.

use api::roaming::{CacheMove, HandOverOutcome};
use handoff::Role;
use shard::Histogram;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use units::Duration;

/// A hand-over that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) outcome: HandOverOutcome,
    /// The peer that the disk went to, or came from.
    pub(super) peer: String,
    pub(super) at: Instant,
    /// How long requests were held.
    pub(super) held: std::time::Duration,
}

/// What there is to see at a moment.
#[derive(Clone, Default)]
pub(super) struct View {
    role: Option<Role>,
    epoch: Option<u64>,
    /// The peer that the disk goes to or comes from.
    peer: String,
    problem: Option<String>,
    last: Option<Ended>,
    held: [Histogram; HandOverOutcome::ALL.len()],
    /// Since when the hand-over that is under way holds requests.
    began: Option<Instant>,
    /// Since when a client here waits for the disk.
    waits_since: Option<Instant>,
    /// Whether the disk that is being taken comes from the peer.
    comes: bool,
    cache_move: Option<CacheMove>,
    /// What the peer moves together otherwise than this host.
    differs: Option<String>,
    /// Which disk of the VM is at which host, if its disks are at different ones.
    split: Option<String>,
}

impl View {
    /// Which disk of the VM is at which host by the records, if its disks are at different ones.
    pub(super) fn split(&self) -> Option<&str> {
        self.split.as_deref()
    }

    /// How the disk's cache moves.
    pub(super) fn cache_move(&self) -> Option<&CacheMove> {
        self.cache_move.as_ref()
    }

    /// What the peer moves together otherwise than this host, if it does.
    pub(super) fn differs(&self) -> Option<&str> {
        self.differs.as_deref()
    }

    /// What this host is to the disk; `None` as long as its record has not been read.
    pub(super) fn role(&self) -> Option<Role> {
        self.role
    }

    /// The epoch of the last owner that is known.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// What is tried again.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The last hand-over.
    pub(super) fn last(&self) -> Option<&Ended> {
        self.last.as_ref()
    }

    /// Since when the hand-over that is under way holds requests here.
    pub(super) fn holds_since(&self) -> Option<Instant> {
        match self.role? {
            Role::Granting | Role::Giving => self.began,
            Role::Claiming | Role::Taking => self.waits_since.or(self.began),
            Role::Owner | Role::Standby => None,
        }
    }

    /// How long requests were held by hand-overs that ended so.
    pub(super) fn held(&self, outcome: HandOverOutcome) -> &Histogram {
        &self.held[outcome as usize]
    }

    /// The role is `after` now; a client here waits since `waits_since`.
    fn moves(&mut self, after: Role, now: Instant, waits_since: Option<Instant>) {
        let before = self.role.replace(after);
        let (Some(before), true) = (before, before != Some(after)) else {
            if before.is_none() && after == Role::Giving {
                // It was decided before the start.
                self.began = Some(now);
            }
            return;
        };
        match (before, after) {
            (Role::Owner, Role::Granting) => self.began = Some(now),
            (Role::Granting, Role::Owner) => self.ends(HandOverOutcome::Kept, now, self.began),
            (Role::Taking, Role::Owner) if self.comes => {
                self.ends(HandOverOutcome::Taken, now, waits_since);
            }
            // The decision could not be noted: it was about to go.
            (Role::Taking, Role::Owner) if self.began.is_some() => {
                self.ends(HandOverOutcome::Kept, now, self.began);
            }
            (Role::Giving, Role::Standby | Role::Claiming) => {
                self.ends(HandOverOutcome::Given, now, self.began);
            }
            (Role::Standby | Role::Claiming, Role::Taking) => self.comes = true,
            (Role::Taking, Role::Standby | Role::Claiming) => self.comes = false,
            _ => {}
        }
    }

    fn ends(&mut self, outcome: HandOverOutcome, at: Instant, since: Option<Instant>) {
        let held = since.map_or(std::time::Duration::ZERO, |since| at.duration_since(since));
        let nanos = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        self.held[outcome as usize].record(Duration::from_nanos(nanos));
        let peer = self.peer.clone();
        self.last = Some(Ended {
            outcome,
            peer,
            at,
            held,
        });
        (self.began, self.comes) = (None, false);
    }
}

/// What there is to see.
#[derive(Default)]
pub(super) struct Seen(Mutex<View>);

impl Seen {
    /// What there is to see now.
    pub(super) fn view(&self) -> View {
        self.lock().clone()
    }

    /// Something has happened. `waits_since`: since when a client here waits for the disk.
    pub(super) fn note(
        &self,
        (role, epoch): (Role, Option<u64>),
        problem: Option<String>,
        waits_since: Option<Instant>,
    ) {
        let mut view = self.lock();
        view.moves(role, Instant::now(), waits_since);
        view.waits_since = waits_since;
        view.epoch = epoch.or(view.epoch);
        view.problem = problem;
    }

    /// The disk goes to this peer or comes from there, from now on.
    pub(super) fn note_peer(&self, name: &str) {
        let mut view = self.lock();
        if view.peer != name {
            name.clone_into(&mut view.peer);
        }
    }

    /// How its cache moves now.
    pub(super) fn note_move(&self, cache_move: CacheMove) {
        self.lock().cache_move = Some(cache_move);
    }

    /// The peer has said which disks it moves together: what differs.
    pub(super) fn note_peers_disks(&self, differs: Option<String>) {
        self.lock().differs = differs;
    }

    /// The disks of the VM are at different hosts by their records, or are not.
    pub(super) fn note_split(&self, split: Option<String>) {
        self.lock().split = split;
    }

    /// A client here has waited in vain since then.
    pub(super) fn failed(&self, waited_since: Option<Instant>) {
        let now = Instant::now();
        let mut view = self.lock();
        let before = (view.began, view.comes);
        view.ends(HandOverOutcome::Failed, now, waited_since);
        // What is under way goes on.
        (view.began, view.comes) = before;
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What is seen of roles a second apart, while a client waits since the second one.
    fn after(roles: &[Role]) -> View {
        let start = Instant::now();
        let mut view = View::default();
        let waits_since = Some(start + Duration::from_secs(1));
        for (role, at) in roles.iter().zip(0..) {
            view.moves(*role, start + Duration::from_secs(at), waits_since);
        }
        view
    }

    fn last(roles: &[Role]) -> Option<(HandOverOutcome, u64)> {
        let view = after(roles);
        let last = view.last().map(|last| (last.outcome, last.held.as_secs()));
        let counted = HandOverOutcome::ALL.map(|outcome| view.held(outcome).count());
        assert_eq!(counted.iter().sum::<u64>(), u64::from(last.is_some()));
        last
    }

    #[test]
    fn each_end_of_a_hand_over_is_counted_once_with_its_time() {
        use HandOverOutcome::{Given, Kept, Taken};
        use Role::{Claiming, Giving, Granting, Owner, Standby, Taking};
        for (roles, seen) in [
            (
                &[Standby, Claiming, Taking, Taking, Owner][..],
                Some((Taken, 3)),
            ),
            (
                &[Owner, Granting, Granting, Giving, Standby],
                Some((Given, 3)),
            ),
            (&[Owner, Granting, Giving, Claiming], Some((Given, 2))),
            (&[Owner, Granting, Owner], Some((Kept, 1))),
            (&[Owner, Granting, Taking, Owner], Some((Kept, 2))),
            (&[Giving, Giving, Standby], Some((Given, 2))),
            // It was its own already.
            (&[Taking, Owner], None),
            (&[Standby, Claiming, Taking, Standby], None),
            (&[Standby, Claiming, Standby], None),
        ] {
            assert_eq!(last(roles), seen, "{roles:?}");
        }
    }

    #[test]
    fn it_is_seen_for_how_long_requests_are_held() {
        let seen = Seen::default();
        let waits_since = Some(Instant::now());
        let mut held = Vec::new();
        for role in [
            Role::Standby,
            Role::Claiming,
            Role::Taking,
            Role::Owner,
            Role::Granting,
        ] {
            seen.note((role, None), None, waits_since);
            held.push(seen.view().holds_since());
        }
        assert_eq!(held[..4], [None, waits_since, waits_since, None]);
        assert!(held[4] >= waits_since, "its own requests, since the claim");
    }

    #[test]
    fn a_client_that_waited_in_vain_does_not_end_what_is_under_way() {
        let seen = Seen::default();
        for role in [Role::Standby, Role::Claiming, Role::Taking] {
            seen.note((role, Some(7)), None, None);
        }
        seen.failed(None);
        assert_eq!(seen.view().held(HandOverOutcome::Failed).count(), 1);
        seen.note((Role::Owner, Some(8)), None, None);
        let view = seen.view();
        assert_eq!(view.held(HandOverOutcome::Taken).count(), 1);
        assert_eq!(view.epoch, Some(8));
    }
}
