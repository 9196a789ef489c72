//! This host and its peers.

use super::looks::{Answer, Looks, NoLook};
use super::pace::Pace;
use api::roaming::PeerSession;
use link::{Link, NotLinked, PeerId};
use link_protocol::{Frame, Message};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use units::DiskId;

/// How long a peer has for an answer: longer than it looks for its origin.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// A peer, and what it is asked.
struct Known {
    name: String,
    looks: Looks,
}

/// The link, and who is at its ends.
struct Ends {
    link: Link,
    here: String,
    peers: BTreeMap<PeerId, Known>,
    pace: Arc<Pace>,
}

/// This host and one of its peers, and the link between both. All clones turn to another peer with one of them.
#[derive(Clone)]
pub(super) struct Peering {
    ends: Arc<Ends>,
    peer: Arc<RwLock<PeerId>>,
}

impl Peering {
    /// The host `here` and the first of its peers; `None` if the link knows none.
    pub(super) fn new(link: Link, here: String, pace: Pace) -> Option<Self> {
        let known = |peer| {
            let name = link.status_of(peer).peer.name;
            let looks = Looks::default();
            (peer, Known { name, looks })
        };
        let peers: BTreeMap<_, _> = link.peers().map(known).collect();
        let first = *peers.keys().next()?;
        let pace = Arc::new(pace);
        let ends = Ends {
            link,
            here,
            peers,
            pace,
        };
        Some(Self {
            ends: Arc::new(ends),
            peer: Arc::new(RwLock::new(first)),
        })
    }

    /// The same with this peer, which turns by itself.
    pub(super) fn with(&self, peer: PeerId) -> Self {
        Self {
            ends: Arc::clone(&self.ends),
            peer: Arc::new(RwLock::new(peer)),
        }
    }

    /// From now on it is about this peer, at all its clones.
    pub(super) fn turn(&self, to: PeerId) {
        *self.peer.write().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// The peer.
    pub(super) fn peer(&self) -> PeerId {
        *self.peer.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every peer of this host.
    pub(super) fn all(&self) -> impl Iterator<Item = Self> {
        self.ends.peers.keys().map(|peer| self.with(*peer))
    }

    /// Whether it could be about another peer.
    pub(super) fn has_others(&self) -> bool {
        self.ends.peers.len() > 1
    }

    /// The peer that is called so.
    pub(super) fn named(&self, name: &str) -> Option<PeerId> {
        self.ends.link.peer(name)
    }

    fn known(&self) -> &Known {
        &self.ends.peers[&self.peer()]
    }

    /// This host's name, as records have it.
    pub(super) fn here(&self) -> &str {
        &self.ends.here
    }

    /// The peer's.
    pub(super) fn there(&self) -> &str {
        &self.known().name
    }

    /// How fast blocks come from the peers, of all disks together.
    pub(super) fn pace(&self) -> Arc<Pace> {
        Arc::clone(&self.ends.pace)
    }

    /// Says something to the peer.
    ///
    /// # Errors
    /// If no session stands.
    pub(super) async fn say(&self, frame: Frame) -> Result<(), NotLinked> {
        self.ends.link.send(self.peer(), frame).await
    }

    /// The questions that the peer is asked.
    pub(super) fn looks(&self) -> &Looks {
        &self.known().looks
    }

    /// Asks the peer what a disk is to it.
    ///
    /// # Errors
    /// [`NoLook`].
    pub(super) async fn ask_look(&self, disk: DiskId) -> Answer {
        // The answer comes from the peer that was asked, whoever is turned to meanwhile.
        let asked = self.with(self.peer());
        let (number, answer) = asked.looks().ask();
        let disk = disk.to_u128();
        let ask = Frame::numbered(number, Message::AskLook { disk });
        let asking = async {
            let said = asked.say(ask).await;
            said.map_err(|NotLinked| NoLook::NotLinked)?;
            // Dropped with its session.
            answer.await.unwrap_or(Err(NoLook::NotLinked))
        };
        let outcome = tokio::time::timeout(ANSWER_TIME_MAX, asking).await;
        outcome.unwrap_or_else(|_| {
            asked.looks().give_up(number);
            Err(NoLook::Silent)
        })
    }

    /// Whether the peer takes words about traces.
    pub(super) fn takes_traces(&self) -> bool {
        self.ends.link.takes_traces(self.peer())
    }

    /// Whether a session with the peer stands.
    pub(super) fn stands(&self) -> bool {
        self.ends.link.status_of(self.peer()).version.is_some()
    }

    /// How things stand with the peer.
    pub(super) fn session(&self) -> PeerSession {
        let of = self.ends.link.status_of(self.peer());
        PeerSession {
            name: of.peer.name,
            address: of.peer.address,
            stands: of.version.is_some(),
            for_seconds: of.since.elapsed().as_secs_f64(),
            version: of.version,
            sessions: of.connections,
            problem: of.problem,
            remedy: of.remedy.map(str::to_owned),
        }
    }
}
