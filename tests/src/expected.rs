//! What a disk must hold, and a client that writes and checks it.

use anyhow::{Context as _, ensure};

use crate::{Image, Session};

/// What a disk must hold, byte for byte.
#[derive(Clone)]
pub struct Expected {
    bytes: Vec<u8>,
}

/// Bytes of a block of a client.
const BLOCK: usize = 4096;

impl Expected {
    /// What an image holds.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn of(image: &Image) -> anyhow::Result<Self> {
        let bytes = std::fs::read(image.path()).context("the image")?;
        Ok(Self { bytes })
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> u64 {
        (self.bytes.len() / BLOCK) as u64
    }

    /// A write was answered.
    pub fn put(&mut self, offset: u64, data: &[u8]) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        self.bytes[from..from + data.len()].copy_from_slice(data);
    }

    /// Whether these bytes are there.
    pub fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        self.bytes.get(from..from + bytes.len()) == Some(bytes)
    }

    /// Lets a client write blocks, each with its own number and `round`, every `step`-th from `first` on.
    ///
    /// # Errors
    ///
    /// When one of them fails.
    pub fn write(
        &mut self,
        client: &mut Session,
        blocks: impl Iterator<Item = u64>,
        round: u8,
    ) -> anyhow::Result<()> {
        for number in blocks {
            let data = crate::block(number, round);
            client.write(number * BLOCK as u64, &data)?;
            self.put(number * BLOCK as u64, &data);
        }
        Ok(())
    }

    /// Reads everything through a client, and compares.
    ///
    /// # Errors
    ///
    /// At the first block that differs, or when a read fails.
    pub fn check(&self, who: &str, client: &mut Session) -> anyhow::Result<()> {
        let mut seen = Vec::with_capacity(self.bytes.len());
        while seen.len() < self.bytes.len() {
            let piece = (self.bytes.len() - seen.len()).min(256 << 10);
            seen.extend(client.read(seen.len() as u64, piece as u64)?);
        }
        self.compare(who, &seen)
    }

    /// Compares.
    ///
    /// # Errors
    ///
    /// At the first block that differs.
    pub fn compare(&self, who: &str, seen: &[u8]) -> anyhow::Result<()> {
        ensure!(seen.len() == self.bytes.len(), "another size");
        let pairs = seen.chunks(BLOCK).zip(self.bytes.chunks(BLOCK));
        let differ = pairs.enumerate().filter(|(_, (seen, must))| seen != must);
        let differ: Vec<usize> = differ.map(|(block, _)| block).collect();
        let Some(first) = differ.first() else {
            return Ok(());
        };
        let at = first * BLOCK;
        anyhow::bail!(
            "{who}: {} blocks differ, the first is {first}: {:?}, and it must be {:?}",
            differ.len(),
            &seen[at..at + 8],
            &self.bytes[at..at + 8]
        )
    }
}
