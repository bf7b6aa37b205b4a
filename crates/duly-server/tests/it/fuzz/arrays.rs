//! Arrays in place of objects: refused in every call, at every depth.

use serde_json::{Value, json};

use super::{
    BackedUpStore, Draft,
    body::visit,
    calls::{Call, Sent, calls},
};
use crate::bench::Answer;

/// Longest tested array of nulls.
const NULLS_MAX: usize = 6;

/// Returns the arrays that a parser could take for this object: its values in each rotated order, and
/// nulls around one value.
fn arrays(object: &serde_json::Map<String, Value>) -> Vec<Value> {
    let values: Vec<Value> = object.values().cloned().collect();
    let mut found = vec![json!([]), json!([values])];
    for first in 0..values.len() {
        let mut turned = values.clone();
        turned.rotate_left(first);
        found.push(Value::Array(turned));
    }
    for length in 1..=NULLS_MAX {
        for at in 0..length {
            let mut nulls = vec![Value::Null; length];
            nulls[at] = Value::Bool(true);
            found.push(Value::Array(nulls));
        }
    }
    found
}

/// Returns the body with one of its objects replaced, for each object and each array.
fn damaged(body: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let mut arrays_here = None;
        change_object(&mut body.clone(), at, |object| {
            arrays_here = object.as_object().map(arrays);
        });
        let Some(arrays_here) = arrays_here else { return found };
        for array in arrays_here {
            let mut body = body.clone();
            change_object(&mut body, at, |object| *object = array.clone());
            found.push(body);
        }
        at += 1;
    }
}

/// Changes the n-th object; payloads may be anything and are skipped.
fn change_object(body: &mut Value, mut at: usize, change: impl FnOnce(&mut Value)) {
    let payload = json!({"a": [1]});
    let mut change = Some(change);
    visit(body, &mut |value| {
        if !value.is_object() || *value == payload {
            return true;
        }
        if at == 0
            && let Some(change) = change.take()
        {
            change(value);
            return false;
        }
        at -= 1;
        true
    });
}

fn refusals(answer: &Answer) -> usize {
    answer.text.matches("\"code\":\"invalid_argument\"").count()
}

/// Makes the bodies of a call that have an array in place of an object.
fn bodies(sent: &Sent) -> Vec<Sent> {
    match sent {
        Sent::Nothing => Vec::new(),
        Sent::Document(body) => {
            let mut body = body.clone();
            if let Some(timers) = body["timers"].as_array_mut() {
                // The second timer is refused without damage.
                timers.truncate(1);
            }
            damaged(&body).into_iter().map(Sent::Document).collect()
        }
        Sent::Lines(lines) => {
            lines.iter().flat_map(damaged).map(|line| Sent::Lines(vec![line])).collect()
        }
    }
}

#[tokio::test]
async fn an_array_in_place_of_an_object_is_refused_at_every_depth() {
    let backed = BackedUpStore::new();
    let mut tried = 0;
    let total = calls(&backed.inputs(&backed.bench()).await).len();
    for row in 0..total {
        let bench = backed.bench();
        let call = calls(&backed.inputs(&bench).await).swap_remove(row);
        for sent in bodies(&call.sent) {
            let draft = Draft::of(&Call { sent, ..call.clone() });
            let what = draft.shown();
            let answer = bench.send(draft.request()).await;
            assert!(answer.status.as_u16() < 500, "{what}: {}", answer.text);
            assert!(refusals(&answer) > 0, "{what} was taken: {} {}", answer.status, answer.text);
            tried += 1;
        }
    }
    println!("{tried} bodies with an array in place of an object, all refused");
    assert!(tried > 500, "{tried}");
}
