//! Formats the schemas of the document as types, limits and tables of fields.

use std::collections::BTreeMap;

use serde_json::Value;

use super::page::object;

/// The named schemas of the document.
pub(super) struct Schemas<'a> {
    all: BTreeMap<&'a String, &'a Value>,
    uses: BTreeMap<&'a str, usize>,
}

impl<'a> Schemas<'a> {
    /// Returns the schemas, with the number of references to each.
    pub(super) fn of(document: &'a Value) -> Self {
        let mut uses = BTreeMap::new();
        count(document, &mut uses);
        Self { all: object(&document["components"]["schemas"]).collect(), uses }
    }

    /// Returns the schema with this name.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.all.iter().find(|(known, _)| known.as_str() == name).map(|(_, schema)| *schema)
    }

    /// Returns the number of references to a schema.
    pub(super) fn uses(&self, name: &str) -> usize {
        self.uses.get(name).copied().unwrap_or_default()
    }

    /// Returns all schemas, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.all.iter().map(|(name, schema)| (*name, *schema))
    }
}

fn count<'a>(value: &'a Value, uses: &mut BTreeMap<&'a str, usize>) {
    if let Some(name) = name_of(value) {
        *uses.entry(name).or_default() += 1;
    }
    match value {
        Value::Object(members) => members.values().for_each(|member| count(member, uses)),
        Value::Array(items) => items.iter().for_each(|item| count(item, uses)),
        _ => {}
    }
}

/// Returns the schema name in a reference.
pub(super) fn name_of(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")
}

/// Returns the type of a value, for a table cell.
pub(super) fn type_of(schema: &Value, schemas: &Schemas<'_>) -> String {
    if let Some(name) = name_of(schema) {
        return link(name, schemas);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(parts) = schema[key].as_array() {
            let kinds: Vec<_> = parts.iter().map(|part| type_of(part, schemas)).collect();
            return kinds.join(" or ");
        }
    }
    if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
        return type_of(only, schemas);
    }
    let mut names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return "any JSON".to_owned(),
    };
    names.sort_by_key(|name| *name == "null");
    let kinds = names.into_iter().map(|name| match name {
        "array" => format!("array of {}", type_of(&schema["items"], schemas)),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", type_of(&schema["additionalProperties"], schemas))
        }
        "string" if schema["format"] == "date-time" => "time as text".to_owned(),
        name => name.to_owned(),
    });
    kinds.collect::<Vec<_>>().join(" or ")
}

/// Returns a link to the section of a schema. An integer schema is replaced by its type.
fn link(name: &str, schemas: &Schemas<'_>) -> String {
    match schemas.get(name) {
        Some(schema) if schema["type"] == "integer" => type_of(schema, schemas),
        _ => format!("[{name}](#schema-{})", name.to_lowercase()),
    }
}

/// Returns the limits of a value, for a table cell.
pub(super) fn limits(schema: &Value, schemas: &Schemas<'_>) -> String {
    let mut found = Vec::new();
    collect_limits(schema, schemas, &mut found);
    found.dedup();
    found.join("; ")
}

fn collect_limits(schema: &Value, schemas: &Schemas<'_>, found: &mut Vec<String>) {
    if !schema.is_object() {
        return;
    }
    let number = |name: &str| schema.get(name).map(Value::to_string);
    let mut range = |low: &str, high: &str, unit: &str| match (number(low), number(high)) {
        (Some(low), Some(high)) if low == high => found.push(format!("{low}{unit}")),
        (Some(low), Some(high)) => found.push(format!("{low} to {high}{unit}")),
        (Some(low), None) => found.push(format!("from {low}{unit}")),
        (None, Some(high)) => found.push(format!("at most {high}{unit}")),
        (None, None) => {}
    };
    range("minimum", "maximum", "");
    range("minLength", "maxLength", " characters");
    range("minItems", "maxItems", " entries");
    range("minProperties", "maxProperties", " members");
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", plain(word))).collect();
        found.push(words.join(", "));
    }
    if let Some(word) = schema.get("const") {
        found.push(format!("`{}`", plain(word)));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        found.push(format!("`{}`", pattern.replace('|', "\\|")));
    }
    if let Some(default) = schema.get("default") {
        found.push(format!("default `{}`", plain(default)));
    }
    if let Some(target) = name_of(schema).and_then(|name| schemas.get(name))
        && target["type"] == "integer"
    {
        collect_limits(target, schemas, found);
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for part in schema[key].as_array().into_iter().flatten() {
            collect_limits(part, schemas, found);
        }
    }
    let mut of_items = Vec::new();
    collect_limits(&schema["items"], schemas, &mut of_items);
    if !of_items.is_empty() {
        found.push(format!("each {}", of_items.join(", ")));
    }
}

/// Returns a string as it is, and any other value as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Escapes text for a table cell.
pub(super) fn cell(text: &str) -> String {
    text.trim().replace('\n', " ").replace('|', "\\|")
}

/// Returns a paragraph as one line. A list keeps its lines.
fn paragraph(text: &str) -> String {
    if text.starts_with("- ") { text.to_owned() } else { cell(text) }
}

/// Returns the section of a schema: its description, its rules and its fields.
pub(super) fn section(schema: &Value, schemas: &Schemas<'_>) -> String {
    let paragraphs = schema["description"].as_str().unwrap_or_default().split("\n\n");
    let mut text = format!("{}\n", paragraphs.map(paragraph).collect::<Vec<_>>().join("\n\n"));
    if schema["minProperties"] == 1 && schema.get("maxProperties").is_none() {
        text.push_str("\nAt least 1 of its fields is given.\n");
    }
    let rows: String = with_parts(schema).map(|part| fields(part, schemas)).collect();
    if !rows.is_empty() {
        text.push_str("\n| field | type | required | limits | meaning |\n|---|---|---|---|---|\n");
        text.push_str(&rows);
    }
    let of_parts = extended(schema, schemas);
    if !of_parts.is_empty() {
        text.push_str(&format!("\nIt also has the fields of {}.\n", of_parts.join(", ")));
    }
    if rows.is_empty() && of_parts.is_empty() {
        let (type_of, limits) = (type_of(schema, schemas), limits(schema, schemas));
        let limits = if limits.is_empty() { limits } else { format!(": {limits}") };
        text.push_str(&format!("\nType: {type_of}{limits}.\n"));
    }
    text
}

/// Returns the schemas whose fields a schema has besides its own.
fn extended(schema: &Value, schemas: &Schemas<'_>) -> Vec<String> {
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let flat = parts.flat_map(|part| {
        let alternatives = part["oneOf"].as_array().into_iter().flatten();
        std::iter::once(part).chain(alternatives)
    });
    flat.filter_map(name_of).map(|name| link(name, schemas)).collect()
}

/// Returns a schema and the parts of its `allOf`.
fn with_parts(schema: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(schema).chain(schema["allOf"].as_array().into_iter().flatten())
}

fn fields(schema: &Value, schemas: &Schemas<'_>) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut rows = String::new();
    for (name, field) in object(&schema["properties"]) {
        let need = if required.contains(&name.as_str()) { "yes" } else { "" };
        rows.push_str(&format!(
            "| `{name}` | {} | {need} | {} | {} |\n",
            type_of(field, schemas),
            limits(field, schemas),
            cell(&meaning(field)),
        ));
    }
    rows
}

/// Returns the description of a field. An alternative with `null` has it inside.
fn meaning(field: &Value) -> String {
    let of = |value: &Value| value["description"].as_str().map(str::to_owned);
    let inner = || field["oneOf"].as_array().into_iter().flatten().find_map(of);
    of(field).or_else(inner).unwrap_or_default()
}
