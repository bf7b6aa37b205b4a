//! The table of codes: the facts that the document has at `Problem.code`.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

/// Place of the codes in the document.
const CODE: &str = "/components/schemas/Problem/properties/code";

/// Returns the table.
pub(super) fn table(document: &Value) -> Result<String> {
    let code = document.pointer(CODE).context("the document has no Problem.code")?;
    let names =
        code["x-extensible-enum"].as_array().context("Problem.code has no list of values")?;
    let mut text =
        String::from("| code | HTTP | gRPC | repeat | meaning |\n|---|---|---|---|---|\n");
    for name in names.iter().filter_map(Value::as_str) {
        let facts = &code["x-codes"][name];
        let fact = |key: &str| facts[key].as_str().with_context(|| format!("{name} has no {key}"));
        writeln!(
            text,
            "| [`{name}`](../operate/errors.md#{name}) | {} | {} | `{}` | {} |",
            facts["status"],
            fact("grpc")?,
            fact("repeat")?,
            fact("title")?,
        )?;
    }
    Ok(text)
}
