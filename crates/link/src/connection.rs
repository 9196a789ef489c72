//! One connection: its preface, and frames both ways.

use crate::error::LinkError;
use crate::limits::{PIECE_BYTES, Times};
use link_protocol::{Frame, Frames, Message, PREFACE_BYTES, Preface};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Says the preface and hears that of the other side. Returns it, and the version that both speak.
pub(crate) async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    ours: Preface,
) -> Result<(Preface, u16), LinkError> {
    stream
        .write_all(&ours.encode())
        .await
        .map_err(LinkError::Broken)?;
    stream.flush().await.map_err(LinkError::Broken)?;
    let mut bytes = [0; PREFACE_BYTES];
    stream
        .read_exact(&mut bytes)
        .await
        .map_err(LinkError::Broken)?;
    let theirs = Preface::decode(&bytes)?;
    let version = ours.agree(theirs)?;
    Ok((theirs, version))
}

/// The frames that come from a peer.
pub(crate) struct Incoming<S> {
    stream: S,
    frames: Frames,
    piece: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Incoming<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            frames: Frames::new(),
            piece: vec![0; PIECE_BYTES],
        }
    }

    /// The next frame that says something. The peer waits while nobody asks.
    pub(crate) async fn next(&mut self, times: Times) -> Result<Frame, LinkError> {
        loop {
            match self.frames.take()? {
                Some(frame) if frame.message == Message::Alive => {}
                Some(frame) => return Ok(frame),
                None => self.read(times).await?,
            }
        }
    }

    async fn read(&mut self, times: Times) -> Result<(), LinkError> {
        let reading = timeout(times.silence_max, self.stream.read(&mut self.piece));
        let count = reading.await.map_err(|_| LinkError::Silent)?;
        let count = count.map_err(LinkError::Broken)?;
        if count == 0 {
            return Err(LinkError::Closed);
        }
        self.frames.push(&self.piece[..count]);
        Ok(())
    }
}

/// Writes the frames that come; where none comes it tells the peer that this host is there.
pub(crate) async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    times: Times,
    frames: &mut Receiver<Frame>,
) -> LinkError {
    let mut bytes = Vec::new();
    loop {
        match timeout(times.heartbeat, frames.recv()).await {
            Ok(None) => return LinkError::Replaced,
            Ok(Some(frame)) => frame.encode(&mut bytes),
            Err(_) => Frame::notice(Message::Alive).encode(&mut bytes),
        }
        while bytes.len() < PIECE_BYTES
            && let Ok(frame) = frames.try_recv()
        {
            frame.encode(&mut bytes);
        }
        let writing = async {
            stream.write_all(&bytes).await?;
            stream.flush().await
        };
        match timeout(times.silence_max, writing).await {
            Err(_) => return LinkError::Silent,
            Ok(Err(error)) => return LinkError::Broken(error),
            Ok(Ok(())) => bytes.clear(),
        }
    }
}
