//! A small trace in each format, and a way to show what was read.

#![allow(clippy::too_many_lines, reason = "tables of samples")]

use std::fmt::Write;

use trace::{CsvColumns, OpenError, Opened, Options, ReadError, open_stream};

/// A trace, how to open it where that needs a word, and the requests that it holds.
pub(crate) struct Sample {
    pub(crate) format: &'static str,
    /// Given instead of recognised.
    pub(crate) columns: Option<&'static str>,
    pub(crate) bytes: Vec<u8>,
    /// `time volume op offset length`, and response and hash where they are known.
    pub(crate) requests: &'static [&'static str],
}

impl Sample {
    pub(crate) fn options(&self) -> Options {
        let columns = self.columns.map(|text| text.parse::<CsvColumns>().unwrap());
        let format = self.is_given().then(|| self.format.parse().unwrap());
        Options {
            csv: columns,
            format,
            ..Options::default()
        }
    }

    /// Whether nothing in it tells its format from others.
    pub(crate) fn is_given(&self) -> bool {
        let given = ["disksim-seconds", "mqsim", "raw-u32", "raw-u64", "ssdsim"];
        self.columns.is_some() || given.contains(&self.format)
    }

    pub(crate) fn open(&self) -> Result<Opened, OpenError> {
        open_bytes(&self.bytes, &self.options())
    }
}

pub(crate) fn open_bytes(bytes: &[u8], options: &Options) -> Result<Opened, OpenError> {
    open_stream(
        "trace",
        Box::new(std::io::Cursor::new(bytes.to_vec())),
        options,
    )
}

/// Every request as a line.
pub(crate) fn requests(opened: &mut Opened) -> Result<Vec<String>, ReadError> {
    let (mut records, mut lines) = (trace::Records::new(), Vec::new());
    while opened.reader.read_batch(&mut records)? {
        for record in &records {
            let volume = opened.reader.volumes().get(record.volume).unwrap();
            let mut line = format!(
                "{} {volume} {} {} {}",
                record.time_us,
                record.op,
                record.offset.get(),
                record.length.get()
            );
            if let Some(us) = record.response_us {
                write!(line, " took {us}").unwrap();
            }
            if let Some(hash) = record.hash {
                write!(line, " hash {:02x}..{:02x}", hash.0[0], hash.0[15]).unwrap();
            }
            lines.push(line);
        }
    }
    assert!(
        !opened.reader.read_batch(&mut records)?,
        "the end stays the end"
    );
    assert!(records.is_empty());
    Ok(lines)
}

/// A small trace of every format that is a stream of bytes.
pub(crate) fn samples() -> Vec<Sample> {
    let mut all = texts();
    all.extend(binaries());
    all
}

fn text(format: &'static str, text: &str, requests: &'static [&'static str]) -> Sample {
    Sample {
        format,
        columns: None,
        bytes: text.as_bytes().to_vec(),
        requests,
    }
}

fn texts() -> Vec<Sample> {
    let mut all = vec![
        text(
            "hearth",
            "# hearth trace 1\ntime_us,vm,volume,op,offset_bytes,length_bytes\n\
             5,web-1,root,read,4096,512\n9,a%2cb,,flush,0,0\n9,web-1,root,write-zeroes,0,1099511627776\n",
            &[
                "5 web-1/root read 4096 512",
                "9 a,b flush 0 0",
                "9 web-1/root write-zeroes 0 1099511627776",
            ],
        ),
        text(
            "msr",
            "128166372003061629,src2,1,Read,8192,4096,12345\n128166372003061639,src2,1,Write,0,512,9\n\
             128166372003061649,hm,0,Read,1024,512,99999999999\n",
            &[
                "12816637200306162 src2/1 read 8192 4096 took 1234",
                "12816637200306163 src2/1 write 0 512 took 0",
                "12816637200306164 hm/0 read 1024 512 took 4294967295",
            ],
        ),
        text(
            "spc",
            "0,20941264,8192,W,0.551706\n1, 20939840 ,8192,r,0.554041,extra\n",
            &[
                "551706 0 write 10721927168 8192",
                "554041 1 read 10721198080 8192",
            ],
        ),
        text(
            "alibaba",
            "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n",
            &[
                "1577808144360767 419 write 8792731648 16384",
                "1577808144360813 725 read 59110326272 360448",
            ],
        ),
        text(
            "tencent",
            "1538323200,4247200,128,1,1058\n1538323199,13896880,8,0,1063\n",
            &[
                "1538323200000000 1058 write 2174566400 65536",
                "1538323199000000 1063 read 7115202560 4096",
            ],
        ),
        text(
            "systor",
            "Timestamp,Response,IOType,LUN,Offset,Size\n1455591804.310701000,0.006475000,R,0,203468398592,32768\n\
             1455591804.318699000,,W,5,4096,512\n",
            &[
                "1455591804310701 0 read 203468398592 32768 took 6475",
                "1455591804318699 5 write 4096 512",
            ],
        ),
        text(
            "fiu",
            "89966268217840 4892 syslogd 904265560 8 W 6 0 531e779390d5c1ca9b2cbc5aa1dc6b01\n\
             89966268218840 12 Web Content 16 8 R 8 1 00112233445566778899AABBCCDDEEFF\n\
             89966268219840 12 cat 24 8 R 8 1\n",
            &[
                "89966268217 6:0 write 462983966720 4096 hash 53..01",
                "89966268218 8:1 read 8192 4096 hash 00..ff",
                "89966268219 8:1 read 12288 4096",
            ],
        ),
        text(
            "tectonic",
            "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,host_name,rs_shard_id\n\
             1702511878,12ce-9e05,40,8388608,0,1,2,getChunkData.NotInitialized,1,5,4\n\
             1702511879,52a9-9e05,40,100,4096,1,2,putChunk.Permanent,2,5,4\n",
            &[
                "1702511878000000 - read 0 8388608",
                "1702511879000000 - write 1073745920 100",
                "1702511879000000 - write 1073745920 100",
            ],
        ),
    ];
    all.extend(more_texts());
    all
}

fn more_texts() -> Vec<Sample> {
    vec![
        text(
            "blkparse",
            "  8,16   5        1     0.000000000 18615  A   R 1444645666 + 256 <- (8,17) 1444645632\n\
             \x20 8,16   5        2     0.000001850 18615  Q   R 1444645666 + 256 [java]\n\
             \x20 8,16   5        4     0.000008750 18615  P   N [java]\n\
             \x20 8,16   5        0     0.000012990     0  m   N cfq18615S / insert_request\n\
             \x20 8,16   2       90     1.5         16766  Q FWS [jbd2]\n\
             \x20 8,0    2       91     1.500001    16766  Q  WS 64 + 8 [jbd2]\n\
             \x20 8,0    2       92     1.500002    16766  Q   D 128 + 8 [fstrim]\n\
             CPU2 (8,16):\n Reads Queued:           1,      128KiB\n",
            &[
                "1 8,16 read 739658580992 131072",
                "1500000 8,16 flush 0 0",
                "1500001 8,0 write 32768 4096",
                "1500002 8,0 discard 65536 4096",
            ],
        ),
        text(
            "fio",
            "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb wait 1500 0\n/dev/sdb read 4096 8192\n\
             /dev/sdb wait 500\n/dev/sdb sync 0 0\n/dev/sdc trim 0 65536\n/dev/sdb close\n",
            &[
                "1500 /dev/sdb read 4096 8192",
                "2000 /dev/sdb flush 0 0",
                "2000 /dev/sdc discard 0 65536",
            ],
        ),
        text(
            "fio",
            "fio version 3 iolog\n2 Nvme1n1 add\n872 Nvme1n1 open\n878 Nvme1n1 write 0 16384\n\
             890 Nvme1n1 datasync\n1677 Nvme1n1 close\n",
            &["878 Nvme1n1 write 0 16384", "890 Nvme1n1 flush 0 0"],
        ),
        text(
            "blkreplay",
            "Copyright; somebody\n\nPLEASE read; this; it; is; prose\n####\n\
             start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n\
             \x20     0.449518165 ;     37766917 ;   14 ; W ; 0.0 ; 0.0\n\
             \x20  1646.446100205 ;     16 ;    8 ; RA ; 0.0 ; 0.0\n",
            &[
                "449518 - write 19336661504 7168",
                "1646446100 - read 8192 4096",
            ],
        ),
        text(
            "blkreplay-csv",
            "# a note\n0,R,481999264,16\n17725,W,626343408,16\n",
            &[
                "0 - read 246783623168 8192",
                "17725 - write 320687824896 8192",
            ],
        ),
        text(
            "blkreplay",
            "Copyright; somebody\n\n####\nstart ; sector; length ; op ;  replay_delay=0\n\
             0.5 ; 16 ;    8 ; R ; 0.0 ; 0.0\n\
             Copyright; somebody\nof 2012; 3; 4; 5\n####\nstart ; sector; length ; op ;  replay_delay=0\n\
             0.7 ; 8 ;    8 ; W ; 0.0 ; 0.0\n",
            &["500000 - read 8192 4096", "700000 - write 4096 4096"],
        ),
        text(
            "disksim",
            "0.000000 0 165440 8 1\n 12.345678\t1 16 8 0\n\n13.5 0 0 1 1A\n",
            &[
                "0 0 read 84705280 4096",
                "12345 1 write 8192 4096",
                "13500 0 write 0 512",
            ],
        ),
        text(
            "disksim-seconds",
            "0.5 0 16 8 1\n12 1 16 8 0x2\n",
            &["500000 0 read 8192 4096", "12000000 1 write 8192 4096"],
        ),
        text(
            "ssdsim",
            "0 0 16 8 0\n1500000 2 8 16 1\n",
            &["0 0 write 8192 4096", "1500 2 read 4096 8192"],
        ),
        text(
            "mqsim",
            "4851300 1 524288 16 0\n4864300 1 524304 16 1\n",
            &["4851 1 write 268435456 8192", "4864 1 read 268443648 8192"],
        ),
        text(
            "lis",
            "110765 64 0 0\n110888 1 0 1\n",
            &["0 - read 453693440 262144", "0 - read 454197248 4096"],
        ),
        text(
            "text",
            "# keys\n3\n\n1\n*\n3\n18446744073709551615\n",
            &[
                "0 - read 12288 4096",
                "0 - read 4096 4096",
                "0 - read 12288 4096",
                "0 - read 9223372036854771712 4096",
            ],
        ),
        text(
            "csv",
            "time,obj_id,obj_size,op\n1.5,2,8192,get\n2,\"a name\",100,set\n",
            &[
                "1500000 - read 8192 8192",
                "2000000 - write 9223372036854771712 100",
            ],
        ),
        Sample {
            columns: Some(
                "time-col=1,obj-id-col=2,obj-size-col=3,op-col=4,delimiter=blank,read-op=0,\
                 id-unit=sector,size-unit=sector",
            ),
            ..text(
                "csv",
                " 1.5  16 \t 8 0\n2 8 16   1\n",
                &["1500000 - read 8192 4096", "2000000 - write 4096 8192"],
            )
        },
        Sample {
            columns: Some(
                "time-col=2,obj-id-col=1,obj-size-col=4,op-col=3,delimiter=;,time-unit=ms,id-unit=512",
            ),
            ..text(
                "csv",
                "lbn;when;what;bytes\n16;7;W;512\n8;9;trim;4096\n",
                &["7000 - write 8192 512", "9000 - discard 4096 4096"],
            )
        },
    ]
}

fn binaries() -> Vec<Sample> {
    vec![
        Sample {
            format: "raw-u32",
            columns: None,
            bytes: [3_u32, 1, u32::MAX].map(u32::to_le_bytes).concat(),
            requests: &[
                "0 - read 12288 4096",
                "0 - read 4096 4096",
                "0 - read 17592186040320 4096",
            ],
        },
        Sample {
            format: "raw-u64",
            columns: None,
            bytes: [3_u64, 1, u64::MAX].map(u64::to_le_bytes).concat(),
            requests: &[
                "0 - read 12288 4096",
                "0 - read 4096 4096",
                "0 - read 9223372036854771712 4096",
            ],
        },
        Sample {
            format: "vscsi",
            columns: None,
            bytes: [
                vscsi1(0x2a, 512, 7, 100),
                vscsi1(0x28, 4096, 16, 101),
                vscsi1(0x12, 36, 0, 102),
            ]
            .concat(),
            requests: &["100 - write 3584 512", "101 - read 8192 4096"],
        },
        Sample {
            format: "vscsi",
            columns: None,
            bytes: [
                vscsi2(0x8a, 512, 7, 100, 40),
                vscsi2(0x35, 0, 0, 101, 2),
                vscsi2(0x42, 4096, 8, 102, 3),
            ]
            .concat(),
            requests: &[
                "100 - write 3584 512 took 40",
                "101 - flush 0 0 took 2",
                "102 - discard 4096 4096 took 3",
            ],
        },
        Sample {
            format: "srt",
            columns: None,
            bytes: [
                b"$$TR_IOREC-1.3\nversion = 1.3;\n\x0c".to_vec(),
                srt(1, 8, 4096, 16, 1),
                srt(2, 0x108, 8192, 32, 0),
            ]
            .concat(),
            requests: &["1000005 0 read 4096 4096", "2000005 1 write 8192 8192"],
        },
        Sample {
            format: "oracle-general",
            columns: None,
            bytes: [oracle(1, 7, 2), oracle(1, 9, -1), oracle(3, 7, -1)].concat(),
            requests: &[
                "1000000 - read 28672 4096",
                "1000000 - read 36864 4096",
                "3000000 - read 28672 4096",
            ],
        },
        Sample {
            format: "blktrace",
            columns: None,
            bytes: [
                blktrace(1 << 26, 0, 0, b"fio\0"),
                blktrace(1 << 16 | 1, 8, 4096, b""),
                blktrace(1 << 16 | 7, 8, 4096, b""),
                blktrace(1 << 17 | 1, 16, 512, b"pdu"),
                blktrace(1 << 18 | 1, 0, 0, b""),
                blktrace(1 << 29 | 1 << 17 | 1, 0, 65536, b""),
            ]
            .concat(),
            requests: &[
                "7 8,17 read 4096 4096",
                "7 8,17 write 8192 512",
                "7 8,17 flush 0 0",
                "7 8,17 discard 0 65536",
            ],
        },
        Sample {
            format: "blktrace",
            columns: None,
            bytes: blktrace_of(1 << 16 | 8, 8, 4096, b"", true),
            requests: &["7 8,17 read 4096 4096"],
        },
    ]
}

fn vscsi1(command: u16, length: u32, sector: u64, time: u64) -> Vec<u8> {
    let mut bytes = [[1, 0, 0, 0], length.to_le_bytes(), [1, 0, 0, 0]].concat();
    bytes.extend(command.to_le_bytes());
    bytes.extend(0x0100_u16.to_le_bytes());
    bytes.extend(sector.to_le_bytes());
    bytes.extend(time.to_le_bytes());
    bytes
}

fn vscsi2(command: u16, length: u32, sector: u64, time: u64, response: u64) -> Vec<u8> {
    let mut bytes = command.to_le_bytes().to_vec();
    bytes.extend(0x0200_u16.to_le_bytes());
    bytes.extend([[1, 0, 0, 0], length.to_le_bytes(), [1, 0, 0, 0]].concat());
    bytes.extend(sector.to_le_bytes());
    bytes.extend(time.to_le_bytes());
    bytes.extend(response.to_le_bytes());
    bytes
}

fn srt(seconds: u32, device: u32, length: u32, block: u32, flags: u32) -> Vec<u8> {
    let words = [
        56, 0x40001, seconds, 5, 1, 2, length, block, device, 4, 0, flags, 0, 1,
    ];
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

fn oracle(time: u32, object: u64, next: i64) -> Vec<u8> {
    let mut bytes = time.to_le_bytes().to_vec();
    bytes.extend(object.to_le_bytes());
    bytes.extend(4096_u32.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

fn blktrace(action: u32, sector: u64, length: u32, payload: &[u8]) -> Vec<u8> {
    blktrace_of(action, sector, length, payload, false)
}

fn blktrace_of(action: u32, sector: u64, length: u32, payload: &[u8], is_big: bool) -> Vec<u8> {
    let word = |word: u32| {
        if is_big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    };
    let wide = |wide: u64| {
        if is_big {
            wide.to_be_bytes()
        } else {
            wide.to_le_bytes()
        }
    };
    let payload_length = u16::try_from(payload.len()).unwrap();
    let mut bytes = [word(0x6561_7407), word(1)].concat();
    bytes.extend([wide(7500), wide(sector)].concat());
    bytes.extend(
        [
            word(length),
            word(action),
            word(77),
            word(8 << 20 | 0x11),
            word(0),
        ]
        .concat(),
    );
    bytes.extend([0, 0]);
    bytes.extend(if is_big {
        payload_length.to_be_bytes()
    } else {
        payload_length.to_le_bytes()
    });
    bytes.extend(payload);
    bytes
}
