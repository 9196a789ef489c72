//! Where an image is.

use std::path::Path;

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The cluster's configuration file; the library's usual places if none.
    pub conf: Option<&'a Path>,
    /// Who asks, without `client.`; `admin` if none.
    pub user: Option<&'a str>,
    /// The pool.
    pub pool: &'a str,
    /// The namespace in the pool; empty for the default one.
    pub namespace: &'a str,
    /// The image.
    pub image: &'a str,
    /// A snapshot of it, which only reading opens.
    pub snapshot: Option<&'a str>,
}
