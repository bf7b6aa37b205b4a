//! Compares the structures of the model with the messages of the `.proto` files.
//!
//! Each field has the number and type of the files, and no structure has another field. A message is the
//! same in protobuf and in JSON.

use std::{collections::BTreeSet, fmt::Debug};

use duly_api::{Words, json, v1::FILE_DESCRIPTOR_SET};
use proptest::{collection::vec, prelude::*};
use prost::Message;
use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind,
    MessageDescriptor, Value,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::generated::MODEL;

/// Fields that have another name in the files: JSON has `payload` where gRPC names the form.
const RENAMED: [(&str, &str); 3] =
    [("payload", "payload_json"), ("payload_base64", "payload_bytes"), ("kind", "type")];

/// Structures that print no fields, since they hold secrets.
const SECRET: &str = "SigningSecrets";

fn pool() -> DescriptorPool {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap()
}

/// Returns a message with every field set, down to nested messages at this depth.
fn filled(of: &MessageDescriptor, depth: u32) -> DynamicMessage {
    let mut message = DynamicMessage::new(of.clone());
    for field in of.fields().filter(|_| depth > 0) {
        message.set_field(&field, value(&field, depth));
    }
    message
}

fn value(field: &FieldDescriptor, depth: u32) -> Value {
    let one = match field.kind() {
        Kind::String => Value::String("1".into()),
        Kind::Bytes => Value::Bytes("1".into()),
        Kind::Bool => Value::Bool(true),
        Kind::Double => Value::F64(1.5),
        Kind::Uint32 => Value::U32(7),
        Kind::Uint64 => Value::U64(7),
        Kind::Int32 => Value::I32(7_000_000),
        Kind::Int64 => Value::I64(7),
        Kind::Enum(_) => Value::EnumNumber(1),
        Kind::Message(inner) => Value::Message(filled(&inner, depth - 1)),
        other => panic!("{other:?} needs a value here"),
    };
    if field.cardinality() == Cardinality::Repeated { Value::List(vec![one]) } else { one }
}

/// Returns the name of a structure and its message in the `.proto` files.
fn message_of<T>(pool: &DescriptorPool) -> (&'static str, MessageDescriptor) {
    let path = std::any::type_name::<T>();
    let name = path.rsplit("::").next().unwrap_or(path);
    (name, pool.get_message_by_name(&format!("duly.v1.{name}")).expect(name))
}

fn check<T: Message + Default + Debug>(pool: &DescriptorPool) {
    let (name, of) = message_of::<T>(pool);
    for field in of.fields() {
        let mut sent = DynamicMessage::new(of.clone());
        sent.set_field(&field, value(&field, 3));
        let model = T::decode(&*sent.encode_to_vec()).expect(name);
        let back = DynamicMessage::decode(of.clone(), &*model.encode_to_vec()).expect(name);
        assert_eq!(back, sent, "{name}.{}", field.name());
    }
    if name == SECRET {
        return;
    }
    let text = format!("{:#?}", T::default());
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    let own: BTreeSet<&str> = lines
        .filter(|line| !line.starts_with([' ', ')', ']', '}']))
        .filter_map(|line| line.split_once(':'))
        .map(|(field, _)| RENAMED.iter().find(|(own, _)| *own == field).map_or(field, |it| it.1))
        .collect();
    let fields: Vec<_> = of.fields().map(|field| field.name().to_owned()).collect();
    assert_eq!(own, fields.iter().map(String::as_str).collect(), "{name}");
}

fn check_words<T: Words>(pool: &DescriptorPool, name: &str) {
    let of: EnumDescriptor = pool.get_enum_by_name(&format!("duly.v1.{name}")).expect(name);
    let upper = name.chars().fold(String::new(), |text, c| match c {
        c if c.is_uppercase() && !text.is_empty() => text + "_" + &c.to_string(),
        c => text + &c.to_uppercase().to_string(),
    });
    let own = T::ALL
        .iter()
        .map(|(word, value)| ((*value).into(), format!("{upper}_{}", word.to_uppercase())));
    let known = of.values().filter(|it| it.number() != 0);
    let known = known.map(|value| (value.number(), value.name().to_owned()));
    assert_eq!(own.collect::<Vec<(i32, _)>>(), known.collect::<Vec<_>>(), "{name}");
}

/// Calls `$check` for each message of the model but `Header`, which JSON has as a pair only, and returns
/// their names.
macro_rules! each_message {
    ($check:ident $arguments:tt) => {
        each_message!(@ $check $arguments
            Ack Attempt BatchResponse Bucket Cancel CancelFilter CancelManyRequest
            CancelManyResponse CancelResponse ClusterInfo DeadLetterError DeadLetterNames
            DeadLetterOverdueRequest DeadLetterOverdueResponse DeadVerdict Destination ExtendVerdict
            Fallback FallbackState Fire Firing ForgetResponse HeaderList HttpDestination Lane LaneLimits
            LeaseRequest LeaseResponse Limits ListNamespacesResponse ListResponse Namespace
            NamespaceForecast NamespaceLimits NamespaceSettings NamespaceStats Node Operation
            OperationResult Problem PullDestination PurgeRequest PurgeResponse PushLane
            RedriveRequest RedriveResponse RepairNamespaceResponse Reschedule ResumeRequest Retry
            RetryVerdict Schedule SettleResponse SettleResult Settlement SigningSecrets SnoozeVerdict
            TagList Timer Totals)
    };
    (@ $check:ident $arguments:tt $($message:ident)*) => {{
        $($check::<duly_api::$message> $arguments;)*
        [$(stringify!($message)),*]
    }};
}

macro_rules! each_word {
    ($pool:ident, $($words:ident)*) => {{
        $(check_words::<duly_api::$words>(&$pool, stringify!($words));)*
        [$(stringify!($words)),*]
    }};
}

#[test]
fn the_model_is_the_proto_files() {
    let pool = pool();
    let messages = each_message!(check(&pool));
    check::<duly_api::Header>(&pool);
    let words = each_word!(
        pool,
        AttemptOutcome DeadReason IfExists NamespaceField SettleOutcome State TimerField Unchanged
        View
    );
    let compared: BTreeSet<_> = messages.into_iter().chain(words).chain(["Header"]).collect();
    assert_eq!(compared, BTreeSet::from(MODEL), "every structure is compared");
}

/// Fields that JSON has elsewhere: in the path, or as `null`.
const NOT_IN_JSON: [&str; 7] = [
    "CancelManyRequest.namespace",
    "DeadLetterOverdueRequest.namespace",
    "LeaseRequest.namespace",
    "PurgeRequest.namespace",
    "RedriveRequest.namespace",
    "ResumeRequest.namespace",
    "Reschedule.reset",
];

/// A source of random choices, which ends in zeros.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % end
    }

    fn any_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

/// Returns a message in which some fields are set.
fn random(of: &MessageDescriptor, choices: &mut Choices<'_>) -> DynamicMessage {
    let mut message = DynamicMessage::new(of.clone());
    if matches!(of.name(), "Timestamp" | "Duration") {
        message.set_field_by_name("seconds", Value::I64(choices.below(256) as i64));
        let ms = choices.any_of(&[0, 1, 500, 999]);
        message.set_field_by_name("nanos", Value::I32(ms * 1_000_000));
        return message;
    }
    for field in of.fields() {
        // A word that a message must have, such as the state of a timer.
        let is_required = matches!(field.kind(), Kind::Enum(_)) && !field.supports_presence();
        let is_in_json = !NOT_IN_JSON.contains(&&*format!("{}.{}", of.name(), field.name()));
        if is_in_json && (choices.below(2) == 1 || is_required) {
            let count = if field.is_list() { choices.below(3) } else { 1 };
            let mut values: Vec<_> = (0..count).map(|i| random_value(&field, i, choices)).collect();
            let value = if field.is_list() { Value::List(values) } else { values.remove(0) };
            message.set_field(&field, value);
        }
    }
    message
}

fn random_value(field: &FieldDescriptor, index: usize, choices: &mut Choices<'_>) -> Value {
    let texts = ["a", "", "null", "é\u{2028}\"\\\n", "***"];
    match field.kind() {
        Kind::String if field.name() == "payload_json" => {
            let jsons = ["1", "{ \"a\":[1.0e2, \"\"] }", "null"];
            // `null` in a change removes the payload: JSON cannot set the payload to `null`.
            let is_change = field.parent_message().name() == "Reschedule";
            Value::String(choices.any_of(&jsons[..if is_change { 2 } else { 3 }]).into())
        }
        Kind::String => Value::String(choices.any_of(&texts).into()),
        Kind::Bytes => Value::Bytes(choices.any_of(&["", "1", "\u{0}\u{ff}"]).into()),
        Kind::Bool => Value::Bool(choices.below(2) == 1),
        Kind::Double => Value::F64(choices.any_of(&[0.0, 0.2, 1.5, 1e6])),
        Kind::Uint32 => Value::U32(choices.any_of(&[0, 1, u32::MAX])),
        Kind::Uint64 => Value::U64(choices.any_of(&[0, 1, u64::MAX])),
        Kind::Int64 => Value::I64(choices.any_of(&[0, 1, i64::MAX])),
        Kind::Enum(of) => Value::EnumNumber(1 + choices.below(of.values().count() - 1) as i32),
        Kind::Message(inner) => {
            let mut message = random(&inner, choices);
            // No header comes twice.
            if inner.full_name() == "duly.v1.Header" {
                message.set_field_by_name("name", Value::String(format!("x-{index}")));
            }
            Value::Message(message)
        }
        other => panic!("{other:?} needs a value here"),
    }
}

fn through_json<T>(pool: &DescriptorPool, choices: &[u8])
where
    T: Message + Default + Serialize + DeserializeOwned,
{
    let (name, of) = message_of::<T>(pool);
    let sent = random(&of, &mut Choices(choices.iter()));
    let sent = sent.encode_to_vec();
    let model = T::decode(&*sent).expect(name);
    let text = serde_json::to_string(&model).expect(name);
    let read: T = json::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}: {text}"));
    let parsed = |bytes: &[u8]| DynamicMessage::decode(of.clone(), bytes).expect(name);
    let back = parsed(&read.encode_to_vec());
    assert_eq!(
        back.to_string(),
        parsed(&sent).to_string(),
        "{name}, protobuf → JSON → protobuf: {text}"
    );
    assert_eq!(serde_json::to_string(&read).expect(name), text, "{name}, JSON → protobuf → JSON");
}

proptest! {
    #[test]
    fn p11_every_message_is_the_same_in_json_and_protobuf(choices in vec(any::<u8>(), 0..400)) {
        let pool = pool();
        each_message!(through_json(&pool, &choices));
    }
}
