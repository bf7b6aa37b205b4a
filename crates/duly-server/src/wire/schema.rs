//! Pieces of the OpenAPI document that cannot be derived from a type.

use serde_json::json;
use utoipa::openapi::{
    RefOr,
    schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type},
};

/// A time: text, or an integer of milliseconds.
pub(super) fn time() -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    // From 1973-03-03, since a smaller number is likely to count seconds, to 2200-01-01.
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(100_000_000_000_i64))
        .maximum(Some(7_258_118_400_000_i64));
    either(
        text,
        number,
        "A time: RFC 3339 with any offset, from 1970-01-01 to 2200-01-01, or integer Unix milliseconds from 100000000000 on. Digits below a millisecond round up.",
        "2030-01-31T12:00:00.000Z",
    )
}

/// A duration: text, or 0.
pub(super) fn duration() -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"));
    let zero = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(0));
    either(
        text,
        zero,
        "A duration: units d, h, m, s, ms, each once, falling; or 0. Another number without a unit is refused.",
        "2h30m",
    )
}

fn either(
    text: ObjectBuilder,
    number: ObjectBuilder,
    description: &str,
    example: &str,
) -> RefOr<Schema> {
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
