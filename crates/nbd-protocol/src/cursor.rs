//! Reading big-endian fields off the front of a slice, without ever reading past its end.
//!
//! After a field that is not all there nothing more can be read: what is left of it must not
//! be taken for the field behind it.

/// What is left to read.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let all = std::mem::take(&mut self.0);
        let (head, rest) = all.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// A text with its length in four bytes in front; `None` if it is cut short or not UTF-8.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let count = usize::try_from(self.u32()?).ok()?;
        std::str::from_utf8(self.bytes(count)?).ok()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let all = std::mem::take(&mut self.0);
        let (head, rest) = all.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_cut_short_ends_the_reading() {
        let mut fields = Cursor::new(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(fields.u16(), Some(1));
        assert_eq!(fields.u64(), None);
        assert_eq!(fields.u32(), None);
    }

    #[test]
    fn a_text_longer_than_its_bytes_is_none() {
        assert_eq!(Cursor::new(b"\0\0\0\x02ab").text(), Some("ab"));
        assert_eq!(Cursor::new(b"\0\0\0\x03ab").text(), None);
        assert_eq!(Cursor::new(b"\xff\xff\xff\xffab").text(), None);
        assert_eq!(Cursor::new(b"\0\0\0\x02\xff\xff").text(), None);
    }
}
