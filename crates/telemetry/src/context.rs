//! Which trace something belongs to, as the W3C writes it: `traceparent: 00-TRACE-SPAN-FLAGS`.

use std::fmt;
use std::str::FromStr;

/// The bit of the flags that says: whoever began the trace records it.
const SAMPLED: u8 = 1;
/// Characters of a header of the version that is written here.
const LENGTH: usize = 55;

/// A span of a trace, which others may be below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    trace: u128,
    span: u64,
    is_sampled: bool,
}

/// A text is no trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no traceparent: it looks like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct NoContext;

impl Context {
    /// A span of a trace; whether the trace is recorded. None if one of both numbers is 0, which is no number of either.
    pub const fn new(trace: u128, span: u64, is_sampled: bool) -> Option<Self> {
        if trace == 0 || span == 0 {
            return None;
        }
        Some(Self {
            trace,
            span,
            is_sampled,
        })
    }

    /// The trace's number.
    pub const fn trace(self) -> u128 {
        self.trace
    }

    /// The span's.
    pub const fn span(self) -> u64 {
        self.span
    }

    /// Whether the trace is recorded.
    pub const fn is_sampled(self) -> bool {
        self.is_sampled
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

impl FromStr for Context {
    type Err = NoContext;

    /// Reads a header of any version: what a later one adds comes behind, and is not looked at.
    fn from_str(text: &str) -> Result<Self, NoContext> {
        parse(text).ok_or(NoContext)
    }
}

fn parse(text: &str) -> Option<Context> {
    let (known, more) = text.split_at_checked(LENGTH)?;
    let mut parts = known.split('-');
    let version = hex(parts.next()?, 2)?;
    let trace = hex(parts.next()?, 32)?;
    let span = u64::try_from(hex(parts.next()?, 16)?).ok()?;
    let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
    // 255 is no version, and the first one has nothing behind.
    let is_whole = match version {
        0 => more.is_empty(),
        255 => false,
        _ => more.is_empty() || more.starts_with('-'),
    };
    if !is_whole || parts.next().is_some() {
        return None;
    }
    Context::new(trace, span, flags & SAMPLED != 0)
}

/// A number of so many digits, which are written small.
fn hex(digits: &str, count: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != count || !digits.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn the_example_of_the_recommendation_is_read_and_written() {
        let text = format!("00-{TRACE}-{SPAN}-01");
        let context: Context = text.parse().unwrap();
        assert_eq!(context.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(context.span(), 0x00f0_67aa_0ba9_02b7);
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), text);
    }

    #[test]
    fn flags_beside_the_first_are_not_passed_on() {
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let context: Context = format!("00-{TRACE}-{SPAN}-{flags}").parse().unwrap();
            assert_eq!(context.is_sampled(), is_sampled, "{flags}");
        }
    }

    #[test]
    fn a_later_version_may_have_more_behind() {
        for right in ["-01", "-01-", "-01-what-comes"] {
            assert!(
                format!("cc-{TRACE}-{SPAN}{right}")
                    .parse::<Context>()
                    .is_ok()
            );
        }
        assert!(
            format!("cc-{TRACE}-{SPAN}-01.x")
                .parse::<Context>()
                .is_err()
        );
    }

    #[test]
    fn what_is_no_context_is_refused() {
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-x"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{TRACE}{SPAN}-01-aa"),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!("0-0{TRACE}-{SPAN}-01"),
            "ä".repeat(28),
        ] {
            assert_eq!(wrong.parse::<Context>(), Err(NoContext), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_context_comes_back_from_its_text(trace in 1_u128.., span in 1_u64.., is_sampled: bool) {
            let context = Context::new(trace, span, is_sampled).unwrap();
            prop_assert_eq!(context.to_string().parse(), Ok(context));
        }

        #[test]
        fn no_text_ends_the_reader(text in "\\PC*") {
            let _ = text.parse::<Context>();
        }
    }
}
