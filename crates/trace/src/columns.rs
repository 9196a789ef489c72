//! Which columns of a csv are what: libCacheSim's options, units, and what 0 and 1 mean.

use std::str::FromStr;

use units::Bytes;

/// Which columns of a csv are what, by number from 1.
///
/// Parsed as libCacheSim's trace parameters are written, with `time-unit`, `id-unit`, `size-unit` and
/// `read-op` added:
/// `time-col=1,obj-id-col=2,obj-size-col=3,op-col=4,delimiter=;,has-header=true,time-unit=ms,id-unit=sector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumns {
    /// The object or block that is accessed.
    pub id: u32,
    /// When.
    pub time: Option<u32>,
    /// How many bytes; one block without it.
    pub size: Option<u32>,
    /// Read, write ...; all are reads without it.
    pub op: Option<u32>,
    /// What separates columns; found out without it. A blank stands for any run of blanks and tabs.
    pub delimiter: Option<u8>,
    /// Whether the first line names columns; found out without it.
    pub has_header: Option<bool>,
    /// The unit of the time.
    pub time_unit: TimeUnit,
    /// Bytes that an id counts, such as 512 for sectors; the block size without it.
    pub id_unit: Option<Bytes>,
    /// Bytes that a size counts; 1 without it.
    pub size_unit: Option<Bytes>,
    /// Which of the operations 0 and 1 is a read, the other one being a write; without it neither is known.
    pub read_op: Option<u8>,
}

impl Default for CsvColumns {
    fn default() -> Self {
        Self {
            id: 1,
            time: None,
            size: None,
            op: None,
            delimiter: None,
            has_header: None,
            time_unit: TimeUnit::Seconds,
            id_unit: None,
            size_unit: None,
            read_op: None,
        }
    }
}

/// The unit of a csv's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// `s`, decimals allowed.
    Seconds,
    /// `ms`
    Millis,
    /// `us`
    Micros,
    /// `ns`
    Nanos,
}

/// A column option that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{option}' is not a column option: write time-col=1,obj-id-col=2,obj-size-col=3,op-col=4 (from 1), \
     delimiter=; (or blank, tab), has-header=true, time-unit=s (ms, us, ns), id-unit=512 (or sector), \
     size-unit=512 (or sector), read-op=1 (or 0)"
)]
pub struct ParseColumnsError {
    option: String,
}

impl FromStr for CsvColumns {
    type Err = ParseColumnsError;

    fn from_str(text: &str) -> Result<Self, ParseColumnsError> {
        let mut columns = Self::default();
        let mut has_id = false;
        // A comma as the delimiter's value ends its own option early, as in libCacheSim.
        for option in text
            .split(',')
            .map(str::trim_start)
            .filter(|option| !option.is_empty())
        {
            let error = || ParseColumnsError {
                option: option.to_owned(),
            };
            let (name, value) = option.split_once('=').ok_or_else(error)?;
            let column = || match value.trim().parse() {
                Ok(column @ 1..) => Ok(column),
                _ => Err(error()),
            };
            match name.trim().replace('_', "-").as_str() {
                "obj-id-col" => {
                    columns.id = column()?;
                    has_id = true;
                }
                "time-col" => columns.time = Some(column()?),
                "obj-size-col" => columns.size = Some(column()?),
                "op-col" => columns.op = Some(column()?),
                "delimiter" => columns.delimiter = Some(delimiter(value).ok_or_else(error)?),
                "has-header" => columns.has_header = Some(yes(value).ok_or_else(error)?),
                "time-unit" => columns.time_unit = time_unit(value).ok_or_else(error)?,
                "id-unit" => columns.id_unit = Some(unit(value).ok_or_else(error)?),
                "size-unit" => columns.size_unit = Some(unit(value).ok_or_else(error)?),
                "read-op" => columns.read_op = Some(bit(value).ok_or_else(error)?),
                // libCacheSim must be told; here an id that is no number is a name.
                "obj-id-is-num" => {
                    yes(value).ok_or_else(error)?;
                }
                _ => return Err(error()),
            }
        }
        if !has_id {
            return Err(ParseColumnsError {
                option: text.to_owned(),
            });
        }
        Ok(columns)
    }
}

fn delimiter(value: &str) -> Option<u8> {
    match value {
        "" => Some(b','),
        " " | "blank" => Some(b' '),
        "\t" | "\\t" | "tab" => Some(b'\t'),
        one => match one.trim().as_bytes() {
            [byte] => Some(*byte),
            _ => None,
        },
    }
}

fn unit(value: &str) -> Option<Bytes> {
    match value.trim() {
        "sector" => Some(Bytes::new(units::SECTOR_BYTES)),
        bytes => bytes.parse().ok().filter(|unit: &Bytes| unit.get() > 0),
    }
}

fn bit(value: &str) -> Option<u8> {
    value.trim().parse().ok().filter(|bit| *bit <= 1)
}

fn yes(value: &str) -> Option<bool> {
    match value.trim() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

fn time_unit(value: &str) -> Option<TimeUnit> {
    match value.trim() {
        "s" => Some(TimeUnit::Seconds),
        "ms" => Some(TimeUnit::Millis),
        "us" => Some(TimeUnit::Micros),
        "ns" => Some(TimeUnit::Nanos),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_libcachesim_has_them() {
        let text = "time-col=1, obj_id_col=2,obj-size-col=3,delimiter=,,has-header=true";
        let columns: CsvColumns = text.parse().unwrap();
        assert_eq!(
            (columns.id, columns.time, columns.size),
            (2, Some(1), Some(3))
        );
        assert_eq!(
            (columns.delimiter, columns.has_header),
            (Some(b','), Some(true))
        );
        let tab: CsvColumns = "obj-id-col=1,delimiter=\\t,id-unit=512,time-unit=ms"
            .parse()
            .unwrap();
        assert_eq!(
            (tab.delimiter, tab.id_unit),
            (Some(b'\t'), Some(Bytes::new(512)))
        );
    }

    #[test]
    fn a_delimiter_may_be_a_blank() {
        for text in ["delimiter= ,obj-id-col=1", "obj-id-col=1, delimiter=blank"] {
            let columns: CsvColumns = text.parse().unwrap();
            assert_eq!(columns.delimiter, Some(b' '), "{text}");
        }
        let padded: CsvColumns = "obj-id-col=1 , delimiter=; , size-unit=sector"
            .parse()
            .unwrap();
        assert_eq!(padded.delimiter, Some(b';'));
        assert_eq!(padded.size_unit, Some(Bytes::new(512)));
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for text in [
            "",
            "time-col=1",
            "obj-id-col=0",
            "obj-id-col=x",
            "obj-id-col=1,colour=2",
            "obj-id-col",
            "obj-id-col=1,read-op=2",
            "obj-id-col=1,size-unit=0",
        ] {
            assert!(text.parse::<CsvColumns>().is_err(), "{text}");
        }
    }
}
