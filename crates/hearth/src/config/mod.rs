//! `hearth config`: what holds of a configuration, and its schema.

pub mod args;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{Side, Table, shown};
use args::{Config, Show};
use configuration::Setting;
use serde::Serialize;
use serde_json::Value;
use std::fmt::{self, Write};

/// A key, what holds for it, and where that is written.
#[derive(Debug, Serialize)]
struct Row {
    key: String,
    value: Value,
    /// `FILE:LINE`, the name of a variable, or `default`.
    from: String,
}

/// Answers what is asked of a configuration.
pub(crate) fn run(asked: &Config, json: bool) -> Result<Vec<u8>, CliError> {
    match asked {
        Config::Show(show) => shown(json, &rows(show)?, write),
        Config::Schema => Ok(schema().into_bytes()),
    }
}

/// The JSON schema, as it is installed.
pub(crate) fn schema() -> String {
    format!("{:#}\n", configuration::json_schema())
}

fn rows(show: &Show) -> Result<Vec<Row>, CliError> {
    let loaded = configuration::load_with_places(&show.config);
    let loaded = loaded.map_err(|error| CliError::of(Exit::Usage, &error))?;
    let settings = loaded.settings().into_iter();
    let settings = settings.filter(|setting| !show.written || setting.place.is_some());
    Ok(settings.map(row).collect())
}

fn row(setting: Setting) -> Row {
    let place = setting.place.as_ref();
    Row {
        from: place.map_or_else(|| "default".to_owned(), ToString::to_string),
        key: setting.key,
        value: setting.value,
    }
}

fn write(text: &mut String, rows: &Vec<Row>) -> fmt::Result {
    let columns = ["key", "value", "from"].map(|name| (name, Side::Left));
    let mut table = Table::new(&columns);
    for row in rows {
        // A list or text of JSON without control characters is one of TOML.
        table.row(vec![
            row.key.clone(),
            row.value.to_string(),
            row.from.clone(),
        ]);
    }
    write!(text, "{table}")
}
