//! The daemon's metrics, as Prometheus would ask for them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::Hearth;

impl Hearth {
    /// What a scrape of the metrics answers, with the head of the answer.
    ///
    /// # Errors
    ///
    /// When the admin socket does not answer.
    pub fn metrics(&self) -> anyhow::Result<String> {
        let mut socket = UnixStream::connect(self.admin_socket())?;
        let request = "GET /metrics HTTP/1.0\r\nHost: hearth\r\nConnection: close\r\n\r\n";
        socket.write_all(request.as_bytes())?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    }
}
