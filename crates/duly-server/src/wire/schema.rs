//! Pieces of the OpenAPI document that cannot be derived from a type.

use serde_json::json;
use utoipa::openapi::{
    RefOr,
    schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type},
};

/// The highest integer that a time or a duration may be: 2200-01-01 in milliseconds.
const MS_MAX: i64 = 7_258_118_400_000;

/// What a text means.
#[derive(Debug, Clone, Copy)]
pub(super) enum Means {
    /// RFC 3339.
    Time,
    /// `1d2h30m`.
    Duration,
}

/// Text or an integer of milliseconds.
pub(super) fn text_or_integer(means: Means, description: &str, example: &str) -> RefOr<Schema> {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let text = match means {
        Means::Time => text.format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))),
        Means::Duration => {
            text.pattern(Some("^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"))
        }
    };
    let number =
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(MS_MAX));
    let schema = OneOfBuilder::new()
        .item(text)
        .item(number)
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
