//! The OpenAPI document has no form of which a generator makes a client that does not compile.
//!
//! `cargo xtask clients --all` compiles the clients themselves.

use std::collections::BTreeSet;

use duly_server::openapi_json;
use serde_json::{Value, json};

use super::entries;

/// Types that clients of Go and Java import or define, besides those of the document.
const TAKEN: [&str; 17] = [
    "Bool", "Date", "Duration", "File", "Float32", "Float64", "Instant", "Int", "Int32", "Int64",
    "JSON", "List", "Map", "Object", "Pair", "String", "Time",
];
/// Ends of the names that generators give to the types of an operation.
const OF_OPERATIONS: [&str; 4] = ["Data", "Error", "Params", "Response"];
/// Beginnings of the names that generators give to what belongs to a type.
const OF_TYPES: [&str; 2] = ["New", "Nullable"];

/// Returns `list_audit` as `ListAudit`.
fn pascal(name: &str) -> String {
    let words = name.split('_').filter_map(|word| word.split_at_checked(1));
    words.map(|(first, rest)| first.to_uppercase() + rest).collect()
}

/// Calls `look` with the pointer of each object of the document, and with the object.
fn each_object(place: &str, value: &Value, look: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            look(place, value);
            fields.iter().for_each(|(name, it)| each_object(&format!("{place}/{name}"), it, look));
        }
        Value::Array(items) => items.iter().for_each(|it| each_object(place, it, look)),
        _ => {}
    }
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the forms of the document that a generator does not take.
fn faults(document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut taken: BTreeSet<String> = TAKEN.map(str::to_owned).into();
    for name in schemas.keys() {
        taken.extend(OF_TYPES.map(|word| format!("{word}{name}")));
    }
    let mut changes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let body = &methods["patch"]["requestBody"]["content"]["application/json"]["schema"];
        changes.extend(body["$ref"].as_str().and_then(|it| it.strip_prefix('#')));
        for operation in entries(methods) {
            let id = pascal(operation["operationId"].as_str().unwrap());
            taken.extend(OF_OPERATIONS.map(|word| format!("{id}{word}")));
            for (status, response) in operation["responses"].as_object().unwrap() {
                if response["content"].as_object().is_some_and(|content| content.len() > 1) {
                    faults.push(format!("{path}: {status} has two media types"));
                }
            }
        }
    }
    for (name, schema) in schemas {
        if taken.contains(name) {
            faults.push(format!("the name of {name} is taken"));
        }
        // ogen sends an absent field of such a schema as nothing after its name.
        if !["type", "oneOf", "allOf"].iter().any(|key| schema.get(key).is_some()) {
            faults.push(format!("{name} is any JSON"));
        }
    }
    let mut values = BTreeSet::new();
    each_object("", document, &mut |place, object| {
        let is_change = changes.iter().any(|change| place.starts_with(&format!("{change}/")));
        if object["type"].is_array() && !is_change {
            faults.push(format!("{place}: several types"));
        }
        for key in ["oneOf", "anyOf", "allOf"] {
            for part in list(object, key) {
                if part["type"] == "null" && !(key == "anyOf" && is_change) {
                    faults.push(format!("{place}: {key} with null"));
                }
                if part.get("type").is_none() && part.get("$ref").is_none() {
                    faults.push(format!("{place}: {key} of a rule"));
                }
            }
        }
        if object.get("not").is_some_and(Value::is_object) {
            faults.push(format!("{place}: not"));
        }
        if list(object, "required").contains(&json!("this")) {
            faults.push(format!("{place}: this is required"));
        }
        let (words, names) = (list(object, "enum"), list(object, "x-enum-varnames"));
        if words.len() != names.len() {
            faults.push(format!("{place}: values without a name"));
        }
        for name in names.iter().filter(|name| !values.insert(name.to_string())) {
            faults.push(format!("{place}: {name} exists twice"));
        }
    });
    faults
}

#[test]
fn the_document_has_only_forms_that_generators_take() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    assert_eq!(faults(&document), Vec::<String>::new());
}

#[test]
fn each_form_that_a_generator_refuses_is_noticed() {
    let edits = [
        ("/components/schemas/ListAuditResponse", json!({}), "name of ListAuditResponse is taken"),
        ("/components/schemas/AnyJson", json!({}), "AnyJson is any JSON"),
        ("/components/schemas/NewKey", json!({}), "name of NewKey is taken"),
        ("/components/schemas/Time", json!({}), "name of Time is taken"),
        (
            "/components/schemas/Destination/allOf",
            json!([{"oneOf": [{"required": ["pull"]}, {"required": ["http"]}]}]),
            "allOf of a rule",
        ),
        ("/components/schemas/Timer/not", json!({"required": ["id"]}), "Timer: not"),
        (
            "/components/schemas/LeaseRequest/properties/wait",
            json!({"oneOf": [{"$ref": "#/components/schemas/DurationOrZero"}, {"type": "null"}]}),
            "wait: oneOf with null",
        ),
        (
            "/components/schemas/LeaseRequest/properties/max/type",
            json!(["integer", "null"]),
            "max: several types",
        ),
        (
            "/components/schemas/LeaseRequest/properties/wait",
            json!({"anyOf": [{"$ref": "#/components/schemas/DurationOrZero"}, {"type": "null"}]}),
            "wait: anyOf with null",
        ),
        (
            "/components/schemas/NamespaceSettings/properties/lease",
            json!({"oneOf": [{"$ref": "#/components/schemas/DurationOrZero"}, {"type": "null"}]}),
            "lease: oneOf with null",
        ),
        ("/components/schemas/Node/required", json!(["this"]), "this is required"),
        ("/components/schemas/State/x-enum-varnames", json!([]), "State: values without a name"),
        (
            "/components/schemas/View/x-enum-varnames",
            json!(["RESULTS_ALL", "RESULTS_ERRORS"]),
            "\"RESULTS_ALL\" exists twice",
        ),
        (
            "/paths/~1v1~1namespaces~1{namespace}~1batch/post/responses/200/content/text~1plain",
            json!({"schema": {"type": "string"}}),
            "200 has two media types",
        ),
    ];
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    for (place, form, expected) in edits {
        let mut edited = document.clone();
        let (parent, key) = place.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/");
        edited.pointer_mut(parent).unwrap()[key] = form;
        let found = faults(&edited);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:?}");
    }
}
