//! What this crate accepts and keeps, with the reason of each bound.

use units::Bytes;

/// Version of [`HostReport`](crate::HostReport) that this release writes and reads.
pub const REPORT_VERSION: u32 = 1;

/// Hosts of one fleet. Twenty times the fleet that the design was measured with; a plan compares every VM of an
/// overloaded host with every host.
pub const HOSTS_MAX: usize = 10_000;

/// VMs of one host: as many as one cache has places for tenants.
pub const VMS_MAX: usize = units::TenantSlot::COUNT;

/// Points of a VM's curve. Sixteen keep a published curve below 512 bytes, and the curve of a working set has one knee.
pub const CURVE_POINTS_MAX: usize = 16;

/// Windows before the present one that a report may name: more than any sensible trigger waits for.
pub const WINDOWS_MAX: usize = 64;

/// Bytes in a name: the longest DNS name, since a host's name is one.
pub const NAME_BYTES_MAX: usize = 253;

/// Origins that a host reaches, or that a VM needs.
pub const ORIGINS_MAX: usize = 256;

/// The largest size of anything in a report. Sums over [`VMS_MAX`] of them fit in 64 bits.
pub const SIZE_MAX: Bytes = Bytes::gib(1 << 20);

/// The most reads in a second that a VM may claim.
pub const READS_PER_SECOND_MAX: f64 = 1e9;

/// The longest mean latency that a report may claim: ten seconds, beyond which an origin counts as gone.
pub const LATENCY_US_MAX: f64 = 1e7;

/// Targets that are weighed for each VM, the best by variance. More would cost time and only add targets that are
/// fuller than eight others.
pub const TARGETS_WEIGHED: usize = 8;

/// Moves that a plan lists as not worth their cost, for each overloaded host.
pub const UNWORTHY_LISTED: usize = 4;

/// Findings about one host that decide whether its reports are believed, the latest ones.
pub const FINDINGS_COUNTED: usize = 3;
