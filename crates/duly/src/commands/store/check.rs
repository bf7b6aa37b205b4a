//! `duly store check`.

use std::path::Path;

use duly_store_embedded::{OpenError, check, disk};
use serde_json::{Value, json};

use crate::{
    Outcome,
    failure::Failure,
    output::{Printer, progress::Progress, text},
};

pub(super) fn run(data: &Path, printer: Printer) -> Outcome {
    let mut progress = Progress::new(printer);
    let mut show =
        |at: check::Progress| progress.show_bytes(at.what, at.bytes_done, at.bytes_total);
    let report = check::check(data, &mut show).map_err(|error| match error {
        OpenError::Disk(disk::Error::NotFound { .. }) => {
            Failure::new(format_args!("{error}: name the directory with --data"))
        }
        error => Failure::new(error),
    })?;
    progress.clear();
    let document = document(&report).to_string();
    printer.document(&document, || Ok(text::lines(&report.to_string())))?;
    if report.is_clean() {
        return Ok(());
    }
    Err(Failure::coded(
        "damaged",
        format_args!(
            "{} is damaged: see above; lost data can be restored only from a backup (`duly store \
             restore`)",
            data.display()
        ),
    ))
}

/// Returns the report as JSON.
fn document(report: &check::Report) -> Value {
    let files = report.files.iter().map(|files| {
        json!({
            "kind": files.kind,
            "count": files.count,
            "bytes": files.bytes,
            "records": files.records,
            "live": files.live,
        })
    });
    let namespaces = report.namespaces.iter().map(|holding| {
        json!({
            "name": holding.name,
            "paused": holding.paused,
            "pending": holding.pending,
            "retained": holding.tombstones,
            "dead": holding.dead,
        })
    });
    let findings = report.findings.iter().map(|finding| {
        json!({
            "file": finding.file,
            "offset_bytes": finding.offset,
            "what": finding.what,
            "means": finding.means,
        })
    });
    let left_overs = report.left_overs.iter();
    let left_overs = left_overs.map(|file| json!({ "file": file.name, "what": file.what }));
    json!({
        "data": report.location,
        "is_clean": report.is_clean(),
        "format": report.format,
        "epoch": report.epoch,
        "checkpoint": report.checkpoint,
        "frames": report.frames,
        "records": {
            "pending": report.records.pending,
            "dead": report.records.dead,
            "ended": report.records.ended,
            "leases": report.records.leases,
            "other": report.records.other,
        },
        "files": files.collect::<Vec<_>>(),
        "namespaces": namespaces.collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "findings_left_out": report.findings_left_out,
        "left_overs": left_overs.collect::<Vec<_>>(),
        "tail": report.tail.as_str(),
    })
}
