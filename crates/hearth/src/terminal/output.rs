//! Files that a command writes beside what it prints.
//!
//! Invariants: what cannot be written is found out before the work, not behind it; a file is there whole or
//! not at all; and no file takes the place of one that is read.

use super::exit::{CliError, Exit, chain};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Finds out before an hour of work that `outputs` could not be written behind it, or would replace one of
/// `inputs`.
pub(crate) fn check<'a>(
    outputs: impl IntoIterator<Item = &'a PathBuf>,
    inputs: &[PathBuf],
) -> Result<(), CliError> {
    let mut seen: Vec<&Path> = Vec::new();
    for path in outputs {
        let refused = |why: &str| {
            let message = format!("{} cannot be written: {why}", path.display());
            Err(CliError::new(Exit::Usage, message))
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            return refused("it is a folder, or lies in none");
        }
        if inputs.iter().any(|input| is_same(input, path)) {
            return refused("it is a trace that is read");
        }
        if seen.contains(&path.as_path()) {
            return refused("another output has the same name");
        }
        seen.push(path);
    }
    Ok(())
}

/// Whether both lead to one file, by whatever name.
fn is_same(input: &Path, output: &Path) -> bool {
    match (fs::canonicalize(input), fs::canonicalize(output)) {
        (Ok(input), Ok(output)) => input == output,
        // What is not there yet is nobody's input.
        _ => false,
    }
}

/// Writes a file: under its name when it is whole, so that a reader never sees half of it.
pub(crate) fn to_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), CliError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = Path::new(&name);
    let written = File::create(part).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        fs::rename(part, path)
    });
    written.map_err(|error| {
        // What is left of it is of no use; that it cannot be removed is no news beside the error.
        let _ = fs::remove_file(part);
        CliError::new(
            Exit::Failed,
            format!("{} cannot be written: {}", path.display(), chain(&error)),
        )
    })
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::new(
            Exit::Failed,
            format!("cannot write the answer: {}", chain(&error)),
        )),
        _ => Ok(()),
    }
}

/// An answer as text, or as JSON.
pub(crate) fn shown<T: Serialize>(
    json: bool,
    answer: &T,
    text: fn(&mut String, &T) -> std::fmt::Result,
) -> Result<Vec<u8>, CliError> {
    if json {
        return to_json(answer);
    }
    let mut out = String::new();
    text(&mut out, answer).map_err(|error| CliError::of(Exit::Failed, &error))?;
    Ok(out.into_bytes())
}

/// An answer as JSON for people and programs.
pub(crate) fn to_json<T: Serialize>(answer: &T) -> Result<Vec<u8>, CliError> {
    let mut text =
        serde_json::to_vec_pretty(answer).map_err(|error| CliError::of(Exit::Failed, &error))?;
    text.push(b'\n');
    Ok(text)
}

/// The same as a value.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<serde_json::Value, CliError> {
    serde_json::to_value(value).map_err(|error| CliError::of(Exit::Failed, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_not_replaced_by_what_is_made_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.csv");
        fs::write(&trace, "1\n").unwrap();
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink(&trace, &link).unwrap();
        let roundabout = folder.path().join(".").join("trace.csv");
        let inputs = [trace.clone()];
        for output in [&trace, &link, &roundabout] {
            let error = check([output], &inputs).unwrap_err();
            assert!(error.message.contains("a trace that is read"), "{error}");
        }
        assert!(check([&folder.path().join("new.csv")], &inputs).is_ok());
    }

    #[test]
    fn outputs_lie_in_folders_and_have_names_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let (one, deep) = (folder.path().join("one"), folder.path().join("no/such"));
        assert!(check([&one], &[]).is_ok());
        for outputs in [vec![&one, &one], vec![&deep], vec![&folder.path().into()]] {
            assert!(check(outputs, &[]).is_err());
        }
    }

    #[test]
    fn a_file_that_fails_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        to_file(&path, |out| out.write_all(b"old")).unwrap();
        let failed = to_file(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("full"))
        });
        assert!(failed.unwrap_err().message.contains("full"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
