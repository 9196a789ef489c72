//! Errors as text.

use std::error::Error;

/// An error and its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the file cannot be read")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn causes_follow_the_error() {
        let inner = "x".parse::<u32>().unwrap_err();
        let line = chain(&Outer(inner));
        assert_eq!(
            line,
            "the file cannot be read: invalid digit found in string"
        );
    }
}
