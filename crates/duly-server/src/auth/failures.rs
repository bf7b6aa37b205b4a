//! Limits the failed proofs of each address.
//!
//! Callers with a valid proof are never limited, also if others fail at the same address. Past the limit a caller
//! without one gets 429 in place of 401, and no line in the audit log.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

use duly_core::{
    Millis,
    rate::{Gcra, Rate},
    refusal::wait_of,
};
use parking_lot::Mutex;

/// Most addresses that are known at once; further ones share a limit.
const ADDRESSES_MAX: usize = 10_000;
/// Time between two removals of addresses that are idle.
const REMOVE_EVERY: Duration = Duration::from_secs(1);
/// Failures at once, in seconds of the rate.
const BURST_SECONDS: u32 = 5;
/// Default of `auth.failures_per_second`.
pub(super) const PER_SECOND_DEFAULT: u32 = 10;

/// The failures of each address.
#[derive(Debug)]
pub(super) struct Failures {
    rate: Rate,
    began: Instant,
    by_address: Mutex<ByAddress>,
}

#[derive(Debug, Default)]
struct ByAddress {
    known: HashMap<Option<IpAddr>, Gcra>,
    others: Gcra,
    removed_at: Duration,
}

impl Failures {
    /// Creates it without failures.
    pub(super) fn new(per_second: u32) -> Self {
        let rate = Rate::new(per_second, per_second.saturating_mul(BURST_SECONDS));
        Self { rate, began: Instant::now(), by_address: Mutex::default() }
    }

    /// Counts a failure.
    ///
    /// # Errors
    /// The time to wait, if the address has failed too often.
    pub(super) fn count(&self, address: Option<IpAddr>) -> Result<(), Millis> {
        self.count_at(address, self.began.elapsed())
    }

    fn count_at(&self, address: Option<IpAddr>, now: Duration) -> Result<(), Millis> {
        let mut all = self.by_address.lock();
        let taken = all.of(address.map(network_of), now);
        if taken.available(self.rate, now) == 0 {
            return Err(wait_of(taken.next_in(self.rate, now)));
        }
        taken.take(self.rate, now, 1);
        Ok(())
    }
}

impl ByAddress {
    fn of(&mut self, address: Option<IpAddr>, now: Duration) -> &mut Gcra {
        if self.known.len() >= ADDRESSES_MAX && !self.known.contains_key(&address) {
            if now.saturating_sub(self.removed_at) >= REMOVE_EVERY {
                self.removed_at = now;
                self.known.retain(|_, taken| !taken.is_idle(now));
            }
            if self.known.len() >= ADDRESSES_MAX {
                return &mut self.others;
            }
        }
        self.known.entry(address).or_default()
    }
}

/// Returns the address that counts: of IPv6 the first 64 bits, which one caller has.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_each_address_has_a_limit_of_its_own() {
        let failures = Failures::new(1);
        let count = |address: &str, seconds| {
            let address = address.parse().ok();
            failures.count_at(address, Duration::from_secs(seconds)).is_ok()
        };
        assert!((0..5).all(|_| count("10.0.0.1", 100)));
        assert!(!count("10.0.0.1", 100) && !count("::ffff:10.0.0.1", 100));
        assert!(count("10.0.0.2", 100) && count("no address", 100));
        assert!(count("10.0.0.1", 101));
        assert!((0..5).all(|number| count(&format!("2001:db8::{number}"), 100)));
        assert!(!count("2001:db8::ffff", 100) && count("2001:db8:0:1::1", 100));
    }

    #[test]
    fn p10_addresses_are_bounded() {
        let failures = Failures::new(1);
        let count = |number: usize, seconds| {
            let address = IpAddr::V4(u32::try_from(number).expect("a number").into());
            failures.count_at(Some(address), Duration::from_secs(seconds)).is_ok()
        };
        assert!((0..ADDRESSES_MAX).all(|number| count(number, 100)));
        let admitted = (0..100).filter(|number| count(ADDRESSES_MAX + number, 100)).count();
        assert_eq!(admitted, 5, "further ones share a limit");
        assert_eq!(failures.by_address.lock().known.len(), ADDRESSES_MAX);
        assert!(count(ADDRESSES_MAX, 102), "the first ones are idle");
        assert_eq!(failures.by_address.lock().known.len(), 1);
    }
}
