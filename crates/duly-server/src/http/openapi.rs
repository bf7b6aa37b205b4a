//! `GET /openapi.json`: the description of this interface, generated from its code.
//!
//! Types and routes describe themselves. [`complete`] adds what no derive can express or every call has:
//! rules about several fields, the parameters of paths, refusals, and the form of values in responses.
//!
//! Generators of clients do not know all of JSON Schema. The document has only forms that they take:
//!
//! 1. A rule about several fields is a sentence of the description.
//! 2. `null` is no value, except in the change of a `PATCH`, where it resets a field. It is one of the types of
//!    the field, or beside its schema in `anyOf`.
//! 3. The values of each enumeration have names that begin with that of the enumeration.
//! 4. A response has one media type. `x-lines` names that of the stream that it can be instead.

use std::{collections::BTreeSet, sync::LazyLock};

use axum::{body::Body, response::Response};
use duly_api::{
    Problem, Time, View,
    batch::Results,
    schema::{AT_MOST_ONE, EXACTLY_ONE, Timestamp},
};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use utoipa::{
    OpenApi, ToSchema as _,
    openapi::{
        RefOr,
        path::{Operation, Parameter, ParameterIn},
    },
};

use crate::operations::of_http;

use super::{
    body::{JSON, NDJSON},
    response::{self, PROBLEM_JSON},
};

const SCHEMAS: &str = "#/components/schemas/";

/// The parameters of paths, by the part of a path that has them, with their descriptions; the last one first.
const PATH_PARAMETERS: [(&str, &str, &str); 4] = [
    ("/timers/{id}", "id", "Id of the timer, percent-encoded (`/` as `%2F`)"),
    ("/keys/{id}", "id", "Id of the key"),
    ("/{tenant}", "tenant", "Name of the tenant"),
    ("/{namespace}", "namespace", "Name of the namespace"),
];

/// The refusals that every call can return.
const REFUSALS: [(&str, &str); 2] = [
    ("4XX", "Refused; nothing changed."),
    ("5XX", "Not done, or the outcome is not known: the code says which."),
];

/// The parts of the document besides paths and bodies.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Duly",
        description = "A distributed timer: deliver this payload at that time, unless cancelled.\n\nTimes in are RFC 3339 with any offset or integer Unix milliseconds from 253402300800 on, times out UTC with three decimals. Durations are text such as `2h30m`, or 0; another number without a unit is refused. Unknown fields are refused. Every error is `application/problem+json`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "http://127.0.0.1:3859", description = "The default of server.listen")),
    tags(
        (name = "timers", description = "Schedule, read, change and cancel timers."),
        (name = "pull", description = "Lease due firings and settle them."),
        (name = "dead letters", description = "Redrive and purge dead letters."),
        (name = "namespaces", description = "Settings, counts and states of namespaces."),
        (name = "moving", description = "Move timers from one server to another."),
        (name = "keys", description = "Keys of callers, and the rights of the caller."),
        (name = "service", description = "Health, metrics, backups and repairs.")
    ),
    components(schemas(Problem, Results, Timestamp, View))
)]
pub(super) struct Document;

/// Returns the OpenAPI 3.1 document: JSON, indented, in a stable order, with a newline at its end.
#[expect(clippy::expect_used, reason = "the document is made of plain text and numbers")]
pub fn openapi_json() -> String {
    let (_, document) = super::routes().split_for_parts();
    let mut value = serde_json::to_value(&document).expect("the document is plain JSON");
    complete(&mut value);
    let mut text = serde_json::to_string_pretty(&value).expect("the document is plain JSON");
    text.push('\n');
    text
}

fn complete(document: &mut Value) {
    document["components"]["securitySchemes"] = json!({"apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key, as `duly key create` prints it. A server that requires no keys ignores it.",
    }});
    document["security"] = json!([{"apiKey": []}, {}]);
    for (path, calls) in entries(&mut document["paths"]) {
        entries(calls).for_each(|(method, call)| complete_call(path, method, call));
    }
    let resume = &mut document["paths"]["/v1/namespaces/{namespace}/resume"]["post"];
    resume["requestBody"]["required"] = json!(false);
    each_object(document, &mut |object| {
        if object["format"] == "int32" {
            // Unsigned 32-bit numbers do not fit a signed one.
            object["format"] = json!("int64");
            object.as_object_mut().map(|it| it.entry("maximum").or_insert(json!(u32::MAX)));
        }
        let check = match (object["in"].as_str(), object["name"].as_str()) {
            (Some("path"), Some("namespace")) => json!({
                "type": "string",
                "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
            }),
            (Some("path"), Some("tenant")) => json!({ "type": "string" }),
            (Some("path"), Some("id")) if object["description"] == "Id of the key" => json!({
                "type": "string",
                "pattern": "^[0-9a-hjkmnp-tv-z]{10}$",
            }),
            (Some("path"), Some("id")) => json!({
                "type": "string",
                "minLength": 1,
                "maxLength": 256,
                "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$",
            }),
            _ => return,
        };
        object["schema"] = check;
    });
    let schemas = document["components"]["schemas"].clone();
    // A result has the fields of a cancelled timer, or none of them.
    let cancelled = schemas["Cancelled"]["properties"].clone();
    let result = &mut document["components"]["schemas"]["OperationResult"];
    let own = result["allOf"][1]["properties"].clone();
    let fields = [cancelled, own].into_iter().filter_map(|it| it.as_object().cloned()).flatten();
    *result = json!({
        "type": "object",
        "description": result["description"],
        "properties": fields.collect::<serde_json::Map<_, _>>(),
    });
    let (mut sent, mut read) = (BTreeSet::new(), BTreeSet::new());
    each_object(document, &mut |object| {
        for key in ["requestBody", "parameters"] {
            reach(&schemas, &object[key], &mut sent);
        }
        reach(&schemas, &object["responses"], &mut read);
    });
    let mut changes = BTreeSet::new();
    for (_, calls) in entries(&mut document["paths"]) {
        changes.extend(name_of(&calls["patch"]["requestBody"]["content"][JSON]["schema"]));
        for (_, call) in entries(calls) {
            if let Some(parameters) = call.get_mut("parameters") {
                each_object(parameters, &mut |object| without_null(object, false));
            }
        }
    }
    for (name, schema) in entries(&mut document["components"]["schemas"]) {
        let is_change = changes.contains(name);
        each_object(schema, &mut |object| without_null(object, is_change));
        if read.contains(name) && !sent.contains(name) {
            each_object(schema, &mut as_in_responses);
        }
        let own = schema["description"].as_str().map(str::to_owned);
        let lines: Vec<_> = own.into_iter().chain(rules(name)).collect();
        if !lines.is_empty() {
            schema["description"] = json!(lines.join("\n\n"));
        }
        if let Some(words) = schema["enum"].as_array() {
            let names: Vec<_> = words.iter().map(|word| value_name(name, word)).collect();
            schema["x-enum-varnames"] = json!(names);
        }
        let is_closed = schema["additionalProperties"] == json!(false);
        let count = schema["properties"].as_object().map(serde_json::Map::len);
        let is_all = |(of, fields): &(&str, &[&str])| *of == name && Some(fields.len()) == count;
        if is_closed && EXACTLY_ONE.iter().any(is_all) {
            schema["minProperties"] = json!(1);
            schema["maxProperties"] = json!(1);
        }
    }
}

/// Returns the name of a value of an enumeration in generated clients: `STATE_DUE`.
fn value_name(enumeration: &str, word: &Value) -> String {
    let mut name = String::new();
    for letter in enumeration.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter);
    }
    format!("{name}_{}", word.as_str().unwrap_or_default()).to_uppercase()
}

/// Adds the right, the repetition and the time limit of the operation, the parameters of the path that the call does
/// not describe itself, and the refusals that every call can return.
fn complete_call(path: &str, method: &str, call: &mut Value) {
    let method = Method::try_from(method.to_uppercase().as_str()).unwrap_or_default();
    let operation = of_http(&method, path);
    call["x-duly-right"] = json!(operation.right.name());
    call["x-duly-repeat"] = json!(operation.repeat);
    call["x-duly-time-limit"] = json!(operation.time_limit);
    let mut parameters = call["parameters"].as_array().cloned().unwrap_or_default();
    for (part, name, description) in PATH_PARAMETERS {
        let is_described = parameters.iter().any(|parameter| parameter["name"] == name);
        if path.contains(part) && !is_described {
            let parameter = json!({
                "name": name, "in": "path", "description": description, "required": true,
            });
            parameters.insert(0, parameter);
        }
    }
    if !parameters.is_empty() {
        call["parameters"] = json!(parameters);
    }
    for (status, description) in REFUSALS {
        let schema = json!({ "schema": { "$ref": format!("{SCHEMAS}Problem") } });
        call["responses"][status] =
            json!({ "description": description, "content": { PROBLEM_JSON: schema } });
    }
    for (_, response) in entries(&mut call["responses"]) {
        let content = response.get_mut("content").and_then(Value::as_object_mut);
        if content.is_some_and(|content| content.remove(NDJSON).is_some()) {
            response["x-lines"] = json!(NDJSON);
        }
    }
}

/// Returns the fields of an object.
fn entries(object: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    object.as_object_mut().into_iter().flatten()
}

/// Returns the rules about several fields of a schema, in words.
fn rules(name: &str) -> impl Iterator<Item = String> {
    let exactly = EXACTLY_ONE.iter().map(|rule| ("Exactly one", rule));
    let at_most = AT_MOST_ONE.iter().map(|rule| ("At most one", rule));
    exactly
        .chain(at_most)
        .filter(move |(_, (of, _))| *of == name)
        .map(|(words, (_, fields))| format!("{words} of `{}` is given.", fields.join("`, `")))
}

/// Removes `null` from a schema. In a change it stays, in a list of types or in `anyOf`.
fn without_null(object: &mut Value, is_change: bool) {
    if object["default"].is_null() {
        object.as_object_mut().map(|it| it.remove("default"));
    }
    if let Some(kinds) = object["type"].as_array().filter(|_| !is_change) {
        let mut kinds = kinds.iter().filter(|kind| **kind != "null");
        object["type"] = kinds.next().cloned().unwrap_or_default();
    }
    if let Some(parts) = object["oneOf"].as_array() {
        let parts: Vec<_> = parts.iter().filter(|part| part["type"] != "null").cloned().collect();
        if let [part] = &parts[..] {
            let description = [&*object, part].map(|it| it["description"].clone());
            let description = description.into_iter().find(|it| !it.is_null());
            *object = match is_change {
                true => json!({ "anyOf": [part, { "type": "null" }] }),
                false => part.clone(),
            };
            if let Some(description) = description {
                object["description"] = description;
            }
        }
    }
}

/// Changes a schema to its form in responses: times are text.
fn as_in_responses(object: &mut Value) {
    if object["$ref"] == format!("{SCHEMAS}{}", Time::name()) {
        object["$ref"] = json!(format!("{SCHEMAS}Timestamp"));
    }
}

/// Returns the name of the schema that a part of the document refers to.
fn name_of(part: &Value) -> Option<String> {
    part["$ref"].as_str().and_then(|path| path.strip_prefix(SCHEMAS)).map(str::to_owned)
}

/// Adds the names of the schemas that a part of the document needs.
fn reach(schemas: &Value, part: &Value, found: &mut BTreeSet<String>) {
    if let Some(name) = name_of(part)
        && found.insert(name.clone())
    {
        reach(schemas, &schemas[name], found);
    }
    part.as_object().into_iter().flatten().for_each(|(_, value)| reach(schemas, value, found));
    part.as_array().into_iter().flatten().for_each(|value| reach(schemas, value, found));
}

/// Calls `change` with every object of a JSON value, the inner ones first.
fn each_object(value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(_, field)| each_object(field, change));
            change(value);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_object(item, change)),
        _ => {}
    }
}

/// The OpenAPI document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "service",
    responses((status = 200, description = "OpenAPI 3.1.", body = serde_json::Value))
)]
pub(crate) async fn openapi() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(openapi_json);
    response::with_body(StatusCode::OK, Body::from(TEXT.as_str()))
}

/// Returns `true` if the operation of this name has query parameters.
pub(super) fn takes_query(name: &str) -> bool {
    static NAMES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let (_, document) = super::routes().split_for_parts();
        let items = document.paths.paths.into_values();
        let calls = items.flat_map(|it| [it.get, it.post, it.put, it.patch, it.delete]).flatten();
        calls.filter(has_query).filter_map(|call| call.operation_id).collect()
    });
    NAMES.contains(name)
}

fn has_query(operation: &Operation) -> bool {
    let is_query = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => true,
    };
    operation.parameters.iter().flatten().any(is_query)
}
