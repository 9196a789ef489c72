//! Sessions of those who speak in frames: another host, and a guest's agent.

use crate::write;
use guest_protocol::{ByteRange, Class, Hello, Memory, PADDING};
use link_protocol::{DiskLook, DiskRole, Frame, Message, Obstacle, Preface};
use units::{Bytes, Offset};

pub(crate) fn guest() {
    let serial = "web-root".parse().unwrap();
    let range = ByteRange::new(Offset::mib(1), Bytes::kib(64)).unwrap();
    let messages = [
        guest_protocol::Message::Hello(Hello {
            boot: 7,
            disks: vec![serial],
        }),
        guest_protocol::Message::Memory(Memory {
            available_bytes: 1 << 28,
            cache_bytes: 1 << 26,
            pressure_hundredths: 12,
        }),
        guest_protocol::Message::Classes {
            serial,
            class: Class::Swap,
            ranges: vec![range; 2],
        },
        guest_protocol::Message::ReadAhead {
            serial,
            expires: units::Duration::from_secs(1),
            ranges: vec![range],
        },
    ];
    let mut session = Vec::new();
    for (sequence, message) in (0..).zip(messages) {
        guest_protocol::Frame { sequence, message }.encode(&mut session);
    }
    write("guest_frames", "session", 0, &session);
    let restarted = [&session[..70], &PADDING, &session].concat();
    write("guest_frames", "restarted", 9, &restarted);
}

pub(crate) fn link() {
    let (unit, disks) = (|| "web".to_owned(), vec![1, 1 << 100]);
    let look = DiskLook {
        size: Some(1 << 30),
        is_encrypted: false,
        role: DiskRole::Standby,
        holder: None,
        obstacles: vec![Obstacle::new("busy", "a hand-over", "wait")],
        image: None,
        dirty: None,
    };
    let (offset, length, disk) = (4096, 512, 1);
    let frames = [
        Frame::notice(Message::List {
            unit: unit(),
            disks,
        }),
        Frame::numbered(1, Message::AskLook { disk }),
        Frame::numbered(1, Message::Look { look }),
        Frame::numbered(
            2,
            Message::Read {
                disk,
                offset,
                length,
            },
        ),
        Frame {
            data: vec![7; 512],
            ..Frame::numbered(2, Message::Bytes)
        },
        Frame::notice(Message::Claim {
            unit: unit(),
            is_return: false,
        }),
        Frame::notice(Message::Grant {
            unit: unit(),
            epoch: 9,
        }),
    ];
    let mut bytes = Preface::ours(7).encode().to_vec();
    for frame in frames {
        frame.encode(&mut bytes);
    }
    write("link_frames", "session", 3, &bytes);
}
