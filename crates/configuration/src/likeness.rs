//! What was probably meant by a word that nothing has.

/// A guess is offered when it is at least this like what was written (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.75;

/// The one of the known words that was probably meant.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
