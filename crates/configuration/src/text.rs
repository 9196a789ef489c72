//! Values that are written as text in the configuration: sizes, times, ids, addresses.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A value that is written as a string and has one spelling to print: `"64MiB"`, `"10s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T> Deserialize<'de> for Text<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// A value that can be switched off: written as the value's own text, or as `"off"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch<T> {
    /// Not used.
    Off,
    /// Used, with this value.
    On(T),
}

impl<T> Switch<T> {
    /// The value, if it is on.
    pub fn as_ref(&self) -> Option<&T> {
        match self {
            Self::Off => None,
            Self::On(value) => Some(value),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Switch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On(value) => value.fmt(f),
        }
    }
}

impl<T: FromStr> FromStr for Switch<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::On)
    }
}

/// A value that is found out unless it is said: written as the value's own text, or as `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto<T> {
    /// Found out.
    Auto,
    /// This.
    Fixed(T),
}

impl<T: fmt::Display> fmt::Display for Auto<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(value) => value.fmt(f),
        }
    }
}

impl<T: FromStr> FromStr for Auto<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Fixed)
    }
}

/// An IP address and a port to listen on: `"127.0.0.1:9809"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a text is no address to listen on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{0}' is not an IP address with a port, and names are not looked up: write 127.0.0.1:PORT for this host alone, 0.0.0.0:PORT or [::]:PORT for all, or off"
)]
pub struct ParseAddressError(String);

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let address = text.parse().map(Self);
        address.map_err(|_| ParseAddressError(text.to_owned()))
    }
}

/// Permission bits of a socket, written in octal: `"0660"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    /// These permission bits.
    ///
    /// # Panics
    /// If there are others than read, write and execute for user, group and others.
    pub const fn new(bits: u32) -> Self {
        assert!(bits <= 0o777, "a mode has nine bits");
        Self(bits)
    }

    /// The bits.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

/// Why a text is no mode.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a mode: write four octal digits, such as 0660")]
pub struct ParseModeError(String);

impl FromStr for Mode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, ParseModeError> {
        let error = || ParseModeError(text.to_owned());
        let octal = text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        if !octal || !(3..=4).contains(&text.len()) {
            return Err(error());
        }
        match u32::from_str_radix(text, 8) {
            Ok(bits) if bits <= 0o777 => Ok(Self(bits)),
            _ => Err(error()),
        }
    }
}

/// A path that [`Switch`] can parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath(pub PathBuf);

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl FromStr for SocketPath {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(PathBuf::from(text)))
    }
}

/// A program's absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPath(pub PathBuf);

impl fmt::Display for ProgramPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Why a text is no program's path.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not an absolute path, such as /usr/sbin/smartctl")]
pub struct ParseProgramPathError(String);

impl FromStr for ProgramPath {
    type Err = ParseProgramPathError;

    fn from_str(text: &str) -> Result<Self, ParseProgramPathError> {
        let path = PathBuf::from(text);
        if path.is_absolute() {
            return Ok(Self(path));
        }
        Err(ParseProgramPathError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, Duration};

    #[test]
    fn a_text_value_reads_what_it_writes() {
        let size = Text(Bytes::mib(64));
        let json = serde_json::to_string(&size).unwrap();
        assert_eq!(json, "\"64MiB\"");
        assert_eq!(serde_json::from_str::<Text<Bytes>>(&json).unwrap(), size);
        assert!(serde_json::from_str::<Text<Duration>>("\"10\"").is_err());
    }

    #[test]
    fn off_is_a_value_of_every_switch() {
        assert_eq!("off".parse::<Switch<Mode>>().unwrap(), Switch::Off);
        let on = "0660".parse::<Switch<Mode>>().unwrap();
        assert_eq!(on, Switch::On(Mode::new(0o660)));
        assert_eq!(on.to_string(), "0660");
    }

    #[test]
    fn an_address_is_a_number_and_a_port() {
        for text in ["127.0.0.1:9809", "[::1]:10809", "0.0.0.0:0"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["localhost:9809", "127.0.0.1", ":9809", "9809", ""] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:PORT"), "{error}");
        }
    }

    #[test]
    fn modes_are_octal_and_have_nine_bits() {
        for text in ["", "66", "0888", "+660", "7777", "00660", "rw"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
        assert_eq!("600".parse::<Mode>().unwrap().to_string(), "0600");
    }
}
