//! What a peer may ask for at most.

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a message at most: a unit with all the disks that it may have, and some room.
pub const MESSAGE_MAX: usize = 4096;
/// Bytes of data in a frame at most.
pub const DATA_MAX: usize = 1 << 20;
/// Disks of a unit at most.
pub const UNIT_DISKS_MAX: usize = 64;
/// Points of a VM's miss-ratio curve at most: all of them fit into a message.
pub const CURVE_POINTS_MAX: usize = 64;
/// Bytes of a unit's name at most.
pub const UNIT_NAME_MAX: usize = 128;
/// Obstacles that a host names of a disk at most.
pub const OBSTACLES_MAX: usize = 6;
/// Bytes of each text of an obstacle at most; all of them fit into a message.
pub const OBSTACLE_TEXT_MAX: usize = 200;
/// Bytes of a host's name at most: a DNS name's.
pub const HOST_NAME_MAX: usize = 255;
