//! Pre-shared keys for TLS: the text of a key file, as `psktool` writes it.
//!
//! ```text
//! # a comment
//! alice:6b65792064617461...
//! ```

use std::collections::BTreeMap;

/// Longest PSK, in bytes: what OpenSSL takes.
const PSK_BYTES_MAX: usize = 256;

/// Keys by the name that a client gives.
pub type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// Key exchanges of TLS 1.2 that need no certificate, forward secret ones only. TLS 1.3 has
/// its own list and comes first.
pub const CIPHERS_TLS_1_2: &str = "ECDHE-PSK-CHACHA20-POLY1305:DHE-PSK-AES256-GCM-SHA384:\
     DHE-PSK-AES128-GCM-SHA256:DHE-PSK-CHACHA20-POLY1305:\
     ECDHE-PSK-AES256-CBC-SHA384:ECDHE-PSK-AES128-CBC-SHA256";

/// A line that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAKey {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The keys of a file.
///
/// # Errors
/// The first line that is no key, or is one of a name that has a key already; the first line if there is no key at all.
pub fn parse(text: &str) -> Result<Keys, NotAKey> {
    let mut keys = Keys::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let refused = |problem| NotAKey { line, problem };
        let (name, key) = parse_line(text).map_err(refused)?;
        if keys.insert(name, key).is_some() {
            return Err(refused("this name has a key already"));
        }
    }
    if keys.is_empty() {
        return Err(NotAKey {
            line: 1,
            problem: "there is no key in this file",
        });
    }
    Ok(keys)
}

fn parse_line(line: &str) -> Result<(Vec<u8>, Vec<u8>), &'static str> {
    let (name, digits) = line
        .rsplit_once(':')
        .ok_or("write a name, a colon, and a hexadecimal key")?;
    if name.is_empty() {
        return Err("the name before the colon is missing");
    }
    let pairs = digits.as_bytes().chunks(2);
    let key = pairs
        .map(|pair| {
            let text = std::str::from_utf8(pair).ok().filter(|two| two.len() == 2);
            text.filter(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()))
                .and_then(|two| u8::from_str_radix(two, 16).ok())
        })
        .collect::<Option<Vec<u8>>>()
        .ok_or("the key is not a sequence of pairs of hexadecimal digits")?;
    if key.len() < 16 {
        return Err("a key has at least 16 bytes");
    }
    if key.len() > PSK_BYTES_MAX {
        return Err("a key has at most 256 bytes");
    }
    Ok((name.as_bytes().to_vec(), key))
}
