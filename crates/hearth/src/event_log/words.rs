//! Events as text.

use api::events::{Event, Events};
use std::fmt::{self, Write};

const DAY_SECONDS: i64 = 24 * 3600;

/// Those of a page.
pub(super) fn all(out: &mut String, of: &Events) -> fmt::Result {
    if of.missed > 0 {
        writeln!(out, "{} events are not kept any more", of.missed)?;
    }
    if of.events.is_empty() {
        writeln!(out, "no events")?;
    }
    of.events.iter().try_for_each(|event| one(out, event))
}

/// One: a line, and what to do about it in another.
pub(super) fn one(out: &mut String, of: &Event) -> fmt::Result {
    let (time, severity) = (time(of.at_seconds), of.severity.word());
    write!(out, "{time}  {severity:<7}  {:<15}  ", of.kind)?;
    let names = of
        .about
        .names()
        .map(|(word, name)| format!("{word} {name}"));
    let names = names.collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        write!(out, "{names}: ")?;
    }
    write!(out, "{}", of.text)?;
    if let Some(who) = &of.who {
        write!(out, " ({who})")?;
    }
    writeln!(out)?;
    match &of.remedy {
        Some(remedy) => writeln!(out, "    {remedy}"),
        None => Ok(()),
    }
}

/// A time in UTC, to the second.
pub(crate) fn time(seconds_since_1970: f64) -> String {
    let seconds = units::number::count_near(seconds_since_1970.floor().max(0.0));
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let (year, month, day) = date(seconds / DAY_SECONDS);
    let of_day = seconds % DAY_SECONDS;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day since 1970, by years that begin in March: a leap day is their last.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::events::{About, Severity, Who};

    #[test]
    fn times_are_dates() {
        for (seconds, text) in [
            (0.0, "1970-01-01T00:00:00Z"),
            (951_782_399.9, "2000-02-28T23:59:59Z"),
            (951_782_400.0, "2000-02-29T00:00:00Z"),
            (1_795_809_626.5, "2026-11-27T20:00:26Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }

    #[test]
    fn an_event_says_what_who_and_what_to_do() {
        let event = Event {
            id: "r-7".to_owned(),
            number: 7,
            at_seconds: 0.0,
            severity: Severity::Info,
            kind: "command".to_owned(),
            about: About {
                disk: Some("web".to_owned()),
                ..About::default()
            },
            text: "an operator detached the disk".to_owned(),
            remedy: Some("attach it".to_owned()),
            who: Some(Who::User {
                uid: 0,
                pid: Some(12),
            }),
        };
        let mut out = String::new();
        one(&mut out, &event).unwrap();
        assert_eq!(
            out,
            "1970-01-01T00:00:00Z  info     command          disk web: an operator detached the disk (uid 0, pid 12)\n    \
             attach it\n"
        );
        let event = Event {
            who: Some(Who::Operator {
                operator: "alice".to_owned(),
                address: "192.0.2.7:40112".to_owned(),
            }),
            ..event
        };
        let mut out = String::new();
        one(&mut out, &event).unwrap();
        assert!(
            out.contains("the disk (alice from 192.0.2.7:40112)\n"),
            "{out}"
        );
    }
}
