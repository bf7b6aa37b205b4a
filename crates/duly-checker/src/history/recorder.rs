//! Recorder that collects a history from many tasks at once.
//!
//! Each record is appended under one short lock. The number of records is bounded: at the limit the
//! recorder is full, and the run ends early instead of using up the machine's memory.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{
    Crash, Delivery, DeliveryNumber, End, History, KeyNumber, Operation, Settle, Stop, TimerKey,
};

/// Most records of all kinds together: about 1.5 GB.
pub(super) const RECORDS_MAX: usize = 12_000_000;

/// A history in progress.
#[derive(Debug, Default)]
pub struct Recorder {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    history: History,
    keys: FxHashMap<TimerKey, KeyNumber>,
    delivery_ids: FxHashMap<String, u32>,
}

impl Recorder {
    /// Returns the number of a timer.
    pub fn key(&self, namespace: &str, id: &str) -> KeyNumber {
        let key = TimerKey { namespace: namespace.to_owned(), id: id.to_owned() };
        let mut inner = self.inner.lock();
        let Inner { history, keys, .. } = &mut *inner;
        *keys.entry(key).or_insert_with_key(|key| {
            history.keys.push(key.clone());
            number(history.keys.len() - 1)
        })
    }

    /// Returns the number of a delivery id.
    pub fn delivery_id(&self, text: &str) -> u32 {
        let mut inner = self.inner.lock();
        let next = number(inner.delivery_ids.len());
        match inner.delivery_ids.get(text) {
            Some(known) => *known,
            None => {
                inner.delivery_ids.insert(text.to_owned(), next);
                next
            }
        }
    }

    /// Adds an operation of a caller.
    pub fn operation(&self, operation: Operation) {
        self.inner.lock().history.operations.push(operation);
    }

    /// Adds a delivery and returns its number.
    pub fn delivery(&self, delivery: Delivery) -> DeliveryNumber {
        let mut inner = self.inner.lock();
        inner.history.deliveries.push(delivery);
        number(inner.history.deliveries.len() - 1)
    }

    /// Adds a settlement.
    pub fn settle(&self, settle: Settle) {
        self.inner.lock().history.settles.push(settle);
    }

    /// Adds a kill.
    pub fn crash(&self, crash: Crash) {
        self.inner.lock().history.crashes.push(crash);
    }

    /// Adds a stop.
    pub fn stop(&self, stop: Stop) {
        self.inner.lock().history.stops.push(stop);
    }

    /// Adds the result of a last read.
    pub fn end(&self, end: End) {
        self.inner.lock().history.ends.push(end);
    }

    /// Returns the numbers of records, for a progress line.
    pub fn counts(&self) -> String {
        let History { operations, deliveries, settles, crashes, stops, .. } =
            &self.inner.lock().history;
        format!(
            "{} operations, {} deliveries, {} settlements, {} kills, {} stops",
            operations.len(),
            deliveries.len(),
            settles.len(),
            crashes.len(),
            stops.len()
        )
    }

    /// Returns `true` if the history has reached its limit and the run should end.
    pub fn is_full(&self) -> bool {
        let History { operations, deliveries, settles, .. } = &self.inner.lock().history;
        operations.len() + deliveries.len() + settles.len() >= RECORDS_MAX
    }

    /// Returns every timer named so far.
    pub fn keys(&self) -> Vec<TimerKey> {
        self.inner.lock().history.keys.clone()
    }

    /// Takes the history; the recorder is empty afterwards.
    pub fn take(&self) -> History {
        std::mem::take(&mut *self.inner.lock()).history
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("RECORDS_MAX keeps every count below 2^32")
}
