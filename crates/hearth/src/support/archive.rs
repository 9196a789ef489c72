//! Files in one file: the archive format ustar of POSIX.1-1988, as far as it is needed for plain files with short names.
//!
//! ```text
//!   header 512 B │ content │ zeroes up to 512 B │ header ... │ 1024 B of zeroes
//! ```

/// The unit of the format.
const RECORD: usize = 512;
/// The longest name that fits without a prefix.
const NAME_BYTES_MAX: usize = 100;

/// An archive that is being made.
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// When its files are said to have changed, in seconds since 1970.
    time_seconds: u64,
}

impl Archive {
    /// An empty one.
    pub(super) fn new(time_seconds: u64) -> Self {
        Self {
            bytes: Vec::new(),
            time_seconds,
        }
    }

    /// Adds a file that only its owner may read.
    ///
    /// # Panics
    /// If the name is too long, which those of a bundle are not.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) {
        assert!(name.len() < NAME_BYTES_MAX, "the name of a file is short");
        let mut header = [0; RECORD];
        let mut put = |at: usize, text: &str| {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        put(0, name);
        put(100, "0000600\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{:011o}\0", content.len()));
        put(136, &format!("{:011o}\0", self.time_seconds));
        // The checksum counts as blanks.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\0");
        put(263, "00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        let whole = self.bytes.len().next_multiple_of(RECORD);
        self.bytes.resize(whole, 0);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * RECORD, 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tar_lists_and_reads_it() {
        let mut archive = Archive::new(1_795_842_000);
        archive.add("bundle/a.txt", b"alpha");
        archive.add("bundle/empty", b"");
        archive.add("bundle/long", &[b'x'; 1500]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::fs::write(&path, archive.finish()).unwrap();
        let tar = |flag: &str| {
            let output = Command::new("tar").arg(flag).arg(&path).output();
            let output = output.expect("tar runs");
            assert!(
                output.status.success() && output.stderr.is_empty(),
                "{output:?}"
            );
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(tar("-tf"), "bundle/a.txt\nbundle/empty\nbundle/long\n");
        assert_eq!(tar("-xOf"), format!("alpha{}", "x".repeat(1500)));
    }
}
