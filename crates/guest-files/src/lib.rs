//! Which files of a guest matter, and in which order they are read after its boot, without I/O.
//!
//! ```text
//!   uses of files ──► Maps ──┬─► end_epoch(): which files leave the guest's memory
//!    (by handle)       │     └─► sections A and C ──► Plan ──► reads, in the order of the disk
//!                      └─► history::encode ──► a file that outlives the boot
//! ```
//!
//! [`Maps`] is the guest-level component of `MultiCache` (Algorithm 1). Files are known by their handles, which
//! the kernel gives with each use and which outlive boots; nobody here opens anything.

#![forbid(unsafe_code)]

mod followed;
mod handle;
pub mod history;
pub mod journal;
mod limits;
mod maps;
mod places;
mod plan;
mod preload;
mod settings;

pub use followed::{Followed, Outcome};
pub use handle::{Handle, NoHandle};
pub use limits::{EXTENTS_MAX, FILES_MAX, HANDLE_BYTES_MAX, READ_BYTES};
pub use maps::{Leaving, Maps, Use};
pub use places::{Part, Places};
pub use plan::{Extent, Plan, Read};
pub use preload::{Preload, Step, Why};
pub use settings::Settings;
