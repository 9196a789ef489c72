//! Why a hypervisor did not do what it was asked.

use std::io;

/// Why a hypervisor did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum HypervisorError {
    /// Its program cannot be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Its program says so.
    #[error("{program}: {said}")]
    Refused {
        /// Which, with what it was asked.
        program: String,
        /// What it said.
        said: String,
    },
    /// Its program does not end.
    #[error("{0} has not ended in time")]
    Late(String),
    /// The monitor of the VM's QEMU is not there.
    #[error("the monitor of QEMU at {socket} does not answer: {source}")]
    Monitor {
        /// Where.
        socket: String,
        /// Why.
        source: io::Error,
    },
    /// The monitor refuses a command.
    #[error("QEMU refuses {command}: {said}")]
    Command {
        /// Which.
        command: &'static str,
        /// What it said.
        said: String,
    },
    /// A migration was cancelled and goes on.
    #[error("the migration of {0} was cancelled, and has not ended yet")]
    GoesOn(String),
}
