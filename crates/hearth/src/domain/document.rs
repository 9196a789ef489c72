//! An XML text as elements that know their places in it.
//!
//! libvirt writes the XML itself, so this reads what is well-formed: elements, attributes, text. Comments, declarations
//! and CDATA are passed over. A text that is torn is read as far as it goes; [`Document::is_whole`] tells.
//!
//! ```text
//!   <disk type='file'>  ...  </disk>
//!   │         └value┘ │      │      │
//!   tag.start   tag.end  content.end end
//! ```

use super::escapes::plain;
use std::ops::Range;

/// An XML text and the places of its elements, in bytes.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    text: &'a str,
    /// In the order of their tags.
    nodes: Vec<Node>,
    is_whole: bool,
}

#[derive(Debug)]
struct Node {
    name: Range<usize>,
    parent: Option<usize>,
    /// From `<` to behind `>`.
    tag: Range<usize>,
    /// Where its closing tag begins; behind its tag if it has none.
    content_end: usize,
    /// Behind its closing tag.
    end: usize,
    attributes: Vec<Attribute>,
}

#[derive(Debug)]
struct Attribute {
    name: Range<usize>,
    /// Without quotes.
    value: Range<usize>,
}

/// An element of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'d> {
    document: &'d Document<'d>,
    at: usize,
}

impl<'a> Document<'a> {
    /// Reads a text as far as it goes.
    pub(crate) fn of(text: &'a str) -> Self {
        let mut reader = Reader {
            text,
            nodes: Vec::new(),
            open: Vec::new(),
        };
        let is_whole = reader.read().is_some();
        let end = text.len();
        for at in std::mem::take(&mut reader.open) {
            reader.nodes[at].content_end = end;
            reader.nodes[at].end = end;
        }
        Self {
            text,
            nodes: reader.nodes,
            is_whole,
        }
    }

    /// Whether it is one element, and every tag in it is closed by its own name.
    pub(crate) fn is_whole(&self) -> bool {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none());
        self.is_whole && roots.count() == 1
    }

    /// The text.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// The first element that is in no other one.
    pub(crate) fn root(&self) -> Option<Element<'_>> {
        let at = self.nodes.iter().position(|node| node.parent.is_none())?;
        Some(Element { document: self, at })
    }
}

impl<'d> Element<'d> {
    fn node(self) -> &'d Node {
        &self.document.nodes[self.at]
    }

    /// Its name, with its prefix.
    pub(crate) fn name(self) -> &'d str {
        &self.document.text[self.node().name.clone()]
    }

    /// The value of an attribute.
    pub(crate) fn attribute(self, name: &str) -> Option<String> {
        let value = self.attribute_place(name)?.1;
        Some(plain(&self.document.text[value]))
    }

    /// The places of an attribute's name and of its value, without quotes.
    pub(crate) fn attribute_place(self, name: &str) -> Option<(Range<usize>, Range<usize>)> {
        let mut all = self.node().attributes.iter();
        let found = all.find(|one| &self.document.text[one.name.clone()] == name)?;
        Some((found.name.clone(), found.value.clone()))
    }

    /// The elements in it.
    pub(crate) fn children(self) -> impl Iterator<Item = Self> {
        let document = self.document;
        let places = document.nodes.iter().enumerate();
        let own = places.filter(move |(_, node)| node.parent == Some(self.at));
        own.map(move |(at, _)| Self { document, at })
    }

    /// The first element of this name in it.
    pub(crate) fn child(self, name: &str) -> Option<Self> {
        self.children().find(|child| child.name() == name)
    }

    /// The text in it, without what surrounds it.
    pub(crate) fn content(self) -> String {
        plain(self.document.text[self.content_place()].trim())
    }

    /// From the beginning of its tag to the end of its closing tag.
    pub(crate) fn place(self) -> Range<usize> {
        self.node().tag.start..self.node().end
    }

    /// What is between its tags.
    pub(crate) fn content_place(self) -> Range<usize> {
        self.node().tag.end..self.node().content_end
    }

    /// Its tag, from `<` to behind `>`.
    pub(crate) fn tag_place(self) -> Range<usize> {
        self.node().tag.clone()
    }

    /// Its text as it is, with its tags.
    pub(crate) fn source(self) -> &'d str {
        &self.document.text[self.place()]
    }
}

struct Reader<'a> {
    text: &'a str,
    nodes: Vec<Node>,
    /// Those whose closing tag is still to come, the innermost last.
    open: Vec<usize>,
}

impl Reader<'_> {
    /// Reads the text; none if it is torn.
    fn read(&mut self) -> Option<()> {
        let mut at = 0;
        while let Some(found) = self.text[at..].find('<') {
            let start = at + found;
            let after = &self.text[start + 1..];
            at = if let Some(end) = end_of_skipped(after) {
                start + 1 + after.find(end)? + end.len()
            } else if after.starts_with('/') {
                self.close(start)?
            } else {
                self.element(start)?
            };
        }
        self.open.is_empty().then_some(())
    }

    /// A closing tag at `start`. Returns where it ends.
    fn close(&mut self, start: usize) -> Option<usize> {
        let length = self.text[start..].find('>')?;
        let name = self.text[start + 2..start + length].trim();
        let node = &mut self.nodes[self.open.pop()?];
        node.content_end = start;
        node.end = start + length + 1;
        (&self.text[node.name.clone()] == name).then_some(start + length + 1)
    }

    /// A tag at `start`. Returns where it ends.
    fn element(&mut self, start: usize) -> Option<usize> {
        let length = tag_length(&self.text[start..])?;
        let end = start + length;
        let inner = &self.text[start + 1..end - 1];
        let is_empty = inner.ends_with('/');
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let name_length = inner.find(char::is_whitespace).unwrap_or(inner.len());
        let name = start + 1..start + 1 + name_length;
        let attributes = attributes(self.text, name.end..start + 1 + inner.len());
        let is_read = !name.is_empty() && attributes.is_some();
        self.nodes.push(Node {
            name,
            parent: self.open.last().copied(),
            tag: start..end,
            content_end: end,
            end,
            attributes: attributes.unwrap_or_default(),
        });
        if !is_empty {
            self.open.push(self.nodes.len() - 1);
        }
        is_read.then_some(end)
    }
}

/// How that ends which begins as no element does: a comment, a declaration, text as it is.
fn end_of_skipped(after: &str) -> Option<&'static str> {
    let ends = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>"), ("!", ">")];
    let mut ends = ends.into_iter();
    let (_, end) = ends.find(|(begin, _)| after.starts_with(begin))?;
    Some(end)
}

/// The length of a tag, which ends at the first `>` that is in no attribute's value.
fn tag_length(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('>', None) => return Some(at + 1),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

/// The attributes in a part of a text; none if it is no list of them.
fn attributes(text: &str, part: Range<usize>) -> Option<Vec<Attribute>> {
    let mut found = Vec::new();
    let mut at = part.start;
    loop {
        at += leading_blanks(&text[at..part.end]);
        if at == part.end {
            return Some(found);
        }
        let equals = at + text[at..part.end].find('=')?;
        let name = at..at + text[at..equals].trim_end().len();
        let open = equals + 1 + leading_blanks(&text[equals + 1..part.end]);
        let mut rest = text[open..part.end].chars();
        let quote = rest.next().filter(|c| matches!(c, '\'' | '"'))?;
        let length = rest.as_str().find(quote)?;
        found.push(Attribute {
            name,
            value: open + 1..open + 1 + length,
        });
        at = open + 1 + length + 1;
    }
}

fn leading_blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<?xml version='1.0'?>\n<!-- <a> -->\n<domain type='kvm'>\n  <name>w&amp;b</name>\n  \
        <note a=\"x > y\" b = '1'/>\n  <![CDATA[<disk>]]>\n  <devices><disk/><disk type='file'> </disk></devices>\n</domain>\n";

    #[test]
    fn elements_and_their_places_are_found() {
        let document = Document::of(XML);
        assert!(document.is_whole());
        let root = document.root().unwrap();
        assert_eq!(
            (root.name(), root.attribute("type").as_deref()),
            ("domain", Some("kvm"))
        );
        assert_eq!(root.child("name").unwrap().content(), "w&b");
        let note = root.child("note").unwrap();
        assert_eq!(note.attribute("a").as_deref(), Some("x > y"));
        assert_eq!(note.attribute("b").as_deref(), Some("1"));
        assert_eq!(note.source(), "<note a=\"x > y\" b = '1'/>");
        let disks: Vec<&str> = root
            .child("devices")
            .unwrap()
            .children()
            .map(Element::source)
            .collect();
        assert_eq!(disks, ["<disk/>", "<disk type='file'> </disk>"]);
    }

    #[test]
    fn a_torn_text_is_read_as_far_as_it_goes() {
        for (at, _) in XML.char_indices() {
            assert!(!Document::of(&XML[..at.min(XML.len() - 2)]).is_whole());
            let _ = Document::of(&XML[at..]);
        }
        for text in [
            "",
            "<a></b>",
            "<a><b></a></b>",
            "<a/><b/>",
            "</a>",
            "<a x></a>",
            "< />",
        ] {
            assert!(!Document::of(text).is_whole(), "{text}");
        }
    }
}
