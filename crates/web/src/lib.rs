//! The page that shows a host to a browser: its files, the headers they go with, whom it answers, and which changes it believes.
//!
//! ```text
//!   GET /                       index.html, asked for again each time
//!   GET /assets/HASH/main.js    kept for ever: HASH is that of all files together, so that modules name each other plainly
//!   GET /v1/...                 the admin API's answers, for the daemon to give
//! ```
//!
//! There is no build step: the files in `page/` are what browsers get. Those in `page/vendor/` are other people's; the README
//! there says whose. Everything is pure: the daemon listens.

#![forbid(unsafe_code)]

mod assets;
mod hosts;
mod requests;

pub use assets::{Asset, Page};
pub use hosts::{is_this_host, name_of_host};
pub use requests::{Foreign, Sender, bearer};

/// What every answer says, files and data: nothing from elsewhere is loaded, run, framed or guessed at.
pub const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// What an answer says that must be asked for again each time.
pub const ANEW: &str = "no-store";
/// What an answer says that never changes.
pub const FOR_EVER: &str = "public, max-age=31536000, immutable";
