//! Damage to a body: to its values while it is a tree, to its bytes when it is text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{calls::Sent, damage::odd};

/// One kind of damage to a body.
#[derive(Debug, Clone)]
pub(super) enum InBody {
    /// The n-th value is replaced.
    Put(usize, Value),
    /// The n-th value is removed.
    Remove(usize),
    /// The n-th value, an object, becomes an array: of its rotated values, and nulls.
    Array(usize, usize, usize),
    /// The n-th value, a number or a duration, gets another unit.
    Unit(usize, Unit),
    /// A field is added to the n-th object.
    Add(usize, String, Value),
    /// The text ends after this number of bytes.
    Cut(usize),
    /// A byte of the text is replaced.
    Byte(usize, u8),
    /// Bytes are inserted into the text.
    Insert(usize, Vec<u8>),
    /// No damage.
    None,
}

/// A unit that a number could be meant in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    /// A thousandth of the number: seconds for milliseconds.
    Thousandth,
    /// A thousand times the number.
    Thousandfold,
    /// The digits of a text, as a number.
    Bare,
    /// The digits, as a text without a unit.
    Digits,
}

impl Unit {
    fn change(self, value: &Value) -> Option<Value> {
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let number = match value {
            Value::Number(number) => number.as_u64()?,
            Value::String(text) => digits(text).parse().ok()?,
            _ => return None,
        };
        Some(match self {
            Self::Thousandth => json!(number / 1_000),
            Self::Thousandfold => json!(number.saturating_mul(1_000)),
            Self::Bare => json!(number),
            Self::Digits => json!(number.to_string()),
        })
    }
}

fn unit() -> impl Strategy<Value = Unit> {
    use Unit::{Bare, Digits, Thousandfold, Thousandth};
    proptest::sample::select(vec![Thousandth, Thousandfold, Bare, Digits])
}

pub(super) fn damage() -> impl Strategy<Value = InBody> {
    let bytes = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(vec![b'['; 500]),
        proptest::collection::vec(any::<u8>(), 1..9),
    ];
    prop_oneof![
        8 => (0..40_usize, odd()).prop_map(|(at, value)| InBody::Put(at, value)),
        2 => (0..40_usize).prop_map(InBody::Remove),
        3 => (0..40_usize, 0..5_usize, 0..5_usize)
            .prop_map(|(at, turned, nulls)| InBody::Array(at, turned, nulls)),
        3 => (0..40_usize, unit()).prop_map(|(at, unit)| InBody::Unit(at, unit)),
        1 => (0..9_usize, "[a-z_]{0,9}", odd()).prop_map(|(at, name, value)| InBody::Add(at, name, value)),
        1 => (0..400_usize).prop_map(InBody::Cut),
        1 => (0..400_usize, any::<u8>()).prop_map(|(at, byte)| InBody::Byte(at, byte)),
        1 => (0..400_usize, bytes).prop_map(|(at, bytes)| InBody::Insert(at, bytes)),
        1 => Just(InBody::None),
    ]
}

/// Visits the values of a tree, inner ones first; `false` ends it.
pub(super) fn visit(value: &mut Value, change: &mut impl FnMut(&mut Value) -> bool) -> bool {
    let go_on = match value {
        Value::Array(items) => items.iter_mut().all(|item| visit(item, change)),
        Value::Object(fields) => fields.values_mut().all(|field| visit(field, change)),
        _ => true,
    };
    go_on && change(value)
}

fn count(value: &Value) -> usize {
    let mut count = 0;
    visit(&mut value.clone(), &mut |_| {
        count += 1;
        true
    });
    count
}

fn damage_tree(tree: &mut Value, damage: &InBody) {
    let total = count(tree);
    let (InBody::Put(at, _)
    | InBody::Remove(at)
    | InBody::Array(at, ..)
    | InBody::Unit(at, _)
    | InBody::Add(at, ..)) = damage
    else {
        return;
    };
    let mut left = at % total;
    visit(tree, &mut |value| {
        if left > 0 {
            left -= 1;
            return true;
        }
        match damage {
            InBody::Put(_, odd) => value.clone_from(odd),
            InBody::Array(_, turned, nulls) => {
                if let Value::Object(fields) = value {
                    let mut items: Vec<Value> = fields.values().cloned().collect();
                    items.resize(items.len() + nulls, Value::Null);
                    let turned = turned.checked_rem(items.len()).unwrap_or_default();
                    items.rotate_left(turned);
                    *value = Value::Array(items);
                }
            }
            InBody::Unit(_, unit) => {
                if let Some(changed) = unit.change(value) {
                    *value = changed;
                }
            }
            InBody::Add(_, name, odd) => match value {
                Value::Object(fields) => drop(fields.insert(name.clone(), odd.clone())),
                other => *other = json!({name: odd}),
            },
            _ => match value {
                Value::Object(fields) => fields.clear(),
                Value::Array(items) => items.clear(),
                other => *other = Value::Null,
            },
        }
        false
    });
}

/// Returns the body as bytes.
pub(super) fn text(sent: &Sent) -> Vec<u8> {
    match sent {
        Sent::Nothing => Vec::new(),
        Sent::Document(tree) => tree.to_string().into_bytes(),
        Sent::Lines(lines) => {
            lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
        }
    }
}

/// Returns the bytes of the damaged body.
pub(super) fn damaged(sent: &Sent, damage: &InBody) -> Vec<u8> {
    let mut sent = sent.clone();
    match &mut sent {
        Sent::Nothing => {}
        Sent::Document(tree) => damage_tree(tree, damage),
        Sent::Lines(lines) => {
            let mut tree = Value::Array(std::mem::take(lines));
            damage_tree(&mut tree, damage);
            *lines = match tree {
                Value::Array(lines) => lines,
                other => vec![other],
            };
        }
    }
    let mut text = text(&sent);
    let length = text.len();
    match damage {
        InBody::Cut(at) if length > 0 => text.truncate(at % length),
        InBody::Byte(at, byte) if length > 0 => text[at % length] = *byte,
        InBody::Insert(at, bytes) => {
            let at = at % (length + 1);
            text.splice(at..at, bytes.iter().copied());
        }
        _ => {}
    }
    text
}
