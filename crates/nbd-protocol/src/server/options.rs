//! Options as a client sends them.
//!
//! ```text
//! | IHAVEOPT 8 | option 4 | length 4 | data |
//!   EXPORT_NAME       name, to the end of the data
//!   INFO, GO          | name length 4 | name | count 2 | kind 2 * count |
//!   *_META_CONTEXT    | name length 4 | name | count 4 | (length 4, query) * count |
//! ```

use crate::cursor::Cursor;
use crate::{limits, wire};

/// An option, understood.
#[derive(Debug)]
pub(super) enum Parsed {
    Abort,
    List,
    StartTls,
    StructuredReply,
    Ask(Ask),
    /// Known, but its data are not what they should be.
    Malformed,
    Unknown,
}

/// An option that needs an export to be answered.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) name: String,
    pub(super) purpose: Purpose,
}

#[derive(Debug)]
pub(super) enum Purpose {
    ExportName,
    Info {
        go: bool,
        name: bool,
        description: bool,
    },
    /// `base_allocation`: whether a query selects it.
    MetaContext {
        set: bool,
        base_allocation: bool,
    },
}

impl Ask {
    pub(super) const fn is_export_name(&self) -> bool {
        matches!(self.purpose, Purpose::ExportName)
    }

    pub(super) const fn is_meta_context(&self) -> bool {
        matches!(self.purpose, Purpose::MetaContext { .. })
    }
}

/// Magic, number and length of the option at the front of `input`, once they are all there.
pub(super) fn header(input: &[u8]) -> Option<(u64, u32, u32)> {
    let mut fields = Cursor::new(input);
    Some((fields.u64()?, fields.u32()?, fields.u32()?))
}

/// Understands an option's data.
pub(super) fn parse(option: u32, data: &[u8]) -> Parsed {
    let bare = |parsed| {
        if data.is_empty() {
            parsed
        } else {
            Parsed::Malformed
        }
    };
    let asked = |ask: Option<Ask>| ask.map_or(Parsed::Malformed, Parsed::Ask);
    match option {
        wire::option::EXPORT_NAME => asked(export_name(data)),
        // Whatever it carries, a goodbye is a goodbye.
        wire::option::ABORT => Parsed::Abort,
        wire::option::LIST => bare(Parsed::List),
        wire::option::STARTTLS => bare(Parsed::StartTls),
        wire::option::STRUCTURED_REPLY => bare(Parsed::StructuredReply),
        wire::option::INFO => asked(information(data, false)),
        wire::option::GO => asked(information(data, true)),
        wire::option::LIST_META_CONTEXT => asked(meta_context(data, false)),
        wire::option::SET_META_CONTEXT => asked(meta_context(data, true)),
        _ => Parsed::Unknown,
    }
}

fn checked_name(name: &str) -> Option<String> {
    (name.len() <= limits::NAME_BYTES_MAX).then(|| name.to_owned())
}

fn export_name(data: &[u8]) -> Option<Ask> {
    Some(Ask {
        name: checked_name(std::str::from_utf8(data).ok()?)?,
        purpose: Purpose::ExportName,
    })
}

fn information(data: &[u8], go: bool) -> Option<Ask> {
    let mut fields = Cursor::new(data);
    let export = checked_name(fields.text()?)?;
    let count = fields.u16()?;
    let (mut name, mut description) = (false, false);
    for _ in 0..count {
        match fields.u16()? {
            wire::info::NAME => name = true,
            wire::info::DESCRIPTION => description = true,
            // Size and block sizes are told to everyone; of unknown kinds nothing is known.
            _ => {}
        }
    }
    fields.is_empty().then_some(Ask {
        name: export,
        purpose: Purpose::Info {
            go,
            name,
            description,
        },
    })
}

fn meta_context(data: &[u8], set: bool) -> Option<Ask> {
    let mut fields = Cursor::new(data);
    let name = checked_name(fields.text()?)?;
    let count = fields.u32()?;
    // A list without queries asks for all there is; a choice without queries chooses nothing.
    let mut base_allocation = count == 0 && !set;
    for _ in 0..count {
        let query = fields.text()?;
        let whole_namespace = query == "base:" && !set;
        base_allocation |= query == wire::BASE_ALLOCATION || whole_namespace;
    }
    fields.is_empty().then_some(Ask {
        name,
        purpose: Purpose::MetaContext {
            set,
            base_allocation,
        },
    })
}
