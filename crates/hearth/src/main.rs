//! The program `hearth`: the daemon and its command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    hearth::cli::main()
}
