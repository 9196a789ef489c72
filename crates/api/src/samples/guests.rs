//! What a made-up guest says.

use crate::guests::{GuestFrames, GuestHints, GuestMemory, GuestStatus, GuestTraffic};

pub(super) fn guest() -> GuestStatus {
    GuestStatus {
        socket: "/run/hearth/guest/web.sock".to_owned(),
        error: None,
        process: Some(4711),
        boot: Some("7c1f2a6e-9a4b-4a63-8f6e-2f4a1d0c9b11".to_owned()),
        disks: vec!["web-1".to_owned()],
        memory: Some(GuestMemory {
            available_bytes: 1 << 30,
            cache_bytes: 600 << 20,
            pressure_percent: 0.25,
            age_seconds: 4.0,
        }),
        frames: GuestFrames {
            messages: 360,
            dropped: 0,
            invalid: 1,
            missed: 0,
            skipped_bytes: 4112,
        },
        hints: GuestHints {
            ranges: 12,
            refused_ranges: 0,
            keep_out_bytes: 1 << 30,
            wanted_bytes: 300 << 20,
            kept_out_blocks: 256,
        },
        traffic: Some(GuestTraffic {
            peers: 3,
            bytes: 90 << 20,
            dropped_bytes: 0,
            span_seconds: 600.0,
            age_seconds: 4.0,
        }),
    }
}
