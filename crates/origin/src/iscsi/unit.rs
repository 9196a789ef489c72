//! What a unit is and can do, in the words of the NBD client.

use libiscsi::cdb::{self, Caching, Capacity, Limits, Provisioning};
use libiscsi::{Error, Session};
use nbd_protocol::{BlockSizes, Export, Terms, TransmissionFlags};
use units::Bytes;

/// Most bytes of one read or write, if the unit does not say less: what targets take at once.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Most blocks of one command without data, if the unit does not say less.
const RANGE_BLOCKS_MAX: u32 = 1 << 20;

/// How ranges are given back and zeroed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Bytes of a block, a power of two.
    pub(super) block_bytes: u32,
    /// Most blocks that one command gives back; none where the unit gives nothing back.
    pub(super) discard_blocks: Option<u32>,
    /// Most blocks that one command zeroes.
    pub(super) zero_blocks: u32,
    /// Zeroing may give the range back.
    pub(super) zeroes_unmap: bool,
}

/// A unit as an export.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) terms: Terms,
    pub(super) able: Abilities,
}

impl Unit {
    /// Asks a unit what it is. Blocks.
    pub(super) fn of(session: &mut Session) -> Result<Self, Error> {
        let mut answer = [0; cdb::ANSWER_BYTES as usize];
        let length = session.ask("its capacity", cdb::capacity(), &mut answer)?;
        let capacity = Capacity::parse(&answer[..length]).ok_or(Error::Short("its capacity"))?;
        if !(512..=4096).contains(&capacity.block_bytes) || !capacity.block_bytes.is_power_of_two()
        {
            return Err(Error::Blocks(capacity.block_bytes));
        }
        let page = |session: &mut Session, page| {
            let mut answer = [0; cdb::ANSWER_BYTES as usize];
            // A unit need not have the page.
            let length = session.ask("a page", cdb::vital_page(page), &mut answer);
            answer[..length.unwrap_or(0)].to_vec()
        };
        let limits = Limits::parse(&page(session, cdb::BLOCK_LIMITS));
        let provisioning = Provisioning::parse(&page(session, cdb::PROVISIONING));
        let length = session.ask("its caching page", cdb::caching_page(), &mut answer);
        let caching = Caching::parse(&answer[..length.unwrap_or(0)]);
        Ok(Self::new(capacity, limits, provisioning, caching))
    }

    fn new(
        capacity: Capacity,
        limits: Limits,
        provisioning: Provisioning,
        caching: Caching,
    ) -> Self {
        let block_bytes = capacity.block_bytes;
        let transfer = match limits.transfer {
            0 => TRANSFER_BYTES_MAX,
            blocks => blocks.saturating_mul(block_bytes).min(TRANSFER_BYTES_MAX),
        };
        let discards = capacity.is_thin && provisioning.unmaps;
        let discard_blocks = discards.then(|| match limits.unmap {
            0 => RANGE_BLOCKS_MAX,
            blocks => blocks.min(RANGE_BLOCKS_MAX),
        });
        let zero_blocks = match u32::try_from(limits.write_same) {
            Ok(0) | Err(_) => RANGE_BLOCKS_MAX,
            Ok(blocks) => blocks.min(RANGE_BLOCKS_MAX),
        };
        let flags = TransmissionFlags::HAS_FLAGS
            .with(TransmissionFlags::SEND_FLUSH)
            .with(TransmissionFlags::SEND_WRITE_ZEROES)
            .with_if(caching.is_protected, TransmissionFlags::READ_ONLY)
            .with_if(caching.has_fua, TransmissionFlags::SEND_FUA)
            .with_if(discards, TransmissionFlags::SEND_TRIM);
        let size = Bytes::new(capacity.blocks.saturating_mul(u64::from(block_bytes)));
        let blocks = BlockSizes {
            minimum: block_bytes,
            preferred: block_bytes.max(4096),
            maximum: transfer.max(block_bytes),
        };
        Self {
            terms: Terms {
                export: Export {
                    size,
                    flags,
                    blocks,
                },
                structured: false,
                base_allocation: false,
            },
            able: Abilities {
                block_bytes,
                discard_blocks,
                zero_blocks,
                zeroes_unmap: capacity.is_thin && provisioning.write_same_unmaps,
            },
        }
    }
}
