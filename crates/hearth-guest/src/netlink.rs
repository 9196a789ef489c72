//! The guest's TCP connections, as the kernel tells of them: netlink, `SOCK_DIAG`.
//!
//! ```text
//!   look    a dump of the connections that there are, IPv4 and then IPv6, each with its bytes
//!   ended   a message for each connection that has ended, with its last bytes, until it is taken
//! ```
//! No privilege is needed. Seen are the connections of the agent's own network namespace.

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use zerocopy::FromBytes as _;
use zerocopy::native_endian::U64;

/// How long the kernel may take for an answer, which it has at hand.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes that are read at once; the kernel fills half of it at most.
const READ_BYTES: usize = 64 << 10;
/// Bytes in which the kernel keeps messages of ended connections for us, as many as everybody may have: some 400 messages.
const ENDED_BYTES: usize = 208 << 10;
/// Reads of messages of ended connections at once; the rest waits for the next look.
const ENDED_READS: usize = 1024;
/// The groups of netlink that tell of ended TCP connections (`SKNLGRP_INET_TCP_DESTROY`, `SKNLGRP_INET6_TCP_DESTROY`), a bit each.
const ENDED_GROUPS: u32 = 1 | 1 << 2;
/// Where `struct tcp_info` has `tcpi_bytes_acked`, with `tcpi_bytes_received` behind it; kernels before 4.2 have neither.
const BYTES_ACKED: usize = 120;

/// A TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// Tells it from all others since the boot.
    pub(crate) cookie: u64,
    /// The guest's own address.
    pub(crate) own: IpAddr,
    /// The other end's.
    pub(crate) peer: IpAddr,
    /// Bytes both ways since it began: those that the other end has acknowledged, and those that have come.
    pub(crate) bytes: u64,
}

/// The two sockets over which the kernel tells.
pub(crate) struct Netlink {
    asked: OwnedFd,
    ended: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens both.
    ///
    /// # Errors
    /// If the kernel or the unit allows none.
    pub(crate) fn open() -> io::Result<Self> {
        let asked = open()?;
        set_socket_timeout(&asked, Timeout::Recv, Some(PATIENCE))?;
        let ended = open()?;
        set_socket_recv_buffer_size(&ended, ENDED_BYTES)?;
        bind(&ended, &SocketAddrNetlink::new(0, ENDED_GROUPS))?;
        Ok(Self {
            asked,
            ended,
            sequence: 0,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// The connections that there are now.
    ///
    /// # Errors
    /// `ENOENT` if the kernel lacks `tcp_diag`.
    pub(crate) fn look(&mut self) -> io::Result<Vec<Connection>> {
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.sequence = self.sequence.wrapping_add(1);
            send(
                &self.asked,
                &request(family, self.sequence),
                SendFlags::empty(),
            )?;
            loop {
                let (length, _) = recv(&self.asked, &mut *self.buffer, RecvFlags::empty())?;
                let bytes = self.buffer.get(..length).unwrap_or_default();
                if take(bytes, Some(self.sequence), &mut found)? {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The connections that have ended since this was asked last. False: there were more than the kernel keeps for us.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub(crate) fn ended(&mut self) -> io::Result<(Vec<Connection>, bool)> {
        let (mut found, mut is_whole) = (Vec::new(), true);
        for _ in 0..ENDED_READS {
            match recv(&self.ended, &mut *self.buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let bytes = self.buffer.get(..length).unwrap_or_default();
                    take(bytes, None, &mut found)?;
                }
                Err(Errno::NOBUFS) => is_whole = false,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok((found, is_whole))
    }
}

fn open() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
    Ok(socket_with(
        family,
        kind,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?)
}

/// Asks for the connections of a family that carry bytes.
fn request(family: u8, sequence: u32) -> Vec<u8> {
    let states = StateFlags::ESTABLISHED
        | StateFlags::FIN_WAIT1
        | StateFlags::FIN_WAIT2
        | StateFlags::CLOSE_WAIT
        | StateFlags::LAST_ACK
        | StateFlags::CLOSING;
    let asked = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states,
        socket_id: if family == AF_INET {
            SocketId::new_v4()
        } else {
            SocketId::new_v6()
        },
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(asked).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes the connections of a datagram; of a dump, those of this one. Whether the dump ends with it.
///
/// # Errors
/// What the kernel says in place of a dump.
fn take(bytes: &[u8], dump: Option<u32>, found: &mut Vec<Connection>) -> io::Result<bool> {
    let mut rest = bytes;
    while let Ok(header) = NetlinkBuffer::new_checked(&rest) {
        let is_asked = dump.is_none_or(|sequence| header.sequence_number() == sequence);
        let length = usize::try_from(header.length()).unwrap_or(usize::MAX);
        // What cannot be made sense of is no connection.
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest);
        match message.map(|message| message.payload) {
            Ok(NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(said))) if is_asked => {
                found.extend(connection(&said));
            }
            Ok(NetlinkPayload::Done(done)) if is_asked => {
                return refusal(done.code).map_or(Ok(true), Err);
            }
            Ok(NetlinkPayload::Error(error)) if is_asked => {
                return refusal(error.raw_code()).map_or(Ok(true), Err);
            }
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// An error as the kernel writes it: negative.
fn refusal(code: i32) -> Option<io::Error> {
    (code < 0).then(|| io::Error::from_raw_os_error(code.saturating_neg()))
}

/// A connection; none if its bytes are not told.
fn connection(said: &InetResponse) -> Option<Connection> {
    let info = said.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    })?;
    let (acknowledged, rest) = U64::read_from_prefix(info.get(BYTES_ACKED..)?).ok()?;
    let (received, _) = U64::read_from_prefix(rest).ok()?;
    let id = &said.header.socket_id;
    Some(Connection {
        cookie: U64::read_from_bytes(&id.cookie).ok()?.get(),
        own: id.source_address.to_canonical(),
        peer: id.destination_address.to_canonical(),
        bytes: acknowledged.get().saturating_add(received.get()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    /// A dump of Linux 6.18 with two connections of IPv4, and its end.
    const DUMP: &[u8] = include_bytes!("../fixtures/tcp-diag-dump.bin");
    /// Its sequence number.
    const SEQUENCE: u32 = 7;
    const BYTES: usize = 100_000;

    /// A connection of this process with itself over which bytes were sent one way.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&vec![1; BYTES]).unwrap();
        server.read_exact(&mut vec![0; BYTES]).unwrap();
        (client, server)
    }

    /// Whether it has carried the bytes; the ends of a connection count as bytes of their own.
    fn has_carried(connection: &Connection) -> bool {
        (BYTES as u64..BYTES as u64 + 4).contains(&connection.bytes)
            && connection.peer.is_loopback()
    }

    #[test]
    fn a_dump_of_a_kernel_is_read() {
        let mut found = Vec::new();
        assert!(take(DUMP, Some(SEQUENCE), &mut found).unwrap());
        let own: IpAddr = "10.77.0.1".parse().unwrap();
        let peer: IpAddr = "10.77.0.2".parse().unwrap();
        assert_eq!(found.len(), 2);
        for (connection, bytes) in found.iter().zip([4_097, 70_001]) {
            assert_eq!((connection.own, connection.peer), (own, peer));
            assert_eq!(connection.bytes, bytes);
        }
        assert_ne!(found[0].cookie, found[1].cookie);
    }

    #[test]
    fn another_dumps_messages_and_torn_ones_are_left_out() {
        let mut found = Vec::new();
        assert!(!take(DUMP, Some(SEQUENCE + 1), &mut found).unwrap());
        assert_eq!(found, []);
        for length in 0..DUMP.len() {
            let _ = take(&DUMP[..length], Some(SEQUENCE), &mut found);
        }
        for place in 0..DUMP.len() {
            let mut bytes = DUMP.to_vec();
            bytes[place] ^= 0xff;
            let _ = take(&bytes, Some(SEQUENCE), &mut found);
        }
    }

    #[test]
    fn a_refusal_of_the_kernel_is_an_error() {
        // The end of a dump that could not begin: no such file.
        let mut end = vec![20, 0, 0, 0, 3, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        end.extend((-libc::ENOENT).to_le_bytes());
        let refused = take(&end, Some(SEQUENCE), &mut Vec::new()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn the_kernel_tells_of_connections_that_are_and_of_those_that_were() {
        let mut netlink = Netlink::open().unwrap();
        let pair = pair();
        let found = netlink.look().unwrap();
        let of_ours = found.iter().filter(|connection| has_carried(connection));
        let of_ours: Vec<u64> = of_ours.map(|connection| connection.cookie).collect();
        assert!(of_ours.len() >= 2, "{found:?}");
        drop(pair);
        let mut ended: Vec<Connection> = Vec::new();
        let began = std::time::Instant::now();
        while !of_ours.iter().all(|cookie| {
            let mut ended = ended.iter();
            ended.any(|one| one.cookie == *cookie && has_carried(one))
        }) {
            assert!(began.elapsed() < Duration::from_secs(20), "{ended:?}");
            ended.extend(netlink.ended().unwrap().0);
        }
    }
}
