//! The structures of the model are the messages of the `.proto` files: each field has the number and type that
//! the files give it, and no structure has another field.

use std::{collections::BTreeSet, fmt::Debug};

use duly_api::{Words, v1::FILE_DESCRIPTOR_SET};
use prost::Message;
use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind,
    MessageDescriptor, Value,
};

use crate::generated::MODEL;

/// Fields that have another name in the files: JSON says `payload` where gRPC says which form it is.
const RENAMED: [(&str, &str); 3] =
    [("payload", "payload_json"), ("payload_base64", "payload_bytes"), ("kind", "type")];

/// Structures that print no fields, since they hold secrets.
const SECRET: &str = "SigningSecrets";

fn pool() -> DescriptorPool {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap()
}

/// A message with every field set, down to messages within messages within it.
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

fn check<T: Message + Default + Debug>(pool: &DescriptorPool, name: &str) {
    let of = pool.get_message_by_name(&format!("duly.v1.{name}")).expect(name);
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

macro_rules! compare {
    ($pool:ident, messages: $($message:ident)*, words: $($words:ident)*) => {{
        $(check::<duly_api::$message>(&$pool, stringify!($message));)*
        $(check_words::<duly_api::$words>(&$pool, stringify!($words));)*
        [$(stringify!($message),)* $(stringify!($words)),*]
    }};
}

#[test]
fn the_model_is_the_proto_files() {
    let pool = pool();
    let compared = compare! {
        pool,
        messages: Ack Attempt BatchResponse Bucket Cancel CancelFilter CancelManyRequest
            CancelManyResponse CancelResponse ClusterInfo DeadLetterError DeadLetterNames
            DeadLetterOverdueRequest DeadLetterOverdueResponse DeadVerdict Destination ExtendVerdict
            Fallback FallbackState Fire Firing Header HeaderList HttpDestination Lane LaneLimits
            LeaseRequest LeaseResponse Limits ListNamespacesResponse ListResponse Namespace
            NamespaceForecast NamespaceLimits NamespaceSettings NamespaceStats Node Operation
            OperationResult Problem PullDestination PurgeRequest PurgeResponse PushLane
            RedriveRequest RedriveResponse RepairNamespaceResponse Reschedule ResumeRequest Retry
            RetryVerdict Schedule SettleResponse SettleResult Settlement SigningSecrets TagList
            Timer Totals,
        words: AttemptOutcome DeadReason IfExists NamespaceField SettleOutcome State TimerField View
    };
    assert_eq!(BTreeSet::from(compared), BTreeSet::from(MODEL), "every structure is compared");
}
