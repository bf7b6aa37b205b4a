//! Pieces of the OpenAPI document that cannot be derived from a type.

use serde_json::json;
use utoipa::openapi::{
    RefOr,
    schema::{ObjectBuilder, OneOfBuilder, Schema, Type},
};

/// Text or an integer.
pub(super) fn text_or_integer(description: &str, example: &str) -> RefOr<Schema> {
    let schema = OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::String))
        .item(ObjectBuilder::new().schema_type(Type::Integer))
        .description(Some(description))
        .examples([json!(example)])
        .build();
    RefOr::T(Schema::OneOf(schema))
}

/// An integer from 0 on.
pub(super) fn integer() -> RefOr<Schema> {
    RefOr::T(Schema::Object(
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).build(),
    ))
}
