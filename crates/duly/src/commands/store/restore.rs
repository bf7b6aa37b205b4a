//! `duly store restore`.

use std::path::Path;

use duly_store_embedded::{
    OpenError,
    backup::{BackupError, restore},
    check, disk,
};
use serde_json::json;

use crate::{
    Outcome,
    failure::Failure,
    output::{Printer, progress::Progress, text},
};

pub(super) fn run(from: &Path, data: &Path, printer: Printer) -> Outcome {
    let mut progress = Progress::new(printer);
    let mut show =
        |at: check::Progress| progress.show_bytes(at.what, at.bytes_done, at.bytes_total);
    let report = restore(from, data, &mut show).map_err(|error| match error {
        BackupError::Open(OpenError::NoStore(place)) => Failure::new(format_args!(
            "{place} is not a backup: it has no MANIFEST; name the backup's directory with --from"
        )),
        BackupError::Disk(disk::Error::NotFound { .. }) => {
            Failure::new(format_args!("{error}: name the backup's directory with --from"))
        }
        error => Failure::new(error),
    })?;
    progress.clear();
    let document = json!({
        "path": data.display().to_string(),
        "files": report.files,
        "bytes": report.bytes,
        "paused": true,
    });
    let (data, files, bytes) =
        (text::lines(&data.display().to_string()), report.files, text::bytes(report.bytes));
    printer.document(&document.to_string(), || Ok(format!(
        "{data}  restored: {files} files, {bytes}\n\
         \n\
         Every namespace is paused at the first start: nothing fires, scheduling and cancelling work.\n\
         Timers that were due since the backup are overdue, and those that the old server fired after it\n\
         would fire again. Check before you resume:\n\
         \n  \
         duly store check --data {data}\n  \
         duly serve --data {data}\n  \
         duly namespace stats NAMESPACE     shows the counts\n  \
         duly namespace resume NAMESPACE    resumes one namespace\n  \
         duly resume --all                  resumes all of them\n  \
         duly resume --all --overdue dead   the same, and dead-letters the overdue timers"
    )))
}
