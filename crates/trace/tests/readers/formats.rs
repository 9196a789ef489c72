//! Every format: recognised by its contents, read into canonical records, whatever packs it; what is cut
//! or mangled is an error that says where.

use crate::support::{Sample, open_bytes, requests, samples};
use std::io::{Read, Write};
use trace::{Format, OpenError, Options, Packing, ReadError};

#[test]
fn every_format_is_recognised_and_read() {
    for sample in samples() {
        let mut opened = sample
            .open()
            .unwrap_or_else(|error| panic!("{}: {error}", sample.format));
        assert_eq!(opened.format.name(), sample.format);
        assert_eq!(opened.recognised_by.is_some(), !sample.is_given());
        assert_eq!(
            requests(&mut opened).unwrap(),
            sample.requests,
            "{}",
            sample.format
        );
    }
}

#[test]
fn every_format_but_parquet_has_a_sample() {
    let all = samples();
    for format in Format::all().filter(|format| format.name() != "parquet") {
        assert!(
            all.iter().any(|sample| sample.format == format.name()),
            "{format}"
        );
    }
}

#[test]
fn a_format_can_be_given_instead() {
    for sample in samples() {
        let options = Options {
            format: Some(sample.format.parse().unwrap()),
            ..sample.options()
        };
        let mut opened = open_bytes(&sample.bytes, &options).unwrap();
        assert_eq!(opened.recognised_by, None);
        assert_eq!(
            requests(&mut opened).unwrap(),
            sample.requests,
            "{}",
            sample.format
        );
    }
}

#[test]
fn packed_traces_are_unpacked_whatever_they_are_called() {
    let sample = &samples()[1];
    let gzip = {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&sample.bytes).unwrap();
        packer.finish().unwrap()
    };
    let bzip2 = {
        let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packer.write_all(&sample.bytes).unwrap();
        packer.finish().unwrap()
    };
    let xz = {
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut packer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        packer.write_all(&sample.bytes).unwrap();
        packer.finish().unwrap()
    };
    let zstd = zstd::encode_all(&sample.bytes[..], 1).unwrap();
    for (packing, packed) in [
        (Packing::Gzip, gzip),
        (Packing::Bzip2, bzip2),
        (Packing::Xz, xz),
        (Packing::Zstd, zstd),
    ] {
        let mut opened = open_bytes(&packed, &Options::default()).unwrap();
        assert_eq!(opened.packing, packing);
        assert_eq!(
            requests(&mut opened).unwrap(),
            sample.requests,
            "{packing:?}"
        );
        // Two of them are one trace: so are logs that were packed in pieces.
        let mut twice = open_bytes(&packed.repeat(2), &Options::default()).unwrap();
        assert_eq!(
            requests(&mut twice).unwrap().len(),
            2 * sample.requests.len(),
            "{packing:?}"
        );
        // Cut short, none of them passes for a shorter trace.
        let cut = &packed[..packed.len() - 5];
        let error = match open_bytes(cut, &Options::default()) {
            Err(OpenError::Read(error)) => error,
            Ok(mut opened) => requests(&mut opened).unwrap_err(),
            Err(other) => panic!("{packing:?}: {other}"),
        };
        assert!(
            matches!(error, ReadError::Damaged { .. }),
            "{packing:?}: {error}"
        );
        assert!(
            error.to_string().contains("whole copy"),
            "{packing:?}: {error}"
        );
    }
}

/// Reads a trace to its first error.
fn first_error(bytes: &[u8], options: &Options) -> String {
    match open_bytes(bytes, options) {
        Err(error) => error.to_string(),
        Ok(mut opened) => match requests(&mut opened) {
            Err(error) => error.to_string(),
            Ok(lines) => panic!("no error, but {lines:?}"),
        },
    }
}

#[test]
fn a_trace_that_is_cut_within_a_record_is_an_error() {
    for sample in samples() {
        let options = Options {
            format: Some(sample.format.parse().unwrap()),
            ..sample.options()
        };
        let cut = &sample.bytes[..sample.bytes.len() - 1];
        let error = first_error(cut, &options);
        assert!(
            error.contains("ends within the record"),
            "{}: {error}",
            sample.format
        );
        assert!(
            error.contains("line") || error.contains("byte"),
            "{}: {error}",
            sample.format
        );
    }
}

#[test]
fn a_binary_trace_says_at_which_byte_its_last_record_begins() {
    let two: &Sample = &samples()
        .into_iter()
        .find(|sample| sample.format == "vscsi")
        .unwrap();
    let options = Options::default();
    let error = first_error(&two.bytes[..70], &options);
    assert!(error.contains("byte 64 (6 bytes, 32 expected)"), "{error}");
}

#[test]
fn a_wrong_field_is_shown_with_line_column_and_remedy() {
    let text =
        "128166372003061629,src2,1,Read,8192,4096,1\n128166372003061630,src2,1,Read,81x2,4096,1\n";
    let error = first_error(text.as_bytes(), &Options::default());
    assert_eq!(
        error,
        "trace: line 2: Offset is \"81x2\", but msr has a whole number there; \
         mend it, or say with --format what the trace really is"
    );
}

#[test]
fn mangled_lengths_are_an_error_of_their_line() {
    let text = "1,R,0,8\n2,R,0,99999999999\n";
    let error = first_error(text.as_bytes(), &Options::default());
    assert!(error.contains("line 2: length is"), "{error}");
    let error = first_error(
        b"1,R,0,8\n2,D,18446744073709551615,1\n",
        &Options::default(),
    );
    assert!(
        error.contains("line 2: sector is 18446744073709551615"),
        "{error}"
    );
}

#[test]
fn what_no_format_knows_is_refused_with_the_list() {
    let error = first_error(b"once upon a time\nthere was a disk\n", &Options::default());
    assert!(
        error.contains("once upon a time") && error.contains("--format"),
        "{error}"
    );
    assert!(
        error.contains("msr") && error.contains("oracle-general"),
        "{error}"
    );
    assert!(matches!(
        open_bytes(b"", &Options::default()),
        Err(OpenError::Empty { .. })
    ));
}

#[test]
fn simulators_that_look_alike_are_not_guessed() {
    let whole_numbers = "4851300 1 524288 16 0\n4864300 1 524304 16 1\n";
    let error = first_error(whole_numbers.as_bytes(), &Options::default());
    assert_eq!(
        error,
        "trace: could be disksim or ssdsim or mqsim; say which with --format"
    );
    let keys = [7_u64; 100].map(u64::to_le_bytes).concat();
    let error = first_error(&keys, &Options::default());
    assert!(error.contains("no known format"), "{error}");
}

#[test]
fn wrong_lines_of_simulators_are_shown_with_the_column() {
    for (format, text, wanted) in [
        (
            "disksim",
            "0.5 0 16 8 1\n1.5 0 16 8 read\n",
            "line 2: the flags is \"read\"",
        ),
        (
            "disksim",
            "0.5 0 16 8 1\nx 0 16 8 1\n",
            "line 2: the arrival time is \"x\"",
        ),
        (
            "disksim",
            "0.5 0 16 8 1 9\n",
            "line 1: the line's end is \"9\"",
        ),
        ("ssdsim", "5 0 16 8 2\n", "line 1: the operation is \"2\""),
        ("ssdsim", "0.5 0 16 8 1\n", "line 1: the time is \"0.5\""),
        (
            "mqsim",
            "5 0 16 8\n",
            "line 1: the operation is empty or missing",
        ),
        ("mqsim", "5 sda 16 8 1\n", "line 1: the device is \"sda\""),
    ] {
        let options = Options {
            format: Some(format.parse().unwrap()),
            ..Options::default()
        };
        let error = first_error(text.as_bytes(), &options);
        assert!(error.contains(wanted), "{format}: {error}");
    }
}

#[test]
fn a_wrong_line_of_a_load_is_no_second_preamble() {
    let text = "Copyright\nstart ; sector; length ; op ; delay\n0.5 ; 16 ; 8 ; R ; 0 ; 0\n\
                O.7 ; 8 ; 8 ; W ; 0 ; 0\n";
    let error = first_error(text.as_bytes(), &Options::default());
    assert!(error.contains("line 4: start is"), "{error}");
}

#[test]
fn operations_of_0_and_1_ask_which_of_them_reads() {
    let options = |text: &str| Options {
        csv: Some(text.parse().unwrap()),
        ..Options::default()
    };
    let error = first_error(b"7 1\n", &options("obj-id-col=1,op-col=2"));
    assert!(error.contains("read-op=0 or read-op=1"), "{error}");
    let error = first_error(b"7 2\n", &options("obj-id-col=1,op-col=2,read-op=1"));
    assert!(error.contains("line 1: the operation is \"2\""), "{error}");
    let mut opened =
        open_bytes(b"7 1\n7 0\n", &options("obj-id-col=1,op-col=2,read-op=1")).unwrap();
    let wanted = ["0 - read 28672 4096", "0 - write 28672 4096"];
    assert_eq!(requests(&mut opened).unwrap(), wanted);
}

#[test]
fn words_are_keys_if_the_user_says_so() {
    let options = Options {
        format: Some("text".parse().unwrap()),
        ..Options::default()
    };
    let mut opened = open_bytes(b"a\nb\na\n", &options).unwrap();
    let lines = requests(&mut opened).unwrap();
    assert_eq!(lines[0], lines[2]);
    assert_ne!(lines[0], lines[1]);
}

#[test]
fn a_csv_without_names_asks_for_its_columns() {
    let options = Options {
        format: Some("csv".parse().unwrap()),
        ..Options::default()
    };
    let error = first_error(b"1,2,3,4,5,6\n", &options);
    assert!(error.contains("obj-id-col="), "{error}");
}

#[test]
fn the_trace_of_a_packed_archive_is_read_and_two_are_refused() {
    let sample = samples()
        .into_iter()
        .find(|sample| sample.format == "tencent")
        .unwrap();
    let archive = |names: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(name), &sample.bytes).unwrap();
        }
        let mut tar = std::process::Command::new("tar");
        let output = tar
            .arg("-cz")
            .args(names)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success());
        output.stdout
    };
    let mut opened = open_bytes(&archive(&["2018100101", "README"]), &Options::default()).unwrap();
    assert_eq!(requests(&mut opened).unwrap(), sample.requests);
    let two = first_error(&archive(&["2018100101", "2018100102"]), &Options::default());
    assert!(two.contains("unpack it, and name"), "{two}");
}

#[test]
fn the_vm_can_be_given() {
    let options = Options {
        vm: Some("web".to_owned()),
        ..Options::default()
    };
    let mut opened = open_bytes(&samples()[1].bytes, &options).unwrap();
    let lines = requests(&mut opened).unwrap();
    assert!(lines[0].contains(" web/1 "), "{lines:?}");
}

#[test]
fn keys_count_blocks_of_the_size_that_is_asked_for() {
    let options = Options {
        key: units::Bytes::new(512),
        ..Options::default()
    };
    let mut opened = open_bytes(b"3 2 0 0\n", &options).unwrap();
    assert_eq!(requests(&mut opened).unwrap(), ["0 - read 1536 1024"]);
}

#[test]
fn keys_of_blocks_that_no_request_is_as_long_as_are_refused() {
    let options = Options {
        format: Some("raw-u32".parse().unwrap()),
        key: units::Bytes::gib(1),
        ..Options::default()
    };
    let mut opened = open_bytes(&[3, 0, 0, 0], &options).unwrap();
    let error = requests(&mut opened).unwrap_err().to_string();
    assert!(error.contains("at most 256MiB"), "{error}");
}

/// Gives a byte at a time, as a slow pipe may.
struct Slow(std::io::Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let some = into.len().min(1);
        self.0.read(&mut into[..some])
    }
}

#[test]
fn pieces_of_any_size_make_the_same_trace() {
    for sample in samples() {
        let slow = Box::new(Slow(std::io::Cursor::new(sample.bytes.clone())));
        let mut opened = trace::open_stream("slow", slow, &sample.options()).unwrap();
        assert_eq!(
            requests(&mut opened).unwrap(),
            sample.requests,
            "{}",
            sample.format
        );
    }
}

#[test]
fn many_records_come_in_batches_and_none_is_lost() {
    let keys: Vec<String> = (0..5000).map(|key| key.to_string()).collect();
    let text = keys.join("\n") + "\n";
    let mut opened = open_bytes(text.as_bytes(), &Options::default()).unwrap();
    let mut records = trace::Records::new();
    let mut count = 0;
    while opened.reader.read_batch(&mut records).unwrap() {
        assert!(records.len() <= trace::limits::BATCH_RECORDS);
        for record in &records {
            assert_eq!(record.offset.get(), count * 4096);
            count += 1;
        }
    }
    assert_eq!(count, 5000);
}
