//! A page of sorted rows.

use configuration::Name;
use std::cmp::Ordering;

/// Rows of a page unless the client says how many.
const PAGE: usize = 100;
/// The most rows of a page.
const PAGE_MAX: usize = 1000;

/// Which rows are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Only those that have this text, in small letters.
    search: String,
    /// Only those behind the row of this name.
    after: Option<String>,
    limit: usize,
}

impl Asked {
    /// Rows that have `search`, at most `limit` of them, those behind `after`.
    ///
    /// # Errors
    /// If a page cannot have so many rows: says how many it can have.
    pub(crate) fn new(
        search: Option<&str>,
        after: Option<String>,
        limit: Option<usize>,
    ) -> Result<Self, String> {
        let limit = limit.unwrap_or(PAGE);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(format!("a page has 1 to {PAGE_MAX} rows"));
        }
        Ok(Self {
            search: search.unwrap_or_default().to_lowercase(),
            after,
            limit,
        })
    }

    /// Whether a text has what is searched.
    pub(crate) fn finds(&self, text: &str) -> bool {
        self.search.is_empty() || text.to_lowercase().contains(&self.search)
    }

    /// The page out of sorted rows. A row that has gone meanwhile is no place to go on from: the page is the first one.
    pub(crate) fn page<T>(&self, rows: Vec<T>, name: impl Fn(&T) -> &str) -> Page<T> {
        let last = self.after.as_deref();
        let place = last.and_then(|last| rows.iter().position(|row| name(row) == last));
        let from = place.map_or(0, |place| place + 1);
        Page {
            total: rows.len() as u64,
            has_more: rows.len() > from + self.limit,
            rows: rows.into_iter().skip(from).take(self.limit).collect(),
        }
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page<T> {
    /// Rows of all pages.
    pub(crate) total: u64,
    /// Those of this page.
    pub(crate) rows: Vec<T>,
    has_more: bool,
}

impl<T> Page<T> {
    /// The row behind which the next page begins; none if there is no next page.
    pub(crate) fn last_before_more(&self) -> Option<&T> {
        self.rows.last().filter(|_| self.has_more)
    }
}

/// The larger number first, and then by name.
pub(super) fn largest<T: PartialOrd>(a: (&T, &Name), b: (&T, &Name)) -> Ordering {
    let by_number = b.0.partial_cmp(a.0).unwrap_or(Ordering::Equal);
    by_number.then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let rows = || ["a", "b", "c", "d", "e"].to_vec();
        let mut after = None;
        let mut seen: Vec<&str> = Vec::new();
        loop {
            let asked = Asked::new(None, after, Some(2)).unwrap();
            let page = asked.page(rows(), |row| row);
            assert_eq!(page.total, 5);
            after = page.last_before_more().map(ToString::to_string);
            seen.extend(page.rows);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, rows());
        let gone = Asked::new(None, Some("z".to_owned()), Some(1)).unwrap();
        let first = gone.page(rows(), |row| row);
        assert_eq!(first.rows, ["a"]);
        assert_eq!(first.last_before_more(), Some(&"a"));
    }

    #[test]
    fn a_page_has_a_bound_and_a_search_knows_no_capitals() {
        assert!(Asked::new(None, None, Some(0)).is_err());
        assert!(Asked::new(None, None, Some(PAGE_MAX + 1)).is_err());
        let asked = Asked::new(Some("WEB"), None, None).unwrap();
        assert!(asked.finds("my-Web-1") && !asked.finds("db"));
    }
}
