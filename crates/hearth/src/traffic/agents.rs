//! The daemon of this host, asked what the agents in its guests have said.

use crate::terminal::exit::{CliError, Exit};
use api::client::{Client, ClientError};
use api::guests::GuestPeers;
use api::problem::ProblemKind;
use api::vms::Vms;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use traffic::Said;
use traffic::collect::Unasked;

/// The agents in the guests of a daemon's VMs, and what the daemon is asked with.
pub(super) struct Agents<'a> {
    client: &'a Client,
    runtime: Runtime,
}

impl<'a> Agents<'a> {
    /// Those of this daemon. Nothing is asked yet.
    ///
    /// # Errors
    /// If the system gives no runtime.
    pub(super) fn new(client: &'a Client) -> Result<Self, CliError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            client,
            runtime: runtime.map_err(|error| CliError::of(Exit::Failed, &error))?,
        })
    }

    /// What the agents in the guests of its VMs have said since they began to.
    ///
    /// # Errors
    /// A [`ClientError`], if the daemon does not answer or does not keep what they say.
    pub(super) fn said(&self) -> Result<Vec<Said>, Unasked> {
        Ok(self.runtime.block_on(said(self.client))?)
    }
}

async fn said(client: &Client) -> Result<Vec<Said>, ClientError> {
    let known: Vms = client.get("/v1/vms").await?;
    let mut all = Vec::new();
    for vm in known.vms {
        let path = format!("/v1/vms/{}/peers", vm.name);
        match client.get::<GuestPeers>(&path).await {
            Ok(said) => all.extend(of(vm.name.to_string(), said)),
            // It has no disk here, or has left meanwhile.
            Err(ClientError::Refused(problem)) if is_no_vm(&problem.kind) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn is_no_vm(kind: &str) -> bool {
    let (code, _) = ProblemKind::NoSuchVm.words();
    kind.rsplit(':').next() == Some(code)
}

/// What a guest has said, if it has said something.
fn of(vm: String, said: GuestPeers) -> Option<Said> {
    let traffic = said.traffic?;
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let peers = said.peers.into_iter();
    Some(Said {
        vm,
        span: seconds(traffic.span_seconds),
        age: seconds(traffic.age_seconds),
        peers: peers.map(|peer| (peer.address, peer.bytes)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::types::Problem;

    #[test]
    fn a_vm_that_is_gone_is_told_from_a_refusal() {
        assert!(is_no_vm(&Problem::no_such_vm("web").kind));
        assert!(!is_no_vm(&Problem::new(ProblemKind::Refused, "no").kind));
    }

    #[test]
    fn a_guest_that_has_said_nothing_is_none() {
        let said = GuestPeers {
            traffic: None,
            peers: Vec::new(),
        };
        assert_eq!(of("web".to_owned(), said), None);
    }
}
