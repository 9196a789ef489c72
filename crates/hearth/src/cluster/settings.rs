//! `hearth cluster set` and `settings`: what holds for all hosts.

use super::args::Set;
use crate::terminal::exit::{CliError, Exit};
use executor::{Settings, SettingsChange};
use placement::{Mode, Name, RulesFile};
use std::fmt::{self, Write};

/// What the arguments change.
pub(crate) fn change(set: &Set) -> Result<SettingsChange, CliError> {
    let rules = set.rules.written()?;
    let names = |of: &[String]| {
        let names = of.iter().map(|vm| Name::new(vm));
        let names = names.collect::<Result<Vec<_>, _>>();
        names.map_err(|error| CliError::of(Exit::Usage, &error))
    };
    let change = SettingsChange {
        mode: set.mode.map(Mode::from),
        outbound: set.send_max,
        arrivals: set.take_max,
        cluster: set.moves_max,
        rules: (rules != RulesFile::default() || set.reset_rules).then_some(rules),
        pin: names(&set.pin)?,
        unpin: names(&set.unpin)?,
    };
    if change == SettingsChange::default() {
        return Err(CliError::new(Exit::Usage, "nothing to set".to_owned())
            .with_remedy("hearth cluster set --help"));
    }
    Ok(change)
}

/// Writes the settings.
pub(crate) fn write(out: &mut String, settings: &Settings) -> fmt::Result {
    let Settings {
        mode,
        limits,
        rules,
        pins,
    } = settings;
    writeln!(out, "mode        {}", mode.word())?;
    writeln!(
        out,
        "limits      a host sends {}, takes {}, the cluster moves {} at a time",
        limits.outbound, limits.arrivals, limits.cluster
    )?;
    let rules = toml::to_string(rules).map_err(|_| fmt::Error)?;
    let rules: Vec<&str> = rules.lines().collect();
    let rules = if rules.is_empty() {
        "Hearth's, as they are".to_owned()
    } else {
        rules.join(", ")
    };
    writeln!(out, "rules       {rules}")?;
    let pins: Vec<&str> = pins.iter().map(Name::as_str).collect();
    let pins = if pins.is_empty() {
        "no VM".to_owned()
    } else {
        pins.join(", ")
    };
    writeln!(out, "pinned      {pins}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_shown_as_they_are_set() {
        let mut settings = Settings {
            mode: Mode::Approve,
            ..Settings::default()
        };
        settings.rules.margin = Some(0.1);
        settings.pins.insert(Name::new("db").unwrap());
        let mut text = String::new();
        write(&mut text, &settings).unwrap();
        assert_eq!(
            text,
            "mode        approve\nlimits      a host sends 1, takes 1, the cluster moves 5 at a time\n\
             rules       margin = 0.1\npinned      db\n"
        );
    }
}
