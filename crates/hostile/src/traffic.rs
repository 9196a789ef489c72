//! A network that says anything at all about who talks to whom.
//!
//! The first byte chooses what the rest is: an sFlow datagram, a table of connections, or csv.

use crate::pieces;
use groups::limits::RATE_BYTES_MAX;
use groups::{TrafficMatrix, csv};
use traffic::{Addresses, Connections, Datagram, Tally};

const TABLE: &str = "web,52:54:00:00:00:01\ndb,52:54:00:00:00:02\nweb,10.0.0.1\ndb,10.0.0.2\n";

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, input)) = pieces::choice(bytes) else {
        return;
    };
    let text = String::from_utf8_lossy(input);
    let addresses = Addresses::parse(TABLE).expect("the table is sound");
    let mut tally = Tally::default();
    match choice % 4 {
        0 => {
            if let Ok(datagram) = Datagram::parse(input) {
                datagram.tally(&addresses, &mut tally);
            }
        }
        1 => {
            let mut connections = Connections::default();
            // What a reading says has been carried is told from the one before, which is the same.
            for _ in 0..2 {
                if connections.read(&text, &addresses, &mut tally).is_err() {
                    return;
                }
            }
        }
        2 => {
            if let Ok(matrix) = csv::traffic(&text) {
                check(&matrix);
            }
            // Errors are texts for people; that each can be made is what is tried.
            let _ = csv::loads(&text);
        }
        _ => {
            if let Ok(table) = Addresses::parse(&text) {
                assert!(
                    table.vms().iter().all(|vm| !vm.is_empty()),
                    "a VM has a name"
                );
            }
        }
    }
    for pair in tally.exchanged(&addresses) {
        assert_ne!(pair.first, pair.second, "a pair has two VMs");
    }
}

fn check(matrix: &TrafficMatrix) {
    for (vm, row) in (0..matrix.vms()).map(|vm| (vm, matrix.row(vm))) {
        for (other, rate) in row.iter().enumerate() {
            assert!(
                (0.0..=RATE_BYTES_MAX).contains(rate),
                "rates are in their bounds"
            );
            let same = rate.total_cmp(&matrix.rate(other, vm));
            assert!(same.is_eq(), "both directions are one rate");
        }
    }
    assert!(matrix.total().is_finite(), "sums are finite");
}
