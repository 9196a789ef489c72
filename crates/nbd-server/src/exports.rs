//! What a server serves, and for whom: the program's part.

use crate::identity::Identity;
use crate::negotiated::Negotiated;
use nbd_protocol::server::{Found, Refusal};

/// Who asks for an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Address or process, for people.
    pub peer: String,
    /// The process that has connected, if it did so over a unix socket.
    pub process: Option<i32>,
    /// Whether the session is encrypted and, if the set-up demands it, the client
    /// authenticated.
    pub secured: bool,
    /// What the client has proved of itself.
    pub identity: Option<Identity>,
}

/// One export of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
}

/// The exports that a server serves. Called from the runtime's threads, briefly and without
/// blocking; answers come from memory.
pub trait Exports: Send + Sync + 'static {
    /// The exports that this client may see.
    fn list(&self, client: &Client) -> Vec<Listed>;

    /// The export of that name; the empty name asks for the default one.
    ///
    /// # Errors
    /// If there is none, or not for this client or not now. Of an export that is not for this client
    /// it says that there is none.
    fn find(&self, name: &str, client: &Client) -> Result<Found, Refusal>;

    /// Takes over a client that has chosen an export. Dropping it closes the connection, which
    /// is right if the export has gone since it was found, or is not for this client any more.
    fn connect(&self, connection: Negotiated, client: &Client);
}
