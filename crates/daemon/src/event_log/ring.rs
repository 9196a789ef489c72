//! The events that are kept: the newest ones, bounded in number and in bytes.

use api::events::{Event, Severity};
use events::EventKind;
use std::collections::{BTreeMap, VecDeque};

/// How many events are kept: a week of a quiet host, and the first minutes of one whose 500 disks all lose their origin.
const EVENTS_MAX: usize = 4096;
/// How many bytes they have at most, all together. Names and reasons come from configurations, peers and servers.
const BYTES_MAX: usize = 2 << 20;
/// The most bytes of one event's text, and of its remedy: what is longer is cut.
pub(super) const TEXT_BYTES_MAX: usize = 1024;
/// What an event takes beside its texts.
const EVENT_BYTES: usize = size_of::<Event>();

/// What a reader wants to see.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Only these kinds; all if there is none.
    pub(crate) kinds: Vec<EventKind>,
    /// At least as severe as this.
    pub(crate) severity: Severity,
    /// At most so many.
    pub(crate) limit: usize,
}

impl Asked {
    fn wants(&self, event: &Event) -> bool {
        let is_wanted = |kind: &EventKind| kind.word() == event.kind;
        let of_kind = self.kinds.is_empty() || self.kinds.iter().any(is_wanted);
        of_kind && event.severity >= self.severity
    }
}

/// What a reader sees.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Events behind the place that it asked for which are not kept any more.
    pub(crate) missed: u64,
    /// Those that it wants, the oldest first.
    pub(crate) events: Vec<Event>,
    /// The last number that was looked at.
    pub(crate) next: u64,
    /// Whether there are later ones.
    pub(crate) more: bool,
}

/// The newest events. Their numbers rise by one, the last one's is `last`.
#[derive(Debug, Default)]
pub(super) struct Ring {
    events: VecDeque<Event>,
    bytes: usize,
    last: u64,
    counts: BTreeMap<EventKind, u64>,
}

impl Ring {
    /// Keeps an event, which is made with its number; drops the oldest ones that have no room beside it.
    pub(super) fn keep(&mut self, event: impl FnOnce(u64) -> Event) -> u64 {
        self.last += 1;
        let event = event(self.last);
        assert_eq!(event.number, self.last, "an event has its number");
        if let Some(kind) = EventKind::of(&event.kind) {
            *self.counts.entry(kind).or_default() += 1;
        }
        self.bytes += bytes_of(&event);
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= bytes_of(&oldest);
        }
        self.last
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn counts(&self) -> &BTreeMap<EventKind, u64> {
        &self.counts
    }

    /// What is kept after a number. One that was not given yet is the last one's.
    pub(super) fn look(&self, after: u64, asked: &Asked) -> Look {
        let after = after.min(self.last);
        let first = self.last - self.events.len() as u64;
        let missed = first.saturating_sub(after);
        let mut look = Look {
            missed,
            events: Vec::new(),
            next: after.max(first),
            more: false,
        };
        let skipped = usize::try_from(look.next - first).unwrap_or(usize::MAX);
        for event in self.events.iter().skip(skipped) {
            if look.events.len() == asked.limit {
                look.more = true;
                break;
            }
            look.next = event.number;
            if asked.wants(event) {
                look.events.push(event.clone());
            }
        }
        look
    }
}

fn bytes_of(event: &Event) -> usize {
    let names: usize = event.about.names().map(|(_, name)| name.len()).sum();
    let remedy = event.remedy.as_ref().map_or(0, String::len);
    let who = event.who.as_ref().map_or(0, |who| who.to_string().len());
    EVENT_BYTES + event.id.len() + event.kind.len() + event.text.len() + names + remedy + who
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::events::About;

    fn keep(ring: &mut Ring, kind: EventKind, text: &str) -> u64 {
        ring.keep(|number| Event {
            id: format!("run-{number}"),
            number,
            at_seconds: 0.0,
            severity: Severity::Info,
            kind: kind.word().to_owned(),
            about: About::default(),
            text: text.to_owned(),
            remedy: None,
            who: None,
        })
    }

    fn all(limit: usize) -> Asked {
        Asked {
            kinds: Vec::new(),
            severity: Severity::Info,
            limit,
        }
    }

    #[test]
    fn the_oldest_events_make_room_by_number() {
        let mut ring = Ring::default();
        let count = EVENTS_MAX as u64 + 10;
        for _ in 0..count {
            keep(&mut ring, EventKind::Command, "x");
        }
        let look = ring.look(0, &all(usize::MAX));
        assert_eq!((look.events.len(), look.missed), (EVENTS_MAX, 10));
        assert_eq!((look.events[0].number, look.next), (11, count));
        assert_eq!(ring.counts()[&EventKind::Command], count);
    }

    #[test]
    fn the_oldest_events_make_room_by_bytes() {
        let mut ring = Ring::default();
        let text = "x".repeat(TEXT_BYTES_MAX);
        for _ in 0..EVENTS_MAX {
            keep(&mut ring, EventKind::Command, &text);
            assert!(ring.bytes <= BYTES_MAX);
            let bytes: usize = ring.events.iter().map(bytes_of).sum();
            assert_eq!(ring.bytes, bytes);
        }
        assert!(ring.events.len() < EVENTS_MAX);
        let look = ring.look(0, &all(1));
        assert_eq!(look.missed, (EVENTS_MAX - ring.events.len()) as u64);
        assert_eq!(look.events[0].number, look.missed + 1);
    }

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let mut ring = Ring::default();
        for _ in 0..7 {
            keep(&mut ring, EventKind::Command, "x");
        }
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let look = ring.look(after, &all(3));
            seen.extend(look.events.iter().map(|event| event.number));
            after = look.next;
            if !look.more {
                break;
            }
        }
        assert_eq!(seen, (1..=7).collect::<Vec<_>>());
        let end = ring.look(after, &all(3));
        assert!(end.events.is_empty() && !end.more && end.missed == 0);
        assert_eq!(ring.look(99, &all(3)).next, 7);
    }

    #[test]
    fn only_what_is_asked_for_is_shown_and_the_rest_is_not_missed() {
        let mut ring = Ring::default();
        for kind in [EventKind::OriginLost, EventKind::OriginBack] {
            keep(&mut ring, kind, "x");
        }
        let asked = Asked {
            kinds: vec![EventKind::OriginBack],
            ..all(9)
        };
        let look = ring.look(0, &asked);
        assert_eq!((look.events.len(), look.missed, look.next), (1, 0, 2));
        let severe = Asked {
            severity: Severity::Warning,
            ..all(9)
        };
        assert!(ring.look(0, &severe).events.is_empty());
    }
}
