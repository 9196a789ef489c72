//! Addresses of images of Ceph: `rbd:pool/image`, `rbd:pool/namespace/image@snapshot?conf=PATH&user=NAME`.
//!
//! Pool, image and snapshot are written as Ceph's own commands have them. Bytes that mean something here (`/`, `@`, `?`, `&`,
//! `%`) are percent-encoded inside of a name. The canonical print is part of a disk's default identity.

use crate::percent::{decode, encode};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What comes before every address.
pub const RBD_SCHEME: &str = "rbd:";

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RbdUri {
    /// The pool.
    pub pool: String,
    /// The namespace in the pool; empty for the default one.
    pub namespace: String,
    /// The image.
    pub image: String,
    /// A snapshot of the image, which is only read.
    pub snapshot: Option<String>,
    /// The cluster's configuration file; Ceph's usual places if none.
    pub conf: Option<PathBuf>,
    /// Who asks, without `client.`; `admin` if none.
    pub user: Option<String>,
}

/// Why a text is no address of an image.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' is not the address of an RBD image ({reason}): write rbd:pool/image, rbd:pool/image@snapshot or rbd:pool/image?conf=/etc/ceph/ceph.conf&user=hearth"
)]
pub struct ParseRbdUriError {
    text: String,
    reason: &'static str,
}

impl FromStr for RbdUri {
    type Err = ParseRbdUriError;

    fn from_str(text: &str) -> Result<Self, ParseRbdUriError> {
        parse(text).map_err(|reason| ParseRbdUriError {
            text: text.to_owned(),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<RbdUri, &'static str> {
    let rest = text.strip_prefix(RBD_SCHEME).ok_or("unknown scheme")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (path, snapshot) = match path.split_once('@') {
        Some((path, snapshot)) => (path, Some(name(snapshot)?)),
        None => (path, None),
    };
    let parts = path.split('/').map(name).collect::<Result<Vec<_>, _>>();
    let (pool, namespace, image) = match parts?.as_slice() {
        [pool, image] => (pool.clone(), String::new(), image.clone()),
        [pool, namespace, image] => (pool.clone(), namespace.clone(), image.clone()),
        _ => return Err("a pool, perhaps a namespace, and an image are separated by slashes"),
    };
    let mut uri = RbdUri {
        pool,
        namespace,
        image,
        snapshot,
        conf: None,
        user: None,
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("conf", path)) if uri.conf.is_none() => uri.conf = Some(name(path)?.into()),
            Some(("user", user)) if uri.user.is_none() => uri.user = Some(name(user)?),
            _ => return Err("only two parameters, conf and user, are known"),
        }
    }
    Ok(uri)
}

fn name(text: &str) -> Result<String, &'static str> {
    match decode(text)? {
        name if name.is_empty() => Err("a name is empty"),
        name => Ok(name),
    }
}

impl fmt::Display for RbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PLAIN: &[u8] = b"-._~:,";
        f.write_str(RBD_SCHEME)?;
        encode(f, &self.pool, PLAIN)?;
        if !self.namespace.is_empty() {
            f.write_str("/")?;
            encode(f, &self.namespace, PLAIN)?;
        }
        f.write_str("/")?;
        encode(f, &self.image, PLAIN)?;
        if let Some(snapshot) = &self.snapshot {
            f.write_str("@")?;
            encode(f, snapshot, PLAIN)?;
        }
        let mut mark = "?";
        if let Some(conf) = &self.conf {
            write!(f, "{mark}conf=")?;
            encode(f, &conf.to_string_lossy(), b"-._~/:,")?;
            mark = "&";
        }
        if let Some(user) = &self.user {
            write!(f, "{mark}user=")?;
            encode(f, user, PLAIN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_as_it_was_meant() {
        for (text, canonical) in [
            ("rbd:vms/web-1", "rbd:vms/web-1"),
            (
                "rbd:vms/tenant/web%2D1@golden",
                "rbd:vms/tenant/web-1@golden",
            ),
            (
                "rbd:vms/web?user=hearth&conf=/etc/ceph/b.conf",
                "rbd:vms/web?conf=/etc/ceph/b.conf&user=hearth",
            ),
            ("rbd:vms/a%2Fb%40c", "rbd:vms/a%2Fb%40c"),
        ] {
            let uri: RbdUri = text.parse().unwrap();
            assert_eq!(uri.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(uri));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "rbd:",
            "rbd:vms",
            "rbd:vms/",
            "rbd:/web",
            "rbd:vms/web@",
            "rbd:a/b/c/d",
            "rbd:vms/web?id=admin",
            "rbd:vms/web?conf=",
            "rbd:vms/web?user=a&user=b",
            "rbd:vms/%00",
            "nbd://h/",
        ] {
            assert!(text.parse::<RbdUri>().is_err(), "{text}");
        }
    }
}
