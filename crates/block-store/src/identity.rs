//! Which cache a flash holds, and how it is laid out.

use flash_format::Geometry;

/// What never changes while a store is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Which cache it is.
    pub(crate) uuid: u128,
    /// How often the cache was opened.
    pub(crate) incarnation: u64,
    /// Where everything is on the device.
    pub(crate) geometry: Geometry,
}
