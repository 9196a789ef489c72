//! `hearth-guest`: the agent in a guest. It remembers which files matter and reads them into memory after the next
//! boot; on a channel to its host it says how the guest's memory is. A guest without it loses nothing but that.
//!
//! ```text
//!   kernel ── uses, by handle ──► Maps (guest-files) ──► history ──► state directory, each 5 minutes
//!   after the boot: history ──► Plan ──► readahead, in the order of the disk, until memory gets short
//!   virtio-serial port org.hearth.guest.0 ◄──► Hello, Memory, Classes, ReadAhead, Used, Sockets (guest-protocol)
//! ```
//!
//! One thread, one loop (`agent.rs`). Privileges: `CAP_SYS_ADMIN` for the marks of the first moment, then only
//! `CAP_DAC_READ_SEARCH`, which opens files by their handles. It keeps no descriptor of a file or a file system,
//! so it keeps no deleted file's space and stops no unmount.

mod agent;
mod args;
mod classes;
mod disks;
mod error;
mod follow;
mod kernel;
mod log;
mod memory;
mod mounts;
mod netlink;
mod peers;
mod port;
mod preload;
mod privileges;
mod sockets;
mod state;

use args::Args;
use clap::Parser;
use log::say;
use std::process::ExitCode;

fn main() -> ExitCode {
    match agent::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            if let Some(remedy) = error.remedy() {
                say(&format!("what helps: {remedy}"));
            }
            ExitCode::FAILURE
        }
    }
}
