//! One wrong bit anywhere in a file that Hearth writes, or in an archive, is refused as damage of the file.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::{requests, samples};
use trace::write::{Conversion, CsvWriter, Target, convert};
use trace::{Op, OpenError, Options, ReadError, Volume, open};
use units::{Bytes, Prng};

/// Places of a file that get a wrong bit, one at a time.
const PLACES: u64 = 100;
const GENERATED: &str =
    "gen:zipf,requests=600,blocks=1k,reads=0.6,flush=10+base-image,requests=200,blocks=1k,vms=3";

fn written(name: &str, target: Target, folder: &Path) -> PathBuf {
    let path = folder.join(name);
    let conversion = Conversion {
        path: &path,
        target,
        force: false,
        block: Bytes::kib(4),
        facts: &[("source", GENERATED.to_owned())],
    };
    let mut opened = open(Path::new(GENERATED), &Options::default()).unwrap();
    convert(&mut *opened.reader, &conversion, &mut |_| {}).unwrap();
    path
}

/// As the daemon records: frames that are flushed while the file grows, and a seal behind them.
fn recorded(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(name);
    let file = std::fs::File::create(&path).unwrap();
    let is_packed = path.extension().is_some_and(|ending| ending == "zst");
    let mut writer = CsvWriter::new(file, is_packed, &["sample=1/1".to_owned()]).unwrap();
    let volume = Volume {
        vm: "web-1".to_owned(),
        name: "root".to_owned(),
    };
    for time in 0..500 {
        writer
            .record(&volume, time, Op::Read, time * 4096, 4096)
            .unwrap();
        if time % 100 == 99 {
            writer.flush().unwrap();
        }
    }
    writer
        .comment("end=stopped requests=500 rows=500 lost=0")
        .unwrap();
    writer.seal().unwrap();
    path
}

fn read(path: &Path) -> Result<Vec<String>, OpenError> {
    let mut opened = open(path, &Options::default())?;
    Ok(requests(&mut opened)?)
}

/// A copy of a file, beside it, with one wrong bit.
fn with_wrong_bit(path: &Path, whole: &[u8], bit: u64) -> PathBuf {
    let mut bytes = whole.to_vec();
    bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
    let damaged = path.with_file_name("damaged");
    std::fs::write(&damaged, bytes).unwrap();
    damaged
}

/// The file with one wrong bit at each of the places in turn.
fn with_wrong_bits(path: &Path, mut look: impl FnMut(&Path, String)) {
    let whole = std::fs::read(path).unwrap();
    let mut dice = Prng::new(0xb17);
    let size = whole.len() as u64;
    for place in 0..PLACES {
        let (start, end) = (place * size / PLACES, (place + 1) * size / PLACES);
        let at = start + dice.below((end - start).max(1));
        let bit = dice.below(8);
        let damaged = with_wrong_bit(path, &whole, at * 8 + bit);
        look(&damaged, format!("{} byte {at} bit {bit}", path.display()));
    }
}

fn is_damage(error: &OpenError) -> bool {
    matches!(error, OpenError::Read(ReadError::Damaged { .. }))
}

#[test]
fn a_wrong_bit_in_what_hearth_writes_is_refused_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for path in [
        written("a.csv", Target::Csv, folder),
        written("a.csv.zst", Target::Csv, folder),
        written("a.parquet", Target::Parquet, folder),
        written("a.oracleGeneral.zst", Target::OracleGeneral, folder),
        recorded("recorded.csv", folder),
        recorded("recorded.csv.zst", folder),
    ] {
        assert!(!read(&path).unwrap().is_empty());
        with_wrong_bits(&path, |damaged, place| {
            let error = read(damaged).expect_err(&place);
            assert!(is_damage(&error), "{place}: {error}");
            let text = error.to_string();
            let named = text.contains(&damaged.display().to_string());
            assert!(named && text.contains("damaged"), "{place}: {text}");
        });
    }
}

#[test]
fn a_recording_that_was_killed_has_the_checksums_of_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded("recorded.csv.zst", folder.path());
    let sealed = std::fs::read(&path).unwrap();
    let wanted = read(&path).unwrap();
    std::fs::write(&path, &sealed[..sealed.len() - 90]).unwrap();
    assert_eq!(read(&path).unwrap(), wanted);
    with_wrong_bits(&path, |damaged, place| match read(damaged) {
        // The header of a frame has a bit that says nothing.
        Ok(records) => assert_eq!(records, wanted, "{place}"),
        Err(error) => assert!(is_damage(&error), "{place}: {error}"),
    });
}

#[test]
fn a_wrong_bit_in_the_first_bytes_is_refused_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for path in [
        written("a.csv", Target::Csv, folder),
        written("a.csv.zst", Target::Csv, folder),
        written("a.parquet", Target::Parquet, folder),
    ] {
        let whole = std::fs::read(&path).unwrap();
        for bit in 0..200 {
            let damaged = with_wrong_bit(&path, &whole, bit);
            let error = read(&damaged).expect_err(&format!("{} bit {bit}", path.display()));
            assert!(is_damage(&error), "{} bit {bit}: {error}", path.display());
        }
    }
}

/// A text in the archives that others make.
fn archives(text: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(text).unwrap();
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    xz.write_all(text).unwrap();
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    zstd.include_checksum(true).unwrap();
    zstd.write_all(text).unwrap();
    [
        ("gzip", gzip.finish().unwrap()),
        ("bzip2", bzip2.finish().unwrap()),
        ("xz", xz.finish().unwrap()),
        ("zstd", zstd.finish().unwrap()),
    ]
}

#[test]
fn a_wrong_bit_in_an_archive_is_blamed_on_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let line = |line: u64| {
        let time = 128_166_372_003_061_629 + line;
        format!("{time},src2,1,Read,{},4096,{line}\n", line * 512)
    };
    let text: String = (0..2000).map(line).collect();
    for (packing, archive) in archives(text.as_bytes()) {
        let path = folder.path().join(packing);
        std::fs::write(&path, archive).unwrap();
        let whole = read(&path).unwrap();
        with_wrong_bits(&path, |damaged, place| match read(damaged) {
            // Headers have bits that say nothing of the content.
            Ok(records) => assert_eq!(records, whole, "{place}"),
            Err(error) => {
                let wanted = format!("the {packing} archive is damaged");
                assert!(error.to_string().contains(&wanted), "{place}: {error}");
                assert!(is_damage(&error), "{place}: {error}");
            }
        });
    }
}

#[test]
fn damage_of_an_archive_says_near_which_of_its_bytes() {
    let sample = &samples()[1];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.zst");
    let mut archive = archives(&sample.bytes.repeat(3))[3].1.clone();
    let size = archive.len();
    *archive.last_mut().unwrap() ^= 1;
    std::fs::write(&path, archive).unwrap();
    let error = read(&path).unwrap_err().to_string();
    let wanted = format!(
        "{}: the zstd archive is damaged or cut short within its first {size} bytes; get a whole copy",
        path.display()
    );
    assert_eq!(error, wanted);
}

#[test]
fn files_without_checksums_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = written("a.csv", Target::Csv, folder.path());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let old = lines[..lines.len() - 1].join("\n") + "\n";
    let wanted = read(&path).unwrap();
    let old_path = folder.path().join("old.csv");
    std::fs::write(&old_path, &old).unwrap();
    assert_eq!(read(&old_path).unwrap(), wanted);
    std::fs::write(&old_path, zstd::encode_all(old.as_bytes(), 3).unwrap()).unwrap();
    assert_eq!(read(&old_path).unwrap(), wanted);
}

#[test]
fn a_line_that_was_changed_on_purpose_tells_of_the_seal() {
    let folder = tempfile::tempdir().unwrap();
    let path = written("a.csv", Target::Csv, folder.path());
    let text = std::fs::read_to_string(&path)
        .unwrap()
        .replacen("# source=", "# origin=", 1);
    std::fs::write(&path, text).unwrap();
    let error = read(&path).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("delete that line"), "{error}: {source}");
}
