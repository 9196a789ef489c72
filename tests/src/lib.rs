//! What the end-to-end tests share: a folder for each, programs that end with it, and words for what
//! they do. The tests themselves are in `tests/`, one behaviour a file.
//!
//! ```text
//!   scenario ── Lab (a folder, kept if the test fails)
//!                 ├── Origin   nbdkit over an image; its log counts what reached the origin
//!                 ├── Hearth   the program under test, by its command line only
//!                 ├── clients  fio, nbdsh, qemu-io, nbdcopy ...
//!                 └── Guest    a Linux VM under QEMU, heard through its serial console
//! ```
//!
//! Rules: every started process is a [`Process`] and is killed by its id when the test ends. Nothing
//! sleeps to wait; [`wait_until`] polls with a deadline. A tool that is not installed skips the test
//! with the tool's name, and fails it when `CI=true`.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a failed test tells where its folder and logs are"
)]

mod adoption;
mod agent;
mod back;
mod browser;
mod ceph;
mod certificates;
mod collector;
mod command;
mod debian;
mod disk_settings;
mod etcd;
mod expected;
mod ext4;
mod fio;
mod flash;
mod guest;
mod hearth;
mod held;
mod image;
mod lab;
mod libvirt;
mod limits;
mod links;
mod manager;
mod migrating;
mod mounted;
mod moves;
mod nfs;
mod obstacle;
mod origin;
mod packaged;
mod page;
mod ports;
mod process;
mod psk;
mod qmp;
mod recorder;
mod records;
mod relay;
mod ring_guest;
mod roaming;
mod roaming_settings;
mod sandbox;
mod scrape;
mod session;
mod small;
pub mod soak;
mod stack;
mod stuck;
mod tgt;
mod there_and_back;
mod tools;
mod unit;
mod versions;
mod vm;
pub mod waves;
mod wire;
mod words;

pub use adoption::Adoption;
pub use agent::{agent_memory_kib, said, with_agent};
pub use back::{Back, Pace, block, reads, writes};
pub use browser::{BROWSER_TOOLS, Browser};
pub use ceph::Ceph;
pub use certificates::Authority;
pub use collector::{Collector, TracedSpan};
pub use command::{Answer, check_config, hearth};
pub use debian::{DEBIAN_TOOLS, Debian, Packages};
pub use disk_settings::DiskSettings;
pub use etcd::Etcd;
pub use expected::Expected;
pub use ext4::{CrashedExt4, highest};
pub use fio::Fio;
pub use flash::Flash;
pub use guest::{Guest, GuestKit, TOOLS as GUEST_TOOLS, VhostUserSettings, committed};
pub use hearth::{Hearth, HearthSettings, program as hearth_program};
pub use held::{HeldOrigin, HeldServer};
pub use image::Image;
pub use lab::{Lab, scenario};
pub use libvirt::Libvirt;
pub use limits::{LONG, SHORT};
pub use links::{linked, links_among, links_to_nobody};
pub use manager::Manager;
pub use migrating::Migrating;
pub use mounted::{MOUNT_TOOLS, SlowOrigin, UnsyncedOrigin, WeakFlash, can_mount};
pub use moves::{Moved, moves};
pub use nfs::NfsMachine;
pub use obstacle::Obstacle;
pub use origin::{Origin, OriginSettings, Request, RequestKind};
pub use packaged::{PACKAGE_TOOLS, Package, has_status};
pub use page::{OperatedPage, PAGE_TOOLS, PageAnswer};
pub use ports::free_port;
pub use process::{Process, monotonic, wait_for_listener, wait_until};
pub use psk::Psk;
pub use qmp::Qmp;
pub use recorder::{Point, RECORDER_TOOLS, Recorder, Recording};
pub use relay::Relay;
pub use ring_guest::RingGuest;
pub use roaming::RoamingPair;
pub use roaming_settings::RoamingSettings;
pub use sandbox::enter as enter_sandbox;
pub use session::{Outcome, Refused, Session};
pub use small::SmallFileSystem;
pub use stack::{Stack, StackSettings};
pub use tgt::Tgt;
pub use there_and_back::{there_and_back, there_and_back_over};
pub use tools::{Output, is_root, nbdsh, run, run_expecting_failure};
pub use versions::{Versions, VersionsWriter};
pub use wire::Wire;
pub use words::Words;
