//! The keys of the configuration, derived from the types of the sections: the only place that
//! translates between names and fields.
//!
//! The file, the environment, the flags, `config show`, the reference page and the example file use
//! this list. The environment variable of `server.listen` is `DULY_SERVER__LISTEN`.

use std::sync::LazyLock;

use duly_core::invalid::shorten;
use indexmap::IndexMap;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Config, numbers::bytes_text, texts::NOT_SHOWN, urls::without_secrets};

/// The name of a field, which the compiler checks: `key!(server.listen)` is `"server.listen"`.
#[macro_export]
macro_rules! key {
    ($section:ident . $field:ident) => {{
        const _: fn(&$crate::config::Config) = |config| _ = &config.$section.$field;
        concat!(stringify!($section), ".", stringify!($field))
    }};
}
pub use key;

/// Every key, section by section, in the order of the types.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    let of = |section: &str, field: &str| &schema["properties"][section]["properties"][field];
    let new = |(section, field, default): (String, String, Value)| {
        Key::new(of(&section, &field), section, field, default)
    };
    values(&Config::default()).into_iter().map(new).collect()
});

/// Keys that had another name before 0.2.0, and their present name.
const RENAMED: [(&str, &str); 5] = [
    ("delivery.bytes_max", key!(delivery.memory_max)),
    ("drain.within", key!(drain.timeout)),
    ("server.bodies_bytes_max", key!(server.request_memory_max)),
    ("store.replicas_within", key!(store.replication_timeout)),
    ("webhook.answer_bytes_max", key!(webhook.response_bytes_max)),
];

/// The kind of store that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoreKind {
    /// The store in a directory.
    Embedded,
    /// The store that nodes share.
    Shared,
}

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Section and name: `server.listen`.
    pub name: String,
    /// Its section.
    pub section: String,
    /// Its name within its section.
    pub field: String,
    /// Its meaning.
    pub doc: String,
    /// The allowed values, as the end of "the key must be …".
    pub allowed: String,
    /// The unit of its numbers.
    pub unit: Option<String>,
    /// Its default.
    pub default: Value,
    pub(super) store: Option<StoreKind>,
    form: ValueForm,
    /// The word for "no value".
    absent: String,
    is_secret: bool,
}

/// The form of a value, apart from a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    Integer,
    Boolean,
    List,
    Word,
    Bytes,
    Text,
}

/// Returns the words of a list of words, each once.
fn listed(items: &Value) -> String {
    let words = words(items);
    assert!(!words.is_empty(), "the items of a list are texts or words: {items}");
    format!("the words {}", words.join(", "))
}

impl Key {
    fn new(schema: &Value, section: String, field: String, default: Value) -> Self {
        let text = |name: &str| schema[name].as_str().map(str::to_owned);
        let words = words(schema);
        let form = match &schema["type"] {
            Value::String(name) if name == "integer" => ValueForm::Integer,
            Value::String(name) if name == "boolean" => ValueForm::Boolean,
            Value::String(name) if name == "array" => ValueForm::List,
            Value::Array(types) if types.contains(&"integer".into()) => ValueForm::Integer,
            _ if !words.is_empty() => ValueForm::Word,
            _ if schema["format"] == "bytes" => ValueForm::Bytes,
            _ => ValueForm::Text,
        };
        let unit = text("unit");
        let values = match (form, &unit) {
            (ValueForm::Integer, Some(unit)) => {
                format!("an integer from {} to {} ({unit})", schema["minimum"], schema["maximum"])
            }
            (ValueForm::Boolean, _) => "true or false".to_owned(),
            (ValueForm::Word, _) => format!("one of {}", words.join(", ")),
            (ValueForm::List, _) => format!(
                "a list of {} (in the environment and on the command line separated by commas)",
                schema["items"]["allowed"]
                    .as_str()
                    .map_or_else(|| listed(&schema["items"]), str::to_owned)
            ),
            _ => text("allowed").expect("the type of a key says what it allows"),
        };
        let absent = text("absent").unwrap_or_else(String::new);
        let allowed = match &schema["type"] {
            Value::Array(types) if types.contains(&"null".into()) && absent.is_empty() => {
                format!("{values}, or nothing")
            }
            _ if !absent.is_empty() => format!("{absent}, or {values}"),
            _ => values,
        };
        let doc = text("description").expect("a key has a doc comment");
        Self {
            name: format!("{section}.{field}"),
            doc: doc.split_whitespace().collect::<Vec<_>>().join(" "),
            allowed,
            unit,
            default: if default.is_null() { absent.clone().into() } else { default },
            store: Option::deserialize(&schema["store"]).expect("`store` names a kind of store"),
            form,
            absent,
            is_secret: schema["writeOnly"] == true,
            section,
            field,
        }
    }

    /// Returns its environment variable.
    pub fn variable(&self) -> String {
        format!("DULY_{}__{}", self.section, self.field).to_uppercase()
    }

    /// Checks a value of the file, or the text of a variable or flag, against the type of the field.
    ///
    /// # Errors
    /// Returns the refused value, as it may be shown.
    pub(super) fn check(&self, written: &Value) -> Result<Value, String> {
        let value = self.converted(written);
        let document = json!({ &self.section: { &self.field: &value } });
        match (Config::deserialize(document), written) {
            (Ok(_), _) => Ok(value),
            (Err(error), Value::String(_)) if self.is_secret => Err(error.to_string()),
            (Err(_), _) if self.is_secret => Err("a value that is not text".to_owned()),
            (Err(_), written) => Err(shown(written)),
        }
    }

    /// Returns a value in the form that the type reads: the environment and flags know only text.
    fn converted(&self, written: &Value) -> Value {
        let non_empty = |texts: Vec<&str>| -> Value {
            texts.into_iter().filter(|text| !text.is_empty()).collect()
        };
        match (self.form, written) {
            (ValueForm::Text, Value::String(text)) if *text == self.absent => Value::Null,
            (ValueForm::Bytes | ValueForm::Integer, Value::String(text))
                if text.trim() == self.absent =>
            {
                Value::Null
            }
            (ValueForm::Boolean, Value::String(text)) => {
                text.trim().parse::<bool>().map_or_else(|_| written.clone(), Value::from)
            }
            (ValueForm::Word, Value::String(text)) => text.trim().into(),
            (ValueForm::List, Value::String(text)) => {
                non_empty(text.split(',').map(str::trim).collect())
            }
            (ValueForm::List, Value::Array(items)) => {
                non_empty(items.iter().filter_map(Value::as_str).collect())
            }
            (ValueForm::List, Value::Number(port)) if port.is_u64() => json!([port.to_string()]),
            _ => written.clone(),
        }
    }

    /// Returns a value as the file has it.
    pub(super) fn toml(&self, value: &Value) -> String {
        let value = match (self.form, value) {
            (ValueForm::Bytes, Value::Number(bytes)) => {
                bytes.as_u64().map(bytes_text).expect("bytes are unsigned").into()
            }
            _ => value.clone(),
        };
        toml::Value::try_from(value).expect("texts, numbers and lists are TOML").to_string()
    }

    /// Returns its default as text, empty for an empty one.
    pub fn default_text(&self) -> String {
        match &self.default {
            Value::Array(items) => {
                let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                texts.join(", ")
            }
            default => self.toml(default).trim_matches('"').to_owned(),
        }
    }
}

/// Returns the sections, in order.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = KEYS.iter().map(|key| key.section.as_str()).collect();
    sections.dedup();
    sections
}

/// Returns the key with this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Returns the key that had this name before 0.2.0.
pub(super) fn renamed(name: &str) -> Option<&'static Key> {
    RENAMED.iter().find(|(old, _)| *old == name).and_then(|(_, new)| find(new))
}

/// Returns every key with its value; a missing value is the word for it.
pub(super) fn effective(config: &Config) -> impl Iterator<Item = (&'static Key, Value)> {
    KEYS.iter().zip(values(config)).map(|(key, (_, _, value))| {
        let word = || key.absent.clone().into();
        (key, if value.is_null() { word() } else { value })
    })
}

/// Returns section, field and value of every key, in the order of the types.
fn values(config: &Config) -> Vec<(String, String, Value)> {
    type Sections = IndexMap<String, IndexMap<String, Value>>;
    let text = serde_json::to_string(config).expect("texts, numbers and lists are JSON");
    let sections: Sections = serde_json::from_str(&text).expect("a section is an object");
    let fields = sections.into_iter().flat_map(|(section, fields)| {
        fields.into_iter().map(move |(field, value)| (section.clone(), field, value))
    });
    fields.collect()
}

/// Returns the words of a type that is a choice.
fn words(schema: &Value) -> Vec<&str> {
    let list = |name: &str| schema[name].as_array().into_iter().flatten();
    let documented = list("oneOf").filter_map(|variant| variant["const"].as_str());
    list("enum").filter_map(Value::as_str).chain(documented).collect()
}

/// Returns a refused value for a message. A text that may be a URL with a secret is not shown.
pub(super) fn shown(written: &Value) -> String {
    let may_be_secret =
        |text: &str| text.contains('@') || text.contains("://") && text.contains(['?', '#']);
    let shown = |text: &str| match may_be_secret(text) {
        true => NOT_SHOWN.to_owned(),
        false => shorten(&without_secrets(text)),
    };
    match written {
        Value::String(text) => shown(text),
        Value::Array(items) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            shown(&texts.join(", "))
        }
        other => other.to_string(),
    }
}
