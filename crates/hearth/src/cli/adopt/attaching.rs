//! Disks of a domain at the daemon: attached as `hearth disk attach` does it, and detached.

use super::record::Record;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output::json;
use crate::terminal::progress;
use crate::xml::FrontEndWord;
use api::client::{Client, Method};
use api::types::{DiskState, DiskStatus};
use api::write_back::OfDirty;
use configuration::{Name, canonical_origin};

/// How a disk came to be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attached {
    /// By this command.
    Now,
    /// It was before.
    Before,
}

/// What the daemon knows of a disk; none if there is no such disk.
pub(crate) async fn known(client: &Client, name: &Name) -> Result<Option<DiskStatus>, CliError> {
    let asked = client.get::<DiskStatus>(&format!("/v1/disks/{name}")).await;
    match asked.map_err(CliError::from) {
        Ok(status) => Ok(Some(status)),
        Err(error) if error.exit == Exit::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Attaches a disk, unless it is there already; the socket of its VM is open then.
///
/// # Errors
/// If the daemon refuses it, or its name is another disk's. A disk whose socket cannot be opened is detached again.
pub(crate) async fn attach(client: &Client, record: &Record) -> Result<Attached, CliError> {
    let name = &record.name;
    if let Some(status) = known(client, name).await? {
        is_the_same(&status, record)?;
        is_open(&status, record)?;
        return Ok(Attached::Before);
    }
    let body = json(&record.config())?;
    let sent = client.send::<_, DiskStatus>(Method::POST, "/v1/disks", Some(&body));
    let status = progress::waiting(format!("attaching {name}"), sent).await?;
    if let Err(error) = is_open(&status, record) {
        detach(client, name, OfDirty::Refuse).await?;
        return Err(error);
    }
    Ok(Attached::Now)
}

/// Detaches a disk that nobody uses.
///
/// # Errors
/// If the daemon refuses that: a client is connected, or the origin lacks bytes and `dirty` does not say what becomes of them.
pub(crate) async fn detach(client: &Client, name: &Name, dirty: OfDirty) -> Result<(), CliError> {
    let word = json(&dirty)?;
    let path = format!(
        "/v1/disks/{name}?dirty={}",
        word.as_str().unwrap_or_default()
    );
    let sent = client.send::<(), DiskStatus>(Method::DELETE, &path, None);
    progress::waiting(format!("detaching {name}"), sent).await?;
    Ok(())
}

/// Another disk of this name is not taken for the domain's.
fn is_the_same(status: &DiskStatus, record: &Record) -> Result<(), CliError> {
    let origin = canonical_origin(&record.origin);
    if status.origin == origin {
        return Ok(());
    }
    let message = format!(
        "the name '{}' is taken: that disk is at {}, and the VM's at {origin}",
        record.name, status.origin
    );
    let remedy = format!(
        "detach it if nobody needs it: hearth disk detach {}",
        record.name
    );
    Err(CliError::new(Exit::Refused, message).with_remedy(remedy))
}

/// A VM can connect where its XML says.
pub(crate) fn is_open(status: &DiskStatus, record: &Record) -> Result<(), CliError> {
    let name = &record.name;
    let refused = |message: String| {
        Err(CliError::new(Exit::Refused, message).with_remedy(format!("hearth disk show {name}")))
    };
    if !matches!(status.state, DiskState::Attached | DiskState::Standby) {
        let reason = status.reason.as_deref().unwrap_or("it is not ready yet");
        return refused(format!("the disk '{name}' is not attached: {reason}"));
    }
    let path = record.socket.display().to_string();
    let found = match record.via {
        FrontEndWord::Nbd => {
            let own = status.nbd_socket.iter();
            own.map(|socket| (&socket.path, &socket.error))
                .find(|(at, _)| **at == path)
        }
        FrontEndWord::VhostUser => {
            let all = status.vhost_user.sockets.iter();
            all.map(|socket| (&socket.path, &socket.error))
                .find(|(at, _)| **at == path)
        }
    };
    match found {
        Some((_, None)) => Ok(()),
        Some((_, Some(error))) => refused(format!(
            "the socket {path} of the disk '{name}' is not open: {error}"
        )),
        None => refused(format!(
            "the disk '{name}' has no socket {path}, where its VM looks for it"
        )),
    }
}
