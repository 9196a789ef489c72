//! What `daemon.log`, `--log` and `HEARTH_LOG` may say.
//!
//! The library that reads filters takes any word for the name of a part of the program and then logs
//! nothing but that part, at the finest level: a mistyped `inof` would silence the daemon. So names
//! are checked here first.

use super::likeness::nearest;

/// What a filter can say of a part.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The parts that log: our crates, and the libraries below them.
const PARTS: [&str; 15] = [
    "axum",
    "daemon",
    "h2",
    "hearth",
    "hyper",
    "hyper_util",
    "mio",
    "nbd_server",
    "origin",
    "ring",
    "rustls",
    "shard",
    "tokio",
    "tower",
    "vhost_user",
];

/// What the daemon is called in filters, and its crate.
const PROGRAM: (&str, &str) = ("hearth", "daemon");

/// Whether a filter makes sense: levels, and levels of parts, between commas.
///
/// # Errors
/// What is wrong, and what to write.
pub fn check_log_filter(filter: &str) -> Result<(), String> {
    for word in filter.split(',') {
        match word.split_once('=') {
            None => level(word)?,
            Some((target, named)) => {
                part(target)?;
                level(named)?;
            }
        }
    }
    match tracing_subscriber::EnvFilter::try_new(filter) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error}; {FORM}")),
    }
}

/// The filter as the library that reads it takes it: the program's name stands for its crate.
pub fn log_filter(filter: &str) -> String {
    let (program, its_crate) = PROGRAM;
    let words = filter.split(',').map(|word| match word.split_once('=') {
        Some((target, level)) if root(target) == program => format!("{its_crate}={level}"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(",")
}

const FORM: &str =
    "write a level (error, warn, info, debug, trace, off), or several such as 'info,shard=debug'";

fn level(word: &str) -> Result<(), String> {
    let lower = word.to_ascii_lowercase();
    if LEVELS.contains(&lower.as_str()) {
        return Ok(());
    }
    if PARTS.contains(&root(word)) {
        return Err(format!("'{word}' has no level: write '{word}=debug'"));
    }
    Err(match nearest(&lower, LEVELS.into_iter()) {
        Some(meant) => format!("'{word}' is not a level; did you mean '{meant}'?"),
        None => format!("'{word}' is not a level: {FORM}"),
    })
}

fn part(target: &str) -> Result<(), String> {
    let name = root(target);
    if PARTS.contains(&name) {
        return Ok(());
    }
    Err(match nearest(name, PARTS.into_iter()) {
        Some(meant) => {
            format!("no part of the program is called '{name}'; did you mean '{meant}'?")
        }
        None => format!(
            "no part of the program is called '{name}'; those that log are {}",
            PARTS.join(", ")
        ),
    })
}

/// The crate of a target such as `shard::jobs`, `shard[span]`.
fn root(target: &str) -> &str {
    target.split([':', '[']).next().unwrap_or(target).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_levels_of_parts_make_sense() {
        for filter in [
            "info",
            "OFF",
            "warn,shard=debug",
            "info,shard::jobs=trace,hearth=error",
            "info,vhost_user=off",
        ] {
            assert_eq!(check_log_filter(filter), Ok(()), "{filter}");
        }
    }

    #[test]
    fn the_programs_name_stands_for_its_crate() {
        assert_eq!(
            log_filter("info,hearth=off,shard=debug"),
            "info,daemon=off,shard=debug"
        );
        assert_eq!(log_filter("hearth::a=trace"), "daemon=trace");
        assert_eq!(log_filter("info"), "info");
    }

    #[test]
    fn a_mistyped_word_is_named_with_what_was_probably_meant() {
        for (filter, said) in [
            ("inof", "'inof' is not a level; did you mean 'info'?"),
            ("info,shard=dbug", "did you mean 'debug'?"),
            ("info,shrad=debug", "did you mean 'shard'?"),
            ("shard", "write 'shard=debug'"),
            ("", "is not a level: write a level"),
            ("info, hearth=error", "write a level"),
            ("info,xyzzy=debug", "those that log are axum"),
        ] {
            let error = check_log_filter(filter).unwrap_err();
            assert!(error.contains(said), "{filter}: {error}");
        }
    }
}
