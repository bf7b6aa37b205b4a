//! Prepares a namespace for an import: checks that it exists, or creates it.

use duly_core::NamespaceName;
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use crate::{commands::export::line::NamespaceHead, failure::Failure, session::Session};

/// A namespace of this server, or a problem if it does not exist.
#[derive(Deserialize)]
struct ImportTarget {
    name: Option<String>,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    signing_secret_fingerprints: Vec<String>,
}

/// Ensures that the namespace exists. Returns notes for the operator, or the reason why its timers
/// cannot be imported.
pub(super) async fn ensure_namespace(
    head: &NamespaceHead,
    name: &NamespaceName,
    may_create: bool,
    session: &Session,
) -> Result<Result<Vec<String>, String>, Failure> {
    let call = session.http.get(name, &[]).accepting(StatusCode::NOT_FOUND);
    let mut target: ImportTarget = call.send_patiently(session.printer).await?.parse()?;
    let mut notes = Vec::new();
    match &head.settings {
        _ if target.name.is_some() => {
            notes.push(format!("{name} exists and keeps its settings"));
        }
        Some(settings) if may_create => {
            let call = session.http.namespace(Method::PUT, name, &[]);
            target = call.body(settings).send_patiently(session.printer).await?.parse()?;
            notes.push(format!("{name} was created with the settings of the file"));
        }
        _ => {
            return Ok(Err(format!(
                "there is no namespace {name} here, so its timers are not sent: \
                 --create-namespaces creates it with the settings of the file, `duly namespace put \
                 {name}` with others"
            )));
        }
    }
    let known = &target.signing_secret_fingerprints;
    let is_signed = head.signing_secret_fingerprints.iter().any(|one| !known.contains(one));
    if is_signed {
        notes.push(format!(
            "{name} signed its webhooks, and signing secrets are not exported: set them here with \
             `duly namespace secret set {name} --file FILE`"
        ));
    }
    if target.paused {
        notes.push(format!("{name} is paused here: `duly namespace resume {name}` resumes it"));
    }
    Ok(Ok(notes))
}
