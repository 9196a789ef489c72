//! Replies to options.
//!
//! ```text
//! | magic 8 | option 4 | type 4 | length 4 | data |
//! ```
//!
//! `EXPORT_NAME` alone is answered without that header: size, flags, and zeroes unless both
//! sides left them out.

use super::options::{Ask, Purpose};
use super::{Agreed, CloseReason, Found, Handshake, Refusal, State};
use crate::{Export, Terms, TransmissionFlags, limits, wire};

impl Handshake {
    pub(super) fn acknowledge(&mut self, option: u32) {
        self.reply(option, wire::option_reply::ACK, &[]);
    }

    /// Refuses an option, with a text for people.
    pub(super) fn refuse(&mut self, option: u32, kind: u32, text: &str) {
        self.reply(option, kind, &[text.as_bytes()]);
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[&[u8]]) {
        let length = data.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(length).expect("a reply is within its limits");
        let out = &mut self.output;
        out.extend_from_slice(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&option.to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        for part in data {
            out.extend_from_slice(part);
        }
    }

    pub(super) fn answer_list<'a>(
        &mut self,
        exports: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        let option = wire::option::LIST;
        for (name, description) in exports {
            let (name, description) = (cut(name), cut(description));
            let length = u32::try_from(name.len()).expect("a name is within its limit");
            let parts = [
                &length.to_be_bytes(),
                name.as_bytes(),
                description.as_bytes(),
            ];
            self.reply(option, wire::option_reply::SERVER, &parts);
        }
        self.acknowledge(option);
    }

    pub(super) fn answer_ask(&mut self, ask: Ask, found: Result<Found, Refusal>) {
        let found = found.map(|found| self.fit(found));
        match ask.purpose {
            Purpose::ExportName => match found {
                Ok(found) => {
                    self.export_name(&found.export);
                    self.transmit(ask.name, found.export);
                }
                Err(_) => self.state = State::Closed(CloseReason::NoSuchExport),
            },
            Purpose::Info {
                go,
                name,
                description,
            } => {
                let option = if go {
                    wire::option::GO
                } else {
                    wire::option::INFO
                };
                let found = match found {
                    Ok(found) => found,
                    Err(refusal) => return self.refuse_export(option, refusal),
                };
                self.information(option, &ask.name, name, &found, description);
                self.acknowledge(option);
                if go {
                    self.transmit(ask.name, found.export);
                }
            }
            Purpose::MetaContext {
                set,
                base_allocation,
            } => self.meta_context(ask.name, set, base_allocation, found.err()),
        }
    }

    /// The export as this session may see it: without chunks no read can be fragmented, and
    /// the protocol forbids the flag that speaks of it.
    fn fit(&self, mut found: Found) -> Found {
        if !self.structured {
            let flags = found.export.flags;
            found.export.flags = flags.without(TransmissionFlags::SEND_DF);
        }
        found
    }

    fn refuse_export(&mut self, option: u32, refusal: Refusal) {
        let kind = match refusal {
            Refusal::Unknown => wire::option_reply::ERR_UNKNOWN,
            Refusal::Forbidden => wire::option_reply::ERR_POLICY,
            Refusal::ShuttingDown => wire::option_reply::ERR_SHUTDOWN,
        };
        self.refuse(option, kind, &refusal.to_string());
    }

    fn export_name(&mut self, export: &Export) {
        let padded = !self.said(wire::FLAG_NO_ZEROES);
        let out = &mut self.output;
        out.extend_from_slice(&export.size.get().to_be_bytes());
        out.extend_from_slice(&export.flags.to_wire().to_be_bytes());
        if padded {
            out.extend_from_slice(&[0; wire::EXPORT_NAME_PADDING_BYTES]);
        }
    }

    /// Size and block sizes always, whether or not the client asked: a client that does not
    /// heed them learns from our errors.
    fn information(
        &mut self,
        option: u32,
        name: &str,
        wants_name: bool,
        found: &Found,
        wants_description: bool,
    ) {
        let info = wire::option_reply::INFO;
        let Export {
            size,
            flags,
            blocks,
        } = found.export;
        let parts: [&[u8]; 3] = [
            &wire::info::EXPORT.to_be_bytes(),
            &size.get().to_be_bytes(),
            &flags.to_wire().to_be_bytes(),
        ];
        self.reply(option, info, &parts);
        let parts: [&[u8]; 4] = [
            &wire::info::BLOCK_SIZE.to_be_bytes(),
            &blocks.minimum.to_be_bytes(),
            &blocks.preferred.to_be_bytes(),
            &blocks.maximum.to_be_bytes(),
        ];
        self.reply(option, info, &parts);
        if wants_name {
            let parts = [&wire::info::NAME.to_be_bytes(), name.as_bytes()];
            self.reply(option, info, &parts);
        }
        let description = cut(&found.description);
        if wants_description && !description.is_empty() {
            let kind = wire::info::DESCRIPTION.to_be_bytes();
            self.reply(option, info, &[&kind, description.as_bytes()]);
        }
    }

    fn meta_context(
        &mut self,
        name: String,
        set: bool,
        base_allocation: bool,
        refusal: Option<Refusal>,
    ) {
        let option = if set {
            // Each choice replaces the one before, a failed one too.
            self.base_allocation_of = None;
            wire::option::SET_META_CONTEXT
        } else {
            wire::option::LIST_META_CONTEXT
        };
        if let Some(refusal) = refusal {
            return self.refuse_export(option, refusal);
        }
        if base_allocation {
            let id = if set { wire::BASE_ALLOCATION_ID } else { 0 };
            let parts = [&id.to_be_bytes(), wire::BASE_ALLOCATION.as_bytes()];
            self.reply(option, wire::option_reply::META_CONTEXT, &parts);
            if set {
                self.base_allocation_of = Some(name);
            }
        }
        self.acknowledge(option);
    }

    fn transmit(&mut self, name: String, export: Export) {
        let terms = Terms {
            export,
            structured: self.structured,
            // A choice for one export says nothing about another.
            base_allocation: self.base_allocation_of.as_ref() == Some(&name),
        };
        self.state = State::Transmitting(Agreed { name, terms });
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(limits::NAME_BYTES_MAX)]
}
