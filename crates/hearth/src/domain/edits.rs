//! Changes of an XML text that leave the rest byte for byte as it was.

use super::document::{Document, Element};
use super::escapes::escaped;
use std::ops::Range;

/// Changes that are made at once. Those of one place are made in the order in which they were asked for.
#[derive(Debug)]
pub(crate) struct Edits<'a> {
    text: &'a str,
    all: Vec<(Range<usize>, String)>,
}

impl<'a> Edits<'a> {
    /// None yet.
    pub(crate) fn of(document: &Document<'a>) -> Self {
        Self {
            text: document.text(),
            all: Vec::new(),
        }
    }

    /// Gives an attribute a value; one that is new comes last.
    pub(crate) fn set(&mut self, element: Element<'_>, name: &str, value: &str) {
        if let Some((_, place)) = element.attribute_place(name) {
            if element.attribute(name).as_deref() != Some(value) {
                self.all.push((place, escaped(value)));
            }
            return;
        }
        let tag = element.tag_place();
        let tag_text = &self.text[tag.clone()];
        let bare = tag_text
            .trim_end_matches('>')
            .trim_end_matches('/')
            .trim_end();
        let at = tag.start + bare.len();
        self.all
            .push((at..at, format!(" {name}='{}'", escaped(value))));
    }

    /// Takes an attribute away, with the blanks before it.
    pub(crate) fn unset(&mut self, element: Element<'_>, name: &str) {
        if let Some((name, value)) = element.attribute_place(name) {
            let before = self.text[..name.start].trim_end().len();
            // Behind the quote.
            self.all.push((before..value.end + 1, String::new()));
        }
    }

    /// Puts a text in the place of an element.
    pub(crate) fn replace(&mut self, element: Element<'_>, text: &str) {
        self.all.push((element.place(), text.to_owned()));
    }

    /// Takes an element away, with the line that is empty without it.
    pub(crate) fn remove(&mut self, element: Element<'_>) {
        let place = element.place();
        let before = self.text[..place.start].trim_end().len();
        self.all.push((before..place.end, String::new()));
    }

    /// Takes an element's children of these names away; their texts, in the order of the names.
    pub(crate) fn remove_children<'e>(
        &mut self,
        element: Element<'e>,
        names: &[&str],
    ) -> Vec<&'e str> {
        let mut texts = Vec::new();
        for child in names.iter().filter_map(|name| element.child(name)) {
            texts.push(child.source());
            self.remove(child);
        }
        texts
    }

    /// Puts an element before another one, as deep as that stands.
    pub(crate) fn insert_before(&mut self, element: Element<'_>, text: &str) {
        let at = element.place().start;
        let blanks = self.blanks_before(at).to_owned();
        self.all.push((at..at, format!("{text}{blanks}")));
    }

    /// Puts an element behind another one, as deep as that stands.
    pub(crate) fn insert_behind(&mut self, element: Element<'_>, text: &str) {
        let blanks = self.blanks_before(element.place().start).to_owned();
        let at = element.place().end;
        self.all.push((at..at, format!("{blanks}{text}")));
    }

    /// Puts an element into another one, as its last.
    pub(crate) fn append(&mut self, element: Element<'_>, text: &str) {
        if let Some(last) = element.children().last() {
            return self.insert_behind(last, text);
        }
        let tag = element.tag_place();
        let name = element.name();
        if self.text[tag.clone()].ends_with("/>") {
            let open = self.text[tag.clone()].trim_end_matches("/>").trim_end();
            return self
                .all
                .push((tag.clone(), format!("{open}>{text}</{name}>")));
        }
        let at = element.content_place().end;
        self.all.push((at..at, text.to_owned()));
    }

    /// How the line of an element begins, with the end of the line before it; empty if the element does not begin a line.
    pub(crate) fn blanks(&self, element: Element<'_>) -> &'a str {
        self.blanks_before(element.place().start)
    }

    /// The same of a place.
    fn blanks_before(&self, at: usize) -> &'a str {
        let before = self.text[..at].trim_end_matches([' ', '\t']);
        if before.ends_with('\n') {
            &self.text[before.len() - 1..at]
        } else {
            // Something else stands in the line: the new element stands there, too.
            ""
        }
    }

    /// The changed text.
    ///
    /// # Panics
    /// When two changes overlap, which is a mistake of who asked for them.
    pub(crate) fn apply(mut self) -> String {
        self.all.sort_by_key(|(place, _)| (place.start, place.end));
        let mut text = String::with_capacity(self.text.len());
        let mut at = 0;
        for (place, new) in &self.all {
            assert!(at <= place.start, "two changes overlap at byte {at}");
            text.push_str(&self.text[at..place.start]);
            text.push_str(new);
            at = place.end;
        }
        text.push_str(&self.text[at..]);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text after a change.
    fn changed(text: &str, change: impl Fn(&mut Edits<'_>, Element<'_>)) -> String {
        let document = Document::of(text);
        let mut edits = Edits::of(&document);
        change(&mut edits, document.root().unwrap());
        edits.apply()
    }

    #[test]
    fn an_attribute_is_set_added_and_taken_away() {
        let text = "<a x='1'\n   y=\"2\" />";
        assert_eq!(
            changed(text, |edits, a| edits.set(a, "y", "<")),
            "<a x='1'\n   y=\"&lt;\" />"
        );
        assert_eq!(
            changed(text, |edits, a| edits.set(a, "z", "3")),
            "<a x='1'\n   y=\"2\" z='3' />"
        );
        assert_eq!(changed(text, |edits, a| edits.unset(a, "y")), "<a x='1' />");
        assert_eq!(changed(text, |edits, a| edits.unset(a, "z")), text);
        assert_eq!(
            changed("<a></a>", |edits, a| edits.set(a, "z", "3")),
            "<a z='3'></a>"
        );
    }

    #[test]
    fn elements_come_and_go_as_deep_as_their_neighbours() {
        let text = "<a>\n  <b/>\n  <c/>\n</a>\n";
        let child = |a: Element<'_>, name: &str| -> Range<usize> { a.child(name).unwrap().place() };
        assert_eq!(child(Document::of(text).root().unwrap(), "b"), 6..10);
        let b = |change: fn(&mut Edits<'_>, Element<'_>)| {
            changed(text, |edits, a| change(edits, a.child("b").unwrap()))
        };
        assert_eq!(
            b(|edits, b| edits.insert_before(b, "<n/>")),
            "<a>\n  <n/>\n  <b/>\n  <c/>\n</a>\n"
        );
        assert_eq!(
            b(|edits, b| edits.insert_behind(b, "<n/>")),
            "<a>\n  <b/>\n  <n/>\n  <c/>\n</a>\n"
        );
        let without = b(|edits, b| {
            edits.remove(b);
        });
        assert_eq!(without, "<a>\n  <c/>\n</a>\n");
        assert_eq!(
            b(|edits, b| edits.replace(b, "<n/>")),
            "<a>\n  <n/>\n  <c/>\n</a>\n"
        );
        assert_eq!(
            b(|edits, b| edits.append(b, "<n/>")),
            "<a>\n  <b><n/></b>\n  <c/>\n</a>\n"
        );
        assert_eq!(
            changed(text, |edits, a| edits.append(a, "<n/>")),
            "<a>\n  <b/>\n  <c/>\n  <n/>\n</a>\n"
        );
        assert_eq!(
            changed("<a><b/></a>", |edits, a| edits.append(a, "<n/>")),
            "<a><b/><n/></a>"
        );
    }
}
