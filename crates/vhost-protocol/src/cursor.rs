//! Reading little-endian fields off the front of a slice, without ever reading past its end.

/// What is left to read. After a field that is not all there nothing more can be read.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let all = std::mem::take(&mut self.0);
        let (head, rest) = all.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
}
