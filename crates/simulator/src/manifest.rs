//! Where a result comes from: enough to make it again.

use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// The manifest of a table or report.
#[derive(Clone, Debug, Serialize)]
pub struct Manifest {
    /// The program.
    pub program: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The commit that it was built from, if whoever built it said so in `HEARTH_COMMIT`.
    pub commit: Option<&'static str>,
    /// The command, word by word.
    pub command: Vec<String>,
    /// What decides the latencies that are drawn.
    pub seed: u64,
    /// Every parameter of the runs, defaults too.
    pub parameters: serde_json::Value,
    /// The traces in the order in which they were given.
    pub traces: Vec<TraceFile>,
}

/// A trace as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceFile {
    /// Its path as it was given.
    pub file: String,
    /// The format that it was read as.
    pub format: String,
    /// Its length, packed as it is; unknown of what came through a pipe.
    pub bytes: Option<u64>,
    /// XXH3 (128 bits) of the file, packed as it is, in hexadecimal; unknown of what came through a pipe.
    pub xxh3_128: Option<String>,
}

impl Manifest {
    /// The manifest of this program's results.
    pub fn new(
        command: Vec<String>,
        seed: u64,
        parameters: serde_json::Value,
        traces: Vec<TraceFile>,
    ) -> Self {
        Self {
            program: "hearth",
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("HEARTH_COMMIT").filter(|commit| !commit.is_empty()),
            command,
            seed,
            parameters,
            traces,
        }
    }

    /// The manifest as indented JSON with a line's end.
    ///
    /// # Errors
    /// If a parameter cannot be written as JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

impl TraceFile {
    /// Reads a trace's file once more to sum it up.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn examine(path: &Path, format: &str) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut hash = Xxh3::new();
        let mut bytes = 0;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = match file.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            bytes += crate::number::length(read);
        }
        Ok(Self {
            file: path.display().to_string(),
            format: format.to_owned(),
            bytes: Some(bytes),
            xxh3_128: Some(format!("{:032x}", hash.digest128())),
        })
    }
}

/// Where the manifest of an output file lies: beside it, `runs.csv` has `runs.csv.manifest.json`.
pub fn beside(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".manifest.json");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_trace_is_known_by_its_length_and_checksum() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0\n1\n0\n").unwrap();
        let examined = TraceFile::examine(file.path(), "keys").unwrap();
        assert_eq!(examined.bytes, Some(6));
        let expected = xxhash_rust::xxh3::xxh3_128(b"0\n1\n0\n");
        assert_eq!(examined.xxh3_128, Some(format!("{expected:032x}")));
        assert!(TraceFile::examine(Path::new("/nowhere"), "").is_err());
    }

    #[test]
    fn a_manifest_lies_beside_its_table() {
        assert_eq!(
            beside(Path::new("a/runs.csv")),
            Path::new("a/runs.csv.manifest.json")
        );
    }
}
