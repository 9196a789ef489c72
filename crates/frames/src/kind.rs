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

/// Labels that prefetched blocks may have: of four miners in eight degrees of certainty, and whether the guest was told.
pub const LABELS: usize = 64;

/// A row's tag is the kind, above these bits the label, then the turn, and above all the tenant's slot.
const KIND_BITS: u32 = 2;
const LABEL_BITS: u32 = LABELS.ilog2();
const TURN_BIT: u32 = KIND_BITS + LABEL_BITS;
const _: () = assert!(Kind::COUNT <= 1 << KIND_BITS);

/// The tag of a frame; the label is below [`LABELS`].
pub(crate) fn tag_of(kind: Kind, tenant: TenantSlot, label: u8, turn: bool) -> u32 {
    let (tenant, turn) = (u32::from(tenant.get()), u32::from(turn));
    tenant << (TURN_BIT + 1) | turn << TURN_BIT | u32::from(label) << KIND_BITS | kind as u32
}

#[inline]
pub(crate) fn kind_of(tag: u32) -> Kind {
    Kind::ALL[(tag & ((1 << KIND_BITS) - 1)) as usize]
}

pub(crate) fn label_of(tag: u32) -> u8 {
    let label = (tag >> KIND_BITS) & ((1 << LABEL_BITS) - 1);
    u8::try_from(label).expect("there are few labels")
}

/// The turn of its tenant in which a block was prefetched.
pub(crate) fn turn_of(tag: u32) -> bool {
    tag >> TURN_BIT & 1 == 1
}

pub(crate) fn tenant_of(tag: u32) -> TenantSlot {
    let tenant = tag >> (TURN_BIT + 1);
    TenantSlot::new(u16::try_from(tenant).expect("a slot is 16 bits"))
}
