//! Pieces of the OpenAPI document that cannot be derived from a type.

use duly_core::Code;
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        extensions::Extensions,
        schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type},
    },
};

/// Fields of which a message has exactly one.
pub const EXACTLY_ONE: [(&str, &[&str]); 10] = [
    ("ScheduleRequest", &["due_at", "delay"]),
    ("Destination", &["pull", "http"]),
    ("Operation", &["schedule", "cancel", "reschedule", "fire"]),
    ("OperationResult", &["timer", "outcome", "error"]),
    ("ImportResult", &["imported", "existing", "error"]),
    ("Settlement", &["ack", "retry", "snooze", "dead", "extend"]),
    ("SettleResult", &["outcome", "error"]),
    ("CancelManyRequest", &["filter", "all"]),
    ("RedriveRequest", &["ids", "delivery_ids", "all"]),
    ("PurgeRequest", &["ids", "delivery_ids", "all"]),
];

/// Fields of which a message has at most one.
pub const AT_MOST_ONE: [(&str, &[&str]); 4] = [
    ("ScheduleRequest", PAYLOADS),
    ("TimerPatch", PAYLOADS),
    ("TimerPatch", &["due_at", "delay"]),
    ("MovedTimer", PAYLOADS),
];

const PAYLOADS: &[&str] = &["payload", "payload_text", "payload_base64"];

/// A time in a response.
#[derive(Debug)]
pub struct Timestamp;

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let text = text()
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A time: RFC 3339 in UTC with three decimals."))
            .examples([json!("2030-01-31T12:00:00.000Z")]);
        RefOr::T(Schema::Object(text.build()))
    }
}

impl ToSchema for Timestamp {}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A time in a request: text, or an integer of milliseconds.
pub(crate) fn time() -> RefOr<Schema> {
    // From 1978-01-11, since a smaller number is likely to count seconds, to 2200-01-01.
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(duly_core::time::BARE_MS_MIN))
        .maximum(Some(7_258_118_400_000_i64));
    either(
        text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))),
        number,
        "A time: RFC 3339 with any offset, from 1970-01-01 to 2200-01-01, or integer Unix milliseconds from 253402300800 on. Digits below a millisecond round up. Texts that Java, .NET, Go, Python, JavaScript and PostgreSQL print for a time with its offset are accepted, too.",
        "2030-01-31T12:00:00.000Z",
    )
}

/// A duration: text, or 0.
pub(crate) fn duration() -> RefOr<Schema> {
    let zero = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(0));
    either(
        text().pattern(Some(
            "^(0+|(?=[0-9])(?=[^.]*([.][0-9]+[dhms]+)?$)([0-9.]+d)?([0-9.]+h)?([0-9.]+m)?([0-9.]+s)?([0-9.]+ms)?)$",
        )),
        zero,
        "A duration: units d, h, m, s, ms, each once, falling, the last with a fraction if need be (`1.5s`); or 0. Another number without a unit is refused. Less than a millisecond rounds up.",
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

/// The code of a problem: an open list of values, so its type is plain text. `x-extensible-enum` lists the
/// codes of this version in order, and `x-codes` has the facts of each.
pub(crate) fn code() -> RefOr<Schema> {
    let facts = Code::ALL.map(|code| {
        let facts = json!({
            "status": code.http_status(),
            "grpc": code.grpc().as_str(),
            "repeat": code.repeat().as_str(),
            "title": code.title(),
        });
        (code.as_str().to_owned(), facts)
    });
    let open = Extensions::from_iter([
        ("x-extensible-enum", Value::from(Code::NAMES.to_vec())),
        ("x-codes", Value::Object(Map::from_iter(facts))),
    ]);
    let code = text()
        .description(Some(
            "The stable code. The list is open: `x-extensible-enum` has the codes of this version, and a \
             client takes a code that it does not know as `invalid_argument` if the status is 4xx, as \
             `aborted` if it is 5xx.",
        ))
        .examples([json!(Code::InvalidArgument.as_str())])
        .extensions(Some(open));
    RefOr::T(Schema::Object(code.build()))
}

/// Headers: at most 64, in an object.
pub(crate) fn headers() -> RefOr<Schema> {
    let schema = ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(text()))
        .max_properties(Some(duly_core::headers::COUNT_MAX))
        .description(Some("Headers by name; names and values have at most 8 KiB in all."));
    RefOr::T(Schema::Object(schema.build()))
}
