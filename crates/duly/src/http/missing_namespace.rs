//! The name that was probably meant where a namespace does not exist.

use duly_api::{ListNamespacesResponse, Problem};
use duly_core::similar_name::most_similar;
use reqwest::Method;

use super::Http;
use crate::failure::Failure;

/// The beginning of the sentence about a namespace that does not exist; its name follows, quoted.
const MISSING: &str = "there is no namespace \"";

/// Adds the most similar name to a refusal because of a missing namespace. A name is not worth a second error.
pub(super) async fn with_similar(client: &Http, failure: Failure) -> Failure {
    let Some(name) = missing(&failure) else { return failure };
    let call = client.service(Method::GET, &["namespaces"]).query(&[("limit", "1000".to_owned())]);
    let Ok(response) = call.exchange().await else { return failure };
    let Ok(page) = response.parse::<ListNamespacesResponse>() else { return failure };
    let names = page.namespaces.iter().map(|namespace| namespace.name.as_str());
    match most_similar(&name, names) {
        Some(similar) => failure.with_note(&format!("did you mean `{similar}`?")),
        None => failure,
    }
}

/// Returns the name of the namespace that a refusal says does not exist.
fn missing(failure: &Failure) -> Option<String> {
    let Failure::Refused { problem, .. } = failure else { return None };
    let problem: Problem = serde_json::from_str(problem).ok()?;
    let name = problem.detail.strip_prefix(MISSING)?.split('"').next()?;
    (problem.code == "not_found").then(|| name.to_owned())
}
