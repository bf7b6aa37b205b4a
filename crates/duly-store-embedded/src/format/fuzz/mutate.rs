//! Damage: flipped bits, cuts, moved parts, and extreme numbers.

use rand::{Rng, rngs::StdRng};

/// Returns a copy of `bytes`, damaged one to four times; foreign bytes come from `other`.
pub(super) fn damaged(random: &mut StdRng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..=4) {
        damage(random, &mut bytes, other);
    }
    bytes
}

fn damage(random: &mut StdRng, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        bytes.extend_from_slice(other);
        return;
    }
    let at = random.random_range(0..bytes.len());
    match random.random_range(0..9) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at] = random.random(),
        2 => bytes.truncate(at),
        3 => {
            let end = random.random_range(at..=bytes.len()).min(at + 64);
            drop(bytes.drain(at..end));
        }
        4 => {
            let from = random.random_range(0..=other.len());
            let until = random.random_range(from..=other.len()).min(from + 64);
            drop(bytes.splice(at..at, other[from..until].iter().copied()));
        }
        5 => {
            let from = random.random_range(0..bytes.len());
            let moved = bytes[from..bytes.len().min(from + 32)].to_vec();
            overwrite(bytes, at, &moved);
        }
        6 | 7 => {
            let number = extreme(random, u64::from(u32::MAX), bytes.len());
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            overwrite(bytes, at, &number.to_le_bytes());
        }
        _ => {
            let number = extreme(random, u64::MAX, bytes.len());
            overwrite(bytes, at, &number.to_le_bytes());
        }
    }
}

/// Overwrites bytes from `at` on, as far as there are any.
fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    let count = with.len().min(bytes.len() - at);
    bytes[at..at + count].copy_from_slice(&with[..count]);
}

fn extreme(random: &mut StdRng, max: u64, length: usize) -> u64 {
    let length = length as u64;
    let all =
        [0, 1, max, max - 1, max / 2, max / 2 + 1, length, length + 1, length.wrapping_sub(1)];
    all[random.random_range(0..all.len())]
}
