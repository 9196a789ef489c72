//! What the checks of `tidy` found.

/// What the checks found: a place and what is wrong there.
#[derive(Default)]
pub(crate) struct Findings(Vec<String>);

impl Findings {
    /// Adds one finding.
    pub(crate) fn add(&mut self, place: impl AsRef<str>, what: impl AsRef<str>) {
        self.0
            .push(format!("{}: {}", place.as_ref(), what.as_ref()));
    }

    /// The findings as lines, in the order they were made.
    pub(crate) fn lines(&self) -> &[String] {
        &self.0
    }
}
