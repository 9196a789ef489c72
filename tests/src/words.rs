//! The words that a program of this crate is run with.

use std::fmt::Display;
use std::str::FromStr;

use anyhow::{Context as _, Error};

/// The words behind the program's name.
pub struct Words(Vec<String>);

impl Words {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// The word at a place, or `absent` without one.
    pub fn word<'a>(&'a self, at: usize, absent: &'a str) -> &'a str {
        self.0.get(at).map_or(absent, String::as_str)
    }

    /// The number at a place, or `absent` without one.
    ///
    /// # Errors
    ///
    /// When the word there is no such number.
    pub fn number<T: FromStr<Err: Display>>(&self, at: usize, absent: T) -> anyhow::Result<T> {
        let word = self.0.get(at);
        word.map_or(Ok(absent), |word| {
            let number = word.parse().map_err(|error| Error::msg(format!("{error}")));
            number.with_context(|| word.clone())
        })
    }
}
