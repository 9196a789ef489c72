//! All entries below a prefix, page after page.

use crate::{Prefix, Revision, Store, StoreError, Versioned};

/// All entries below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Everything {
    /// By rising key.
    pub entries: Vec<Versioned>,
    /// From where to watch so that no later change is missed. Some of them may be seen in `entries` already.
    pub revision: Revision,
}

/// Reads all pages.
///
/// # Errors
/// As [`Store::page`].
pub async fn everything(store: &dyn Store, prefix: &Prefix) -> Result<Everything, StoreError> {
    let first = store.page(prefix, None).await?;
    let revision = first.revision;
    let (mut entries, mut more) = (first.entries, first.more);
    while more {
        let after = entries.last().map(|entry| entry.key.clone());
        let page = store.page(prefix, after.as_ref()).await?;
        entries.extend(page.entries);
        more = page.more;
    }
    Ok(Everything { entries, revision })
}
