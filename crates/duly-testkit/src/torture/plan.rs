//! Random choices of operation, id and due time. Pure: the generator is a parameter.

use rand::Rng;
use rand::rngs::SmallRng;

use super::world::NAMESPACES;
use crate::api::IfExists;
use crate::history::{Action, Due};

/// Longest delay, in milliseconds, of a timer that is to fire before the run ends.
pub(super) const HORIZON_MS: u64 = 15_000;

/// Kinds of operations of callers. `operation_kind` chooses them with fixed shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// A schedule call with a new id.
    New,
    /// A schedule call with a known id.
    Again(IfExists),
    Reschedule,
    Cancel,
    Fire,
    Batch,
}

pub(super) fn operation_kind(rng: &mut SmallRng) -> OperationKind {
    match rng.random_range(0..100) {
        0..48 => OperationKind::New,
        48..54 => OperationKind::Again(IfExists::Replace),
        54..57 => OperationKind::Again(IfExists::Keep),
        57..60 => OperationKind::Again(IfExists::Fail),
        60..74 => OperationKind::Reschedule,
        74..86 => OperationKind::Cancel,
        86..92 => OperationKind::Fire,
        _ => OperationKind::Batch,
    }
}

/// Chooses the number of a namespace. The one with the rude receiver is rare, because it delivers
/// few firings.
pub(super) fn namespace(rng: &mut SmallRng) -> usize {
    let last = NAMESPACES.len() - 1;
    if rng.random_bool(0.06) { last } else { rng.random_range(0..last) }
}

/// Chooses a due time: in the past, now, within a second, soon, or long after the run.
pub(super) fn due(rng: &mut SmallRng, now_ms: u64) -> Due {
    let ahead_ms = match rng.random_range(0..100) {
        0..5 => return Due::At(now_ms - rng.random_range(0..60_000)),
        5..20 => 0,
        20..60 => rng.random_range(1..1_000),
        60..92 => rng.random_range(1_000..HORIZON_MS),
        _ => rng.random_range(3_600_000..86_400_000),
    };
    if rng.random_bool(0.5) { Due::In(ahead_ms) } else { Due::At(now_ms + ahead_ms) }
}

pub(super) fn reschedule(rng: &mut SmallRng, now_ms: u64, mark: impl Fn() -> u64) -> Action {
    let both = rng.random_range(0..10);
    Action::Reschedule { mark: (both < 4).then(mark), due: (both > 1).then(|| due(rng, now_ms)) }
}

/// Chooses an id of any kind that the API allows; `None`: the server creates the id.
pub(super) fn id(rng: &mut SmallRng, number: u64) -> Option<String> {
    Some(match rng.random_range(0..20) {
        0 => return None,
        1 => format!("order:{number}/a b_%41"),
        2 => format!("é-{number}-\u{1F552}"),
        3 => format!("{}{number}", "long".repeat(50)),
        4 => format!("?q={number}&x#y"),
        _ => format!("t-{number}"),
    })
}
