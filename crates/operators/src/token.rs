//! Tokens and their hashes.

use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read as _};

/// Random bytes of a token: 256 bits.
const TOKEN_BYTES: usize = 32;
/// Bytes of a SHA-256.
const HASH_BYTES: usize = 32;
/// What a token begins with, so that people and scanners of source code know one when they see it.
const MARK: &str = "hearth-";
/// The longest text that is taken for a token: a longer one is not hashed.
const TEXT_BYTES_MAX: usize = 256;

/// A token, as its operator has it. It is shown once and never kept.
pub struct Token(String);

impl Token {
    /// A new one, from the system's random numbers.
    ///
    /// # Errors
    /// If the system has none.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(format!("{MARK}{}", hexadecimal(&bytes))))
    }

    /// Its text, to be shown.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Its hash, to be kept.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(&self.0).into())
    }
}

impl fmt::Debug for Token {
    /// Says nothing of the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenHash([u8; HASH_BYTES]);

impl TokenHash {
    /// That of what somebody shows as a token; none of a text that is too long to be one.
    pub fn of_text(text: &str) -> Option<Self> {
        (text.len() <= TEXT_BYTES_MAX).then(|| Self(Sha256::digest(text).into()))
    }

    /// Reads 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; HASH_BYTES];
        if text.len() != 2 * HASH_BYTES || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Whether both are the same. Looks at every byte, whatever the first ones say.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let differences = pairs.fold(0, |found, (one, two)| found | (one ^ two));
        // Hidden from the compiler, which might end the fold where it knows the result.
        std::hint::black_box(differences) == 0
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_have_256_bits() {
        let (one, two) = (Token::new().unwrap(), Token::new().unwrap());
        assert_ne!(one.text(), two.text());
        assert_eq!(one.text().len(), MARK.len() + 2 * TOKEN_BYTES);
        assert!(one.hash().is(&TokenHash::of_text(one.text()).unwrap()));
        assert!(!one.hash().is(&two.hash()));
        assert_eq!(format!("{one:?}"), "Token");
    }

    #[test]
    fn a_hash_is_that_of_sha_256() {
        // FIPS 180-4, the message "abc".
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = TokenHash::of_text("abc").unwrap();
        assert_eq!(hash.to_string(), known);
        assert!(TokenHash::parse(known).unwrap().is(&hash));
    }

    #[test]
    fn each_byte_of_a_hash_counts() {
        let hash = TokenHash::of_text("abc").unwrap();
        for at in 0..HASH_BYTES {
            let mut other = hash;
            other.0[at] ^= 1;
            assert!(!hash.is(&other), "{at}");
        }
    }

    #[test]
    fn no_text_is_too_strange() {
        assert!(TokenHash::of_text(&"x".repeat(TEXT_BYTES_MAX + 1)).is_none());
        for wrong in ["", "00", &"g".repeat(64), &"0".repeat(65), &"ä".repeat(32)] {
            assert!(TokenHash::parse(wrong).is_none(), "{wrong}");
        }
    }
}
