//! The range of an integer is one range: the OpenAPI document, the check and every error have the same.

use std::collections::BTreeSet;

use duly_api::number::integers;
use duly_server::http::openapi_json;
use serde_json::{Value, json};

use crate::bench::Bench;

/// A field of a body, or a parameter of a query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    method: String,
    path: String,
    /// Path of the field; the name of a parameter.
    field: String,
    is_query: bool,
    low: u64,
    high: u64,
}

/// Fields whose range depends on the rest of the body, or on the deployment.
const DEPENDENT: [&str; 3] = ["budget_from", "history[0].attempt", "shards[0]"];

/// Returns the integers of all requests. Times and durations have a number among other forms.
fn numbers() -> BTreeSet<Number> {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut found = BTreeSet::new();
    for (path, calls) in document["paths"].as_object().unwrap() {
        for (method, call) in calls.as_object().unwrap() {
            let mut add = |field: &str, schema: &Value, is_query: bool| {
                found.insert(Number {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    field: field.to_owned(),
                    is_query,
                    low: schema["minimum"].as_u64().unwrap(),
                    high: schema["maximum"].as_u64().unwrap_or(u64::MAX),
                });
            };
            for parameter in call["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "query" && is_integer(&parameter["schema"]) {
                    add(parameter["name"].as_str().unwrap(), &parameter["schema"], true);
                }
            }
            let body = &call["requestBody"]["content"]["application/json"]["schema"];
            walk(&document, body, "", &mut |field, schema| add(field, schema, false));
        }
    }
    found.retain(|number| !DEPENDENT.iter().any(|field| number.field.ends_with(field)));
    found
}

fn is_integer(schema: &Value) -> bool {
    let kind = &schema["type"];
    kind == "integer" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("integer")))
}

fn walk(document: &Value, schema: &Value, path: &str, found: &mut impl FnMut(&str, &Value)) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return walk(document, &document["components"]["schemas"][name], path, found);
    }
    let forms = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let is_other = |form: &Value| form["type"] == "string";
    for form in forms.into_iter().flatten().filter(|_| !forms.unwrap().iter().any(is_other)) {
        walk(document, form, path, found);
    }
    if is_integer(schema) {
        found(path, schema);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        walk(document, property, &path, found);
    }
    if schema["items"].is_object() {
        walk(document, &schema["items"], &format!("{path}[0]"), found);
    }
}

/// Returns a body that only needs the number.
fn body(number: &Number, exported: &Value) -> Value {
    let operation = number.field.strip_prefix("operations[0].").unwrap_or(&number.field);
    let destination = json!({ "http": { "url": "http://localhost/" } });
    match (&*number.path, operation.split('.').next().unwrap()) {
        (path, _) if path.ends_with("/timers") => json!({ "delay": "1h" }),
        (path, _) if path.ends_with("/timers/{id}") => json!({ "delay": "1h" }),
        (path, _) if path.ends_with("/import") => json!({ "timers": [exported] }),
        (path, _) if path.ends_with("/cancel") => json!({ "all": true, "dry_run": true }),
        (path, _) if path.ends_with("/settle") => json!({ "settlements": [] }),
        (path, _) if path.ends_with("{tenant}") => json!({ "namespaces": ["elsewhere"] }),
        (_, "schedule") => json!({ "operations": [{ "schedule": { "delay": "1h" } }] }),
        (_, "cancel") => json!({ "operations": [{ "cancel": { "id": "none" } }] }),
        (_, "reschedule") => {
            json!({ "operations": [{ "reschedule": { "id": "none", "delay": "1h" } }] })
        }
        (_, "fallback") => json!({ "fallback": { "destination": destination } }),
        _ => json!({}),
    }
}

/// Sets the value at a path, with the objects that lead to it.
fn set(mut at: &mut Value, path: &str, value: &Value) {
    for part in path.split('.') {
        at = match part.strip_suffix("[0]") {
            Some(name) => &mut at[name][0],
            None => &mut at[part],
        };
    }
    *at = value.clone();
}

/// Returns the error of a call, if it has one: of the call, or of its only item.
fn error(answer: Value) -> Option<Value> {
    let item = &answer["results"][0]["error"];
    let error = if item.is_object() { item.clone() } else { answer };
    error["code"].is_string().then_some(error)
}

#[tokio::test]
async fn every_range_in_an_error_is_the_one_of_the_check() {
    let bench = Bench::new();
    bench.schedule(r#"{"id":"t","delay":"1h"}"#).await.expect(201);
    let page = bench.get("/v1/namespaces/a/export").await.expect(200);
    let exported = &page["timers"][0];
    let numbers = numbers();
    assert!(numbers.len() > 40, "{}", numbers.len());
    for number in &numbers {
        let (low, high) = (i128::from(number.low), i128::from(number.high));
        let allowed = integers(low, high);
        let path = number.path.replace("{namespace}", "a").replace("{id}", "t");
        let path = path.replace("{tenant}", "acme");
        let call = async |value: &Value| {
            if number.is_query {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let path = format!("{path}?{}={text}", number.field);
                return bench.call(&number.method, &path, "").await.json();
            }
            let mut body = body(number, exported);
            set(&mut body, &number.field, value);
            bench.call(&number.method, &path, &body.to_string()).await.json()
        };
        let wrong = [-1, i128::from(i64::MIN), low - 1, high + 1].into_iter();
        let wrong = wrong.filter(|value| !(low..=high).contains(value));
        let wrong = wrong.filter_map(|value| {
            i64::try_from(value).map(Value::from).or(u64::try_from(value).map(Value::from)).ok()
        });
        for value in wrong.chain([json!(1.5), json!("x")]) {
            let error = error(call(&value).await).unwrap_or_else(|| panic!("{number:?} {value}"));
            assert_eq!(error["field"], *number.field, "{number:?} {value}: {error}");
            let text = error["allowed"].as_str().unwrap();
            let is_named = text == allowed || text.starts_with(&format!("{allowed},"));
            assert!(is_named, "{number:?} {value}: {error}");
        }
        for value in [number.low, number.high] {
            let error = error(call(&json!(value)).await).unwrap_or_default();
            assert_ne!(error["field"], *number.field, "{number:?} {value}: {error}");
        }
    }
}
