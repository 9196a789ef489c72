//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Two digits a byte, lower case.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes what is written");
        text
    })
}

/// The `N` bytes that `text` has two digits each of, in either case; none if it is anything else.
pub(crate) fn from_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_nothing_else_is_taken() {
        assert_eq!(to_hex(&[0, 0xaf, 9]), "00af09");
        assert_eq!(from_hex(b"00aF09"), Some([0, 0xaf, 9]));
        for wrong in ["00af0", "00af0909", "00af0g", "+0af09", ""] {
            assert_eq!(from_hex::<3>(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
