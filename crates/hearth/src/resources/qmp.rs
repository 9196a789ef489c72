//! The sockets of QEMU's monitors: one conversation with each, all at once.

use super::sources::{Round, VMS_MAX};
use monitor::{Qmp, QmpError, QmpStep, VmFigures};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// How long a conversation may take: QEMU answers in a millisecond. One that does not holds a place and nothing else.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Why a VM says nothing.
#[derive(Debug, thiserror::Error)]
enum Silent {
    #[error(
        "{0}: let the user that runs hearth monitor open the socket, or remove it if its VM is gone"
    )]
    Connect(io::Error),
    #[error("{0}")]
    Lost(#[from] io::Error),
    #[error("the conversation ended before all was asked")]
    Closed,
    #[error("{0}: a socket of --qmp is one of QEMU's -qmp")]
    Says(#[from] QmpError),
    #[error(
        "no answer within 1 s: another program may be connected, and QEMU serves one at a time"
    )]
    Late,
}

/// Asks each VM whose socket is in a folder.
pub(super) async fn ask_all(folder: &Path, round: &mut Round) {
    let sockets = match sockets(folder) {
        Ok(sockets) => sockets,
        Err(error) => {
            let reason = format!("{error}: name a folder that the user of hearth monitor may read");
            return round.lacks(format!("--qmp {}", folder.display()), reason);
        }
    };
    if sockets.len() > VMS_MAX {
        let reason = format!("{} sockets, of which {VMS_MAX} are asked", sockets.len());
        round.lacks(format!("--qmp {}", folder.display()), reason);
    }
    let mut asked = JoinSet::new();
    for (vm, path) in sockets.into_iter().take(VMS_MAX) {
        asked.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_TIME, converse(&path)).await;
            (vm, path, answer.unwrap_or(Err(Silent::Late)))
        });
    }
    for (vm, path, answer) in asked.join_all().await {
        match answer {
            Ok(figures) => round.add(vm, figures),
            Err(silent) => round.lacks(path.display().to_string(), silent.to_string()),
        }
    }
}

/// The VMs by name, and their sockets.
fn sockets(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_one = path
            .extension()
            .is_some_and(|end| end == "qmp" || end == "sock");
        if let (true, Some(vm)) = (is_one, path.file_stem().and_then(|name| name.to_str())) {
            sockets.push((vm.to_owned(), path));
        }
    }
    sockets.sort();
    Ok(sockets)
}

async fn converse(path: &Path) -> Result<VmFigures, Silent> {
    let socket = UnixStream::connect(path).await;
    let mut socket = socket.map_err(|error| match error.kind() {
        // As many wait already as QEMU lets wait.
        io::ErrorKind::WouldBlock => Silent::Late,
        _ => Silent::Connect(error),
    })?;
    let mut qmp = Qmp::default();
    let mut bytes = vec![0; 16 << 10];
    loop {
        let count = socket.read(&mut bytes).await?;
        if count == 0 {
            return Err(Silent::Closed);
        }
        match qmp.heard(&bytes[..count])? {
            QmpStep::Say(say) => socket.write_all(say.as_bytes()).await?,
            QmpStep::Done(figures) => return Ok(figures),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_names_its_vm() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["web.qmp", "db.sock", "notes.txt", "qmp"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = sockets(folder.path()).unwrap();
        let vms: Vec<_> = found.iter().map(|(vm, _)| vm.as_str()).collect();
        assert_eq!(vms, ["db", "web"]);
        assert!(sockets(&folder.path().join("none")).is_err());
    }
}
