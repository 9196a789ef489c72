//! What a server says of an export.

use crate::limits;
use units::Bytes;

/// Defines a set of bit flags of the wire as a type of its own.
macro_rules! wire_flags {
    ($(#[$type_doc:meta])* $name:ident { $($(#[$doc:meta])* $flag:ident = $bit:expr;)* }) => {
        $(#[$type_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u16);

        impl $name {
            $($(#[$doc])* pub const $flag: Self = Self(1 << $bit);)*
            /// Every flag that we know.
            pub const KNOWN: Self = Self($(1 << $bit |)* 0);
            /// None.
            pub const NONE: Self = Self(0);

            /// The flags of a number on the wire, unknown ones included.
            pub const fn from_wire(bits: u16) -> Self {
                Self(bits)
            }

            /// The number on the wire.
            pub const fn to_wire(self) -> u16 {
                self.0
            }

            /// These flags and those.
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These flags, and those if `condition` holds.
            pub const fn with_if(self, condition: bool, other: Self) -> Self {
                if condition { self.with(other) } else { self }
            }

            /// These flags but not those.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// True if all of `other` are set here.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if nothing but flags of `other` is set here.
            pub const fn within(self, other: Self) -> bool {
                self.0 & !other.0 == 0
            }
        }
    };
}
pub(crate) use wire_flags;

wire_flags! {
    /// What an export can do.
    TransmissionFlags {
        /// The flags mean something; always set.
        HAS_FLAGS = 0;
        /// Writes are refused.
        READ_ONLY = 1;
        /// `FLUSH` is understood.
        SEND_FLUSH = 2;
        /// The `FUA` flag is understood.
        SEND_FUA = 3;
        /// Seeks are slow.
        ROTATIONAL = 4;
        /// `TRIM` is understood.
        SEND_TRIM = 5;
        /// `WRITE_ZEROES` is understood.
        SEND_WRITE_ZEROES = 6;
        /// The `DF` flag is understood.
        SEND_DF = 7;
        /// Several connections see one consistent disk, flushes included.
        CAN_MULTI_CONN = 8;
        /// `CACHE` is understood.
        SEND_CACHE = 10;
        /// The `FAST_ZERO` flag is understood.
        SEND_FAST_ZERO = 11;
    }
}

/// Limits on offsets and lengths of requests, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Every offset and length is a multiple of this power of two, at most 64 KiB.
    pub minimum: u32,
    /// Multiples of this power of two are served best.
    pub preferred: u32,
    /// Largest payload of a read or write.
    pub maximum: u32,
}

impl BlockSizes {
    /// What we advertise: 512 bytes, 4 KiB, 32 MiB.
    pub const OURS: Self = Self {
        minimum: limits::BLOCK_BYTES_MIN,
        preferred: limits::BLOCK_BYTES_PREFERRED,
        maximum: limits::PAYLOAD_BYTES_MAX,
    };

    /// What a client assumes of a server that advertises nothing.
    pub const UNSAID: Self = Self {
        minimum: 1,
        preferred: 4096,
        maximum: 32 << 20,
    };

    /// True if these sizes are what the protocol allows: powers of two, in order, the largest a
    /// multiple of the smallest or without bound.
    pub const fn is_sound(self) -> bool {
        self.minimum.is_power_of_two()
            && self.minimum <= 1 << 16
            && self.preferred.is_power_of_two()
            && self.preferred >= self.minimum
            && self.preferred >= 512
            && self.maximum >= self.minimum
            && (self.maximum == u32::MAX || self.maximum.is_multiple_of(self.minimum))
    }
}

/// An export as a client gets to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// Size in bytes.
    pub size: Bytes,
    /// What it can do.
    pub flags: TransmissionFlags,
    /// Limits on requests.
    pub blocks: BlockSizes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_that_we_advertise_are_sound() {
        assert!(BlockSizes::OURS.is_sound());
        assert!(BlockSizes::UNSAID.is_sound());
    }

    #[test]
    fn odd_block_sizes_are_unsound() {
        let ours = BlockSizes::OURS;
        for odd in [
            BlockSizes { minimum: 0, ..ours },
            BlockSizes {
                minimum: 768,
                ..ours
            },
            BlockSizes {
                minimum: 1 << 17,
                preferred: 1 << 17,
                ..ours
            },
            BlockSizes {
                preferred: 256,
                ..ours
            },
            BlockSizes { maximum: 0, ..ours },
            BlockSizes {
                maximum: 4096 + 100,
                ..ours
            },
        ] {
            assert!(!odd.is_sound(), "{odd:?}");
        }
    }

    #[test]
    fn flags_are_sets() {
        let flags = TransmissionFlags::HAS_FLAGS.with(TransmissionFlags::SEND_FLUSH);
        assert_eq!(flags.to_wire(), 0b101);
        assert!(flags.has(TransmissionFlags::SEND_FLUSH));
        assert!(!flags.has(TransmissionFlags::READ_ONLY));
        assert!(flags.within(TransmissionFlags::KNOWN));
        assert!(!TransmissionFlags::from_wire(1 << 9).within(TransmissionFlags::KNOWN));
    }
}
