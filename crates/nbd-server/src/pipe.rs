//! Carries bytes between a TLS session and the plain socket that a shard serves.
//!
//! ```text
//!  client ══ TLS ══ up ──►  pair ──► shard        up ends: the pair's direction is shut down,
//!                   ◄── down       ◄──            replies still flow
//!                                                 down ends (the shard is done): goodbye
//! ```
//!
//! One buffer a direction, of [`PIPE_BYTES`]: whoever is slow slows the other side down.

use crate::limits::{GOODBYE, PIPE_BYTES};
use crate::tls::Stream;
use std::future::pending;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

/// Carries until the shard has closed its end or a side is lost.
pub(crate) async fn carry(session: impl Stream, mut pair: UnixStream) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(session);
    let (mut from_shard, mut to_shard) = pair.split();
    let up = async {
        pump(&mut from_client, &mut to_shard).await?;
        to_shard.shutdown().await?;
        // The client has said all it will; the answers decide when it is over.
        pending::<io::Result<()>>().await
    };
    let down = async {
        pump(&mut from_shard, &mut to_client).await?;
        match tokio::time::timeout(GOODBYE.to_std(), to_client.shutdown()).await {
            Ok(said) => said,
            // Whoever does not take a goodbye is left without.
            Err(_late) => Ok(()),
        }
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

/// Copies until `from` ends. Flushes each piece: what waits in an encryption layer would wait
/// for ever once requests and replies pause.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; PIPE_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}
