//! The whole state of an engine as text: the state that it would have after a restart, and a check
//! whether it is consistent.

use std::collections::BTreeMap;

use duly_core::timer::Timer;

use crate::{
    engine::{Engine, dead_letters, namespaces::Namespace},
    index::{Flags, Key, Location},
};

/// Each item by name, with its end if it ends by itself.
pub(super) type Shown = BTreeMap<String, (u64, String)>;

/// Namespaces of this name only fill the indexes: of their timers only the number is shown.
pub(super) const FILLER: &str = "00";

/// Returns all state that a restart has to restore.
pub(super) fn shown(engine: &Engine) -> Shown {
    let mut shown = Shown::new();
    for (number, namespace) in engine.namespaces.iter() {
        show_namespace(&mut shown, namespace);
        if namespace.record.name.as_str() != FILLER {
            show_pending(&mut shown, engine, number, namespace);
            show_tombstones(&mut shown, engine, namespace);
            show_letters(&mut shown, engine, number, namespace);
        }
    }
    shown
}

/// Removes the items that have ended by now.
pub(super) fn still(shown: &Shown, now_ms: u64) -> Shown {
    let mut shown = shown.clone();
    shown.retain(|_, (ends_ms, _)| *ends_ms > now_ms);
    shown
}

/// Describes the items of which the two states differ.
pub(super) fn difference(found: &Shown, expected: &Shown) -> Option<String> {
    let name =
        found.keys().chain(expected.keys()).find(|name| found.get(*name) != expected.get(*name))?;
    Some(format!("{name} is {:?}\nnot {:?}", found.get(name), expected.get(name)))
}

fn forever(shown: &mut Shown, name: String, what: String) {
    let twice = shown.insert(name.clone(), (u64::MAX, what));
    assert_eq!(twice, None, "{name} is there once");
}

/// Returns a timer as text. The text of its payload is its bytes: to escape each byte took most of the time of a test.
fn text(timer: &Timer) -> String {
    let mut timer = timer.clone();
    let payload = timer.spec.payload.take();
    let payload = payload.as_ref().map(|it| (it.form, String::from_utf8_lossy(&it.bytes)));
    let (form, bytes) = payload.unzip();
    format!("{timer:?} {form:?} {}", bytes.unwrap_or_default())
}

fn show_namespace(shown: &mut Shown, ns: &Namespace) {
    let counts = (ns.first, ns.retrying, ns.in_flight, ns.pending_bytes, ns.dead(), ns.live.len());
    let what = format!("{:?} {:?} {:?} {counts:?}", ns.view(), ns.record.paused, ns.record.totals);
    forever(shown, format!("{} settings and counts", ns.record.name), what);
    for (slot, lane) in ns.lanes.iter() {
        let key = ns.lanes.key_of(slot, &ns.record.settings.destination);
        let (pending, in_flight) = (lane.pending, lane.in_flight);
        // The lane that follows the namespace has a key of its own here.
        let follows = slot == crate::engine::lanes::DEFAULT;
        let name = format!("{} lane {key:?} follows {follows}", ns.record.name);
        forever(shown, name, format!("{pending} pending, {in_flight} leased"));
    }
}

fn show_pending(shown: &mut Shown, engine: &Engine, number: u32, ns: &Namespace) {
    for entry in ns.live.entries() {
        let key = entry.key(number);
        let timer = engine.load_timer(entry.location()).expect("a pending timer can be read");
        assert_eq!(engine.key(number, timer.id.as_str()), key, "it is the timer of the entry");
        let nonce = engine.leases.get(key).map(|lease| lease.granted.nonce);
        assert_eq!(nonce.is_some(), entry.flags().has(Flags::LEASED), "{timer:?}");
        let key = ns.lanes.key_of(entry.lane(), &ns.record.settings.destination);
        let what = format!("{:?} {nonce:?} {key:?} {}", entry.claimable(), text(&timer));
        forever(shown, format!("{} pending {}", ns.record.name, timer.id), what);
    }
}

fn show_tombstones(shown: &mut Shown, engine: &Engine, ns: &Namespace) {
    for entry in ns.tombstones.index.entries() {
        let tombstone = engine.load_tombstone(entry.location()).expect("a tombstone can be read");
        let what = format!("{} {tombstone:?}", entry.number());
        let name = format!("{} tombstone {}", ns.record.name, tombstone.id);
        let twice = shown.insert(name, (ns.tombstones.end_of(&entry), what));
        assert_eq!(twice, None, "a tombstone is there once");
    }
}

fn show_letters(shown: &mut Shown, engine: &Engine, number: u32, ns: &Namespace) {
    let mut places: Vec<Location> = Vec::new();
    for entry in ns.dead_letters.by_delivery.entries() {
        let timer = engine.load_timer(entry.location()).expect("a letter can be read");
        let delivery = timer.delivery_id(ns.record.name.as_str());
        let letter = dead_letters::key_of(engine.hash_key, number, delivery);
        assert_eq!(letter, entry.key(number), "{delivery} is the letter of the entry");
        places.push(entry.location());
        forever(shown, format!("{} letter {} {delivery}", ns.record.name, timer.id), text(&timer));
        let key = engine.key(number, timer.id.as_str());
        let latest = ns.dead_letters.latest(key);
        forever(
            shown,
            format!("{} letter {} {delivery} by its timer", ns.record.name, timer.id),
            format!("{}", latest.is_some()),
        );
    }
    for entry in ns.dead_letters.by_timer.entries() {
        let key: Key = entry.key(number);
        let (latest, location) =
            ns.dead_letters.latest(key).expect("the letter that is named is there");
        assert_eq!(latest, entry.named(number), "the latest is named");
        let timer = engine.load_timer(location).expect("a letter can be read by its timer");
        assert_eq!(engine.key(number, timer.id.as_str()), key, "it is a letter of the timer");
        let delivery = timer.delivery_id(ns.record.name.as_str());
        let of: Vec<String> = ns
            .dead_letters
            .of(key)
            .into_iter()
            .map(|location| {
                let timer = engine.load_timer(location).expect("a letter can be read");
                timer.delivery_id(ns.record.name.as_str()).to_string()
            })
            .collect();
        let is_counted = places.contains(&location);
        let what = format!("{delivery} of {of:?}, its record is counted: {is_counted}");
        forever(shown, format!("{} letters of {}", ns.record.name, timer.id), what);
    }
}

/// Checks that the timers can be read of which only the number is shown.
pub(super) fn check_filler(engine: &Engine) -> Result<(), String> {
    let fillers = engine.namespaces.iter().filter(|(_, ns)| ns.record.name.as_str() == FILLER);
    for (number, ns) in fillers {
        for entry in ns.live.entries() {
            let timer = engine.load_timer(entry.location());
            let timer = timer.map_err(|error| format!("a filler cannot be read: {error}"))?;
            assert_eq!(engine.key(number, timer.id.as_str()), entry.key(number));
        }
    }
    Ok(())
}
