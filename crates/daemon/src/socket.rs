//! Unix sockets with the right owner and mode from the first moment that anybody can see them.

use crate::system::{GroupError, group_id};
use rustix::fs::{Mode, chmod, chown};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The permission bits of a mode.
const MODE_BITS: u32 = 0o7777;

/// Why a unix socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// Somebody listens there already.
    #[error("another process listens on {}", path.display())]
    InUse {
        /// Which socket.
        path: PathBuf,
    },
    /// What is there is no socket, and is left alone.
    #[error("{} is there and is no socket", path.display())]
    NotASocket {
        /// Which path.
        path: PathBuf,
    },
    /// The group that should own it.
    #[error("cannot give {} to its group", path.display())]
    Group {
        /// Which socket.
        path: PathBuf,
        /// What is wrong with the group.
        source: GroupError,
    },
    /// The system refused.
    #[error("cannot listen on {}", path.display())]
    Io {
        /// Which socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The path of a socket of ours, which goes when this is dropped, unless another process has put
/// its own there.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let present = std::fs::symlink_metadata(&self.path);
        if present.is_ok_and(|metadata| metadata.ino() == self.inode) {
            // What cannot be removed is replaced by the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl SocketPath {
    pub(super) fn new(path: PathBuf, inode: u64) -> Self {
        Self { path, inode }
    }

    /// Which file clients connect to.
    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    /// Lets the path stay: its socket lives on.
    pub(super) fn leave(mut self) {
        // No file has it.
        self.inode = 0;
    }
}

/// Takes over a socket that is there already: gives it the owner and mode that are wanted now.
///
/// # Errors
/// If the system refuses, or there is no such group.
pub(super) fn taken_over(
    path: &Path,
    inode: u64,
    mode: u32,
    group: Option<&str>,
) -> Result<SocketPath, SocketError> {
    let number = number(path, group)?;
    let dress = || -> io::Result<()> {
        let present = std::fs::symlink_metadata(path)?;
        if number.is_some_and(|group| group != present.gid()) {
            chown(path, None, number.map(rustix::fs::Gid::from_raw))?;
        }
        if present.mode() & MODE_BITS != mode {
            chmod(path, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    };
    dress().map_err(|source| SocketError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(SocketPath::new(path.to_owned(), inode))
}

fn number(path: &Path, group: Option<&str>) -> Result<Option<u32>, SocketError> {
    let number = group.map(group_id).transpose();
    number.map_err(|source| SocketError::Group {
        path: path.to_owned(),
        source,
    })
}

/// Listens on a unix socket at `path`, replacing what a daemon that is gone left there.
///
/// The socket is bound under another name, given its group and mode, and then renamed, so
/// that nobody can connect who may not.
///
/// # Errors
/// If somebody listens there, something else is there, or the system refuses.
pub(super) fn listen(
    path: &Path,
    mode: u32,
    group: Option<&str>,
) -> Result<(UnixListener, SocketPath), SocketError> {
    let failed = |source: io::Error| SocketError::Io {
        path: path.to_owned(),
        source,
    };
    let group = number(path, group)?;
    free(path)?;
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(format!(".{}", std::process::id()));
    let hidden = PathBuf::from(hidden);
    match std::fs::remove_file(&hidden) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&hidden).map_err(failed)?;
    let publish = || -> io::Result<u64> {
        chmod(&hidden, Mode::from_raw_mode(0o600))?;
        if let Some(group) = group {
            chown(&hidden, None, Some(rustix::fs::Gid::from_raw(group)))?;
        }
        chmod(&hidden, Mode::from_raw_mode(mode))?;
        let inode = std::fs::symlink_metadata(&hidden)?.ino();
        std::fs::rename(&hidden, path)?;
        Ok(inode)
    };
    let inode = publish().map_err(|error| {
        // The first error is the one to tell; a leftover is replaced by the next start.
        let _ = std::fs::remove_file(&hidden);
        failed(error)
    })?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok((listener, SocketPath::new(path.to_owned(), inode)))
}

/// Whether nobody listens at `path`.
///
/// # Errors
/// If somebody does, or what is there is no socket.
fn free(path: &Path) -> Result<(), SocketError> {
    use std::os::unix::fs::FileTypeExt;
    let path = path.to_owned();
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(SocketError::Io { path, source }),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(&path) {
        Ok(_) => Err(SocketError::InUse { path }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(SocketError::Io { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_has_its_mode_and_replaces_a_dead_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (dead, its_path) = listen(&path, 0o600, None).unwrap();
        drop(dead);
        std::mem::forget(its_path);
        let again = listen(&path, 0o660, Some("0")).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        UnixStream::connect(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(again);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_another_process_put_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (first, its_path) = listen(&path, 0o600, None).unwrap();
        drop(first);
        let (_second, _its_path) = listen(&path, 0o600, None).unwrap();
        drop(its_path);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_socket_with_a_listener_and_a_file_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _first = listen(&path, 0o600, None).unwrap();
        assert!(matches!(
            listen(&path, 0o600, None),
            Err(SocketError::InUse { .. })
        ));
        let file = dir.path().join("f");
        std::fs::write(&file, "precious").unwrap();
        assert!(matches!(
            listen(&file, 0o600, None),
            Err(SocketError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    }
}
