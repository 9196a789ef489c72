//! The keys of a kind of origin while they are read.

/// Defines `Keys`, or a type of another name: what was written of a kind's keys, the one that says that an origin is of the kind
/// first. A key that was not written, or is `null`, has its default.
macro_rules! keys {
    ($( $key:ident: $type:ty, )*) => {
        keys! { Keys { $( $key: $type, )* } }
    };
    ($name:ident { $( $key:ident: $type:ty, )* }) => {
        #[derive(Default)]
        pub(super) struct $name {
            $( $key: Option<$type>, )*
        }

        impl $name {
            pub(super) const NAMES: &[&str] = &[$( stringify!($key), )*];

            /// Reads the value of a key; false if it is none of these.
            pub(super) fn read<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                match key {
                    $( stringify!($key) => self.$key = map.next_value()?, )*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

pub(super) use keys;
