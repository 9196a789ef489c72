//! The file with the headers that a collector wants: `NAME: VALUE` a line; lines that are empty or begin with # are none.
//!
//! It may hold a secret, so nothing of it is in an error but the number of a line.

use crate::limits::HEADERS_BYTES_MAX;
use hyper::header::{HeaderName, HeaderValue};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadersError {
    /// It cannot be read.
    #[error("the file of headers cannot be read")]
    Io(#[from] io::Error),
    /// It is longer than such files are.
    #[error("the file of headers is longer than {HEADERS_BYTES_MAX} bytes")]
    Long,
    /// A line is no header.
    #[error("line {0} of the file of headers is no NAME: VALUE")]
    Line(usize),
}

/// The headers in a file.
///
/// # Errors
/// [`HeadersError`].
pub(crate) fn read(path: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, HeadersError> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(HEADERS_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > HEADERS_BYTES_MAX {
        return Err(HeadersError::Long);
    }
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, HeadersError> {
    let mut headers = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let header = header(line).ok_or(HeadersError::Line(at + 1))?;
        headers.push(header);
    }
    Ok(headers)
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_header() {
        let headers =
            parse("# of tempo\n\nAuthorization: Bearer a:b\r\nX-Scope-OrgID:one\n").unwrap();
        let text = |at: usize| (headers[at].0.as_str(), headers[at].1.to_str().unwrap());
        assert_eq!(headers.len(), 2);
        assert_eq!(text(0), ("authorization", "Bearer a:b"));
        assert_eq!(text(1), ("x-scope-orgid", "one"));
        assert!(!format!("{headers:?}").contains("Bearer"), "sensitive");
    }

    #[test]
    fn a_line_that_is_none_is_told_by_its_number_alone() {
        for wrong in ["secret", "a b: secret", ": secret", "a: sec\u{1}ret"] {
            let error = parse(&format!("a: b\n{wrong}\n")).unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(said.contains("line 2"), "{said}");
            assert!(
                !said.contains("secret") && !said.contains("sec\u{1}"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let length = usize::try_from(HEADERS_BYTES_MAX).unwrap() + 1;
        std::fs::write(file.path(), "#".repeat(length)).unwrap();
        assert!(matches!(read(file.path()), Err(HeadersError::Long)));
        let gone = read(Path::new("/nonexistent/headers"));
        assert!(matches!(gone, Err(HeadersError::Io(_))));
    }
}
