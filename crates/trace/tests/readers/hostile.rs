//! Nothing in a trace can make a reader panic, loop, or grow without bound: soup, and traces with bytes
//! changed, cut out, doubled and cut off, in every format, recognised and given.

use crate::support::{open_bytes, samples};
use trace::{Batch, CsvColumns, Format, Options, Records, Splitter};
use units::{Bytes, Prng};

/// Reads and splits to the end or the first error; more records than bytes would be a loop.
fn drain(bytes: &[u8], options: &Options) {
    let Ok(mut opened) = open_bytes(bytes, options) else {
        return;
    };
    let mut splitter = Splitter::new(Bytes::kib(4));
    let (mut records, mut batch) = (Records::new(), Batch::default());
    let mut count = 0;
    while let Ok(true) = opened.reader.read_batch(&mut records) {
        count += records.len();
        assert!(count <= bytes.len() * 10_000, "{:?}", opened.format);
        for record in &records {
            assert!(opened.reader.volumes().get(record.volume).is_some());
        }
        // A few blocks suffice here: 256 MiB in each of many requests would only take time.
        let few: Records = records.iter().take(4).collect();
        assert_eq!(splitter.split(&few, &mut batch), Ok(()));
    }
    // Whatever came of it, asking again is harmless.
    let _ = opened.reader.read_batch(&mut records);
}

fn every_way(bytes: &[u8]) {
    drain(bytes, &Options::default());
    for format in Format::all() {
        let csv: Option<CsvColumns> = (format.name() == "csv").then(|| {
            "obj-id-col=2,time-col=1,obj-size-col=3,op-col=4"
                .parse()
                .unwrap()
        });
        let options = Options {
            format: Some(format),
            csv,
            ..Options::default()
        };
        drain(bytes, &options);
    }
}

#[test]
fn soup_of_any_bytes_is_survived() {
    let mut dice = Prng::new(0x7ace);
    for round in 0..300 {
        let length = dice.below(2000);
        let soup: Vec<u8> = (0..length)
            .map(|_| dice.below(256).to_le_bytes()[0])
            .collect();
        every_way(&soup);
        // Bytes that texts are made of, and magic numbers in front.
        let alphabet = b"0123456789,;. \t\nRWrw+-_#ReadWriteDF/%\"\r";
        let letters: Vec<u8> = soup
            .iter()
            .map(|&byte| alphabet[usize::from(byte) % alphabet.len()])
            .collect();
        every_way(&letters);
        let magic: [&[u8]; 6] = [
            b"\x1f\x8b\x08",
            b"\x28\xb5\x2f\xfd",
            b"\xfd7zXZ\0",
            b"BZh91A",
            b"\x07tae",
            b"$$TR_IOREC-",
        ];
        let led = [magic[round % magic.len()], &soup].concat();
        drain(&led, &Options::default());
    }
}

#[test]
fn changed_traces_are_survived() {
    let mut dice = Prng::new(0xc4a6);
    for sample in samples() {
        for _ in 0..2000 {
            let bytes = changed(&sample.bytes, &mut dice);
            drain(&bytes, &sample.options());
            let options = Options {
                format: Some(sample.format.parse().unwrap()),
                ..sample.options()
            };
            drain(&bytes, &options);
        }
    }
}

#[test]
fn changed_archives_are_survived() {
    let mut dice = Prng::new(0xa4c);
    let sample = &samples()[1];
    let packed = zstd::encode_all(&sample.bytes.repeat(50)[..], 3).unwrap();
    for _ in 0..400 {
        drain(&changed(&packed, &mut dice), &Options::default());
    }
}

/// A copy with a few changes of the kinds that files suffer.
fn changed(bytes: &[u8], dice: &mut Prng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
        let end = at + usize::try_from(dice.below((bytes.len() - at) as u64 + 1)).unwrap();
        match dice.below(6) {
            0 => bytes[at] = dice.below(256).to_le_bytes()[0],
            1 => bytes[at] ^= 1 << dice.below(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let huge = b"18446744073709551615";
                bytes.splice(at..at, huge.iter().copied());
            }
        }
    }
    bytes
}
