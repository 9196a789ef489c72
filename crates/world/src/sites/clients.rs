//! The guests' connections to one host, what they wait for, and what is seen of them.

use block_io::Verb;
use handoff::{Accepts, Evidence, INCOMING_WAITS, Verdict};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Instant, Offset};

/// How long a client that has gone may take to connect again.
const RECONNECT_TIME: Duration = Duration::from_secs(1);

/// A request of a guest.
pub(super) struct Asked {
    pub(super) request: u64,
    pub(super) client: u64,
    pub(super) verb: Verb,
}

/// A piece of the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) offset: Offset,
    pub(super) length: Bytes,
}

/// How a connection of a guest stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// Never, while the disk was here.
    Never,
    /// The disk is here, and it was.
    Now,
    /// When the disk was here last.
    Before,
    /// It gets errors for ever.
    Ended,
}

/// A request that waits.
struct Parked {
    asked: Asked,
    /// A read that the owner is asked for.
    is_proxied: bool,
    is_sent: bool,
}

/// See the module's header.
pub(super) struct Clients {
    served: BTreeMap<u64, Served>,
    parked: Vec<Parked>,
    evidence: Evidence,
    /// When a client of the other host read last, as far as is known here.
    incoming_read: Option<Instant>,
    /// When the last client went.
    gone: Option<Instant>,
}

impl Clients {
    /// Those of a daemon that has just started: whoever was there before may connect again.
    pub(super) fn new(now: Instant) -> Self {
        let mut evidence = Evidence::new(Accepts::default());
        evidence.client_came();
        Self {
            served: BTreeMap::new(),
            parked: Vec::new(),
            evidence,
            incoming_read: None,
            gone: Some(now),
        }
    }

    /// For a message.
    pub(super) fn describe(&self) -> String {
        format!("clients {:?}, {} wait", self.served, self.parked.len())
    }

    /// A client connects. True if it is the only one.
    pub(super) fn came(&mut self, client: u64) -> bool {
        let is_first = self.served.is_empty();
        self.served.insert(client, Served::Never);
        self.gone = None;
        self.evidence.client_came();
        is_first
    }

    /// A client goes, with what it waits for. True if it was the last one.
    pub(super) fn went(&mut self, client: u64, now: Instant) -> bool {
        let was_here = self.served.remove(&client).is_some();
        self.parked.retain(|parked| parked.asked.client != client);
        let is_last = was_here && self.served.is_empty();
        if is_last {
            self.gone = Some(now);
        }
        is_last
    }

    pub(super) fn are_there(&self) -> bool {
        !self.served.is_empty()
    }

    /// How a client stands, if it is connected.
    pub(super) fn served(&self, client: u64) -> Option<Served> {
        self.served.get(&client).copied()
    }

    // What is seen of them.

    /// A request of the owner's guest.
    pub(super) fn asks(&mut self, verb: &Verb, now: Instant) {
        if matches!(verb, Verb::Flush) {
            self.evidence.flush(now);
        } else {
            self.evidence.request(now);
        }
    }

    /// A client of the other host has come, or the last one has gone.
    pub(super) fn incoming(&mut self, is_there: bool, now: Instant) {
        if is_there {
            self.evidence.incoming_came(now);
        } else {
            self.evidence.incoming_gone();
        }
    }

    /// A client of the other host reads.
    pub(super) fn incoming_reads(&mut self, now: Instant) {
        self.evidence.incoming_reads(now);
        self.incoming_read = Some(now);
    }

    /// Whether a client of the other host reads: QEMU moves no VM before it waits for that.
    pub(super) fn incoming_still_reads(&self, now: Instant) -> bool {
        self.incoming_read
            .is_some_and(|read| now < read + INCOMING_WAITS)
    }

    /// A guest of the other host asks for the disk. If the one here shows no sign that it has stopped, that one runs already.
    pub(super) fn incoming_claims(&mut self, now: Instant) {
        if self.evidence.verdict(now) == Verdict::Runs {
            self.evidence.incoming_runs();
        }
    }

    /// Whether the guest here has evidently stopped.
    pub(super) fn have_stopped(&mut self, now: Instant) -> bool {
        let is_over = |gone: Instant| now >= gone + RECONNECT_TIME;
        if self.gone.is_some_and(is_over) {
            self.gone = None;
            self.evidence.client_gone();
        }
        self.evidence.verdict(now) == Verdict::Stopped
    }

    // The disk comes and goes.

    /// The disk is here, and a client is served.
    pub(super) fn serve(&mut self, client: u64) {
        self.served.insert(client, Served::Now);
    }

    /// The disk goes.
    pub(super) fn disk_goes(&mut self) {
        self.change(Served::Now, Served::Before);
    }

    /// Those that were served when the disk was here last get errors from now on. Gives what they wait for, and
    /// how many they are.
    pub(super) fn end_old(&mut self) -> (Vec<Asked>, u64) {
        let count = self.change(Served::Before, Served::Ended);
        let served = &self.served;
        let is_ended = |one: &Asked| served.get(&one.client) == Some(&Served::Ended);
        (take(&mut self.parked, is_ended), count)
    }

    fn change(&mut self, from: Served, to: Served) -> u64 {
        let mut count = 0;
        for served in self.served.values_mut().filter(|served| **served == from) {
            *served = to;
            count += 1;
        }
        count
    }

    // What they wait for.

    /// A request waits; the owner is asked for it if it is proxied.
    pub(super) fn park(&mut self, asked: Asked, is_proxied: bool) {
        let is_sent = false;
        self.parked.push(Parked {
            asked,
            is_proxied,
            is_sent,
        });
    }

    /// Whether somebody waits for the disk.
    pub(super) fn wait_for_disk(&self) -> bool {
        self.parked.iter().any(|parked| !parked.is_proxied)
    }

    /// All that waits, in its order.
    pub(super) fn take_all(&mut self) -> Vec<Asked> {
        take(&mut self.parked, |_| true)
    }

    /// Flushes that wait.
    pub(super) fn take_flushes(&mut self) -> Vec<Asked> {
        take(&mut self.parked, |one| matches!(one.verb, Verb::Flush))
    }

    /// Reads that the owner is asked for now, by number.
    pub(super) fn send_reads(&mut self) -> Vec<(u64, Piece)> {
        let unsent = self.parked.iter_mut();
        let unsent = unsent.filter(|parked| parked.is_proxied && !parked.is_sent);
        let reads = unsent.filter_map(|parked| {
            parked.is_sent = true;
            let Verb::Read { offset, length } = parked.asked.verb else {
                return None;
            };
            Some((parked.asked.request, Piece { offset, length }))
        });
        reads.collect()
    }

    /// The owner will not answer what it was asked for.
    pub(super) fn unsend_reads(&mut self) {
        for parked in &mut self.parked {
            parked.is_sent = false;
        }
    }

    /// The owner has answered: true if the read waits for that. One without bytes is asked for again.
    pub(super) fn got(&mut self, number: u64, has_bytes: bool) -> bool {
        let is_it = |one: &Parked| one.is_proxied && one.asked.request == number;
        let Some(place) = self.parked.iter().position(is_it) else {
            return false;
        };
        if has_bytes {
            self.parked.remove(place);
        } else {
            self.parked[place].is_sent = false;
        }
        has_bytes
    }
}

fn take(parked: &mut Vec<Parked>, is_chosen: impl Fn(&Asked) -> bool) -> Vec<Asked> {
    let chosen = parked.extract_if(.., |one| is_chosen(&one.asked));
    chosen.map(|one| one.asked).collect()
}
