//! The OpenAPI document equals the committed one, and is complete.

mod generators;
mod nulls;

use std::{collections::BTreeSet, fs, path::Path};

use duly_core::Code;
use duly_server::openapi_json;
use serde_json::Value;

use crate::bench::Bench;

#[test]
fn openapi_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let made = openapi_json();
    if std::env::var_os("DULY_REGENERATE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/reference/openapi.json is stale: run the test again with DULY_REGENERATE=1"
    );
}

#[test]
fn every_path_of_the_contract_is_described() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    assert_eq!(document["openapi"].as_str().map(|v| &v[..3]), Some("3.1"));
    let ns = "/v1/namespaces/{namespace}";
    assert!(document["paths"]["/v1/store/backup"]["post"].is_object());
    let calls = [
        ("post get", "/timers"),
        ("get patch delete", "/timers/{id}"),
        ("post", "/timers/{id}/fire"),
        ("post", "/timers/{id}/forget"),
        ("post", "/batch"),
        ("post", "/cancel"),
        ("post", "/lease"),
        ("post", "/settle"),
        ("post", "/dead/redrive"),
        ("post", "/dead/purge"),
        ("get put patch delete", ""),
        ("post", "/pause"),
        ("post", "/resume"),
        ("post", "/repair"),
        ("get", "/stats"),
        ("get", "/forecast"),
        ("get", "/export"),
        ("post", "/import"),
    ];
    for (methods, path) in calls {
        for method in methods.split(' ') {
            let call = &document["paths"][format!("{ns}{path}")][method];
            assert!(call.is_object(), "{method} {ns}{path}");
            let answers = &call["responses"];
            assert!(answers["4XX"].is_object(), "{method} {ns}{path}: {answers}");
        }
    }
    for path in ["/v1/namespaces", "/healthz", "/readyz", "/metrics", "/openapi.json"] {
        assert!(document["paths"][path]["get"].is_object(), "{path}");
    }
}

#[test]
fn every_schema_field_and_parameter_has_a_description() {
    fn look(place: &str, value: &Value, missing: &mut Vec<String>) {
        let is_named = place.ends_with("/components/schemas") || place.ends_with("/properties");
        for (name, member) in value.as_object().into_iter().flatten() {
            let is_described = !member["description"].as_str().unwrap_or_default().is_empty();
            if is_named && !is_described {
                missing.push(format!("{place}/{name}"));
            }
            look(&format!("{place}/{name}"), member, missing);
        }
        for item in value.as_array().into_iter().flatten() {
            if item["in"].is_string() && item["description"].as_str().is_none_or(str::is_empty) {
                missing.push(format!("{place}: {}", item["name"]));
            }
            look(place, item, missing);
        }
    }
    let mut document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut missing = Vec::new();
    look("", &document, &mut missing);
    assert_eq!(missing, Vec::<String>::new());
    document["components"]["schemas"]["State"]["description"] = Value::Null;
    look("", &document, &mut missing);
    assert_eq!(missing, ["/components/schemas/State"]);
}

#[test]
fn each_list_of_exclusive_fields_is_the_same() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let (mut lists, schemas) = (0, document["components"]["schemas"].as_object().unwrap());
    for (name, schema) in schemas {
        let text = schema["description"].as_str().unwrap_or_default();
        let of_schema = text.split("xactly one of ").skip(1).map(|list| {
            let list = list.split(['.', ';', '\n']).next().unwrap();
            list.split('`').skip(1).step_by(2).collect::<Vec<_>>()
        });
        let mut of_schema = of_schema.filter(|list| !list.is_empty());
        let Some(first) = of_schema.next() else { continue };
        lists += 1;
        for field in &first {
            assert!(schema["properties"][field].is_object(), "{name}: {field}");
        }
        assert!(of_schema.all(|list| list == first), "{name}: {text}");
    }
    assert_eq!(lists, 10);
}

#[test]
fn each_operation_has_its_facts_and_refusals() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for operation in entries(methods) {
            for fact in ["x-duly-right", "x-duly-repeat", "x-duly-time-limit"] {
                assert!(operation[fact].is_string(), "{path}: {fact}");
            }
            for refusal in ["4XX", "5XX"] {
                let content = &operation["responses"][refusal]["content"];
                let schema = &content["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{path}: {refusal}");
            }
        }
    }
}

#[test]
fn each_value_of_an_enumeration_has_a_meaning() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut count = 0;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let text = schema["description"].as_str().unwrap();
        for word in schema["enum"].as_array().into_iter().flatten() {
            let word = word.as_str().unwrap();
            assert!(text.contains(&format!("\n- `{word}`: ")), "{name}: {word}: {text}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn codes_are_an_open_list() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let code = &document["components"]["schemas"]["Problem"]["properties"]["code"];
    // A closed list would make a client refuse the code of a newer server.
    assert_eq!(code["type"], "string");
    assert!(code.get("enum").is_none() && code.get("const").is_none(), "{code}");
    assert_eq!(code["x-extensible-enum"], serde_json::json!(Code::NAMES.to_vec()));
    assert_eq!(code["x-codes"].as_object().unwrap().len(), Code::ALL.len());
    for known in Code::ALL {
        let facts = &code["x-codes"][known.as_str()];
        assert_eq!(facts["status"], known.http_status(), "{facts}");
        assert_eq!(facts["repeat"], known.repeat().as_str(), "{facts}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                    found.insert(target.to_owned());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for target in found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target}");
    }
}

/// Generators name types after schemas and functions after operations. They name the types of
/// parameters, and of values without their own schema, after both.
#[test]
fn no_schema_name_collides() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut names: BTreeSet<String> = schemas.keys().map(|name| plain(name)).collect();
    assert_eq!(names.len(), schemas.len(), "two schemas differ in case alone");
    for operation in document["paths"].as_object().unwrap().values().flat_map(entries) {
        let id = operation["operationId"].as_str().unwrap();
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let enums = parameters.filter(|it| it["schema"]["enum"].is_array());
        let derived = enums.map(|it| format!("{id}_{}", it["name"].as_str().unwrap()));
        for name in derived.chain([id.to_owned()]) {
            assert!(names.insert(plain(&name)), "{name} is the name of a schema or operation");
        }
    }
}

fn entries(methods: &Value) -> impl Iterator<Item = &Value> {
    methods.as_object().unwrap().values()
}

#[tokio::test]
async fn it_is_served() {
    let bench = Bench::new();
    let answer = bench.get("/openapi.json").await;
    assert_eq!(answer.text, openapi_json());
}
