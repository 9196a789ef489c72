//! The disks of a VM, as one.

use super::Member;
use crate::peering::Peering;
use handoff::IncomingClient;
use link_protocol::Frame;
use std::ops::{Deref, DerefMut};

/// The disks of a VM, in the order of their identities; never none.
pub(super) struct Disks(Vec<Member>);

impl Deref for Disks {
    type Target = [Member];

    fn deref(&self) -> &[Member] {
        &self.0
    }
}

impl DerefMut for Disks {
    fn deref_mut(&mut self) -> &mut [Member] {
        &mut self.0
    }
}

impl Disks {
    /// These.
    pub(super) fn new(disks: Vec<Member>) -> Self {
        Self(disks)
    }

    /// Whether one of them has a client here, and whether one has a client at the partner.
    pub(super) fn have_clients(&self) -> (bool, bool) {
        let clients = || self.0.iter().map(Member::clients);
        (
            clients().any(|(here, _)| here),
            clients().any(|(_, there)| there),
        )
    }

    /// This host and the peer that the disks go to or come from.
    pub(super) fn partner(&self) -> Peering {
        self.0[0].steps().peering.clone()
    }

    /// The unit's name on the link.
    pub(super) fn unit(&self) -> String {
        self.0[0].steps().entry.id.to_string()
    }

    pub(super) fn ids(&self) -> Vec<u128> {
        let ids = self.0.iter();
        ids.map(|disk| disk.steps().entry.id.to_u128()).collect()
    }

    /// What the disks are called in what operators are told.
    pub(super) fn name(&self) -> String {
        let names = self.0.iter();
        let names = names.map(|disk| disk.steps().entry.config.name.as_str());
        names.collect::<Vec<_>>().join("', '")
    }

    /// The last failure of a step, until something has gone well.
    pub(super) fn failure(&self) -> Option<String> {
        self.0.iter().find_map(|disk| {
            let why = disk.steps().failure()?;
            let name = &disk.steps().entry.config.name;
            Some(match self.0.len() {
                1 => why,
                _ => format!("the disk '{name}': {why}"),
            })
        })
    }

    /// What is lost with the link is said again by who needs it.
    pub(super) async fn say(&self, frame: Frame) {
        self.0[0].say(frame).await;
    }

    pub(super) fn see_incoming(&self, seen: IncomingClient) {
        self.0.iter().for_each(|disk| disk.see_incoming(seen));
    }
}
