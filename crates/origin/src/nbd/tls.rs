//! Encryption of connections to NBD servers, by OpenSSL: certificates (x509) and pre-shared keys, as `GnuTLS` and so QEMU and
//! nbdkit speak them.
//!
//! OpenSSL reads and writes a [`Pipe`] in memory. Whoever has the socket carries the bytes between the two.

use super::wire::DialError;
use crate::TlsSpec;
use nbd_protocol::psk;
use openssl::error::{Error, ErrorStack};
use openssl::ssl::{
    HandshakeError, Ssl, SslContext, SslContextBuilder, SslFiletype, SslMethod, SslStream,
    SslVerifyMode, SslVersion,
};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::Path;

/// Encrypted bytes on their way between OpenSSL and a socket.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Received, and not read by OpenSSL yet.
    pub(super) incoming: VecDeque<u8>,
    /// To be sent.
    pub(super) outgoing: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.incoming.read(into) {
            Ok(0) if !into.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            read => read,
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A session that is encrypted from now on.
pub(super) type Secured = SslStream<Pipe>;

/// Does the handshake over a socket: `send` takes all of its bytes, `receive` waits for some.
pub(super) fn secure(
    spec: &TlsSpec,
    host: &str,
    mut send: impl FnMut(&[u8]) -> Result<(), DialError>,
    mut receive: impl FnMut(&mut [u8]) -> Result<usize, DialError>,
) -> Result<Secured, DialError> {
    let session = session(spec, host)?;
    let mut step = session.connect(Pipe::default());
    let mut buf = [0; 4096];
    loop {
        match step {
            Ok(mut secured) => {
                send(&std::mem::take(&mut secured.get_mut().outgoing))?;
                return Ok(secured);
            }
            Err(HandshakeError::WouldBlock(mut waiting)) => {
                send(&std::mem::take(&mut waiting.get_mut().outgoing))?;
                let count = receive(&mut buf)?;
                waiting.get_mut().incoming.extend(&buf[..count]);
                step = waiting.handshake();
            }
            Err(HandshakeError::Failure(mut failed)) => {
                // The server learns why.
                let _ = send(&std::mem::take(&mut failed.get_mut().outgoing));
                let verified = failed.ssl().verify_result();
                let why = if verified == openssl::x509::X509VerifyResult::OK {
                    failed.error().to_string()
                } else {
                    format!("its certificate: {}", verified.error_string())
                };
                return Err(DialError::Refused(format!(
                    "the TLS handshake failed: {why}"
                )));
            }
            Err(HandshakeError::SetupFailure(error)) => return Err(error.into()),
        }
    }
}

fn session(spec: &TlsSpec, host: &str) -> Result<Ssl, DialError> {
    let mut builder = SslContext::builder(SslMethod::tls_client())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    // With a key, too: a server that does not know it must not get away with any certificate.
    builder.set_verify(SslVerifyMode::PEER);
    let name = match spec {
        TlsSpec::Certificates {
            authority,
            own,
            server_name,
        } => {
            match authority {
                Some(file) => builder.set_ca_file(file).map_err(|e| of_file(file, &e))?,
                None => builder.set_default_verify_paths()?,
            }
            if let Some((certificate, key)) = own {
                use_certificate(&mut builder, certificate, key)?;
            }
            Some(server_name.as_deref().unwrap_or(host))
        }
        TlsSpec::Key { name, file } => {
            use_key(&mut builder, name, file)?;
            None
        }
    };
    let mut session = Ssl::new(&builder.build())?;
    if let Some(name) = name {
        let parameters = session.param_mut();
        if let Ok(address) = name.parse::<IpAddr>() {
            parameters.set_ip(address)?;
        } else {
            parameters.set_host(name)?;
            session.set_hostname(name)?;
        }
    }
    Ok(session)
}

fn use_certificate(
    builder: &mut SslContextBuilder,
    certificate: &Path,
    key: &Path,
) -> Result<(), DialError> {
    let chain = builder.set_certificate_chain_file(certificate);
    chain.map_err(|error| of_file(certificate, &error))?;
    let own = builder.set_private_key_file(key, SslFiletype::PEM);
    own.and_then(|()| builder.check_private_key())
        .map_err(|error| of_file(key, &error))
}

fn use_key(builder: &mut SslContextBuilder, name: &str, file: &Path) -> Result<(), DialError> {
    let refused = |why: String| DialError::Refused(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
    let keys = psk::parse(&text)
        .map_err(|wrong| refused(format!("line {}: {}", wrong.line, wrong.problem)))?;
    let key = keys.get(name.as_bytes()).cloned();
    let key = key.ok_or_else(|| refused(format!("it has no key of the name '{name}'")))?;
    let name = name.as_bytes().to_owned();
    builder.set_cipher_list(psk::CIPHERS_TLS_1_2)?;
    builder.set_psk_client_callback(move |_, _, name_room, key_room| {
        // The name ends with a zero byte.
        let rooms = name_room
            .get_mut(..=name.len())
            .zip(key_room.get_mut(..key.len()));
        let Some((name_room, key_room)) = rooms else {
            return Ok(0);
        };
        name_room[..name.len()].copy_from_slice(&name);
        name_room[name.len()] = 0;
        key_room.copy_from_slice(&key);
        Ok(key.len())
    });
    Ok(())
}

fn of_file(file: &Path, error: &ErrorStack) -> DialError {
    let error = error.errors().first().and_then(Error::reason);
    let why = error.unwrap_or("it cannot be used");
    DialError::Refused(format!("{}: {why}", file.display()))
}

impl From<ErrorStack> for DialError {
    fn from(error: ErrorStack) -> Self {
        Self::Refused(error.to_string())
    }
}
