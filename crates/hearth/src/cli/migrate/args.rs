//! Arguments of `hearth migrate`.

use clap::Subcommand;
use configuration::Name;

/// Look at disks that roam, and at their hand-overs.
#[derive(Debug, Subcommand)]
pub enum Migrate {
    /// List the disks that roam
    List,
    /// Show how one disk roams
    ///
    /// Which host has it, whether the session with the peer stands, what has to reach the origin before it can be
    /// given away, and the last hand-over.
    Show {
        /// The disk's name
        name: Name,
        /// Go on until interrupted: on a terminal the picture is painted again, elsewhere each change is a line
        #[arg(long)]
        watch: bool,
    },
}
