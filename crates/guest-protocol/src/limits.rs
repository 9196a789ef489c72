//! Bounds of the protocol, each with its reason.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a body at most: a list of ranges, sockets or disks fits.
pub const BODY_BYTES_MAX: usize = 4096;
/// Bytes of a frame at most.
pub const FRAME_BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX;
/// What a side sends first when it starts: as many zeros as a frame has bytes, so that a frame which its
/// predecessor left half written ends here and takes nothing along.
pub const PADDING: [u8; FRAME_BYTES_MAX] = [0; FRAME_BYTES_MAX];
/// Frames that the daemon takes of a guest in a second; what is more is dropped and counted. An agent
/// sends one or two.
pub const FRAMES_PER_SECOND: u32 = 100;
/// Ranges in a frame at most: with their head they take a quarter of a body.
pub const RANGES_MAX: usize = 64;
/// Disks that a side names at most: as many as a VM's unit has (`link-protocol`).
pub const DISKS_MAX: usize = 64;
/// Sockets in a frame at most.
pub const SOCKETS_MAX: usize = 64;
/// Bytes of a disk's serial number: those of virtio-blk.
pub const SERIAL_BYTES: usize = 20;
