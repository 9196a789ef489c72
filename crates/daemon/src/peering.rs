//! This host and its peer.

use api::roaming::PeerSession;
use link::{Link, NotLinked, PeerId};
use link_protocol::Frame;

/// This host and its peer, and the link between both.
#[derive(Clone)]
pub(super) struct Peering {
    link: Link,
    peer: PeerId,
    here: String,
    there: String,
}

impl Peering {
    /// The peer `there` of the host `here`; `None` if the link does not know it.
    pub(super) fn new(link: Link, here: String, there: String) -> Option<Self> {
        let peer = link.peer(&there)?;
        Some(Self {
            link,
            peer,
            here,
            there,
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

    /// Says something to the peer.
    ///
    /// # Errors
    /// If no session stands.
    pub(super) async fn say(&self, frame: Frame) -> Result<(), NotLinked> {
        self.link.send(self.peer, frame).await
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
