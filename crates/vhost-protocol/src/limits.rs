//! What QEMU and a guest may ask of us, and why no more.

/// Queues of a device. More than the vCPUs of large guests bring nothing, since one shard's
/// thread serves them all; the protocol could name 256.
pub const QUEUES_MAX: u16 = 64;

/// Descriptors of a queue: QEMU's own limit. A power of two, as split rings are.
pub const QUEUE_SIZE_MAX: u16 = 1024;

/// Pieces of memory that one request's data may lie in; told to the guest as `seg_max`. With
/// header and status it fills the 128 descriptors that QEMU gives a queue unless told otherwise.
pub const DATA_SEGMENTS_MAX: u32 = 126;

/// Descriptors in one chain, indirect ones included: QEMU's own limit. Longer ones are a driver
/// that ignores `seg_max` or a loop.
pub const CHAIN_SEGMENTS_MAX: u16 = 1024;

/// Largest payload of one request, in bytes, as over NBD. Guests learn of no limit by bytes, but
/// the block layers of Linux and Windows split far below.
pub const PAYLOAD_BYTES_MAX: u64 = 32 << 20;

/// Regions of guest memory: QEMU has 256 slots for memory modules at most, and a handful for
/// itself. Told to it as its number of memory slots.
pub const REGIONS_MAX: usize = 256;

/// Regions in one `SET_MEM_TABLE`, by the protocol: as many as descriptors in one message.
pub const TABLE_REGIONS_MAX: usize = 8;

/// Descriptors beside one message, by the protocol.
pub const DESCRIPTORS_MAX: usize = 8;

/// Longest payload of a message, in bytes: a configuration space with its header. The table of
/// eight regions is shorter.
pub const PAYLOAD_MAX: u32 = 12 + CONFIG_BYTES_MAX;

/// Longest configuration space, in bytes: what a message may carry by the protocol.
pub const CONFIG_BYTES_MAX: u32 = 256;

/// Sectors that one discard or write-zeroes may name: 2 GiB, so that one request of a guest
/// keeps neither the origin nor a flush behind it waiting for long.
pub const RANGE_SECTORS_MAX: u32 = 4 << 20;

/// Bytes of a disk's serial number, by virtio.
pub const SERIAL_BYTES: usize = 20;

const _: () = assert!(QUEUE_SIZE_MAX.is_power_of_two());
const _: () = assert!(DATA_SEGMENTS_MAX + 2 <= CHAIN_SEGMENTS_MAX as u32);
