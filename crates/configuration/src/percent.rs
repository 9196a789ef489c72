//! Percent-encoding of names in addresses (RFC 3986, section 2.1).

use std::fmt;

/// The text without its percent signs.
pub(crate) fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = rest.next().map(char::from)?.to_digit(16)?;
            u8::try_from(digit).ok()
        };
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            _ => return Err("a percent sign is followed by two hexadecimal digits"),
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err("a zero byte"),
        Ok(text) => Ok(text),
        Err(_) => Err("not UTF-8"),
    }
}

/// Writes a text; letters, digits and the bytes of `plain` as they are.
pub(crate) fn encode(f: &mut fmt::Formatter<'_>, text: &str, plain: &[u8]) -> fmt::Result {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}
