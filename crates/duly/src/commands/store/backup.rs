//! `duly store backup`.

use std::{path::Path, time::Duration};

use duly_api::cluster::{Backup, BackupMade};
use reqwest::Method;

use crate::{Outcome, cli::Session, failure::Failure, output::text};

/// Time limit of a backup, long enough for any size.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3_600);

pub(super) async fn run(path: &Path, session: &Session) -> Outcome {
    let path = std::path::absolute(path)
        .map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))?;
    let Some(path) = path.to_str() else {
        return Err(Failure::usage(format_args!("{} is not UTF-8", path.display())));
    };
    let call = session.http.service(Method::POST, &["store", "backup"]);
    let response = call.body(&Backup { path: path.to_owned() }).waiting(TIME_LIMIT).send().await?;
    session.printer.document(&response.text, || {
        let BackupMade { path, files, bytes, .. } = response.parse()?;
        let (path, bytes) = (text::preview(&path, usize::MAX), text::bytes(bytes));
        Ok(format!("{path}  backed up: {files} files, {bytes}"))
    })
}
