//! Feature bits: of virtio and the device, and of the vhost-user protocol itself.

macro_rules! bits {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $bit:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(u64);

        impl $name {
            $($(#[$doc])* pub const $bit: Self = Self(1 << $number);)*

            /// No bits.
            pub const NONE: Self = Self(0);

            /// The bits of a number on the wire, known or not.
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// The number on the wire.
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// Whether all bits of `other` are set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// These and those.
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These, and those if `so`.
            pub const fn with_if(self, so: bool, other: Self) -> Self {
                if so { self.with(other) } else { self }
            }

            /// These without those.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

bits! {
    /// Features of the device, as the guest's driver accepts them; two are of vhost itself.
    Features {
        /// The largest number of data segments is told.
        BLK_SEG_MAX = 2,
        /// The disk is read-only.
        BLK_RO = 5,
        /// The sector size is told.
        BLK_BLK_SIZE = 6,
        /// The guest can flush.
        BLK_FLUSH = 9,
        /// Physical sector size and preferred lengths are told.
        BLK_TOPOLOGY = 10,
        /// The guest can switch between write-back and write-through.
        BLK_CONFIG_WCE = 11,
        /// Several queues.
        BLK_MQ = 12,
        /// The guest can discard.
        BLK_DISCARD = 13,
        /// The guest can write zeroes.
        BLK_WRITE_ZEROES = 14,
        /// Every write to guest memory is marked in a log (vhost).
        LOG_ALL = 26,
        /// Descriptors may be in tables of their own.
        RING_INDIRECT_DESC = 28,
        /// Notifications are asked for by index.
        RING_EVENT_IDX = 29,
        /// The protocol has features of its own (vhost-user).
        PROTOCOL_FEATURES = 30,
        /// Virtio 1.0 or later.
        VERSION_1 = 32,
    }
}

bits! {
    /// Features of the vhost-user protocol.
    ProtocolFeatures {
        /// More than one queue.
        MQ = 0,
        /// The dirty log is shared memory.
        LOG_SHMFD = 1,
        /// Any message can ask for an acknowledgement.
        REPLY_ACK = 3,
        /// We can send messages, over a channel of their own.
        BACKEND_REQ = 5,
        /// The configuration space comes from us.
        CONFIG = 9,
        /// What is in flight is kept in shared memory.
        INFLIGHT_SHMFD = 12,
        /// The device can be reset.
        RESET_DEVICE = 13,
        /// Memory comes and goes region by region.
        CONFIGURE_MEM_SLOTS = 15,
    }
}

impl Features {
    /// What every disk offers.
    pub const OFFERED: Self = Self::BLK_SEG_MAX
        .with(Self::BLK_BLK_SIZE)
        .with(Self::BLK_FLUSH)
        .with(Self::BLK_TOPOLOGY)
        .with(Self::BLK_CONFIG_WCE)
        .with(Self::LOG_ALL)
        .with(Self::RING_INDIRECT_DESC)
        .with(Self::RING_EVENT_IDX)
        .with(Self::PROTOCOL_FEATURES)
        .with(Self::VERSION_1);
}

impl ProtocolFeatures {
    /// What we offer: everything above.
    pub const OFFERED: Self = Self::MQ
        .with(Self::LOG_SHMFD)
        .with(Self::REPLY_ACK)
        .with(Self::BACKEND_REQ)
        .with(Self::CONFIG)
        .with(Self::INFLIGHT_SHMFD)
        .with(Self::RESET_DEVICE)
        .with(Self::CONFIGURE_MEM_SLOTS);
}
