//! Settings that can be changed while the daemon runs.

/// Defines the change of a settings type: the same fields, each of which may be left out.
///
/// Every field is optional in JSON and left out when it is not there. `ToSchema` sees texts where the
/// fields are texts: attributes go through.
macro_rules! change {
    (
        $(#[$about:meta])*
        $change:ident of $settings:ident {
            $( $(#[$meta:meta])* $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$about])*
        #[derive(
            Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        #[serde(deny_unknown_fields, default)]
        pub struct $change {
            $(
                $(#[$meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl $change {
            /// Whether it changes nothing.
            pub fn is_nothing(&self) -> bool {
                *self == Self::default()
            }

            /// The change that makes any settings these.
            pub fn of(settings: &$settings) -> Self {
                Self {
                    $( $field: Some(settings.$field.clone()), )*
                }
            }

            /// Changes settings.
            pub fn apply(&self, settings: &mut $settings) {
                $(
                    if let Some(new) = &self.$field {
                        settings.$field.clone_from(new);
                    }
                )*
            }

            /// This change, and a later one over it.
            pub fn then(self, later: Self) -> Self {
                Self {
                    $( $field: later.$field.or(self.$field), )*
                }
            }

            /// The names of the settings that it changes.
            pub fn keys(&self) -> Vec<String> {
                let mut keys = Vec::new();
                $(
                    if self.$field.is_some() {
                        keys.push(stringify!($field).to_owned());
                    }
                )*
                keys
            }
        }
    };
}

pub(super) use change;
