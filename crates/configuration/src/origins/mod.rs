//! Where a disk's bytes live: the kinds of origins, and what the configuration says of each.
//!
//! A kind is a file here: its keys with their defaults and what they may be, and its canonical text. It
//! has a line in the table below. Times that several kinds have are in `times`. An origin is of the kind whose first key is written (`file`, `nbd`, `rbd`,
//! `iscsi`);
//! keys of other kinds mean nothing to it.

mod file;
mod iscsi;
mod keys;
mod nbd;
mod rbd;
mod times;

pub use file::FileOrigin;
pub use iscsi::IscsiOrigin;
pub use nbd::NbdOrigin;
pub use rbd::RbdOrigin;

use super::fault::Fault;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use times::Times;
use units::Duration;
use utoipa::ToSchema;

/// Defines [`OriginConfig`] and how it is read: a variant, its type and its module for each kind.
macro_rules! origins {
    ($( $(#[$about:meta])* $kind:ident($settings:ty): $module:ident, )*) => {
        /// Where a disk's bytes live. Times are texts with a unit, such as `10s`.
        #[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
        #[serde(untagged)]
        pub enum OriginConfig {
            $( $(#[$about])* $kind($settings), )*
        }

        /// What is written of each kind.
        #[derive(Default)]
        struct Written {
            times: Times,
            $( $module: $module::Keys, )*
        }

        /// The key that says of which kind an origin is, of each kind.
        pub(super) const NAMES: &[&str] = &[$( $module::Keys::NAMES[0], )*];

        impl Written {
            /// Reads the value of a key; false if no kind has such a key.
            fn read<'de, A: MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                Ok(self.times.read(key, map)? $( || self.$module.read(key, map)? )*)
            }

            /// The origin of each kind that is named.
            fn named(self) -> Vec<OriginConfig> {
                let all = [$( self.$module.origin(&self.times).map(OriginConfig::$kind), )*];
                all.into_iter().flatten().collect()
            }
        }

        impl OriginConfig {
            /// Every key that any kind has, without a value.
            pub(super) fn every_key() -> Value {
                let keys = [Times::NAMES, $( $module::Keys::NAMES, )*].concat();
                let keys = keys.into_iter().map(|key| (key.to_owned(), Value::Null));
                Value::Object(Map::from_iter(keys))
            }

            /// One text for an origin however it was spelled: `file:/path`, or the canonical NBD URI.
            pub(super) fn canonical(&self) -> String {
                match self {
                    $( Self::$kind(origin) => origin.canonical(), )*
                }
            }

            /// The key that says of which kind the origin is, such as `file`.
            pub fn kind(&self) -> &'static str {
                match self {
                    $( Self::$kind(_) => $module::Keys::NAMES[0], )*
                }
            }

            /// Has each request of the origin end within this time.
            pub fn set_request_timeout(&mut self, time: Duration) {
                match self {
                    $( Self::$kind(origin) => origin.set_request_timeout(time), )*
                }
            }

            /// What is wrong with an origin; keys are relative to it.
            pub(super) fn faults(&self) -> Vec<Fault> {
                match self {
                    $( Self::$kind(origin) => origin.faults(), )*
                }
            }
        }
    };
}

origins! {
    /// A file or block device.
    File(FileOrigin): file,
    /// An export of an NBD server.
    Nbd(NbdOrigin): nbd,
    /// An image of a Ceph cluster.
    Rbd(RbdOrigin): rbd,
    /// A logical unit of an iSCSI target.
    Iscsi(IscsiOrigin): iscsi,
}

/// What to do about an origin of no kind, in words.
pub(super) fn choose() -> String {
    format!("give one of {}", NAMES.join(", "))
}

/// The key that is said to be missing where none says of which kind an origin is.
pub(super) const fn first_name() -> &'static str {
    NAMES[0]
}

impl<'de> Deserialize<'de> for OriginConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Table)
    }
}

struct Table;

impl<'de> Visitor<'de> for Table {
    type Value = OriginConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with the keys of an origin")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OriginConfig, A::Error> {
        let mut written = Written::default();
        while let Some(key) = map.next_key::<String>()? {
            if !written.read(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
                return Err(Error::custom(format!("unknown field `{key}`")));
            }
        }
        let mut named = written.named();
        match (named.pop(), named.is_empty()) {
            (Some(origin), true) => Ok(origin),
            (Some(_), false) => Err(Error::custom(format!("{}, not both", choose()))),
            (None, _) => Err(Error::custom(choose())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<OriginConfig, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            r#"{"file":"/o","direct":false,"format":"raw","request_timeout":"3s"}"#,
            r#"{"nbd":"nbd://h:10809/e","connections":2,"connect_timeout":"1s","reconnect_pause_max":"2s","request_timeout":"3s","settle_time":"4s"}"#,
        ] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn what_earlier_daemons_remember_is_read() {
        let times = r#""connect_timeout":"10s","reconnect_pause_max":"5s","request_timeout":"1min","settle_time":"30s""#;
        let rest = format!(r#""direct":true,"format":"auto","connections":4,{times}"#);
        let file = read(&format!(r#"{{"file":"/o","nbd":null,{rest}}}"#));
        assert_eq!(file, Ok(FileOrigin::new("/o".into()).into()));
        let nbd = read(&format!(r#"{{"file":null,"nbd":"nbd://h/e",{rest}}}"#));
        assert_eq!(nbd, Ok(NbdOrigin::new("nbd://h/e".parse().unwrap()).into()));
    }

    #[test]
    fn an_origin_is_of_one_kind() {
        let both = read(r#"{"file":"/o","nbd":"nbd://h/e"}"#).unwrap_err();
        assert!(
            both.contains("give one of file, nbd, rbd, iscsi, not both"),
            "{both}"
        );
        assert!(read("{}").is_err());
        assert!(
            read(r#"{"fil":"/o"}"#)
                .unwrap_err()
                .contains("unknown field `fil`")
        );
        let none = read(r#"{"nbd":"nbd://h/e","connections":0}"#).unwrap_err();
        assert!(none.contains("must be between 1 and 16"), "{none}");
    }
}
