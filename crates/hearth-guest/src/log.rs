//! What is said goes to the journal, by way of stderr.

/// A line for the journal.
pub(crate) fn say(line: &str) {
    eprintln!("hearth-guest: {line}");
}
