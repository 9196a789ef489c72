//! The operators: a line each, with what proves who they are.
//!
//! ```text
//!   # a remark
//!   alice sha256:ba7816bf...     knows the token with this hash
//!   cert:bob.example             shows a certificate with this name
//! ```

use crate::token::TokenHash;
use std::fmt;

/// Operators of a file at most.
const OPERATORS_MAX: usize = 1000;
/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 128;
/// What a name begins with that stands in a certificate.
const CERTIFICATE: &str = "cert:";
/// What a hash begins with.
const HASH: &str = "sha256:";
/// The first line of a new file.
const HEAD: &str = "# Operators of Hearth's page. `hearth operator add` and `remove` change this file; a token's hash is kept, not the token.\n";

/// How an operator proves who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By a token.
    Token,
    /// By a certificate.
    Certificate,
}

/// What is wrong with a list of operators, or with a change of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// A line is no operator.
    #[error("line {line} is neither NAME sha256:HASH nor cert:NAME")]
    Line {
        /// Counted from one.
        line: usize,
    },
    /// A name is taken.
    #[error("there is an operator '{name}' already")]
    Taken {
        /// The name.
        name: String,
    },
    /// A name cannot be one.
    #[error(
        "'{name}' cannot be the name of an operator: write 1 to {NAME_BYTES_MAX} letters, digits, and . - _ @, or cert: and a name in a certificate"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// There is no such operator.
    #[error("there is no operator '{name}'")]
    Unknown {
        /// The name.
        name: String,
    },
    /// There are too many.
    #[error("there are more than {OPERATORS_MAX} operators")]
    TooMany,
}

#[derive(Clone, Debug)]
enum Line {
    /// Neither changed nor looked at.
    Remark(String),
    Token {
        name: String,
        hash: TokenHash,
    },
    /// The name with `cert:` before it.
    Certificate {
        name: String,
    },
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Some(Self::Remark(text.to_owned()));
        }
        let name = |name: &str| is_name(name).then(|| name.to_owned());
        if trimmed.starts_with(CERTIFICATE) {
            return Some(Self::Certificate {
                name: name(trimmed)?,
            });
        }
        let (of, hash) = trimmed.split_once(char::is_whitespace)?;
        Some(Self::Token {
            name: name(of)?,
            hash: TokenHash::parse(hash.trim().strip_prefix(HASH)?)?,
        })
    }

    fn name(&self) -> Option<(&str, Kind)> {
        match self {
            Self::Remark(_) => None,
            Self::Token { name, .. } => Some((name, Kind::Token)),
            Self::Certificate { name } => Some((name, Kind::Certificate)),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remark(text) => f.write_str(text),
            Self::Token { name, hash } => write!(f, "{name} {HASH}{hash}"),
            Self::Certificate { name } => f.write_str(name),
        }
    }
}

fn is_name(name: &str) -> bool {
    let (name, is_certificate) = match name.strip_prefix(CERTIFICATE) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_@".contains(letter);
    // Names in certificates are URIs, too.
    let is_graphic = |letter: char| !letter.is_whitespace() && !letter.is_control();
    let is_right = |letter| {
        if is_certificate {
            is_graphic(letter)
        } else {
            is_plain(letter)
        }
    };
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_right)
}

/// All operators. No two have the same name.
#[derive(Clone, Debug)]
pub struct Roster {
    lines: Vec<Line>,
}

impl Default for Roster {
    fn default() -> Self {
        let head = Line::Remark(HEAD.trim_end().to_owned());
        Self { lines: vec![head] }
    }
}

impl Roster {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// If a line is no operator, or two have the same name.
    pub fn parse(text: &str) -> Result<Self, RosterError> {
        let mut roster = Self { lines: Vec::new() };
        for (at, line) in text.lines().enumerate() {
            let line = Line::parse(line).ok_or(RosterError::Line { line: at + 1 })?;
            roster.push(line)?;
        }
        Ok(roster)
    }

    /// Each name, and how that operator proves to be the one.
    pub fn names(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.lines.iter().filter_map(Line::name)
    }

    /// Adds an operator with a token.
    ///
    /// # Errors
    /// If the name is taken or cannot be one.
    pub fn add_token(&mut self, name: &str, hash: TokenHash) -> Result<(), RosterError> {
        let name = name.to_owned();
        if !is_name(&name) || name.starts_with(CERTIFICATE) {
            return Err(RosterError::Name { name });
        }
        self.push(Line::Token { name, hash })
    }

    /// Adds an operator with a certificate: `cert:` and a name in it.
    ///
    /// # Errors
    /// If the name is taken or cannot be one.
    pub fn add_certificate(&mut self, name: &str) -> Result<(), RosterError> {
        let name = name.to_owned();
        if !is_name(&name) || !name.starts_with(CERTIFICATE) {
            return Err(RosterError::Name { name });
        }
        self.push(Line::Certificate { name })
    }

    /// Removes an operator.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn remove(&mut self, name: &str) -> Result<(), RosterError> {
        let before = self.lines.len();
        let is_it = |line: &Line| line.name().is_some_and(|(known, _)| known == name);
        self.lines.retain(|line| !is_it(line));
        if self.lines.len() == before {
            let name = name.to_owned();
            return Err(RosterError::Unknown { name });
        }
        Ok(())
    }

    /// Whose token this is. Looks at every line, whichever fits.
    pub fn by_token(&self, token: &str) -> Option<&str> {
        let shown = TokenHash::of_text(token)?;
        let mut found = None;
        for line in &self.lines {
            if let Line::Token { name, hash } = line
                && hash.is(&shown)
            {
                found = Some(name.as_str());
            }
        }
        found
    }

    /// Whose certificate has these names: `cert:NAME`.
    pub fn by_certificate(&self, names: &[String]) -> Option<&str> {
        self.lines.iter().find_map(|line| match line {
            Line::Certificate { name } => {
                let wanted = name.strip_prefix(CERTIFICATE)?;
                names
                    .iter()
                    .any(|shown| shown == wanted)
                    .then_some(name.as_str())
            }
            Line::Remark(_) | Line::Token { .. } => None,
        })
    }

    fn push(&mut self, line: Line) -> Result<(), RosterError> {
        if let Some((name, _)) = line.name() {
            if self.names().any(|(known, _)| known == name) {
                let name = name.to_owned();
                return Err(RosterError::Taken { name });
            }
            if self.names().count() == OPERATORS_MAX {
                return Err(RosterError::TooMany);
            }
        }
        self.lines.push(line);
        Ok(())
    }
}

impl fmt::Display for Roster {
    /// The text of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    #[test]
    fn a_token_and_a_certificate_are_their_operators() {
        let (alice, eve) = (Token::new().unwrap(), Token::new().unwrap());
        let mut roster = Roster::default();
        roster.add_token("alice", alice.hash()).unwrap();
        roster.add_certificate("cert:bob.example").unwrap();
        let roster = Roster::parse(&roster.to_string()).unwrap();
        assert_eq!(roster.by_token(alice.text()), Some("alice"));
        assert_eq!(roster.by_token(eve.text()), None);
        // The hash is no token.
        assert_eq!(roster.by_token(&alice.hash().to_string()), None);
        let shown = ["host".to_owned(), "bob.example".to_owned()];
        assert_eq!(roster.by_certificate(&shown), Some("cert:bob.example"));
        for other in ["cert:bob.example", "alice", "Bob.example"] {
            assert_eq!(roster.by_certificate(&[other.to_owned()]), None, "{other}");
        }
        assert_eq!(roster.by_token("cert:bob.example"), None);
    }

    #[test]
    fn a_removed_operator_is_none_and_remarks_stay() {
        let token = Token::new().unwrap();
        let mut roster = Roster::parse("# ours\n\ncert:x\n").unwrap();
        roster.add_token("alice", token.hash()).unwrap();
        roster.remove("alice").unwrap();
        assert_eq!(roster.by_token(token.text()), None);
        assert_eq!(roster.to_string(), "# ours\n\ncert:x\n");
        let unknown = RosterError::Unknown {
            name: "alice".to_owned(),
        };
        assert_eq!(roster.remove("alice"), Err(unknown));
    }

    #[test]
    fn names_are_one_word_and_are_given_once() {
        let hash = Token::new().unwrap().hash();
        let mut roster = Roster::default();
        for wrong in ["", "two words", "a\nb", "ä", "cert:x", &"x".repeat(129)] {
            assert!(roster.add_token(wrong, hash).is_err(), "{wrong}");
        }
        for wrong in ["cert:", "bob", "cert:a b", "cert:a\nb"] {
            assert!(roster.add_certificate(wrong).is_err(), "{wrong}");
        }
        roster.add_certificate("cert:spiffe://lan/web").unwrap();
        roster.add_token("alice", hash).unwrap();
        let taken = RosterError::Taken {
            name: "alice".to_owned(),
        };
        assert_eq!(roster.add_token("alice", hash), Err(taken));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let hash = "0".repeat(64);
        for wrong in [
            "alice",
            "alice md5:00",
            &format!("alice {hash}"),
            "cert:",
            "a b c",
        ] {
            let text = format!("# x\n{wrong}\n");
            let error = Roster::parse(&text).unwrap_err();
            assert_eq!(error, RosterError::Line { line: 2 }, "{wrong}");
        }
        let twice = format!("a sha256:{hash}\na sha256:{hash}\n");
        assert!(matches!(
            Roster::parse(&twice),
            Err(RosterError::Taken { .. })
        ));
        let many = (0..=OPERATORS_MAX).map(|at| format!("cert:{at}"));
        let many = many.collect::<Vec<_>>().join("\n");
        assert!(matches!(Roster::parse(&many), Err(RosterError::TooMany)));
    }
}
