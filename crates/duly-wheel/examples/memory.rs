//! Prints the cost of an entry of the calendar: heap bytes by distribution, before and after the near
//! buckets are prepared, and the time per insert and pop. All entries are popped at the end, 10 000 a
//! call and without preparing in between, so the longest call includes spreading a whole era.
//!
//! ```sh
//! cargo run --release -p duly-wheel --example memory
//! ```

use std::time::{Duration, Instant};

use duly_wheel::Calendar;

const ENTRIES: u64 = 1_000_000;
const NOW_MS: u64 = 1_790_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A value as large as that of the embedded store.
type Value = [u8; 12];

fn main() {
    println!(
        "{:<16} {:>10} {:>10} {:>11} {:>8} {:>14}",
        "1 M entries over", "B/entry", "prepared", "insert ns", "pop ns", "longest pop µs"
    );
    for (name, width_ms) in [
        ("30 days", 30 * DAY_MS),
        ("one hour", HOUR_MS),
        ("50 years", 50 * 365 * DAY_MS),
        ("one second", 1_000),
        ("one millisecond", 1),
    ] {
        measure(name, width_ms);
    }
}

fn measure(name: &str, width_ms: u64) {
    let mut calendar: Calendar<Value> = Calendar::new();
    let started = Instant::now();
    for i in 0..ENTRIES {
        calendar.insert(NOW_MS + scattered(i) % width_ms, [0; 12]);
    }
    let insert = started.elapsed();
    let bytes = bytes_per_entry(&calendar);

    while calendar.prepare(NOW_MS, 10_000) {}
    let prepared_bytes = bytes_per_entry(&calendar);

    let mut out = Vec::new();
    let mut longest = Duration::ZERO;
    let started = Instant::now();
    loop {
        out.clear();
        let call = Instant::now();
        let more = calendar.pop_due(u64::MAX, 10_000, &mut out);
        longest = longest.max(call.elapsed());
        if !more {
            break;
        }
    }
    let pop = started.elapsed();
    println!(
        "{name:<16} {bytes:>10.2} {prepared_bytes:>10.2} {:>11.1} {:>8.1} {:>14}",
        ns_per_entry(insert),
        ns_per_entry(pop),
        longest.as_micros()
    );
}

fn bytes_per_entry(calendar: &Calendar<Value>) -> f64 {
    calendar.heap_bytes() as f64 / calendar.len() as f64
}

fn ns_per_entry(elapsed: Duration) -> f64 {
    elapsed.as_nanos() as f64 / ENTRIES as f64
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): the same values in every execution.
fn scattered(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
