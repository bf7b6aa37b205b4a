//! The JSON form of every operation: the OpenAPI document without NDJSON streams.
//!
//! The generator of Python refuses a media type that it does not know. If an operation also takes
//! `application/x-ndjson`, this removes that media type and the parameter `results`, which the server refuses
//! with a JSON body.

use serde_json::Value;

/// The media type of an NDJSON stream.
const NDJSON: &str = "application/x-ndjson";

/// Removes the NDJSON streams from the document.
pub(super) fn reduce(document: &mut Value) {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(|all| all.values_mut());
    for operation in paths.flat_map(|path| path.as_object_mut()).flat_map(|all| all.values_mut()) {
        if let Some(content) = operation.pointer_mut("/requestBody/content")
            && remove_lines(content)
            && let Some(parameters) = operation["parameters"].as_array_mut()
        {
            parameters.retain(|parameter| parameter["name"] != "results");
        }
    }
}

fn remove_lines(content: &mut Value) -> bool {
    content.as_object_mut().is_some_and(|content| content.remove(NDJSON).is_some())
}

/// Returns the operations of the document.
pub(super) fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let paths = document["paths"].as_object().into_iter().flat_map(|all| all.values());
    paths.filter_map(Value::as_object).flat_map(|path| path.values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_streams_of_lines_are_left_out() {
        let body = serde_json::json!({"content": {"application/json": {}, NDJSON: {}}});
        let parameters = serde_json::json!([{"name": "namespace"}, {"name": "results"}]);
        let operation = serde_json::json!({
            "operationId": "batch",
            "parameters": parameters,
            "requestBody": body,
        });
        let mut document = serde_json::json!({"paths": {"/batch": {"post": operation}}});
        reduce(&mut document);
        let batch = operations(&document).next().unwrap();
        assert_eq!(batch["parameters"], serde_json::json!([{"name": "namespace"}]));
        assert_eq!(batch["requestBody"]["content"], serde_json::json!({"application/json": {}}));
    }
}
