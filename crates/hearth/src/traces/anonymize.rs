//! `hearth trace anonymize`: a trace to give away.

use super::args::Anonymize;
use super::unopened;
use super::write::{Report, target, written};
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::quantity;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use trace::anonymize::{Anonymizer, Coarseness, Key};
use trace::write::Conversion;

/// The word for a key that nobody keeps.
const RANDOM: &str = "random";
/// A key's length in bytes.
const KEY_BYTES: usize = 32;

pub(super) fn anonymize(asked: &Anonymize, json: bool) -> Result<Vec<u8>, CliError> {
    let target = target(&asked.writing)?;
    let key = key(&asked.key)?;
    let options = asked.reading.options();
    let opened = trace::open(&asked.trace, &options).map_err(|error| unopened(&error))?;
    let coarseness = Coarseness {
        time_us: asked
            .time_step
            .map_or(1, |step| (step.as_nanos() / 1000).max(1)),
        size: asked.size_step.unwrap_or(Coarseness::EXACT.size),
    };
    let mut reader = Anonymizer::new(opened.reader, key, coarseness);
    // Neither the file's name nor its checksum, which would say which trace it was.
    let by = format!("hearth {}", env!("CARGO_PKG_VERSION"));
    let about = "names and addresses stand for others".to_owned();
    let facts = [("written_by", by), ("anonymous", about)];
    let conversion = Conversion {
        path: &asked.writing.output,
        target,
        force: asked.writing.force,
        block: asked.reading.block,
        facts: &facts,
    };
    let written = written(&mut reader, &conversion)?;
    let report = Report::new(&asked.trace, opened.format.name(), &conversion, &written);
    if json {
        return crate::terminal::to_json(&report);
    }
    let mut text = report.told(target, &written);
    let divided = reader.divided();
    if divided > 0 {
        let divided = quantity::counted(divided, "request");
        text.push_str(&divided);
        text.push_str(" crossed a border of 1MiB and became several\n");
    }
    Ok(text.into_bytes())
}

/// The key that a word names: a file's, or one that is made now.
fn key(word: &str) -> Result<Key, CliError> {
    let path = if word == RANDOM { "/dev/urandom" } else { word };
    let bytes = start_of(Path::new(path)).map_err(|error| {
        CliError::new(Exit::Usage, format!("cannot read the key {path}: {error}"))
            .with_remedy("--key random; or make a key: openssl rand -hex 32 > FILE")
    })?;
    let bytes = if word == RANDOM {
        bytes.get(..KEY_BYTES)
    } else {
        Some(&bytes[..])
    };
    let secret = bytes.and_then(parsed);
    secret.map(Key::new).ok_or_else(|| {
        let message = format!("{path} is no key of {KEY_BYTES} bytes, or 64 hexadecimal digits");
        CliError::new(Exit::Usage, message).with_remedy("openssl rand -hex 32 > FILE")
    })
}

/// More than a key has of a file, so that a longer one is no key.
fn start_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(128).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parsed(bytes: &[u8]) -> Option<[u8; KEY_BYTES]> {
    if let Ok(secret) = <[u8; KEY_BYTES]>::try_from(bytes) {
        return Some(secret);
    }
    let digits = str::from_utf8(bytes).ok()?.trim();
    if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut secret = [0; KEY_BYTES];
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_or_64_digits() {
        assert_eq!(parsed(&[7; 32]), Some([7; 32]));
        let digits = format!("{}\n", "0f".repeat(32));
        assert_eq!(parsed(digits.as_bytes()), Some([15; 32]));
        for wrong in [&b""[..], &[7; 31], &[7; 128], "0g".repeat(32).as_bytes()] {
            assert_eq!(parsed(wrong), None);
        }
    }
}
