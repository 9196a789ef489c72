//! The client's side of a stream of events: server-sent events over the daemon's unix socket.

use super::client::{Client, ClientError, Connection, collected, refused};
use super::events::{Event, Missed};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Bytes, Incoming};
use std::time::Duration;

/// What a stream of events is.
const EVENTS: &str = "text/event-stream";

/// How long the daemon may say nothing: it says that it is there each 10 s.
const QUIET_TIME_MAX: Duration = Duration::from_secs(35);
/// The longest message that is read: an event's texts are cut far below.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// What a stream says.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// An event.
    Event(Box<Event>),
    /// So many events were lost before the next one: this client was slow, or asked late.
    Missed(u64),
}

/// A stream of events. Ends with the daemon.
#[derive(Debug)]
pub struct Following {
    body: Incoming,
    parser: Parser,
    connection: Connection,
}

impl Client {
    /// Follows events: the path is `/v1/events` with what is asked for.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn follow(&self, path: &str) -> Result<Following, ClientError> {
        let asked = self.ask(Method::GET, path, Vec::new(), EVENTS).await;
        let (answer, connection) = asked?;
        if answer.status().is_success() {
            return Ok(Following {
                body: answer.into_body(),
                parser: Parser::default(),
                connection,
            });
        }
        let (status, bytes) = collected(answer).await?;
        connection.abort();
        Err(refused(status, &bytes))
    }
}

impl Following {
    /// What is said next; none once the daemon has ended, or the connection is lost.
    ///
    /// # Errors
    /// If the daemon says nothing for long, or something that is no event.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        loop {
            if let Some(told) = self.parser.take()? {
                return Ok(Some(told));
            }
            let Ok(frame) = tokio::time::timeout(QUIET_TIME_MAX, self.body.frame()).await else {
                let message = "the daemon says nothing any more".to_owned();
                let remedy = "journalctl -u hearth -n 50";
                return Err(ClientError::Unreachable { message, remedy });
            };
            let Some(Ok(frame)) = frame else {
                return Ok(None);
            };
            if let Ok(bytes) = frame.into_data() {
                self.parser.put(&bytes)?;
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// From bytes to messages.
#[derive(Debug, Default)]
struct Parser {
    bytes: Vec<u8>,
}

impl Parser {
    fn put(&mut self, bytes: &Bytes) -> Result<(), ClientError> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > MESSAGE_BYTES_MAX {
            let message = format!("a message has more than {MESSAGE_BYTES_MAX} bytes");
            return Err(ClientError::Answer(message));
        }
        Ok(())
    }

    /// The next whole message that says something.
    fn take(&mut self) -> Result<Option<Told>, ClientError> {
        while let Some(end) = self.bytes.windows(2).position(|two| two == b"\n\n") {
            let message: Vec<u8> = self.bytes.drain(..end + 2).collect();
            if let Some(told) = told(&message)? {
                return Ok(Some(told));
            }
        }
        Ok(None)
    }
}

/// What a message says. A comment says nothing, nor does a message of a later release.
fn told(message: &[u8]) -> Result<Option<Told>, ClientError> {
    let message = String::from_utf8_lossy(message);
    let field = |name: &str| {
        let mut values = message.lines().filter_map(|line| line.strip_prefix(name));
        values.next().map(str::trim_start)
    };
    let (Some(name), Some(data)) = (field("event:"), field("data:")) else {
        return Ok(None);
    };
    let wrong = |error: serde_json::Error| ClientError::Answer(format!("no event: {error}"));
    match name {
        "event" => {
            let event = serde_json::from_str(data).map_err(wrong)?;
            Ok(Some(Told::Event(Box::new(event))))
        }
        "missed" => {
            let Missed { missed } = serde_json::from_str(data).map_err(wrong)?;
            Ok(Some(Told::Missed(missed)))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(parser: &mut Parser, text: &str) {
        parser
            .put(&Bytes::copy_from_slice(text.as_bytes()))
            .unwrap();
    }

    #[test]
    fn messages_are_read_whole_and_comments_are_passed_over() {
        let mut parser = Parser::default();
        put(&mut parser, ":\n\nevent: missed\nda");
        assert_eq!(parser.take().unwrap(), None);
        put(
            &mut parser,
            "ta: {\"missed\":7}\n\nevent: later\ndata: {}\n\n",
        );
        assert_eq!(parser.take().unwrap(), Some(Told::Missed(7)));
        assert_eq!(parser.take().unwrap(), None);
        put(
            &mut parser,
            "event: event\nid: r-1\ndata: {\"id\":\"r-1\",\"number\":1,\"at_seconds\":2.0,\
             \"severity\":\"info\",\"kind\":\"command\",\"disk\":\"d\",\"text\":\"t\"}\n\n",
        );
        let Some(Told::Event(event)) = parser.take().unwrap() else {
            panic!("an event");
        };
        assert_eq!(event.about.disk.as_deref(), Some("d"));
    }

    #[test]
    fn a_message_without_an_end_or_a_sense_is_an_error() {
        let mut parser = Parser::default();
        put(&mut parser, "event: missed\ndata: {}\n\n");
        assert!(parser.take().is_err());
        let long = Bytes::from(vec![b'x'; MESSAGE_BYTES_MAX + 1]);
        assert!(parser.put(&long).is_err());
    }
}
