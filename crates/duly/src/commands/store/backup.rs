//! `duly store backup`.

use std::{path::Path, time::Duration};

use reqwest::Method;
use serde::Deserialize;

use super::shown::in_words;
use crate::{Outcome, cli::Session, failure::Failure, output::text};

/// A copy takes as long as it takes.
const PATIENCE: Duration = Duration::from_secs(24 * 3_600);

#[derive(Deserialize)]
struct Made {
    path: String,
    files: u64,
    bytes: u64,
}

pub(super) async fn run(path: &Path, session: &Session) -> Outcome {
    let path = std::path::absolute(path)
        .map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))?;
    let Some(path) = path.to_str() else {
        return Err(Failure::usage(format_args!("{} is not UTF-8", path.display())));
    };
    let call = session.http.service(Method::POST, &["store", "backup"]);
    let body = serde_json::json!({ "path": path });
    let answer = call.body(&body).waiting(PATIENCE).send().await?;
    session.printer.answer(&answer, || {
        let Made { path, files, bytes } = answer.parse()?;
        let (path, bytes) = (text::preview(&path, usize::MAX), in_words(bytes));
        Ok(format!("{path}  backed up: {files} files, {bytes}"))
    })
}
