//! `hearth operator`: who may change something through the page.

pub mod args;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{Side, Table, shown};
use args::{One, Operator, Where};
use configuration::{Config, OPERATORS_EXAMPLE};
use operators::{FileError, Kind, OperatorsFile, RosterError, Token};
use serde::Serialize;
use std::fmt::{self, Write};

/// What an operator's name begins with who has a certificate instead of a token.
const CERTIFICATE: &str = "cert:";

/// An operator that was made.
#[derive(Debug, Serialize)]
struct Added {
    name: String,
    /// None of an operator with a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// An operator that is there.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    proof: &'static str,
}

/// The operators.
#[derive(Debug, Serialize)]
struct All {
    operators: Vec<Listed>,
}

/// Does what is asked with operators.
pub(crate) fn run(asked: &Operator, json: bool) -> Result<Vec<u8>, CliError> {
    match asked {
        Operator::Add(one) => shown(json, &add(one)?, write_added),
        Operator::List(place) => shown(json, &list(place)?, write_all),
        Operator::Remove(one) => {
            file(&one.place)?
                .change(|roster| roster.remove(&one.name))
                .map_err(|error| refused(&error))?;
            let name = &one.name;
            let said = if json {
                format!("{}\n", serde_json::json!({ "removed": name }))
            } else {
                format!("{name} is an operator no more\n")
            };
            Ok(said.into_bytes())
        }
    }
}

fn add(one: &One) -> Result<Added, CliError> {
    let file = file(&one.place)?;
    let name = one.name.clone();
    let token = if name.starts_with(CERTIFICATE) {
        file.change(|roster| roster.add_certificate(&name))
            .map_err(|error| refused(&error))?;
        None
    } else {
        let token = Token::new().map_err(|error| CliError::of(Exit::Failed, &error))?;
        file.change(|roster| roster.add_token(&name, token.hash()))
            .map_err(|error| refused(&error))?;
        Some(token.text().to_owned())
    };
    Ok(Added { name, token })
}

fn list(place: &Where) -> Result<All, CliError> {
    let file = file(place)?;
    let roster = match file.read() {
        Ok(roster) => roster,
        // Nobody was added yet.
        Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            operators::Roster::default()
        }
        Err(error) => return Err(refused(&error)),
    };
    let operators = roster.names().map(|(name, kind)| Listed {
        name: name.to_owned(),
        proof: match kind {
            Kind::Token => "token",
            Kind::Certificate => "certificate",
        },
    });
    Ok(All {
        operators: operators.collect(),
    })
}

/// The file with the operators, of the daemon's user.
fn file(place: &Where) -> Result<OperatorsFile, CliError> {
    let config = match (configuration::load(&place.config), &place.file) {
        (Ok(config), _) => config,
        // A file that is named needs no configuration.
        (Err(_), Some(_)) => Config::default(),
        (Err(error), None) => return Err(CliError::of(Exit::Usage, &error)),
    };
    let path = place.file.as_ref().or(config.web.operators.as_ref());
    let Some(path) = path else {
        let message = format!(
            "{} names no file of operators: the page is read-only",
            place.config.display()
        );
        return Err(CliError::new(Exit::Usage, message).with_remedy(format!(
            "set operators = \"{OPERATORS_EXAMPLE}\" in [web], and restart the daemon"
        )));
    };
    Ok(daemon::operators_file(&config, path))
}

fn refused(error: &FileError) -> CliError {
    let exit = match error {
        FileError::Roster { source, .. } => match source {
            RosterError::Unknown { .. } => Exit::NotFound,
            RosterError::Name { .. } => Exit::Usage,
            RosterError::Line { .. } | RosterError::Taken { .. } | RosterError::TooMany => {
                Exit::Refused
            }
        },
        FileError::Writable { .. } | FileError::Owner { .. } | FileError::Kind { .. } => {
            Exit::Refused
        }
        FileError::Io { .. } => Exit::Failed,
    };
    CliError::of(exit, error).with_remedy(error.remedy())
}

fn write_added(text: &mut String, added: &Added) -> fmt::Result {
    let name = &added.name;
    if let Some(token) = &added.token {
        writeln!(text, "{token}")?;
        return writeln!(
            text,
            "This is the token of {name}, shown this once: give it to {name}, who pastes it into the page."
        );
    }
    let shown = name.trim_start_matches(CERTIFICATE);
    writeln!(
        text,
        "Whoever shows a certificate of web.client_ca with the name {shown} is an operator."
    )
}

fn write_all(text: &mut String, all: &All) -> fmt::Result {
    if all.operators.is_empty() {
        return writeln!(text, "no operators; hearth operator add NAME makes one");
    }
    let mut table = Table::new(&["operator", "proof"].map(|name| (name, Side::Left)));
    for one in &all.operators {
        table.row(vec![one.name.clone(), one.proof.to_owned()]);
    }
    write!(text, "{table}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn place(folder: &Path, is_named: bool) -> Where {
        let config = folder.join("hearth.toml");
        let file = folder.join("operators");
        let state = folder.join("state");
        let named = if is_named {
            format!("operators = '{}'", file.display())
        } else {
            String::new()
        };
        let text = format!(
            "[daemon]\nstate_dir = '{}'\n[web]\n{named}\n",
            state.display()
        );
        std::fs::write(&config, text).unwrap();
        Where { config, file: None }
    }

    fn one(folder: &Path, name: &str) -> One {
        One {
            name: name.to_owned(),
            place: place(folder, true),
        }
    }

    fn said(asked: &Operator) -> String {
        String::from_utf8(run(asked, false).unwrap()).unwrap()
    }

    #[test]
    fn a_token_is_printed_once_and_is_not_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let added = said(&Operator::Add(one(folder, "alice")));
        let token = added.lines().next().unwrap();
        assert!(token.starts_with("hearth-"), "{added}");
        let kept = std::fs::read_to_string(folder.join("operators")).unwrap();
        assert!(
            !kept.contains(token.trim_start_matches("hearth-")),
            "{kept}"
        );
        said(&Operator::Add(one(folder, "cert:bob")));
        let listed = said(&Operator::List(place(folder, true)));
        assert!(
            listed.contains("alice     token") && listed.contains("cert:bob  certificate"),
            "{listed}"
        );
        said(&Operator::Remove(one(folder, "alice")));
        assert!(!said(&Operator::List(place(folder, true))).contains("alice"));
        let again = run(&Operator::Remove(one(folder, "alice")), false).unwrap_err();
        assert_eq!(again.exit, Exit::NotFound);
    }

    #[test]
    fn without_the_key_it_is_said_which_one_to_set() {
        let folder = tempfile::tempdir().unwrap();
        let asked = Operator::Add(One {
            name: "alice".to_owned(),
            place: place(folder.path(), false),
        });
        let error = run(&asked, false).unwrap_err();
        assert!(error.remedy.unwrap().contains("operators = "));
    }
}
