//! The examples of the HTTP reference: requests with the responses of a real server, in one file.
//!
//! 1. The examples run in the order of the file, each on the state that the earlier ones left.
//! 2. A response matches if status, media type and JSON are as recorded. Times, tokens, ids that the
//!    server generates and sizes may differ.
//! 3. A `GET` whose response does not match is repeated for a while: the server writes some things a moment after the call
//!    that caused them, such as the records of the audit log.
//! 4. A value that differs is replaced in later requests: a recorded token stands for the token of the
//!    current run.
//!
//! An example begins with `=== operation`, then a line of method and path, then the body of the request.
//! `--- status media-type` begins the response. `=== setup` is sent and not shown.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::json;
use crate::server::{Request, Response};

/// The operation name of an example that only prepares others.
const SETUP: &str = "setup";
/// The line that replaces the rest of a long response.
const CUT: &str = "…";
/// Number of lines shown of a text, or of JSON that is longer than [`JSON_LINES_MAX`].
const LINES_SHOWN: usize = 12;
/// Longest JSON that is shown as a whole, in lines.
const JSON_LINES_MAX: usize = 120;

/// Time within which the response to a `GET` becomes the recorded one.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// Time between two attempts of such a `GET`.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Members whose values may differ from run to run.
const VOLATILE: [&str; 13] = [
    "bytes",
    "cursor",
    "delivery_id",
    "files",
    "heartbeat_age_ms",
    "incarnation",
    "lsn",
    "member_id",
    "pending_bytes",
    "request_hash",
    "secret",
    "token",
    "version",
];

/// One request and its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Example {
    /// The `operationId`, or [`SETUP`].
    pub(super) operation: String,
    /// The method.
    pub(super) method: String,
    /// Path and query.
    pub(super) path: String,
    /// The body of the request; empty for none.
    pub(super) body: String,
    /// The status of the response.
    pub(super) status: u16,
    /// The media type of the response; empty if it has no body.
    pub(super) content_type: String,
    /// The body of the response as it is shown.
    pub(super) response: String,
}

/// Parses the file.
pub(super) fn parse(text: &str) -> Result<Vec<Example>> {
    let examples = text.split("\n=== ").skip(1);
    examples
        .map(|text| parse_example(text).with_context(|| format!("in the example `{text}`")))
        .collect()
}

fn parse_example(text: &str) -> Result<Example> {
    let (operation, rest) = text.split_once('\n').context("no request")?;
    let (request, response) = rest.split_once("\n--- ").context("no line `--- status`")?;
    let (line, body) = request.split_once('\n').unwrap_or((request, ""));
    let (method, path) = line.split_once(' ').context("no method and path")?;
    let (head, response) = response.split_once('\n').unwrap_or((response, ""));
    let (status, content_type) = head.split_once(' ').unwrap_or((head, ""));
    Ok(Example {
        operation: operation.to_owned(),
        method: method.to_owned(),
        path: path.to_owned(),
        body: body.trim().to_owned(),
        status: status.trim().parse().context("the status is no number")?,
        content_type: content_type.trim().to_owned(),
        response: response.trim().to_owned(),
    })
}

/// Formats the file. `preface` is the text in front of the first example.
pub(super) fn format_file(preface: &str, examples: &[Example]) -> String {
    let mut text = preface.trim_end().to_owned();
    text.push('\n');
    for example in examples {
        let Example { operation, method, path, body, status, content_type, response } = example;
        text.push_str(&format!("\n=== {operation}\n{method} {path}\n"));
        for part in [body.as_str(), format!("--- {status} {content_type}").trim_end(), response] {
            if !part.is_empty() {
                text.push_str(&format!("{part}\n"));
            }
        }
    }
    text
}

/// The result of running all examples.
pub(super) struct ExamplesRun {
    /// The examples. Those that did not match have the response of this run.
    pub(super) examples: Vec<Example>,
    /// The mismatches, one sentence each.
    pub(super) mismatches: Vec<String>,
}

/// Sends every request and compares every response.
pub(super) fn run(
    examples: &[Example],
    mut send: impl FnMut(&Request<'_>) -> Result<Response>,
) -> Result<ExamplesRun> {
    let mut fresh_values = BTreeMap::new();
    let mut run = ExamplesRun { examples: Vec::new(), mismatches: Vec::new() };
    for example in examples {
        let mut recorded = example.clone();
        let mut fresh = Example {
            path: with_fresh(&example.path, &fresh_values),
            body: with_fresh(&example.body, &fresh_values),
            ..example.clone()
        };
        let Example { method, path, body, .. } = &fresh;
        let request = Request { method, path, body };
        let mut response = send(&request)?;
        if example.operation == SETUP {
            if response.status != example.status {
                bail!("setup {method} {path}: {} {}", response.status, response.body);
            }
        } else {
            let asked_at = Instant::now();
            let mut result = compare_response(example, &response);
            while result.is_err() && *method == "GET" && asked_at.elapsed() < SETTLES_WITHIN {
                thread::sleep(RETRY_AFTER);
                response = send(&request)?;
                result = compare_response(example, &response);
            }
            fresh.status = response.status;
            fresh.response = displayed(&response.body);
            fresh.content_type = response.content_type;
            let parsed = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
            collect_changed_values(
                "",
                &parsed(&example.response),
                &parsed(&fresh.response),
                &mut fresh_values,
            );
            if let Err(mismatch) = result {
                let Example { operation, method, path, .. } = example;
                run.mismatches.push(format!("{operation} ({method} {path}): {mismatch}"));
                recorded.content_type = fresh.content_type;
                recorded.status = fresh.status;
                recorded.response = with_recorded(&fresh.response, &fresh_values);
            }
        }
        run.examples.push(recorded);
    }
    Ok(run)
}

fn with_fresh(text: &str, fresh_values: &BTreeMap<String, String>) -> String {
    fresh_values.iter().fold(text.to_owned(), |text, (old, fresh)| text.replace(old, fresh))
}

/// The reverse of `with_fresh`: values that were recorded before stay, so that a new recording changes
/// little.
fn with_recorded(text: &str, fresh_values: &BTreeMap<String, String>) -> String {
    fresh_values.iter().fold(text.to_owned(), |text, (old, fresh)| text.replace(fresh, old))
}

/// Returns the body in the form that the page shows.
fn displayed(body: &str) -> String {
    let text = json::indented(body).unwrap_or_else(|| body.trim_end().to_owned());
    let is_json = json::indented(body).is_some();
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= if is_json { JSON_LINES_MAX } else { LINES_SHOWN } {
        return text;
    }
    format!("{}\n{CUT}", lines[..LINES_SHOWN].join("\n"))
}

/// Collects the strings that differ from run to run.
fn collect_changed_values(
    path: &str,
    old: &Value,
    new: &Value,
    fresh_values: &mut BTreeMap<String, String>,
) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in old {
                if let Some(fresh) = new.get(name) {
                    collect_changed_values(&format!("{path}.{name}"), value, fresh, fresh_values);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                collect_changed_values(&format!("{path}[{i}]"), old, new, fresh_values);
            }
        }
        (Value::String(old), Value::String(new)) if old != new && may_differ(path, old, new) => {
            fresh_values.insert(old.clone(), new.clone());
        }
        _ => {}
    }
}

/// Compares a response with the recorded one.
fn compare_response(recorded: &Example, fresh: &Response) -> std::result::Result<(), String> {
    if (recorded.status, &recorded.content_type) != (fresh.status, &fresh.content_type) {
        let Example { status, content_type, .. } = recorded;
        let start: String = fresh.body.chars().take(300).collect();
        return Err(format!(
            "{} {}, recorded {status} {content_type}: {start}",
            fresh.status, fresh.content_type
        ));
    }
    let response = displayed(&fresh.body);
    let are_cut = recorded.response.ends_with(CUT) && response.ends_with(CUT);
    if are_cut || recorded.response == response {
        return Ok(());
    }
    let parsed = (serde_json::from_str(&recorded.response), serde_json::from_str(&response));
    let (Ok(old), Ok(new)) = parsed else {
        return Err(format!("`{response}`, recorded `{}`", recorded.response));
    };
    compare("", &old, &new)
}

fn compare(path: &str, old: &Value, new: &Value) -> std::result::Result<(), String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if old.keys().eq(new.keys()) => old
            .iter()
            .try_for_each(|(name, old)| compare(&format!("{path}.{name}"), old, &new[name])),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let pairs = old.iter().zip(new).enumerate();
            pairs
                .into_iter()
                .try_for_each(|(i, (old, new))| compare(&format!("{path}[{i}]"), old, new))
        }
        (Value::String(old), Value::String(new)) if may_differ(path, old, new) => Ok(()),
        (Value::Number(_), Value::Number(_)) if is_volatile(path) => Ok(()),
        _ if old == new => Ok(()),
        _ => Err(format!("`{path}` is {new}, recorded {old}")),
    }
}

fn may_differ(path: &str, old: &str, new: &str) -> bool {
    is_volatile(path)
        || (is_time(old) && is_time(new))
        || (is_key_id(old) && is_key_id(new))
        || (is_node_name(path) && !old.is_empty() && !new.is_empty())
}

/// Returns `true` for the id of a key.
fn is_key_id(text: &str) -> bool {
    let is_of_alphabet =
        |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() && !"ilou".contains(c);
    text.len() == 10 && text.chars().all(is_of_alphabet)
}

fn is_volatile(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or_default();
    VOLATILE.contains(&name)
}

/// Returns `true` for the name of a node, which is the name of its machine.
fn is_node_name(path: &str) -> bool {
    path.starts_with(".nodes[") && path.ends_with("].name")
}

/// Returns `true` for a time in the server's form: `2030-01-31T12:00:00.000Z`.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 24 && bytes[10] == b'T' && bytes[23] == b'Z' && bytes[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
Preface.

=== lease
POST /v1/lease
{\"max\": 1}
--- 200 application/json
{\"token\": \"old\", \"at\": \"2026-01-01T00:00:00.000Z\", \"attempt\": 1}

=== settle
POST /v1/settle
{\"token\": \"old\"}
--- 204
";

    #[test]
    fn the_file_is_printed_as_it_was_read() {
        let examples = parse(FILE).unwrap();
        assert_eq!((examples[0].path.as_str(), examples[1].status), ("/v1/lease", 204));
        assert_eq!(format_file("Preface.\n", &examples), FILE);
        assert!(parse("\n=== lease\nPOST /v1/lease\n").is_err());
    }

    fn run_with(leased: &str) -> (Vec<String>, Vec<String>, String) {
        let mut bodies = Vec::new();
        let run = run(&parse(FILE).unwrap(), |request| {
            bodies.push(request.body.to_owned());
            Ok(if request.path == "/v1/lease" {
                let content_type = "application/json".to_owned();
                Response { status: 200, content_type, body: leased.to_owned() }
            } else {
                Response { status: 204, content_type: String::new(), body: String::new() }
            })
        });
        let run = run.unwrap();
        (run.mismatches, bodies, format_file("", &run.examples))
    }

    #[test]
    fn volatile_values_fit_and_reach_later_requests() {
        let fresh = r#"{"token":"new","at":"2027-01-01T00:00:00.000Z","attempt":1}"#;
        let (mismatches, bodies, printed) = run_with(fresh);
        assert!(printed.ends_with(&FILE[10..]), "{printed}");
        assert_eq!(mismatches, Vec::<String>::new());
        assert_eq!(bodies[1], "{\"token\": \"new\"}");
    }

    #[test]
    fn a_read_may_show_a_change_a_moment_later() {
        let read = "\n=== audit\nGET /v1/audit\n--- 200 application/json\n{\"records\": [1]}\n";
        let mut bodies = ["[]", "[1]", "[2]"].into_iter();
        let run = run(&parse(read).unwrap(), |_| {
            let body = format!("{{\"records\": {}}}", bodies.next().unwrap());
            Ok(Response { status: 200, content_type: "application/json".to_owned(), body })
        });
        assert_eq!(run.unwrap().mismatches, Vec::<String>::new());
        assert_eq!(bodies.next(), Some("[2]"));
    }

    #[test]
    fn another_value_or_member_does_not_fit() {
        for (fresh, expected) in [
            (r#"{"token":"new","at":"2027-01-01T00:00:00.000Z","attempt":2}"#, "`.attempt` is 2"),
            (r#"{"token":"new","attempt":1}"#, "`` is"),
        ] {
            let (mismatches, _, printed) = run_with(fresh);
            assert!(mismatches.len() == 1 && mismatches[0].contains(expected), "{mismatches:?}");
            assert!(printed.contains("\"token\": \"old\""), "{printed}");
        }
    }
}
