//! What a seed decides of a world with an NBD origin before anything happens.

use super::SECTORS;
use nbd_protocol::{BlockSizes, Export, Terms, TransmissionFlags};
use units::{Bytes, Duration, Prng, SECTOR_BYTES};

/// What kind of server there is, and what befalls it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    flags: TransmissionFlags,
    /// Whether replies come in chunks.
    pub structured: bool,
    /// Largest payload of a request, in sectors: larger operations are cut.
    pub piece_sectors: u64,
    /// Connections, if the server says that several are coherent.
    pub connections: usize,
    /// Operations that are asked for in all.
    pub operations: u64,
    /// Operations in flight at a time.
    pub depth: usize,
    /// Largest operation, in sectors.
    pub sectors_most: u64,
    /// While requests fail, one in so many does.
    pub error_every: u64,
    /// A fault of some kind comes once in so many steps; 0 for none.
    pub fault_every: u64,
    /// How long a request may wait.
    pub request_timeout: Duration,
}

impl Settings {
    /// The settings of a seed.
    pub fn of(dice: &mut Prng) -> Self {
        let mut flags = TransmissionFlags::HAS_FLAGS;
        for (flag, lacks) in [
            (TransmissionFlags::SEND_FLUSH, 8),
            (TransmissionFlags::SEND_FUA, 3),
            (TransmissionFlags::SEND_TRIM, 4),
            (TransmissionFlags::SEND_WRITE_ZEROES, 4),
            (TransmissionFlags::CAN_MULTI_CONN, 2),
        ] {
            flags = flags.with_if(!dice.one_in(lacks), flag);
        }
        // A server that has nothing volatile knows neither.
        if !flags.has(TransmissionFlags::SEND_FLUSH) {
            flags = flags.without(TransmissionFlags::SEND_FUA);
        }
        Self {
            flags,
            structured: dice.one_in(2),
            piece_sectors: 1 << dice.below(3),
            connections: 1 + usize::from(dice.one_in(2)) + usize::from(dice.one_in(2)),
            operations: 40 + dice.below(80),
            depth: 2 + usize::from(dice.one_in(2)) * 10,
            sectors_most: 1 + dice.below(SECTORS as u64 / 2),
            error_every: 1 + dice.below(6),
            fault_every: [0, 60, 120, 250][usize::try_from(dice.below(4)).unwrap_or(0)],
            request_timeout: Duration::from_millis(30 + dice.below(120)),
        }
    }

    /// Whether the server may forget what was not flushed.
    pub fn has_flush(&self) -> bool {
        self.flags.has(TransmissionFlags::SEND_FLUSH)
    }

    /// What a handshake ends in, with a disk of so many sectors.
    pub fn terms(&self, sectors: usize) -> Terms {
        let sector = u32::try_from(SECTOR_BYTES).unwrap_or(u32::MAX);
        let pieces = u32::try_from(self.piece_sectors).unwrap_or(1);
        Terms {
            export: Export {
                size: Bytes::new(sectors as u64 * SECTOR_BYTES),
                flags: self.flags,
                blocks: BlockSizes {
                    minimum: sector,
                    preferred: 4096,
                    maximum: sector * pieces,
                },
            },
            structured: self.structured,
            base_allocation: false,
        }
    }

    /// How many connections are made.
    pub fn connections(&self) -> usize {
        if self.flags.has(TransmissionFlags::CAN_MULTI_CONN) {
            self.connections
        } else {
            1
        }
    }
}
