//! Limits of the sockets of the NBD client, each with its reason.

use units::Duration;

/// Connections to one server, whatever the configuration says.
pub(super) const LINKS_MAX: usize = 16;

/// Bytes received at a time: many replies of usual size, and few calls for a large one. Each
/// connection keeps that much memory, busy or not.
pub(super) const RECEIVE_BYTES: usize = 64 << 10;

/// How often a unix socket whose queue is full is tried again.
pub(super) const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(10);

/// Silence on a TCP connection after which the kernel asks whether the far side is there.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);

/// Pause between two such questions.
pub(super) const KEEPALIVE_PAUSE: Duration = Duration::from_secs(5);

/// Unanswered questions after which the connection is lost.
pub(super) const KEEPALIVE_COUNT: u32 = 3;

const _: () = assert!(nbd_client::SEND_SLICES <= ring::SEND_SLICES_MAX);

/// How often it is looked whether changes of former sessions are over, while there are any.
pub(super) const LATE_LOOK: Duration = Duration::from_millis(50);
