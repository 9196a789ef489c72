//! Why a block is in memory.

use units::TenantSlot;

/// Why a block is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Admission said Stage.
    Staged,
    /// It was prefetched, and nobody has read it yet.
    Ahead,
    /// It was read, and its policy found it worth a frame.
    Hot,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every kind, in the order in which tables list them.
    pub const ALL: [Self; 3] = [Self::Staged, Self::Ahead, Self::Hot];

    /// Its name in metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Ahead => "ahead",
            Self::Hot => "hot",
        }
    }
}

/// A row's tag is the kind and, above these bits, the tenant's slot.
const KIND_BITS: u32 = 2;
const _: () = assert!(Kind::COUNT <= 1 << KIND_BITS);

pub(crate) fn tag_of(kind: Kind, tenant: TenantSlot) -> u32 {
    u32::from(tenant.get()) << KIND_BITS | kind as u32
}

#[inline]
pub(crate) fn kind_of(tag: u32) -> Kind {
    Kind::ALL[(tag & ((1 << KIND_BITS) - 1)) as usize]
}

pub(crate) fn tenant_of(tag: u32) -> TenantSlot {
    TenantSlot::new(u16::try_from(tag >> KIND_BITS).expect("a slot is 16 bits"))
}
