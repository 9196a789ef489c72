//! What is to be known of a policy, and the values that its parameters take.

use std::fmt;

use units::Bytes;

/// A policy's description, for help texts and the book.
#[derive(Debug)]
pub struct About {
    /// Its name on the command line.
    pub name: &'static str,
    /// Other spellings that are understood.
    pub other_names: &'static [&'static str],
    /// Where it was published.
    pub paper: &'static str,
    /// Its queues: name and what is in it. Those called ghosts hold names only.
    pub queues: &'static [(&'static str, &'static str)],
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// Whether it must be told the future ([`super::Setup::future`]).
    pub knows_future: bool,
}

impl About {
    /// Whether this is its name, or another spelling of it.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.other_names.contains(&name)
    }
}

/// A parameter's description.
#[derive(Debug)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it sets, with its unit.
    pub meaning: &'static str,
    /// Which values it takes.
    pub takes: &'static str,
}

/// What a parameter takes, said by a value that it does not.
#[derive(Debug, PartialEq, Eq)]
pub struct BadValue;

/// A policy's parameters, read from text and written as text. Those of [`About::parameters`] and no
/// others are asked for.
pub trait Settings: Default {
    /// Sets a parameter.
    ///
    /// # Errors
    /// If the parameter does not take this value.
    fn set(&mut self, _name: &str, _value: &str) -> Result<(), BadValue> {
        unreachable!("only parameters that the policy lists are set")
    }

    /// A parameter's value, in a form that [`Self::set`] takes.
    fn get(&self, _name: &str) -> String {
        unreachable!("only parameters that the policy lists are asked for")
    }
}

/// A part of something, exact to a millionth: the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction {
    millionths: u32,
}

const MILLION: u32 = 1_000_000;

impl Fraction {
    /// Nothing.
    pub const ZERO: Self = Self::millionths(0);

    /// All.
    pub const ONE: Self = Self::millionths(MILLION);

    /// So many millionths.
    pub const fn millionths(millionths: u32) -> Self {
        Self { millionths }
    }

    /// How many millionths.
    pub const fn get_millionths(self) -> u32 {
        self.millionths
    }

    /// This part of a number, rounded down.
    ///
    /// # Panics
    /// If the result does not fit 32 bits: the whole is a capacity, and no parameter is above 4.
    pub fn of(self, whole: u32) -> u32 {
        let part = u64::from(whole) * u64::from(self.millionths) / u64::from(MILLION);
        u32::try_from(part).expect("parameters and capacities are limited")
    }

    /// This part of a number, rounded up.
    ///
    /// # Panics
    /// If the result does not fit 32 bits, as [`Self::of`].
    pub fn of_rounded_up(self, whole: u32) -> u32 {
        let part = (u64::from(whole) * u64::from(self.millionths)).div_ceil(u64::from(MILLION));
        u32::try_from(part).expect("parameters and capacities are limited")
    }

    /// The nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        f64::from(self.millionths) / f64::from(MILLION)
    }

    /// This part of a size, rounded down; `None` if that does not fit 64 bits.
    pub fn of_bytes(self, whole: Bytes) -> Option<Bytes> {
        let part = u128::from(whole.get()) * u128::from(self.millionths) / u128::from(MILLION);
        u64::try_from(part).ok().map(Bytes::new)
    }

    /// A number such as `0.25` between two limits, both included, with up to six decimals.
    ///
    /// # Errors
    /// If the text is none.
    pub fn parse(text: &str, from: Self, to: Self) -> Result<Self, BadValue> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > 6 {
            return Err(BadValue);
        }
        let whole: u32 = whole.parse().map_err(|_| BadValue)?;
        let decimals: u32 = format!("{decimals:0<6}").parse().map_err(|_| BadValue)?;
        let millionths = whole
            .checked_mul(MILLION)
            .and_then(|whole| whole.checked_add(decimals))
            .ok_or(BadValue)?;
        let fraction = Self::millionths(millionths);
        if (from..=to).contains(&fraction) {
            Ok(fraction)
        } else {
            Err(BadValue)
        }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.millionths % MILLION);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.millionths / MILLION),
            decimals => write!(f, "{}.{decimals}", self.millionths / MILLION),
        }
    }
}

/// A whole number between two limits, both included.
///
/// # Errors
/// If the text is none.
pub fn parse_count(text: &str, from: u32, to: u32) -> Result<u32, BadValue> {
    match text.parse() {
        Ok(count) if (from..=to).contains(&count) => Ok(count),
        _ => Err(BadValue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Fraction, BadValue> {
        Fraction::parse(text, Fraction::ZERO, Fraction::ONE)
    }

    #[test]
    fn a_fraction_is_read_and_written_exactly() {
        for (text, written, of_2700) in [
            ("0.25", "0.25", 675),
            ("0.1", "0.1", 270),
            ("0.10", "0.1", 270),
            ("1", "1", 2700),
            ("0.000001", "0.000001", 0),
        ] {
            let fraction = parse(text).unwrap();
            assert_eq!(fraction.to_string(), written);
            assert_eq!(fraction.of(2700), of_2700, "{text}");
        }
    }

    #[test]
    fn what_is_no_fraction_is_refused() {
        for text in [
            "",
            ".5",
            "-0.1",
            "1.1",
            "0.1234567",
            "1e-3",
            "half",
            "99999999999",
            "+0.5",
        ] {
            assert_eq!(parse(text), Err(BadValue), "{text}");
        }
    }
}
