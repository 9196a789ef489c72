//! What is thrown at every parser of foreign bytes: the bodies of the fuzz targets.
//!
//! ```text
//!   fuzz/fuzz_targets/*.rs ── libFuzzer, as long as you like ──┐
//!                                                              ├─► Target::body(bytes)
//!   tests/replay.rs ── the corpus and seeded mutations of it ──┘
//! ```
//!
//! A body takes any bytes and panics if something that must hold does not: no parser panics,
//! what is accepted is within its bounds, what is decoded encodes to the same again, and how a
//! stream is cut into pieces makes no difference. They live here, apart from libFuzzer, so that
//! each ordinary test run tries them too.
//!
//! A new parser gets a module, a line in [`TARGETS`], a file in `fuzz/fuzz_targets` and a few
//! seeds (`cargo run -p hostile --example seeds`).

#![forbid(unsafe_code)]

mod flash_page;
mod flash_recovery;
mod guest_frames;
mod link_frames;
mod nbd_client_handshake;
mod nbd_client_replies;
mod nbd_options;
mod nbd_requests;
mod pieces;
mod trace;
mod traffic;
mod vhost_device;
mod vhost_messages;
mod vhost_rings;

/// One parser and what is thrown at it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics if anything that must hold does not.
    pub body: fn(&[u8]),
    /// How long a run takes beside the others; dearer ones are run less often in tests.
    pub cost: u64,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "nbd_options",
        body: nbd_options::run,
        cost: 1,
    },
    Target {
        name: "nbd_requests",
        body: nbd_requests::run,
        cost: 1,
    },
    Target {
        name: "nbd_client_handshake",
        body: nbd_client_handshake::run,
        cost: 1,
    },
    Target {
        name: "nbd_client_replies",
        body: nbd_client_replies::run,
        cost: 1,
    },
    Target {
        name: "flash_page",
        body: flash_page::run,
        cost: 1,
    },
    Target {
        name: "flash_recovery",
        body: flash_recovery::run,
        cost: 60,
    },
    Target {
        name: "trace",
        body: trace::run,
        cost: 6,
    },
    Target {
        name: "link_frames",
        body: link_frames::run,
        cost: 1,
    },
    Target {
        name: "guest_frames",
        body: guest_frames::run,
        cost: 1,
    },
    Target {
        name: "traffic",
        body: traffic::run,
        cost: 4,
    },
    Target {
        name: "vhost_messages",
        body: vhost_messages::run,
        cost: 1,
    },
    Target {
        name: "vhost_rings",
        body: vhost_rings::run,
        cost: 1,
    },
    Target {
        name: "vhost_device",
        body: vhost_device::run,
        cost: 30,
    },
];

/// Runs the target of this name on some bytes.
///
/// # Panics
/// If there is no such target, or if something that must hold does not.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of that name").body)(bytes);
}
