//! `hearth serve`, and what it finds wrong with a configuration.

use super::args::Serve;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::quantity;
use configuration::Config;
use daemon::{ServeError, ServeErrorKind};

/// Runs the daemon, or checks its configuration.
pub(super) fn run(args: &Serve, json: bool) -> Result<Vec<u8>, CliError> {
    let config =
        configuration::load(&args.config).map_err(|error| CliError::of(Exit::Usage, &error))?;
    if args.check_config {
        return check(args, &config, json);
    }
    if let Some(filter) = &args.log {
        configuration::check_log_filter(filter)
            .map_err(|message| CliError::new(Exit::Usage, format!("--log: {message}")))?;
    }
    daemon::serve(
        (&config, &args.config),
        args.log.as_deref(),
        args.log_format,
    )?;
    Ok(Vec::new())
}

fn check(args: &Serve, config: &Config, json: bool) -> Result<Vec<u8>, CliError> {
    let mut faults = daemon::environment(config);
    faults.extend(daemon::remembered_faults(config));
    if faults.is_empty() {
        let path = args.config.display();
        let (caches, disks) = (config.caches.len(), config.disks.len());
        return if json {
            let answer = serde_json::json!({ "sound": true, "starts": true, "caches": caches, "disks": disks });
            Ok(format!("{answer}\n").into_bytes())
        } else {
            let (caches, disks) = (
                quantity::counted(caches as u64, "cache"),
                quantity::counted(disks as u64, "disk"),
            );
            Ok(format!("{path} is sound: {caches}, {disks}\n").into_bytes())
        };
    }
    let starts = !faults.iter().any(daemon::stops_a_start);
    if json {
        let said: Vec<_> = faults
            .iter()
            .map(|fault| format!("{}: {}", fault.key, fault.message))
            .collect();
        let answer = serde_json::json!({ "sound": false, "starts": starts, "faults": said });
        crate::terminal::print(format!("{answer}\n").as_bytes())?;
    }
    let error = configuration::located(&args.config, faults);
    Err(CliError::of(Exit::Usage, &error))
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        let exit = match error.kind {
            ServeErrorKind::Failed => Exit::Failed,
            ServeErrorKind::Usage => Exit::Usage,
            ServeErrorKind::Refused => Exit::Refused,
        };
        let told = Self::new(exit, error.message);
        match error.remedy {
            Some(remedy) => told.with_remedy(remedy),
            None => told,
        }
    }
}
