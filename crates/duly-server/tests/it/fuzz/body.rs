//! What is done to a body: to its values while it is a tree, to its bytes when it is text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{calls::Sent, damage::odd};

/// One thing that is done to a body.
#[derive(Debug, Clone)]
pub(super) enum InBody {
    /// The n-th value becomes another one.
    Put(usize, Value),
    /// The n-th value goes.
    Remove(usize),
    /// A field is added to the n-th object.
    Add(usize, String, Value),
    /// The text ends after so many bytes.
    Cut(usize),
    /// A byte of the text becomes another one.
    Byte(usize, u8),
    /// Bytes come into the text.
    Insert(usize, Vec<u8>),
    /// Nothing.
    None,
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
        1 => (0..9_usize, "[a-z_]{0,9}", odd()).prop_map(|(at, name, value)| InBody::Add(at, name, value)),
        1 => (0..400_usize).prop_map(InBody::Cut),
        1 => (0..400_usize, any::<u8>()).prop_map(|(at, byte)| InBody::Byte(at, byte)),
        1 => (0..400_usize, bytes).prop_map(|(at, bytes)| InBody::Insert(at, bytes)),
        1 => Just(InBody::None),
    ]
}

/// Visits the values of a tree, those below before those above; `false` ends it.
fn visit(value: &mut Value, change: &mut impl FnMut(&mut Value) -> bool) -> bool {
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
    let (InBody::Put(at, _) | InBody::Remove(at) | InBody::Add(at, ..)) = damage else { return };
    let mut left = at % total;
    visit(tree, &mut |value| {
        if left > 0 {
            left -= 1;
            return true;
        }
        match damage {
            InBody::Put(_, odd) => value.clone_from(odd),
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

/// The body as it is sent.
pub(super) fn text(sent: &Sent) -> Vec<u8> {
    match sent {
        Sent::Nothing => Vec::new(),
        Sent::Document(tree) => tree.to_string().into_bytes(),
        Sent::Lines(lines) => {
            lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
        }
    }
}

/// The body as it is sent when this was done to it.
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
