//! sFlow version 5 (sflow.org, 2004): samples of packets, as switches, Open vSwitch and `hsflowd` send them by UDP.
//!
//! One packet of `sampling_rate` is sampled, so it stands for that many of its length. Its ends are found by the addresses of
//! the Ethernet header, or by those of IP where a router is between. Counters of interfaces say nothing of pairs, and are skipped.
//!
//! ```text
//!   Ethernet: to 6 | from 6 | [802.1Q: 8100 or 88a8, tag 2]* | type 2 | IPv4: .. from at 12, to at 16
//!                                                                     | IPv6: .. from at 8, to at 24
//! ```

use crate::addresses::{Address, Addresses};
use crate::tally::Tally;
use sflow_parser::models::record_flows::{HeaderProtocol, SampledHeader};
use sflow_parser::models::{FlowData, FlowRecord};
use sflow_parser::{SFlowDatagram, SampleData, parse_datagram};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a datagram is not taken.
#[derive(Debug, thiserror::Error)]
#[error("the datagram is not sFlow version 5")]
pub struct SflowError {
    source: sflow_parser::ParseError,
}

/// A datagram that was read.
#[derive(Debug)]
pub struct Datagram(SFlowDatagram);

/// The ends of a packet, by one kind of address.
type Ends = (Address, Address);

impl Datagram {
    /// Reads a datagram.
    ///
    /// # Errors
    /// If it is no datagram of version 5, or is cut off.
    pub fn parse(bytes: &[u8]) -> Result<Self, SflowError> {
        parse_datagram(bytes)
            .map(Self)
            .map_err(|source| SflowError { source })
    }

    /// Who has sent it: the agent's address and its part. Two agents may see the same packet.
    pub fn agent(&self) -> String {
        let address = match self.0.agent_address {
            sflow_parser::models::Address::IPv4(ip) => ip.to_string(),
            sflow_parser::models::Address::IPv6(ip) => ip.to_string(),
            sflow_parser::models::Address::Unknown => "unknown".to_owned(),
        };
        format!("{address} {}", self.0.sub_agent_id)
    }

    /// Adds its packets to a tally.
    pub fn tally(&self, addresses: &Addresses, tally: &mut Tally) {
        for sample in &self.0.samples {
            let (rate, records) = match &sample.sample_data {
                SampleData::FlowSample(flow) => (flow.sampling_rate, &flow.flow_records),
                SampleData::FlowSampleExpanded(flow) => (flow.sampling_rate, &flow.flow_records),
                _ => continue,
            };
            if let Some((one, other, length)) = of_packet(records, addresses) {
                tally.add(
                    one,
                    other,
                    u64::from(length).saturating_mul(u64::from(rate.max(1))),
                );
            }
        }
    }
}

/// The VMs at the ends of a sampled packet, and its length: by the record that knows both, or by any.
fn of_packet(
    records: &[FlowRecord],
    addresses: &Addresses,
) -> Option<(Option<usize>, Option<usize>, u32)> {
    let mut any = None;
    for record in records {
        let (ends, length) = ends(&record.flow_data);
        for (from, to) in ends {
            let (from, to) = (addresses.vm(from), addresses.vm(to));
            if from.is_some() && to.is_some() {
                return Some((from, to, length));
            }
            any = any.or(Some((from, to, length)));
        }
    }
    any
}

/// The ends that a record tells, and the length of its packet in bytes.
fn ends(data: &FlowData) -> (Vec<Ends>, u32) {
    match data {
        FlowData::SampledHeader(header) => (of_header(header), header.frame_length),
        FlowData::SampledEthernet(ethernet) => {
            let mac =
                |address: &sflow_parser::models::MacAddress| Address::Mac(*address.as_bytes());
            (
                vec![(mac(&ethernet.src_mac), mac(&ethernet.dst_mac))],
                ethernet.length,
            )
        }
        FlowData::SampledIpv4(ip) => {
            let ends = (Address::Ip(ip.src_ip.into()), Address::Ip(ip.dst_ip.into()));
            (vec![ends], ip.length)
        }
        FlowData::SampledIpv6(ip) => {
            let of = |ip: Ipv6Addr| Address::Ip(IpAddr::from(ip).to_canonical());
            (vec![(of(ip.src_ip), of(ip.dst_ip))], ip.length)
        }
        _ => (Vec::new(), 0),
    }
}

fn of_header(header: &SampledHeader) -> Vec<Ends> {
    let bytes = &header.header[..];
    match header.protocol {
        HeaderProtocol::EthernetIso88023 => of_ethernet(bytes),
        HeaderProtocol::Ipv4 => of_ipv4(bytes).into_iter().collect(),
        HeaderProtocol::Ipv6 => of_ipv6(bytes).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn of_ethernet(bytes: &[u8]) -> Vec<Ends> {
    let (Some(to), Some(from)) = (field(bytes, 0), field(bytes, 6)) else {
        return Vec::new();
    };
    let mut ends = vec![(Address::Mac(from), Address::Mac(to))];
    let mut rest = bytes.get(12..).unwrap_or_default();
    // Each tag stands between the addresses and the type.
    while let [0x81 | 0x88, 0x00 | 0xa8, _, _, behind @ ..] = rest {
        rest = behind;
    }
    match rest {
        [0x08, 0x00, ip @ ..] => ends.extend(of_ipv4(ip)),
        [0x86, 0xdd, ip @ ..] => ends.extend(of_ipv6(ip)),
        _ => {}
    }
    ends
}

fn of_ipv4(bytes: &[u8]) -> Option<Ends> {
    let at = |place: usize| {
        field::<4>(bytes, place).map(|octets| Address::Ip(Ipv4Addr::from(octets).into()))
    };
    at(12).zip(at(16))
}

fn of_ipv6(bytes: &[u8]) -> Option<Ends> {
    let at = |place: usize| {
        field::<16>(bytes, place)
            .map(|octets| Address::Ip(IpAddr::from(Ipv6Addr::from(octets)).to_canonical()))
    };
    at(8).zip(at(24))
}

fn field<const BYTES: usize>(bytes: &[u8], place: usize) -> Option<[u8; BYTES]> {
    bytes.get(place..)?.first_chunk::<BYTES>().copied()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "web,52:54:00:00:00:01\ndb,52:54:00:00:00:02\nweb,10.0.0.1\nlog,10.0.0.3\n";

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// A frame with a tag: MAC addresses, then IPv4.
    fn frame(from: u8, to: u8, from_ip: u8, to_ip: u8) -> Vec<u8> {
        let mut frame = vec![
            0x52, 0x54, 0, 0, 0, to, 0x52, 0x54, 0, 0, 0, from, 0x81, 0, 0, 7, 8, 0,
        ];
        frame.extend([
            0x45, 0, 0, 100, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, from_ip, 10, 0, 0, to_ip,
        ]);
        frame
    }

    /// A datagram of an agent at 192.0.2.1 with one flow sample of this frame.
    pub(crate) fn datagram(frame: &[u8], length: u32, rate: u32) -> Vec<u8> {
        let padded = frame.len().next_multiple_of(4);
        let bytes = |count: usize| u32::try_from(count).unwrap();
        let mut record = words(&[1, bytes(16 + padded), 1, length, 4, bytes(frame.len())]);
        record.extend(frame);
        record.resize(24 + padded, 0);
        let mut sample = words(&[1, 3, rate, 1000, 0, 3, 4, 1]);
        sample.extend(record);
        let mut datagram = words(&[5, 1, 0xc000_0201, 0, 1, 1000, 1, 1, bytes(sample.len())]);
        datagram.extend(sample);
        datagram
    }

    fn tallied(datagram: &[u8]) -> (Vec<(String, String, u64)>, u64) {
        let addresses = Addresses::parse(TABLE).unwrap();
        let mut tally = Tally::default();
        Datagram::parse(datagram)
            .unwrap()
            .tally(&addresses, &mut tally);
        let pairs = tally.exchanged(&addresses);
        let pairs = pairs
            .iter()
            .map(|pair| (pair.first.to_owned(), pair.second.to_owned(), pair.bytes));
        (pairs.collect(), tally.unknown_bytes())
    }

    #[test]
    fn a_sample_stands_for_as_many_packets_as_its_rate() {
        let (pairs, unknown) = tallied(&datagram(&frame(1, 2, 1, 9), 1_500, 400));
        assert_eq!(pairs, [("web".to_owned(), "db".to_owned(), 600_000)]);
        assert_eq!(unknown, 0);
    }

    #[test]
    fn behind_a_router_the_ends_are_those_of_ip() {
        let (pairs, _) = tallied(&datagram(&frame(1, 0xee, 3, 1), 100, 1));
        assert_eq!(pairs, [("web".to_owned(), "log".to_owned(), 100)]);
    }

    #[test]
    fn strangers_are_counted_and_not_named() {
        let (pairs, unknown) = tallied(&datagram(&frame(1, 0xee, 1, 99), 100, 10));
        assert_eq!((pairs, unknown), (vec![], 1_000));
    }

    #[test]
    fn the_agent_is_named() {
        let read = Datagram::parse(&datagram(&frame(1, 2, 1, 2), 1, 1)).unwrap();
        assert_eq!(read.agent(), "192.0.2.1 0");
    }

    proptest! {
        #[test]
        fn no_datagram_is_fatal(
            changes in prop::collection::vec((0_usize..160, any::<u8>()), 0..8),
            cut in 0_usize..160,
            rate in any::<u32>(),
            length in any::<u32>(),
        ) {
            let mut bytes = datagram(&frame(1, 2, 1, 3), length, rate);
            for (place, byte) in changes {
                if let Some(at) = bytes.get_mut(place) {
                    *at = byte;
                }
            }
            bytes.truncate(bytes.len().saturating_sub(cut / 4));
            let addresses = Addresses::parse(TABLE).unwrap();
            let mut tally = Tally::default();
            if let Ok(read) = Datagram::parse(&bytes) {
                read.tally(&addresses, &mut tally);
            }
        }

        #[test]
        fn no_frame_is_fatal(frame in prop::collection::vec(any::<u8>(), 0..80)) {
            for (from, to) in of_ethernet(&frame) {
                prop_assert!(frame.len() >= 12, "{from:?} {to:?}");
            }
        }
    }
}
