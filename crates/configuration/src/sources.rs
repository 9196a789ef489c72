//! The texts that a configuration is made of: a file, those of the folder `conf.d` beside it, and variables of
//! the environment.
//!
//! ```text
//!   hearth.toml │ conf.d/10-web.toml │ conf.d/20-disks.toml │ HEARTH_WEB__ADDRESS
//!   ────────────┴────────────────────┴──────────────────────┴────────────────────► lines of all
//! ```
//!
//! One behind the other they are one text, so that a line of that text is enough to name a place. A variable is a
//! line of its own. Reading is here, merging in `merge.rs`.

use super::variables::{self, Variable};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The folder beside the configuration file whose files add to it.
pub const FOLDER: &str = "conf.d";

/// Where a part of the configuration is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In this file.
    File(PathBuf),
    /// In this variable of the environment.
    Variable(String),
}

/// A source, and a line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which source.
    pub source: Source,
    /// The line in the file, from 1; 1 for a variable.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::File(path) => write!(f, "{}:{}", path.display(), self.line),
            Source::Variable(name) => f.write_str(name),
        }
    }
}

/// A source, and where it lies in the text of all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    source: Source,
    bytes: Range<usize>,
    /// The number of its first line in the text of all, from 1.
    first_line: usize,
}

/// A file or folder that is there and cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

/// All sources of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    text: String,
    lines: usize,
    parts: Vec<Part>,
    variables: Vec<(Variable, Range<usize>)>,
}

impl Sources {
    /// A text alone, as if it lay at this path.
    pub(super) fn of_text(path: &Path, text: &str) -> Self {
        let mut sources = Self {
            text: String::new(),
            lines: 0,
            parts: Vec::new(),
            variables: Vec::new(),
        };
        sources.push(Source::File(path.to_owned()), text);
        sources
    }

    /// Reads a file, and those of the folder [`FOLDER`] beside it whose names end in `.toml` and do not begin with a
    /// dot, in the order of their names' bytes. Without that folder there is the file alone.
    ///
    /// # Errors
    /// If a file or the folder is there and cannot be read.
    pub(super) fn read(path: &Path) -> Result<Self, Unreadable> {
        let text =
            |path: &Path| std::fs::read_to_string(path).map_err(|source| unreadable(path, source));
        let mut sources = Self::of_text(path, &text(path)?);
        for file in files_beside(path)? {
            sources.push(Source::File(file.clone()), &text(&file)?);
        }
        Ok(sources)
    }

    /// The same with those variables that are meant for the configuration.
    pub(super) fn with_variables(
        mut self,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Self {
        for variable in variables::of(environment) {
            let name = variable.name().to_owned();
            let bytes = self.push(Source::Variable(name.clone()), &name);
            self.variables.push((variable, bytes));
        }
        self
    }

    fn push(&mut self, source: Source, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        let bytes = start..self.text.len();
        let first_line = self.lines + 1;
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
        self.lines = first_line - 1 + self.text[start..].matches('\n').count();
        self.parts.push(Part {
            source,
            bytes: bytes.clone(),
            first_line,
        });
        bytes
    }

    /// The text of all.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text of each file, and where it begins in the text of all.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        let files = self.parts.iter();
        let files = files.filter(|part| matches!(part.source, Source::File(_)));
        files.map(|part| (&self.text[part.bytes.clone()], part.bytes.start))
    }

    /// The variables, and the bytes that each has in the text of all.
    pub(super) fn variables(&self) -> &[(Variable, Range<usize>)] {
        &self.variables
    }

    /// The file that the others add to.
    pub(super) fn main(&self) -> &Path {
        match self.parts.first().map(|part| &part.source) {
            Some(Source::File(path)) => path,
            Some(Source::Variable(_)) | None => Path::new(""),
        }
    }

    /// Which source a line of the text of all belongs to; lines beyond the end are the last source's.
    pub fn place_of(&self, line: usize) -> Place {
        let at = self.parts.partition_point(|part| part.first_line <= line);
        match self.parts.get(at.saturating_sub(1)) {
            Some(part) => Place {
                source: part.source.clone(),
                line: line.saturating_sub(part.first_line) + 1,
            },
            None => Place {
                source: Source::File(PathBuf::new()),
                line,
            },
        }
    }
}

fn unreadable(path: &Path, error: io::Error) -> Unreadable {
    Unreadable {
        path: path.to_owned(),
        error,
    }
}

/// The files that add to the one at a path, in their order.
fn files_beside(path: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let folder = path.parent().unwrap_or(Path::new("")).join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(&folder, error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let name = entry
            .map_err(|error| unreadable(&folder, error))?
            .file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.ends_with(b".toml") && !bytes.starts_with(b".") {
            files.push(folder.join(name));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_all_is_a_line_of_its_source() {
        let mut sources = Sources::of_text(Path::new("/a"), "1\n2\n");
        sources.push(Source::File("/b".into()), "no end of line");
        sources.push(Source::File("/empty".into()), "");
        sources.push(Source::Variable("HEARTH_X__Y".into()), "HEARTH_X__Y");
        let place = |line| sources.place_of(line).to_string();
        assert_eq!(place(1), "/a:1");
        assert_eq!(place(2), "/a:2");
        assert_eq!(place(3), "/b:1");
        assert_eq!(place(5), "HEARTH_X__Y");
    }

    #[test]
    fn files_of_the_folder_come_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("hearth.toml");
        std::fs::write(&main, "").unwrap();
        assert_eq!(files_beside(&main).unwrap(), Vec::<PathBuf>::new());
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        for name in ["20.toml", "10.toml", ".10.toml", "10.toml~", "README"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let wanted = ["10.toml", "20.toml"].map(|name| folder.join(name));
        assert_eq!(files_beside(&main).unwrap(), wanted);
    }

    #[test]
    fn a_file_of_the_folder_that_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("hearth.toml");
        std::fs::write(&main, "").unwrap();
        std::fs::create_dir_all(dir.path().join("conf.d/10.toml")).unwrap();
        let unreadable = Sources::read(&main).unwrap_err();
        assert!(unreadable.path.ends_with("conf.d/10.toml"));
    }
}
