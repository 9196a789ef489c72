//! `hearth trace record`: asked of the daemon.

use super::args::Record;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::facts;
use crate::terminal::quantity;
use api::client::Client;
use api::client::Method;
use api::types::{RecordRequest, Recording, RecordingState};
use std::fmt::{self, Write};

const PATH: &str = "/v1/recording";

/// Begins, ends or shows a recording.
pub(crate) async fn record(client: &Client, record: &Record) -> Result<Recording, CliError> {
    if record.stop {
        return Ok(client.send::<(), _>(Method::DELETE, PATH, None).await?);
    }
    let Some(output) = record.output.as_ref().filter(|_| !record.status) else {
        return Ok(client.get(PATH).await?);
    };
    // The daemon has another working directory, so the path is made absolute here.
    let output = std::path::absolute(output).map_err(|error| CliError::of(Exit::Usage, &error))?;
    let output = output
        .into_os_string()
        .into_string()
        .map_err(|output| CliError::new(Exit::Usage, format!("{} is no text", output.display())))?;
    let request = RecordRequest {
        output,
        disks: record.disk.clone(),
        sample_one_in: record.sample,
        size_bytes_max: record.max_size.get(),
        duration_seconds_max: record.duration.map(|time| time.to_std().as_secs_f64()),
    };
    Ok(client.send(Method::POST, PATH, Some(&request)).await?)
}

/// A recording as text.
pub(crate) fn render(out: &mut String, recording: &Recording) -> fmt::Result {
    let state = match recording.state {
        RecordingState::Recording => "recording",
        RecordingState::Ended => "ended",
        RecordingState::Failed => "FAILED",
    };
    let reason = recording.reason.as_ref();
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    writeln!(out, "{}: {state}{reason}", recording.output)?;
    let names: Vec<&str> = recording
        .disks
        .iter()
        .map(configuration::Name::as_str)
        .collect();
    let disks = if names.is_empty() {
        "all".to_owned()
    } else {
        names.join(", ")
    };
    let sample = match recording.sample_one_in {
        1 => "whole requests".to_owned(),
        n => format!("one block in {n}"),
    };
    let limit = recording.duration_seconds_max;
    let limit = limit.map_or(String::new(), |limit| {
        format!(" of {}", quantity::time(limit))
    });
    let lines = [
        ("  disks", disks),
        ("  sample", sample),
        (
            "  time",
            format!("{}{limit}", quantity::time(recording.duration_seconds)),
        ),
        (
            "  written",
            format!(
                "{} of {} at most",
                quantity::bytes(recording.written_bytes),
                quantity::bytes(recording.size_bytes_max)
            ),
        ),
        (
            "  requests",
            format!(
                "{} taken in, {} lost, {} rows written",
                recording.requests, recording.lost_requests, recording.rows
            ),
        ),
    ];
    facts(out, &lines)?;
    if recording.state == RecordingState::Recording {
        writeln!(out, "stop it with hearth trace record --stop")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    #[test]
    fn a_recording_is_shown_with_its_limits_and_losses() {
        let mut text = String::new();
        render(&mut text, &samples::recording()).unwrap();
        assert_eq!(
            text,
            "/var/lib/hearth/monday.csv.zst: recording\n  disks     web-1\n  sample    one block in 100\n  \
             time      42.5s of 10min\n  written   2.00KiB of 1.00GiB at most\n  requests  12300 taken in, 6 lost, \
             160 rows written\nstop it with hearth trace record --stop\n"
        );
    }
}
