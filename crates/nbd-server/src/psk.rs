//! Pre-shared keys: the key file, and the handshake by OpenSSL.
//!
//! ```text
//! # a comment
//! alice:6b65792064617461...
//! ```

use crate::tls_error::TlsError;
use nbd_protocol::psk::{CIPHERS_TLS_1_2, Keys, NotAKey, parse};
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{Ssl, SslContext, SslMethod, SslOptions, SslSessionCacheMode, SslVersion};
use std::io;
use std::path::Path;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_openssl::SslStream;

/// Accepts clients that know a key.
#[derive(Clone)]
pub(crate) struct Acceptor {
    context: SslContext,
    /// Where a session keeps the name of the key that its client has used.
    name: Index<Ssl, String>,
}

impl Acceptor {
    pub(crate) fn new(keys: Keys) -> Result<Self, ErrorStack> {
        let mut builder = SslContext::builder(SslMethod::tls_server())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_cipher_list(CIPHERS_TLS_1_2)?;
        // A resumed session would name no key: each client proves anew that it knows one.
        builder.set_options(SslOptions::NO_TICKET);
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        let index = Ssl::new_ex_index()?;
        builder.set_psk_server_callback(move |session, name, room| {
            // No bytes of key: the handshake fails, and says no more of why.
            let key = name.and_then(|name| keys.get_key_value(name));
            let found = key.and_then(|(name, key)| Some((name, key, room.get_mut(..key.len())?)));
            let Some((name, key, room)) = found else {
                return Ok(0);
            };
            room.copy_from_slice(key);
            // The file of keys is text, and so are the names in it.
            session.set_ex_data(index, String::from_utf8_lossy(name).into_owned());
            Ok(key.len())
        });
        let context = builder.build();
        Ok(Self {
            context,
            name: index,
        })
    }

    /// Does the handshake; says the name of the client's key.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<(SslStream<S>, Option<String>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let ssl = Ssl::new(&self.context)?;
        let mut session = SslStream::new(ssl, stream)?;
        let pinned = Pin::new(&mut session);
        pinned.accept().await.map_err(io::Error::other)?;
        let name = session.ssl().ex_data(self.name).cloned();
        Ok((session, name))
    }
}

/// Reads a key file.
pub(crate) fn read(path: &Path) -> Result<Keys, TlsError> {
    let text = std::fs::read_to_string(path).map_err(|source| TlsError::KeyFile {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|NotAKey { line, problem }| TlsError::KeyLine {
        path: path.to_owned(),
        line,
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Keys, TlsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.psk");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn a_key_file_has_a_name_and_a_key_a_line() {
        let text = "# ours\nalice:000102030405060708090a0b0c0d0e0f\n\nvm:1:ffFF02030405060708090a0b0c0d0e0f\n";
        let keys = read_text(text).unwrap();
        assert_eq!(keys[&b"alice"[..]], (0..16).collect::<Vec<u8>>());
        assert_eq!(keys[&b"vm:1"[..]][..2], [255, 255]);
    }

    #[test]
    fn lines_that_are_no_keys_are_refused_by_number() {
        for (text, line) in [
            ("", 1),
            ("# nothing\n", 1),
            ("\nalice\n", 2),
            (":000102030405060708090a0b0c0d0e0f", 1),
            ("alice:0001", 1),
            ("alice:000102030405060708090a0b0c0d0e0", 1),
            ("alice:+00102030405060708090a0b0c0d0e0f", 1),
            ("alice:zz0102030405060708090a0b0c0d0e0f", 1),
            (
                "a:000102030405060708090a0b0c0d0e0f\na:000102030405060708090a0b0c0d0e0f",
                2,
            ),
        ] {
            match read_text(text) {
                Err(TlsError::KeyLine { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
