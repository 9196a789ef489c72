//! Several files as one trace.

use crate::support::requests;
use trace::{Arrangement, Options, Part, open_together};

const HEADER: &str = "time_us,vm,volume,op,offset_bytes,length_bytes\n";

fn files(texts: &[&str]) -> (tempfile::TempDir, Vec<Part>) {
    let folder = tempfile::tempdir().unwrap();
    let parts = texts
        .iter()
        .enumerate()
        .map(|(place, text)| {
            let path = folder.path().join(format!("part{place}.csv"));
            std::fs::write(&path, text).unwrap();
            Part { path, vm: None }
        })
        .collect();
    (folder, parts)
}

#[test]
fn parts_follow_each_other_and_share_their_volumes() {
    let (_folder, parts) = files(&[
        &format!("{HEADER}1,a,x,read,0,512\n2,a,y,read,0,512\n"),
        "",
        &format!("{HEADER}3,b,x,read,0,512\n4,a,x,read,0,512\n"),
    ]);
    let mut opened =
        open_together(&parts, Arrangement::OneAfterOther, &Options::default()).unwrap();
    let lines = requests(&mut opened).unwrap();
    let expected = [
        "1 a/x read 0 512",
        "2 a/y read 0 512",
        "3 b/x read 0 512",
        "4 a/x read 0 512",
    ];
    assert_eq!(lines, expected);
    assert_eq!(opened.reader.volumes().len(), 3);
}

#[test]
fn machines_are_merged_by_time_the_earlier_file_first() {
    let (_folder, mut parts) = files(&["100,R,0,1\n300,R,8,1\n", "100,W,0,1\n200,R,16,1\n"]);
    parts[0].vm = Some("first".to_owned());
    parts[1].vm = Some("second".to_owned());
    let by_time = Arrangement::ByTime { from_zero: false };
    let mut opened = open_together(&parts, by_time, &Options::default()).unwrap();
    assert_eq!(
        requests(&mut opened).unwrap(),
        [
            "100 first read 0 512",
            "100 second write 0 512",
            "200 second read 8192 512",
            "300 first read 4096 512"
        ]
    );
}

#[test]
fn clocks_that_differ_can_start_together() {
    let (_folder, parts) = files(&["5000,R,0,1\n5002,R,8,1\n", "70,W,0,1\n71,W,16,1\n"]);
    let from_zero = Arrangement::ByTime { from_zero: true };
    let mut opened = open_together(&parts, from_zero, &Options::default()).unwrap();
    assert_eq!(
        requests(&mut opened).unwrap(),
        [
            "0 - read 0 512",
            "0 - write 0 512",
            "1 - write 8192 512",
            "2 - read 4096 512"
        ]
    );
}

#[test]
fn a_part_that_is_missing_is_told_before_anything_is_read() {
    let (_folder, mut parts) = files(&["1,R,0,1\n"]);
    parts.push(Part {
        path: "no/such/file".into(),
        vm: None,
    });
    let error = open_together(&parts, Arrangement::OneAfterOther, &Options::default());
    let error = error.err().unwrap().to_string();
    assert!(error.contains("no/such/file"), "{error}");
}

#[test]
fn a_part_of_another_format_is_an_error_where_it_begins() {
    let (_folder, parts) = files(&["1,R,0,1\n", "1 2 3 4\n"]);
    let mut opened =
        open_together(&parts, Arrangement::OneAfterOther, &Options::default()).unwrap();
    let error = requests(&mut opened).unwrap_err().to_string();
    assert!(error.contains("part1.csv: line 1"), "{error}");
}

#[test]
fn disks_of_two_machines_in_a_file_stay_two_under_a_name_of_the_file() {
    let (_folder, mut parts) = files(&[&format!("{HEADER}1,a,x,read,0,512\n2,b,x,read,0,512\n")]);
    parts[0].vm = Some("file".to_owned());
    let by_time = Arrangement::ByTime { from_zero: false };
    let mut opened = open_together(&parts, by_time, &Options::default()).unwrap();
    let expected = ["1 file/a/x read 0 512", "2 file/b/x read 0 512"];
    assert_eq!(requests(&mut opened).unwrap(), expected);
}

/// The second file is as MSR's traces are, in ticks of 100 ns.
#[test]
fn machines_merged_by_time_may_have_formats_of_their_own() {
    let (_folder, mut parts) = files(&[
        &format!("{HEADER}1,,x,read,0,512\n2,,x,write,4096,512\n"),
        "128166372003061629,host,0,Read,8192,4096,100\n128166372003061649,host,0,Write,0,512,100\n",
    ]);
    parts[0].vm = Some("a".to_owned());
    parts[1].vm = Some("b".to_owned());
    let from_zero = Arrangement::ByTime { from_zero: true };
    let mut opened = open_together(&parts, from_zero, &Options::default()).unwrap();
    assert_eq!(
        requests(&mut opened).unwrap(),
        [
            "0 a/x read 0 512",
            "0 b/host/0 read 8192 4096 took 10",
            "1 a/x write 4096 512",
            "2 b/host/0 write 0 512 took 10"
        ]
    );
}

/// What is recognised in no format goes on as the first file did, and an error names its line.
#[test]
fn a_machine_whose_format_is_not_told_is_read_as_the_first() {
    let (_folder, parts) = files(&[&format!("{HEADER}1,,x,read,0,512\n"), "?\n"]);
    let by_time = Arrangement::ByTime { from_zero: false };
    let error = open_together(&parts, by_time, &Options::default())
        .and_then(|mut opened| Ok(requests(&mut opened)?));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("part1.csv"), "{error}");
}
