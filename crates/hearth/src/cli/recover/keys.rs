//! The key of a disk whose blocks lie encrypted on flash.
//!
//! A dirty block is checked as it lies, so `list` and `verify` need no key. `destage` and `export`
//! do: the operator's key opens the disk's data key in the state folder, and the tag on flash says
//! whether that is the one by which the blocks were encrypted. Nothing is drawn or changed here.

use super::args::KeyArgs;
use super::places::Known;
use crate::terminal::exit::{CliError, Exit, chain};
use at_rest::XtsCipher;
use block_io::BlockCipher;
use cache::LogReport;

/// The cipher of a log's blocks; none if they lie as they are.
///
/// # Errors
/// If they are encrypted and the key is not there, or is another.
pub(super) fn cipher_of(
    known: &Known,
    given: &KeyArgs,
    log: &LogReport,
    disk: &str,
) -> Result<Option<XtsCipher>, CliError> {
    let store = known.keys();
    let source = given.source().or_else(|| known.key_source(disk, log.id));
    // A log that was found without the tables does not say whether it is encrypted. Its disk does, or
    // a data key that is still there makes it doubtful enough to ask.
    let is_unsaid = log.key.is_none() && log.name.is_empty();
    let is_encrypted = is_unsaid && (source.is_some() || store.has(log.id));
    if log.key.is_none() && !is_encrypted {
        return Ok(None);
    }
    let refused = |message: String| CliError::new(Exit::Refused, message);
    let source = source.ok_or_else(|| {
        refused(format!("the blocks of '{disk}' on flash are encrypted")).with_remedy(
            "name the daemon's configuration with --config, or the key with --key-file, --key-credential or --key-command",
        )
    })?;
    if !store.has(log.id) {
        let message = format!("the data key of '{disk}' is not in the state folder");
        return Err(refused(message).with_remedy(
            "name that of the daemon with --state-dir, or restore its folder keys/ from a backup",
        ));
    }
    let wrapping = source.fetch().map_err(|error| refused(chain(&error)))?;
    let key = store.open(log.id, &wrapping);
    let key = key.map_err(|error| refused(chain(&error)))?;
    let cipher = XtsCipher::new(&key).map_err(|error| CliError::of(Exit::Failed, &error))?;
    if log.key.is_some() && log.key != Some(cipher.tag()) {
        let message = format!(
            "the data key of '{disk}' is another than the one by which its blocks on flash were encrypted"
        );
        return Err(refused(message)
            .with_remedy("restore the folder keys/ of that time, and name it with --state-dir"));
    }
    Ok(Some(cipher))
}
