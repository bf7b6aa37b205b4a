//! `duly store check`.

use std::path::Path;

use duly_store_embedded::{OpenError, check, disk};

use super::shown::Shown;
use crate::{Outcome, failure::Failure, output::Printer};

pub(super) fn run(data: &Path, printer: Printer) -> Outcome {
    printer.people_only("store check")?;
    let mut shown = Shown::new();
    let mut progress = |progress: check::Progress| {
        shown.show(progress.what, progress.bytes_done, progress.bytes_total);
    };
    let report = check::check(data, &mut progress).map_err(|error| match error {
        OpenError::Disk(disk::Error::NotFound { .. }) => {
            Failure::new(format_args!("{error}: name the directory with --data"))
        }
        error => Failure::new(error),
    })?;
    shown.end();
    printer.line(&report.to_string())?;
    if report.is_clean() {
        return Ok(());
    }
    Err(Failure::new(format_args!(
        "{} is not clean: see above; restore it from a backup with `duly store restore`",
        data.display()
    )))
}
