//! This host and its peer.

use super::looks::{Answer, Looks, NoLook};
use super::pace::Pace;
use api::roaming::PeerSession;
use link::{Link, NotLinked, PeerId};
use link_protocol::{Frame, Message};
use std::sync::Arc;
use std::time::Duration;
use units::DiskId;

/// How long the peer has for an answer: longer than it looks for its origin.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// This host and its peer, and the link between both.
#[derive(Clone)]
pub(super) struct Peering {
    link: Link,
    peer: PeerId,
    here: String,
    there: String,
    looks: Arc<Looks>,
    pace: Arc<Pace>,
}

impl Peering {
    /// The peer `there` of the host `here`; `None` if the link does not know it.
    pub(super) fn new(link: Link, here: String, there: String, pace: Pace) -> Option<Self> {
        let peer = link.peer(&there)?;
        Some(Self {
            link,
            peer,
            here,
            there,
            looks: Arc::default(),
            pace: Arc::new(pace),
        })
    }

    /// This host's name, as records have it.
    pub(super) fn here(&self) -> &str {
        &self.here
    }

    /// The peer's.
    pub(super) fn there(&self) -> &str {
        &self.there
    }

    /// How fast blocks come from the peer, of all disks together.
    pub(super) fn pace(&self) -> Arc<Pace> {
        Arc::clone(&self.pace)
    }

    /// Says something to the peer.
    ///
    /// # Errors
    /// If no session stands.
    pub(super) async fn say(&self, frame: Frame) -> Result<(), NotLinked> {
        self.link.send(self.peer, frame).await
    }

    /// The questions that the peer is asked.
    pub(super) fn looks(&self) -> &Looks {
        &self.looks
    }

    /// Asks the peer what a disk is to it.
    ///
    /// # Errors
    /// [`NoLook`].
    pub(super) async fn ask_look(&self, disk: DiskId) -> Answer {
        let (number, answer) = self.looks.ask();
        let disk = disk.to_u128();
        let ask = Frame::numbered(number, Message::AskLook { disk });
        let asking = async {
            self.say(ask).await.map_err(|NotLinked| NoLook::NotLinked)?;
            // Dropped with its session.
            answer.await.unwrap_or(Err(NoLook::NotLinked))
        };
        let asked = tokio::time::timeout(ANSWER_TIME_MAX, asking).await;
        asked.unwrap_or_else(|_| {
            self.looks.give_up(number);
            Err(NoLook::Silent)
        })
    }

    /// How things stand with the peer.
    pub(super) fn session(&self) -> PeerSession {
        let of = self.link.status_of(self.peer);
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
