//! What is in a dirty log: its bytes, whether they are what was written, and writing them elsewhere
//! interval by interval.

use super::target::{Target, TargetError};
use crate::offline::OfflineError;
use block_io::BlockCipher;
use cache::{FoundBytes, FoundRecord, FoundWhat, LogReport};
use flash_format::{ErasureKind, PAGE_BYTES, checksum};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use units::{BLOCK_BYTES, Bytes, Offset};

/// The longest run that is written at once.
const RUN_BYTES_MAX: usize = 1 << 20;
/// Wrong blocks that are listed one by one; more are only counted.
const WRONG_LISTED_MAX: usize = 100;

/// A dirty log with its bytes at hand.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    log: &'a LogReport,
    file: &'a File,
    path: &'a Path,
    cipher: Option<&'a dyn BlockCipher>,
}

/// What verifying a log found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Blocks whose checksum is right.
    pub blocks_good: u64,
    /// Blocks whose checksum is wrong, or that cannot be read.
    pub blocks_bad: u64,
    /// The first of them: where on the disk, in bytes.
    pub bad_offsets: Vec<u64>,
}

impl<'a> Content<'a> {
    pub(super) fn new(log: &'a LogReport, file: &'a File, path: &'a Path) -> Self {
        Self {
            log,
            file,
            path,
            cipher: None,
        }
    }

    /// The same, its blocks decrypted. Checksums are of what lies on flash, so verifying needs no
    /// cipher.
    #[must_use]
    pub fn decrypted_by(self, cipher: Option<&'a dyn BlockCipher>) -> Self {
        Self { cipher, ..self }
    }

    /// Reads every block and compares it with its checksum. `progress` is told records done and all.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Verified {
        let mut found = Verified::default();
        let all = self.log.records.len() as u64;
        for (record, done) in self.log.records.iter().zip(1..) {
            if let FoundWhat::Block { block, .. } = &record.what {
                if self.block(record).is_some() {
                    found.blocks_good += 1;
                } else {
                    found.blocks_bad += 1;
                    if found.bad_offsets.len() < WRONG_LISTED_MAX {
                        found.bad_offsets.push(block.get() * BLOCK_BYTES);
                    }
                }
            }
            progress(done, all);
        }
        found
    }

    /// The bytes of a block's record, if they are what was written.
    fn block(&self, record: &FoundRecord) -> Option<Vec<u8>> {
        let FoundWhat::Block {
            block,
            checksum: right,
            bytes,
            ..
        } = &record.what
        else {
            return None;
        };
        let mut bytes = match bytes {
            FoundBytes::Memory(bytes) => bytes.clone(),
            FoundBytes::Flash(offset) => {
                let mut bytes = vec![0; PAGE_BYTES];
                self.file.read_exact_at(&mut bytes, offset.get()).ok()?;
                bytes
            }
        };
        let page = bytes.first_chunk::<PAGE_BYTES>()?;
        if checksum(page) != *right {
            return None;
        }
        if let Some(cipher) = self.cipher {
            cipher.decrypt(*block, &mut bytes);
        }
        Some(bytes)
    }

    /// Writes the log to `target`, interval by interval, each durable before the next begins.
    /// Blocks whose bytes are wrong are left as they are there. `progress` is told records done and
    /// all.
    ///
    /// # Errors
    /// What the target says: it has everything of the intervals before, and a part of one.
    pub fn write(
        &self,
        target: &mut dyn Target,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), TargetError> {
        let all = self.log.records.len() as u64;
        let mut done = 0;
        for interval in self.log.records.chunk_by(|a, b| a.interval == b.interval) {
            // An erasure between two writes makes their order count.
            for part in interval.chunk_by(|a, b| is_block(a) && is_block(b)) {
                self.write_part(part, target)?;
                done += part.len() as u64;
                progress(done, all);
            }
            target.flush()?;
        }
        Ok(())
    }

    /// Writes blocks in order of place, the newest of each; or carries out one erasure.
    fn write_part(&self, part: &[FoundRecord], target: &mut dyn Target) -> Result<(), TargetError> {
        let mut newest = BTreeMap::new();
        for record in part {
            match &record.what {
                FoundWhat::Block { block, .. } => {
                    newest.insert(block.get(), record);
                }
                FoundWhat::Erasure(erasure) => {
                    let offset = erasure.first.start();
                    let length = Bytes::new(u64::from(erasure.blocks) * BLOCK_BYTES);
                    match erasure.kind {
                        ErasureKind::Discard => target.discard(offset, length)?,
                        ErasureKind::Zeroes { may_unmap } => {
                            target.zero(offset, length, may_unmap)?;
                        }
                    }
                }
            }
        }
        let mut run: Vec<u8> = Vec::new();
        let mut first = 0;
        for (block, record) in newest {
            let Some(bytes) = self.block(record) else {
                continue;
            };
            let next = first + run.len() as u64 / BLOCK_BYTES;
            if (block != next && !run.is_empty()) || run.len() >= RUN_BYTES_MAX {
                target.write(Offset::new(first * BLOCK_BYTES), &run)?;
                run.clear();
            }
            if run.is_empty() {
                first = block;
            }
            run.extend_from_slice(&bytes);
        }
        if run.is_empty() {
            return Ok(());
        }
        target.write(Offset::new(first * BLOCK_BYTES), &run)
    }

    /// The flash, for messages.
    pub fn path(&self) -> &Path {
        self.path
    }
}

fn is_block(record: &FoundRecord) -> bool {
    matches!(record.what, FoundWhat::Block { .. })
}

impl From<TargetError> for OfflineError {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_format::{Erasure, Position};
    use units::{BlockIndex, DiskId};

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Target for Heard {
        fn write(&mut self, offset: Offset, data: &[u8]) -> Result<(), TargetError> {
            let fill: Vec<u8> = data.iter().step_by(PAGE_BYTES).copied().collect();
            self.0
                .push(format!("write {} {fill:?}", offset.get() / BLOCK_BYTES));
            Ok(())
        }
        fn discard(&mut self, offset: Offset, length: Bytes) -> Result<(), TargetError> {
            let (at, count) = (offset.get() / BLOCK_BYTES, length.get() / BLOCK_BYTES);
            self.0.push(format!("discard {at} {count}"));
            Ok(())
        }
        fn zero(&mut self, offset: Offset, length: Bytes, _: bool) -> Result<(), TargetError> {
            let (at, count) = (offset.get() / BLOCK_BYTES, length.get() / BLOCK_BYTES);
            self.0.push(format!("zero {at} {count}"));
            Ok(())
        }
        fn flush(&mut self) -> Result<(), TargetError> {
            self.0.push("flush".to_owned());
            Ok(())
        }
    }

    fn block(number: u64, fill: u8, interval: u64) -> FoundRecord {
        let bytes = [fill; PAGE_BYTES];
        FoundRecord {
            at: Position::START,
            interval,
            what: FoundWhat::Block {
                block: BlockIndex::new(number),
                checksum: checksum(&bytes),
                bytes: FoundBytes::Memory(bytes.to_vec()),
                is_settled: false,
            },
        }
    }

    fn erase(first: u64, blocks: u32, interval: u64) -> FoundRecord {
        FoundRecord {
            at: Position::START,
            interval,
            what: FoundWhat::Erasure(Erasure {
                first: BlockIndex::new(first),
                blocks,
                kind: ErasureKind::Discard,
            }),
        }
    }

    fn heard(records: Vec<FoundRecord>) -> (Vec<String>, Verified) {
        let log = LogReport {
            id: DiskId::from_u128(1),
            name: String::new(),
            size: Bytes::mib(1),
            epoch: 1,
            watermark: Position::START,
            locked: None,
            key: None,
            records,
        };
        let file = File::open("/dev/null").unwrap();
        let content = Content::new(&log, &file, Path::new("/dev/null"));
        let mut heard = Heard::default();
        content.write(&mut heard, &mut |_, _| {}).unwrap();
        (heard.0, content.verify(&mut |_, _| {}))
    }

    #[test]
    fn an_interval_is_written_once_a_block_in_order_of_place_and_flushed() {
        let records = vec![
            block(5, 1, 0),
            block(4, 2, 0),
            block(5, 3, 0),
            block(9, 4, 0),
            block(4, 5, 1),
        ];
        let (heard, verified) = heard(records);
        assert_eq!(
            heard,
            [
                "write 4 [2, 3]",
                "write 9 [4]",
                "flush",
                "write 4 [5]",
                "flush"
            ]
        );
        assert_eq!((verified.blocks_good, verified.blocks_bad), (5, 0));
    }

    #[test]
    fn an_erasure_keeps_its_place_among_writes() {
        let records = vec![block(1, 1, 0), erase(0, 4, 0), block(2, 2, 0)];
        assert_eq!(
            heard(records).0,
            ["write 1 [1]", "discard 0 4", "write 2 [2]", "flush"]
        );
    }

    #[test]
    fn a_block_that_is_not_what_was_written_is_counted_and_not_written() {
        let mut wrong = block(7, 1, 0);
        if let FoundWhat::Block { checksum, .. } = &mut wrong.what {
            *checksum ^= 1;
        }
        let (heard, verified) = heard(vec![wrong, block(8, 2, 0)]);
        assert_eq!(heard, ["write 8 [2]", "flush"]);
        assert_eq!(verified.blocks_bad, 1);
        assert_eq!(verified.bad_offsets, [7 * BLOCK_BYTES]);
    }
}
