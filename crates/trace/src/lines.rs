//! Text formats: lines, and the fields of a line, parsed in place.
//!
//! A line ends with a newline, `\r` before it is dropped. A last line without one is refused, because the
//! number at its end may be cut: `1008` and `10` are both block numbers.

use crate::decode::{Decode, Fault, Out, Window, Wrong};
use crate::error::Position;
use crate::limits::LINE_BYTES_MAX;

/// A text format: what one line says.
pub(crate) trait Line: Send {
    /// The format's name, for errors.
    const NAME: &'static str;

    /// Takes a line without its end. Lines that hold no record are accepted and say nothing.
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong>;
}

/// The decoder of a [`Line`] format.
pub(crate) struct Lines<L> {
    format: L,
    /// Lines taken so far.
    count: u64,
}

impl<L> Lines<L> {
    pub(crate) fn new(format: L) -> Self {
        Self { format, count: 0 }
    }

    fn here(&self) -> Position {
        Position::Line(self.count + 1)
    }
}

impl<L: Line> Decode for Lines<L> {
    const NAME: &'static str = L::NAME;

    fn decode(&mut self, window: Window<'_>, out: &mut Out<'_>) -> Result<usize, Fault> {
        let mut rest = window.bytes;
        while !out.is_full() {
            let Some(end) = memchr::memchr(b'\n', rest) else {
                self.check_rest(rest, window.last)?;
                break;
            };
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            if let Err(wrong) = self.format.line(line, out) {
                return Err(Fault::Wrong(self.here(), wrong));
            }
            self.count += 1;
            rest = &rest[end + 1..];
        }
        Ok(window.bytes.len() - rest.len())
    }
}

impl<L: Line> Lines<L> {
    /// Bytes without a line's end: more to come, or a fault.
    fn check_rest(&self, rest: &[u8], last: bool) -> Result<(), Fault> {
        if rest.len() >= LINE_BYTES_MAX {
            return Err(Fault::Wrong(
                self.here(),
                Wrong::found(
                    "the line",
                    format!("longer than {} KiB", LINE_BYTES_MAX >> 10),
                    "short lines",
                ),
            ));
        }
        if last && !rest.is_empty() {
            return Err(Fault::Truncated {
                position: self.here(),
                found: format!("{} bytes without a newline", rest.len()),
                expected: "a line ends with one; add it if the line is whole".to_owned(),
            });
        }
        Ok(())
    }
}

/// What separates the fields of a line.
pub(crate) trait Separator {
    /// Drops what may stand before a field.
    fn lead(rest: &[u8]) -> &[u8];
    fn ends(byte: u8) -> bool;
}

/// One comma each, blanks around a field dropped.
pub(crate) struct Comma;
/// One semicolon each, blanks around a field dropped.
pub(crate) struct Semicolon;
/// Any run of blanks and tabs.
pub(crate) struct Blanks;

impl Separator for Comma {
    #[inline]
    fn lead(rest: &[u8]) -> &[u8] {
        rest
    }
    #[inline]
    fn ends(byte: u8) -> bool {
        byte == b','
    }
}

impl Separator for Semicolon {
    #[inline]
    fn lead(rest: &[u8]) -> &[u8] {
        rest
    }
    #[inline]
    fn ends(byte: u8) -> bool {
        byte == b';'
    }
}

impl Separator for Blanks {
    #[inline]
    fn lead(mut rest: &[u8]) -> &[u8] {
        while let [b' ' | b'\t', more @ ..] = rest {
            rest = more;
        }
        rest
    }
    #[inline]
    fn ends(byte: u8) -> bool {
        byte == b' ' || byte == b'\t'
    }
}

/// The fields of a line, from the left.
pub(crate) struct Fields<'a, S> {
    rest: &'a [u8],
    /// No separator came after the last field.
    exhausted: bool,
    separator: std::marker::PhantomData<S>,
}

pub(crate) const A_NUMBER: &str = "a whole number";

impl<'a, S: Separator> Fields<'a, S> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self {
            rest: S::lead(line),
            exhausted: false,
            separator: std::marker::PhantomData,
        }
    }

    /// What is left of the line.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True if no field is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.exhausted || (self.rest.is_empty() && S::ends(b' '))
    }

    /// The next field, blanks around it dropped; empty if there is none.
    #[inline]
    pub(crate) fn text(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| S::ends(byte));
        let field = &self.rest[..end.unwrap_or(self.rest.len())];
        self.advance(field.len());
        field.trim_ascii()
    }

    /// Steps over a field of that length and the separator after it.
    #[inline]
    fn advance(&mut self, length: usize) {
        if let Some(rest) = self.rest.get(length + 1..) {
            self.rest = S::lead(rest);
        } else {
            self.exhausted = true;
            self.rest = &[];
        }
    }

    /// The next field, which is a whole number.
    #[inline]
    pub(crate) fn number(&mut self, column: &'static str) -> Result<u64, Wrong> {
        let (value, length) = leading_digits(self.rest);
        // At most 19 digits cannot overflow; what is longer, padded or no number takes the careful way.
        if (1..=19).contains(&length) && self.rest.get(length).is_none_or(|&byte| S::ends(byte)) {
            self.advance(length);
            return Ok(value);
        }
        let field = self.text();
        number(field).ok_or_else(|| Wrong::field(column, field, A_NUMBER))
    }

    /// The next field, which is a whole number, as it is written.
    #[inline]
    pub(crate) fn number_text(&mut self, column: &'static str) -> Result<&'a [u8], Wrong> {
        let field = self.text();
        if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
            return Err(Wrong::field(column, field, A_NUMBER));
        }
        Ok(field)
    }

    /// The next field, seconds with up to nine decimals, as microseconds rounded down.
    #[inline]
    pub(crate) fn seconds(&mut self, column: &'static str) -> Result<u64, Wrong> {
        let field = self.text();
        micros(field).ok_or_else(|| Wrong::field(column, field, "seconds such as 12.345678"))
    }
}

#[inline]
fn leading_digits(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0_u64;
    let mut length = 0;
    for &byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        length += 1;
    }
    (value, length)
}

/// The whole number that a field is.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Seconds with decimals as microseconds, rounded down.
pub(crate) fn micros(field: &[u8]) -> Option<u64> {
    let (whole, length) = leading_digits(field);
    if length == 0 || length > 13 {
        return None;
    }
    let mut micros = 0;
    match &field[length..] {
        [] => {}
        [b'.', decimals @ ..] if decimals.iter().all(u8::is_ascii_digit) => {
            let shown = &decimals[..decimals.len().min(6)];
            for &digit in shown {
                micros = micros * 10 + u64::from(digit - b'0');
            }
            micros *= [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1][shown.len()];
        }
        _ => return None,
    }
    Some(whole * 1_000_000 + micros)
}

/// Refuses fields after the last one that the format has.
pub(crate) fn no_more<S: Separator>(fields: &Fields<'_, S>) -> Result<(), Wrong> {
    if fields.is_empty() {
        return Ok(());
    }
    Err(Wrong::field(
        "the line's end",
        fields.rest(),
        "no further field",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_microseconds_rounded_down() {
        assert_eq!(micros(b"0"), Some(0));
        assert_eq!(micros(b"1456095145.133076999"), Some(1_456_095_145_133_076));
        assert_eq!(micros(b"3.5"), Some(3_500_000));
        assert_eq!(micros(b"7."), Some(7_000_000));
        for wrong in [&b""[..], b".5", b"-1", b"1e3", b"1.2.3", b"99999999999999"] {
            assert_eq!(micros(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn numbers_are_whole_and_fit() {
        let max = u64::MAX.to_string();
        let mut fields =
            Fields::<Comma>::new(b"17, 18 ,18446744073709551615,18446744073709551616,x,");
        assert_eq!(fields.number("a").unwrap(), 17);
        assert_eq!(fields.number("b").unwrap(), 18);
        assert_eq!(fields.number("c").unwrap().to_string(), max);
        assert!(fields.number("d").is_err());
        assert!(format!("{:?}", fields.number("e")).contains("\\\"x"));
        assert!(!fields.is_empty());
        assert!(format!("{:?}", fields.number("f")).contains("missing"));
        assert!(fields.is_empty());
    }

    #[test]
    fn blanks_separate_in_any_number() {
        let mut fields = Fields::<Blanks>::new(b"  8,16\t 5 x ");
        assert_eq!(fields.text(), b"8,16");
        assert_eq!(fields.number("n").unwrap(), 5);
        assert_eq!(fields.text(), b"x");
        assert!(fields.is_empty());
        assert_eq!(fields.text(), b"");
    }
}
