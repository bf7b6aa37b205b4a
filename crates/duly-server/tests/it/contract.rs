//! Compares the HTTP interface with the committed snapshot of its OpenAPI document: clients that were
//! written for `contract/openapi.json` still work.
//!
//! `cargo xtask contract` replaces the snapshot, together with a changelog entry.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

const SNAPSHOT: &str = "contract/openapi.json";
const PRESENT: &str = "docs/reference/openapi.json";
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose values must be equal.
const SAME: [&str; 7] =
    ["$ref", "type", "format", "pattern", "additionalProperties", "const", "not"];
/// Keywords whose value lists values: closed, and open at the end.
const VALUES: [&str; 2] = ["enum", "x-extensible-enum"];
/// Upper and lower bounds of what callers may send.
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];

fn document(path: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join(path)).expect("the document is committed");
    serde_json::from_str(&text).expect("it is JSON")
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the schemas that a part of a document names, directly or by others.
fn reached<'a>(document: &'a Value, part: &'a Value, found: &mut BTreeSet<&'a str>) {
    for (key, value) in entries(part) {
        let name = value.as_str().and_then(|path| path.strip_prefix("#/components/schemas/"));
        match name.filter(|_| key == "$ref") {
            Some(name) if found.insert(name) => {
                reached(document, &document["components"]["schemas"][name], found);
            }
            _ => reached(document, value, found),
        }
    }
    part.as_array().into_iter().flatten().for_each(|item| reached(document, item, found));
}

/// The use of a schema.
#[derive(Clone, Copy)]
struct Use {
    is_sent: bool,
    is_read: bool,
}

/// Notes the incompatible changes from the old schema to the new one.
fn compare(place: &str, old: &Value, new: &Value, of: Use, breaks: &mut Vec<String>) {
    for key in SAME.into_iter().filter(|key| old[key] != new[key]) {
        breaks.push(format!("{place}: {key} is {} and was {}", new[key], old[key]));
    }
    let (was, is) = (texts(&old["required"]), texts(&new["required"]));
    for name in is.difference(&was).filter(|_| of.is_sent) {
        breaks.push(format!("{place}: {name} is required"));
    }
    for name in was.difference(&is).filter(|_| of.is_read) {
        breaks.push(format!("{place}: {name} may be left out"));
    }
    for key in VALUES {
        for value in texts(&old[key]).difference(&texts(&new[key])) {
            breaks.push(format!("{place}: {value:?} is not allowed any more"));
        }
    }
    let bound = |schema: &Value, key: &str| schema[key].as_f64();
    for (keys, tighter) in
        [(UPPER, f64::lt as fn(&f64, &f64) -> bool), (LOWER, f64::gt as fn(&f64, &f64) -> bool)]
    {
        for key in keys.into_iter().filter(|_| of.is_sent) {
            let is_tighter = match (bound(old, key), bound(new, key)) {
                (Some(was), Some(is)) => tighter(&is, &was),
                (was, is) => was.is_none() && is.is_some(),
            };
            if is_tighter {
                breaks.push(format!("{place}: {key} is {} and was {}", new[key], old[key]));
            }
        }
    }
    for (name, property) in entries(&old["properties"]) {
        match new["properties"].get(name) {
            Some(found) => compare(&format!("{place}.{name}"), property, found, of, breaks),
            None => breaks.push(format!("{place}.{name} is gone")),
        }
    }
    if old.get("items").is_some() {
        compare(&format!("{place}[]"), &old["items"], &new["items"], of, breaks);
    }
    for key in LISTS {
        let (was, is) = (old[key].as_array(), new[key].as_array());
        let (was, is) = (was.map_or(&[][..], Vec::as_slice), is.map_or(&[][..], Vec::as_slice));
        if is.len() < was.len() {
            breaks.push(format!("{place}: {key} has fewer schemas"));
        }
        for (i, (was, is)) in was.iter().zip(is).enumerate() {
            compare(&format!("{place}.{key}[{i}]"), was, is, of, breaks);
        }
    }
}

/// Returns the incompatible changes from the old interface to the new one.
fn breaks(old: &Value, new: &Value) -> Vec<String> {
    let mut breaks = Vec::new();
    let (mut sent, mut read) = (BTreeSet::new(), BTreeSet::new());
    for (path, methods) in entries(&old["paths"]) {
        for (method, operation) in entries(methods) {
            let found = &new["paths"][path][method];
            let place = format!("{method} {path}");
            if found.is_null() {
                breaks.push(format!("{place} is gone"));
                continue;
            }
            reached(old, &operation["parameters"], &mut sent);
            reached(old, &operation["requestBody"], &mut sent);
            reached(old, &operation["responses"], &mut read);
            parameters(&place, operation, found, &mut breaks);
            let content = |operation: &Value| operation["requestBody"]["content"].clone();
            contents(&place, &content(operation), &content(found), true, &mut breaks);
            for (status, response) in entries(&operation["responses"]) {
                let place = format!("{place} {status}");
                match operation["responses"].get(status).and(found["responses"].get(status)) {
                    Some(found) => {
                        let (was, is) = (&response["content"], &found["content"]);
                        contents(&place, was, is, false, &mut breaks);
                    }
                    None => breaks.push(format!("{place} is gone")),
                }
            }
        }
    }
    for (name, schema) in entries(&old["components"]["schemas"]) {
        let of = Use { is_sent: sent.contains(&**name), is_read: read.contains(&**name) };
        match new["components"]["schemas"].get(name) {
            Some(found) => compare(name, schema, found, of, &mut breaks),
            None => breaks.push(format!("{name} is gone")),
        }
    }
    breaks
}

fn parameters(place: &str, old: &Value, new: &Value, breaks: &mut Vec<String>) {
    let all = |operation: &Value| operation["parameters"].as_array().cloned().unwrap_or_default();
    let (was, is) = (all(old), all(new));
    let named = |parameters: &[Value], wanted: &Value| {
        let same = |it: &&Value| it["name"] == wanted["name"] && it["in"] == wanted["in"];
        parameters.iter().find(same).cloned()
    };
    let of = Use { is_sent: true, is_read: false };
    for parameter in &was {
        let place = format!("{place}: {}", parameter["name"]);
        match named(&is, parameter) {
            Some(found) => compare(&place, &parameter["schema"], &found["schema"], of, breaks),
            None => breaks.push(format!("{place} is gone")),
        }
    }
    for parameter in is.iter().filter(|it| it["required"] == json!(true)) {
        if named(&was, parameter).is_none_or(|it| it["required"] != json!(true)) {
            breaks.push(format!("{place}: {} is required", parameter["name"]));
        }
    }
}

/// Compares the media types of a body.
fn contents(place: &str, old: &Value, new: &Value, is_sent: bool, breaks: &mut Vec<String>) {
    for (media, content) in entries(old) {
        let place = format!("{place} {media}");
        let of = Use { is_sent, is_read: !is_sent };
        match new.get(media) {
            Some(found) => compare(&place, &content["schema"], &found["schema"], of, breaks),
            None => breaks.push(format!("{place} is gone")),
        }
    }
}

#[test]
fn the_http_interface_is_compatible_with_its_snapshot() {
    let breaks = breaks(&document(SNAPSHOT), &document(PRESENT));
    assert!(
        breaks.is_empty(),
        "clients written for {SNAPSHOT} would break: {breaks:#?}\nIf that is meant, add a changelog \
         entry and run `cargo xtask contract`."
    );
}

#[test]
fn a_break_of_the_http_interface_is_noticed() {
    type Edit = fn(&mut Value);
    let timer = "/v1/namespaces/{namespace}/timers";
    let edits: [(Edit, &str); 10] = [
        (
            |it| drop(it["paths"].as_object_mut().unwrap().remove("/v1/cluster")),
            "get /v1/cluster is gone",
        ),
        (
            |it| it["components"]["schemas"]["ScheduleRequest"]["required"] = json!(["id"]),
            "id is required",
        ),
        (|it| it["components"]["schemas"]["Timer"]["required"] = json!([]), "may be left out"),
        (
            |it| {
                let timer = &mut it["components"]["schemas"]["Timer"]["properties"];
                timer.as_object_mut().unwrap().remove("tombstone");
            },
            "Timer.tombstone is gone",
        ),
        (
            |it| {
                it["components"]["schemas"]["Timer"]["properties"]["revision"]["type"] =
                    json!("string")
            },
            "Timer.revision: type is",
        ),
        (
            |it| it["components"]["schemas"]["IfExists"]["enum"] = json!(["keep"]),
            "\"fail\" is not allowed",
        ),
        (
            |it| {
                let code = &mut it["components"]["schemas"]["Problem"]["properties"]["code"];
                code["x-extensible-enum"].as_array_mut().unwrap().retain(|it| it != "dead");
            },
            "Problem.code: \"dead\" is not allowed",
        ),
        (
            |it| {
                it["components"]["schemas"]["ScheduleRequest"]["properties"]["tags"]["maxItems"] =
                    json!(1)
            },
            "maxItems is 1",
        ),
        (
            |it| {
                let post = &mut it["paths"]["/v1/namespaces/{namespace}/timers"]["post"];
                post["responses"].as_object_mut().unwrap().remove("201");
            },
            "201 is gone",
        ),
        (
            |it| {
                let get = &mut it["paths"]["/v1/namespaces/{namespace}/timers"]["get"];
                let new = json!({"name": "further", "in": "query", "required": true, "schema": {}});
                get["parameters"].as_array_mut().unwrap().push(new);
            },
            "\"further\" is required",
        ),
    ];
    let old = document(PRESENT);
    assert!(old["paths"].get(timer).is_some());
    for (edit, expected) in edits {
        let mut new = old.clone();
        edit(&mut new);
        let found = breaks(&old, &new);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
    }
    let mut larger = old.clone();
    larger["components"]["schemas"]["Timer"]["properties"]["further"] = json!({"type": "string"});
    let code = &mut larger["components"]["schemas"]["Problem"]["properties"]["code"];
    code["x-extensible-enum"].as_array_mut().unwrap().push(json!("further"));
    larger["paths"]["/v2/further"] = json!({"get": {}});
    assert_eq!(breaks(&old, &larger), Vec::<String>::new(), "additions are compatible");
}
