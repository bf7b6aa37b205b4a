//! The generated part of the page: an index, all routes by group, all shared schemas.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::examples::Example;
use super::schema::{self, Schemas};

/// The groups, in the order of the page, with their titles.
const GROUPS: [(&str, &str); 7] = [
    ("timers", "Routes: timers"),
    ("pull", "Routes: pull"),
    ("dead letters", "Routes: dead letters"),
    ("namespaces", "Routes: namespaces"),
    ("moving", "Routes: export and import"),
    ("keys", "Routes: keys"),
    ("service", "Routes: service"),
];

/// The media type of an NDJSON stream.
const NDJSON: &str = "application/x-ndjson";

/// One operation of the document.
struct Route<'a> {
    path: &'a str,
    method: &'a str,
    id: &'a str,
    operation: &'a Value,
}

impl<'a> Route<'a> {
    fn title(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }

    fn text(&self, name: &str) -> String {
        one_line(self.operation[name].as_str().unwrap_or_default())
    }

    /// Returns the schema of a body of this media type.
    fn body(content: &'a Value, media: &str) -> Option<&'a Value> {
        content["content"].get(media).map(|media| &media["schema"])
    }
}

/// Returns the generated part.
pub(super) fn routes(document: &Value, examples: &[Example]) -> Result<String> {
    let routes = all(document)?;
    for example in examples.iter().filter(|example| example.operation != "setup") {
        if !routes.iter().any(|route| route.id == example.operation) {
            bail!("an example of `{}`, which the document does not have", example.operation);
        }
    }
    let schemas = Schemas::of(document);
    let mut text =
        String::from("## Index of routes\n\n| call | request | purpose |\n|---|---|---|\n");
    for (group, _) in GROUPS {
        for route in of_group(&routes, group) {
            let summary = schema::cell(&route.text("summary"));
            writeln!(text, "| [{0}](#{0}) | `{1}` | {summary} |", route.id, route.title())?;
        }
    }
    let mut inline = Vec::new();
    for (group, title) in GROUPS {
        write!(text, "\n## {title}\n")?;
        for route in of_group(&routes, group) {
            let example = examples.iter().find(|example| example.operation == route.id);
            let example = example.with_context(|| format!("no example of `{}`", route.id))?;
            write_route(&mut text, route, example, &schemas, &mut inline)?;
        }
    }
    text.push_str("\n## Schemas\n");
    for (name, schema) in schemas.iter().filter(|(name, _)| !inline.contains(&name.as_str())) {
        write!(text, "\n### Schema {name}\n\n{}", schema::section(schema, &schemas))?;
    }
    Ok(text)
}

fn all(document: &Value) -> Result<Vec<Route<'_>>> {
    let mut routes = Vec::new();
    for (path, operations) in object(&document["paths"]) {
        for (method, operation) in object(operations) {
            let id = operation["operationId"].as_str().context("an operation without an id")?;
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            if !GROUPS.iter().any(|(group, _)| *group == tag) {
                bail!("`{id}` has the tag `{tag}`: give it a place in GROUPS");
            }
            routes.push(Route { path, method, id, operation });
        }
    }
    Ok(routes)
}

/// Returns the routes of a group: shorter paths first, and for equal paths the methods in a fixed order.
fn of_group<'r, 'a>(routes: &'r [Route<'a>], group: &str) -> Vec<&'r Route<'a>> {
    let order = ["post", "put", "get", "patch", "delete"];
    let mut found: Vec<_> =
        routes.iter().filter(|route| route.operation["tags"][0] == group).collect();
    found.sort_by_key(|route| (route.path, order.iter().position(|name| *name == route.method)));
    found
}

fn write_route<'a>(
    text: &mut String,
    route: &Route<'a>,
    example: &Example,
    schemas: &Schemas<'a>,
    inline: &mut Vec<&'a str>,
) -> Result<()> {
    write!(text, "\n### {}\n\n`{}`\n\n{}\n", route.id, route.title(), route.text("summary"))?;
    let description = route.text("description");
    if !description.is_empty() {
        write!(text, "\n{description}\n")?;
    }
    write_parameters(text, route, schemas)?;
    let body = &route.operation["requestBody"];
    if body.is_object() {
        let schema = Route::body(body, "application/json").context("no JSON body")?;
        let need = if body["required"] == true { "" } else { ", may be left out" };
        write!(text, "\n**Body** (`application/json`{need}): ")?;
        write_schema(text, schema, schemas, inline)?;
        if Route::body(body, NDJSON).is_some() {
            text.push_str("\n`application/x-ndjson` has one item of the array a line.\n");
        }
    }
    text.push_str("\n**Responses**\n");
    for (status, response) in object(&route.operation["responses"]) {
        let what = one_line(response["description"].as_str().unwrap_or_default());
        write!(text, "\n- `{status}`: {what}")?;
        for (media, content) in object(&response["content"]) {
            let type_of = schema::type_of(&content["schema"], schemas);
            write!(text, " `{media}`: {type_of}.")?;
        }
        if let Some(media) = response["x-lines"].as_str() {
            write!(text, " `{media}`: a stream of lines.")?;
        }
        for (name, header) in object(&response["headers"]) {
            let what = one_line(header["description"].as_str().unwrap_or_default());
            write!(text, " Header `{name}`: {what}")?;
        }
    }
    text.push('\n');
    write_example(text, example)
}

fn write_parameters(text: &mut String, route: &Route<'_>, schemas: &Schemas<'_>) -> Result<()> {
    let parameters = route.operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if parameters.is_empty() {
        return Ok(());
    }
    text.push_str("\n| parameter | in | type | required | limits | meaning |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for parameter in parameters {
        let word = |name: &str| parameter[name].as_str().unwrap_or_default();
        let required = if parameter["required"] == true { "yes" } else { "" };
        writeln!(
            text,
            "| `{}` | {} | {} | {required} | {} | {} |",
            word("name"),
            word("in"),
            schema::type_of(&parameter["schema"], schemas),
            schema::limits(&parameter["schema"], schemas),
            schema::cell(word("description")),
        )?;
    }
    Ok(())
}

/// Writes the fields of a body here if no other call uses its schema, else a link to them.
fn write_schema<'a>(
    text: &mut String,
    schema: &'a Value,
    schemas: &Schemas<'a>,
    inline: &mut Vec<&'a str>,
) -> Result<()> {
    match schema::name_of(schema).filter(|name| schemas.uses(name) == 1) {
        Some(name) => {
            let found = schemas.get(name).with_context(|| format!("no schema `{name}`"))?;
            inline.push(name);
            write!(text, "{}", schema::section(found, schemas))?;
        }
        None => writeln!(text, "{}", schema::type_of(schema, schemas))?,
    }
    Ok(())
}

fn write_example(text: &mut String, example: &Example) -> Result<()> {
    let Example { method, path, body, status, content_type, response, .. } = example;
    write!(text, "\n```http\n{method} {path} HTTP/1.1\nhost: 127.0.0.1:3859\n")?;
    if !body.is_empty() {
        write!(text, "content-type: application/json\n\n{body}\n")?;
    }
    write!(text, "```\n\n```http\nHTTP/1.1 {status}\n")?;
    if !content_type.is_empty() {
        write!(text, "content-type: {content_type}\n\n{response}\n")?;
    }
    text.push_str("```\n");
    Ok(())
}

/// Returns the members of an object; none for any other value.
pub(super) fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn one_line(text: &str) -> String {
    text.replace("\n\n", "\u{0}").replace('\n', " ").replace('\u{0}', "\n\n")
}
