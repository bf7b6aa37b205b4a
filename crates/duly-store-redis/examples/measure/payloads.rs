//! Payloads of a measurement: an order as JSON, or random letters, which cannot be compressed without an
//! entropy coder.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

const FIRST: [&str; 8] = ["Anna", "Jonas", "Mei", "Lucia", "Omar", "Priya", "Tom", "Zoe"];
const LAST: [&str; 8] =
    ["Keller", "Garcia", "Nakamura", "Okafor", "Singh", "Mueller", "Rossi", "Smith"];
const WARES: [&str; 10] = [
    "espresso cups",
    "desk lamp",
    "running shoes",
    "USB cable",
    "rain jacket",
    "notebook A5",
    "garden hose",
    "tea sampler",
    "wool socks",
    "bike light",
];

/// Kind of payloads: least and most bytes, and their content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payloads {
    from: usize,
    to: usize,
    by_chance: bool,
}

impl Payloads {
    /// The kinds that are measured by default.
    pub(crate) const USUAL: [Self; 6] = [
        Self::orders(0, 0),
        Self::orders(100, 100),
        Self::orders(1_000, 1_000),
        Self::orders(500, 1_500),
        Self { by_chance: true, ..Self::orders(1_000, 1_000) },
        Self { by_chance: true, ..Self::orders(500, 1_500) },
    ];

    const fn orders(from: usize, to: usize) -> Self {
        Self { from, to, by_chance: false }
    }

    /// Makes `count` payloads, the same ones each time.
    pub(crate) fn make(self, count: usize) -> Vec<Bytes> {
        let mut random = StdRng::seed_from_u64(count as u64);
        let one = |_| {
            let bytes = random.random_range(self.from..=self.to);
            let text = if self.by_chance {
                letters(&mut random, bytes)
            } else {
                order(&mut random, bytes)
            };
            Bytes::from(text)
        };
        (0..count).map(one).collect()
    }
}

impl fmt::Display for Payloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.from.to_string();
        if self.to != self.from {
            text = format!("{text}-{}", self.to);
        }
        if self.by_chance {
            text.push_str(" random");
        }
        f.pad(&text)
    }
}

/// Parses `1000`, `500-1500`, or `1000r` for random letters.
impl FromStr for Payloads {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sizes = text.strip_suffix('r');
        let (from, to) =
            sizes.unwrap_or(text).split_once('-').unwrap_or((sizes.unwrap_or(text), ""));
        let from = from.parse()?;
        let to = if to.is_empty() { from } else { to.parse()? };
        Ok(Self { from, to, by_chance: sizes.is_some() })
    }
}

fn letters(random: &mut StdRng, bytes: usize) -> String {
    (0..bytes).map(|_| char::from(random.sample(rand::distr::Alphanumeric))).collect()
}

/// Returns an order with as many items as fit; a note fills the rest.
fn order(random: &mut StdRng, bytes: usize) -> String {
    let mut any = |names: &[&'static str]| *names.choose(random).expect("a name");
    let (first, last) = (any(&FIRST), any(&LAST));
    let mail = format!("{first}.{last}").to_lowercase();
    let mut text = format!(
        r#"{{"order_id":"{:032x}","customer":{{"id":{},"name":"{first} {last}","email":"{mail}@example.com"}},"currency":"EUR","placed_at":"2026-11-{:02}T{:02}:{:02}:{:02}Z","items":["#,
        random.random::<u128>(),
        random.random_range(1..10_000_000),
        random.random_range(1..29),
        random.random_range(0..24),
        random.random_range(0..60),
        random.random_range(0..60),
    );
    loop {
        let item = format!(
            r#"{{"sku":"{:08X}","title":"{}","quantity":{},"unit_price":{}.{:02}}},"#,
            random.random::<u32>(),
            WARES.choose(random).expect("a thing"),
            random.random_range(1..6),
            random.random_range(1..200),
            random.random_range(0..100),
        );
        if text.len() + item.len() + 12 > bytes {
            break;
        }
        text.push_str(&item);
    }
    text.push_str(r#"null],"note":""#);
    while text.len() < bytes {
        text.push(char::from(random.sample(rand::distr::Alphanumeric)));
    }
    text.truncate(bytes);
    text
}
