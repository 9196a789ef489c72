//! What about a trace makes results wrong, said before them.

use super::args::Reading;
use crate::terminal::exit::{CliError, Exit};
use std::io::Write as _;
use trace::info::{Known, Warning, Watch};
use trace::{Format, Reader};

impl Reading {
    /// What a trace of this format says.
    pub(crate) fn known(&self, format: Format) -> Known {
        let mut known = Known::of(format);
        // A csv has the columns that it was said to have.
        if let Some(columns) = &self.columns {
            known.time &= columns.time.is_some();
            known.operation &= columns.op.is_some();
        }
        known
    }

    /// A reader of the records of a trace of this format, and what looks at them meanwhile.
    pub(crate) fn watch(
        &self,
        reader: Box<dyn Reader>,
        format: Format,
    ) -> (Box<dyn Reader>, Watch) {
        Watch::over(reader, self.known(format), self.block)
    }
}

/// What was seen, and where first, in a line.
pub(crate) fn in_words(warning: &Warning) -> String {
    let first = warning.first_record;
    let first = first.map_or_else(String::new, |first| format!("; first at record {first}"));
    format!("({}): {}{first}", warning.code, warning.seen)
}

/// Says on standard error, before the results of a trace are printed, that they will be wrong.
pub(crate) fn tell(trace: &str, ruins: &[Warning]) {
    for warning in ruins {
        let (seen, remedy) = (in_words(warning), &warning.remedy);
        // Who closed it does not want to know.
        let _ = writeln!(
            std::io::stderr(),
            "WARNING: results of {trace} will be wrong {seen}\n  try: {remedy}"
        );
    }
}

/// Refuses what would be concluded from a trace whose results will be wrong.
///
/// # Errors
/// If they will be.
pub(crate) fn refuse(trace: &str, ruins: &[Warning]) -> Result<(), CliError> {
    let Some(worst) = ruins.first() else {
        return Ok(());
    };
    let seen = in_words(worst);
    let why = format!("{trace}: no advice, since results will be wrong {seen}");
    let remedy = format!("{}; or --anyway", worst.remedy);
    Err(CliError::new(Exit::Damaged, why).with_remedy(&remedy))
}
