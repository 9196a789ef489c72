//! Hearth's csv: what the daemon records and the simulator replays.
//!
//! ```text
//!  # hearth trace 1
//!  # any number of comments
//!  time_us,vm,volume,op,offset_bytes,length_bytes
//!  1041,web-1,root,read,4096,8192
//!  1060,web-1,root,flush,0,0
//!  # requests=2 lost=0
//! ```
//!
//! Lines end with a newline. A comma, quote, `%` or control character in a name is written as `%` and two
//! hexadecimal digits. Packed, it is a row of zstd frames of at most a megabyte of text; each ends with a
//! whole line, so whatever a kill leaves of the frames can be read. Each frame has zstd's own checksum, and
//! the whole file ends with a seal, packed or not (see [`crate::seal`]).

use super::{Conversion, Output, Source, WriteError, Written, is_packed};
use crate::record::{Op, Volume};
use crate::seal::{Form, Tally};
use std::io::{self, Write};

/// The line that names the columns.
pub const CSV_HEADER: &str = "time_us,vm,volume,op,offset_bytes,length_bytes";

/// A frame ends with the line that reaches this: large enough to pack well (a frame twice as large packs
/// 1 % better), small enough to be lost.
const FRAME_BYTES: usize = 1 << 20;
/// The level of zstd: above it the recorder's thread pays more for every per cent.
const ZSTD_LEVEL: i32 = 3;

/// Writes records as Hearth's csv.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    is_packed: bool,
    text: Vec<u8>,
    written: u64,
    tally: Tally,
}

impl<W: Write> CsvWriter<W> {
    /// Begins a file, packed with zstd if wanted.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, is_packed: bool, comments: &[String]) -> io::Result<Self> {
        let mut writer = Self {
            out,
            is_packed,
            text: Vec::with_capacity(FRAME_BYTES + 256),
            written: 0,
            tally: Tally::default(),
        };
        writer.comment("hearth trace 1")?;
        for comment in comments {
            writer.comment(comment)?;
        }
        writeln!(writer.text, "{CSV_HEADER}")?;
        Ok(writer)
    }

    /// Writes a comment; a newline in it becomes a space.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.text, "# {}", text.replace(['\n', '\r'], " "))?;
        self.end_full_frame()
    }

    /// Writes a request.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(
        &mut self,
        volume: &Volume,
        time_us: u64,
        op: Op,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        write!(self.text, "{time_us},")?;
        name(&mut self.text, &volume.vm)?;
        self.text.push(b',');
        name(&mut self.text, &volume.name)?;
        writeln!(self.text, ",{op},{offset},{length}")?;
        self.end_full_frame()
    }

    fn end_full_frame(&mut self) -> io::Result<()> {
        if self.text.len() >= FRAME_BYTES {
            return self.flush();
        }
        Ok(())
    }

    /// Hands everything so far to the file: what was flushed can be read.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        if self.is_packed {
            let frame = frame(&self.text)?;
            self.hand_over(&frame)?;
            self.text.clear();
        } else {
            let text = std::mem::take(&mut self.text);
            self.hand_over(&text)?;
            self.text = text;
            self.text.clear();
        }
        self.out.flush()
    }

    /// Writes in one call, so that a kill leaves whole frames.
    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        self.tally.add(bytes);
        Ok(())
    }

    /// Flushes, and ends the file with its seal of 90 bytes or less: any damage shows from now on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn seal(&mut self) -> io::Result<()> {
        self.flush()?;
        let form = if self.is_packed {
            Form::Frame
        } else {
            Form::Line
        };
        let seal = self.tally.seal(form);
        self.hand_over(&seal)?;
        self.out.flush()
    }

    /// Bytes that were handed to the file.
    pub fn written_bytes(&self) -> u64 {
        self.written
    }

    /// Bytes of text that the next flush packs and hands over.
    pub fn waiting_bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Seals the file, and gives it back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal()?;
        Ok(self.out)
    }
}

/// A zstd frame with a checksum of what is packed.
fn frame(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
    packer.include_checksum(true)?;
    packer.compress(text)
}

fn name(text: &mut Vec<u8>, name: &str) -> io::Result<()> {
    let plain = |byte: u8| !matches!(byte, b',' | b'"' | b'%' | b'#' | 0..=0x1f | 0x7f);
    for byte in name.bytes() {
        if plain(byte) {
            text.push(byte);
        } else {
            write!(text, "%{byte:02X}")?;
        }
    }
    Ok(())
}

pub(super) fn convert(
    source: Source<'_>,
    output: Output,
    conversion: &Conversion<'_>,
) -> Result<Written, WriteError> {
    let path = output.path().to_owned();
    let failed = |source| WriteError::Io {
        path: path.clone(),
        source,
    };
    let comments: Vec<String> = conversion
        .facts
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let mut writer =
        CsvWriter::new(output, is_packed(conversion.path), &comments).map_err(failed)?;
    let nowhere = Volume::default();
    let mut rows = 0;
    let read = source.each(|records, reader| {
        rows += records.len() as u64;
        let volumes = reader.volumes();
        for record in records {
            let volume = volumes.get(record.volume).unwrap_or(&nowhere);
            let (offset, length) = (record.offset.get(), record.length.get());
            writer
                .record(volume, record.time_us, record.op, offset, length)
                .map_err(failed)?;
        }
        Ok(())
    })?;
    let bytes = writer.finish().map_err(failed)?.finish()?;
    Ok(Written {
        read,
        rows,
        left_out: 0,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Volume {
        Volume {
            vm: "web, \"1\"".to_owned(),
            name: "50%".to_owned(),
        }
    }

    #[test]
    fn lines_are_as_the_format_says() {
        let mut writer = CsvWriter::new(Vec::new(), false, &["a=b\nc".to_owned()]).unwrap();
        writer
            .record(&web(), 7, Op::WriteZeroes, 4096, 512)
            .unwrap();
        writer.comment("requests=1 lost=0").unwrap();
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        assert_eq!(
            text,
            "# hearth trace 1\n# a=b c\ntime_us,vm,volume,op,offset_bytes,length_bytes\n\
             7,web%2C %221%22,50%25,write-zeroes,4096,512\n# requests=1 lost=0\n\
             # end of trace: 00000000000000000137 bytes, xxh3 0c3baf98ca460f5a, check 28865ef8\n"
        );
    }

    #[test]
    fn what_was_flushed_can_be_read_alone() {
        let mut writer = CsvWriter::new(Vec::new(), true, &[]).unwrap();
        writer.record(&web(), 1, Op::Read, 0, 512).unwrap();
        writer.flush().unwrap();
        let first = writer.written_bytes();
        writer.record(&web(), 2, Op::Read, 0, 512).unwrap();
        assert_eq!(writer.written_bytes(), first);
        let whole = writer.finish().unwrap();
        let unpack = |bytes: &[u8]| String::from_utf8(zstd::decode_all(bytes).unwrap()).unwrap();
        let prefix = unpack(&whole[..usize::try_from(first).unwrap()]);
        assert!(prefix.ends_with("1,web%2C %221%22,50%25,read,0,512\n"));
        assert!(unpack(&whole).starts_with(&prefix));
    }

    #[test]
    fn frames_end_by_themselves() {
        let mut writer = CsvWriter::new(Vec::new(), true, &[]).unwrap();
        for time in 0..60_000 {
            writer.record(&web(), time, Op::Read, 0, 512).unwrap();
        }
        assert!(writer.written_bytes() > 0);
        assert!(writer.waiting_bytes() < FRAME_BYTES as u64);
    }
}
