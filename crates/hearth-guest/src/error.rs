//! Why the agent cannot work, and what helps.

use std::io;
use std::path::PathBuf;

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The kernel does not tell of files' uses.
    #[error("the kernel does not tell which files are used: {0}")]
    Marks(io::Error),
    /// No file system is there to be watched.
    #[error("no file system on a disk is mounted")]
    NoFileSystem,
    /// Privileges that are needed no more could not be given up.
    #[error("privileges could not be given up: {0}")]
    Privileges(io::Error),
    /// The kernel may not be asked for sockets.
    #[error("the kernel cannot be asked for the guest's sockets: {0}")]
    Sockets(io::Error),
    /// The state directory cannot be used.
    #[error("{path}: {source}", path = .path.display())]
    State {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused something that it always allows.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl AgentError {
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Marks(error) => Some(match error.raw_os_error() {
                Some(libc::EPERM) => {
                    "start it by its unit (systemctl start hearth-guest), or with CAP_SYS_ADMIN"
                }
                _ => "a kernel of version 5.1 or newer with CONFIG_FANOTIFY",
            }),
            Self::NoFileSystem => Some("a guest that boots from the network needs no agent"),
            Self::Privileges(_) => Some("start it by its unit, or with CAP_DAC_READ_SEARCH"),
            Self::Sockets(_) => Some(
                "let its unit have them (the drop-in sockets.conf), or start it without --sockets",
            ),
            Self::State { .. } => {
                Some("make a folder that it may write, and name it: --state-dir DIR")
            }
            Self::System { .. } => None,
        }
    }
}
