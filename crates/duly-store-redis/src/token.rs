//! Tokens: they identify the firing of a lease, and show that the lease is of this deployment.
//!
//! ```text
//! shard u16 | 0 format u8 = 1 | 1 coordinator shard of the namespace u16 | 3 its count u48
//! 9 nonce u64 | 17 incarnation u64 | 25 occurrence u32 | 29 check u64 | 37 id
//! ```
//!
//! The check is a hash of everything else, with the name of the deployment as its seed. So a token of
//! another deployment, or one with a changed bit, is invalid. The check is no signature; the nonce is
//! the part that cannot be guessed.

use duly_core::{Incarnation, TimerId, shard::ShardId};
use duly_store::Token;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const FORMAT: u8 = 1;
const HEAD: usize = 37;
const CHECK: std::ops::Range<usize> = 29..37;

/// The content of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Number of the namespace, as the scripts know it: its coordinator shard, and a count of 28 bits
    /// with 20 random bits (`scripts/put.lua`).
    pub(crate) num: String,
    pub(crate) nonce: u64,
    pub(crate) incarnation: Incarnation,
    pub(crate) occurrence: u32,
    pub(crate) id: TimerId,
}

impl Ticket {
    /// Returns the token of this lease.
    pub(crate) fn token(&self, shard: ShardId, seed: u64) -> Token {
        let (coordinator, count) = self.num.split_once('.').unwrap_or(("0", "0"));
        let coordinator: u16 = coordinator.parse().unwrap_or(0);
        let count: u64 = count.parse().unwrap_or(0);
        let mut own = Vec::with_capacity(HEAD + self.id.as_str().len());
        own.push(FORMAT);
        own.extend_from_slice(&coordinator.to_be_bytes());
        own.extend_from_slice(&count.to_be_bytes()[2..]);
        own.extend_from_slice(&self.nonce.to_be_bytes());
        own.extend_from_slice(&self.incarnation.0.to_be_bytes());
        own.extend_from_slice(&self.occurrence.to_be_bytes());
        own.extend_from_slice(&[0; 8]);
        own.extend_from_slice(self.id.as_str().as_bytes());
        let check = check_of(&own, shard, seed);
        own[CHECK].copy_from_slice(&check.to_be_bytes());
        Token::new(shard, &own)
    }

    /// Parses a token; `None` if it is not of this shard and deployment.
    pub(crate) fn read(token: &Token, shard: ShardId, seed: u64) -> Option<Self> {
        let own = token.own();
        if token.shard() != shard || own.len() <= HEAD || own[0] != FORMAT {
            return None;
        }
        let array = |range: std::ops::Range<usize>| <[u8; 8]>::try_from(&own[range]).ok();
        if u64::from_be_bytes(array(CHECK)?) != check_of(own, shard, seed) {
            return None;
        }
        let coordinator = u16::from_be_bytes([own[1], own[2]]);
        let count = own[3..9].iter().fold(0_u64, |count, byte| (count << 8) | u64::from(*byte));
        Some(Self {
            num: format!("{coordinator}.{count}"),
            nonce: u64::from_be_bytes(array(9..17)?),
            incarnation: Incarnation(u64::from_be_bytes(array(17..25)?)),
            occurrence: u32::from_be_bytes(own[25..29].try_into().ok()?),
            id: TimerId::new(str::from_utf8(&own[HEAD..]).ok()?).ok()?,
        })
    }
}

fn check_of(own: &[u8], shard: ShardId, seed: u64) -> u64 {
    let mut bytes = own.to_vec();
    bytes[CHECK].fill(0);
    bytes.extend_from_slice(&shard.0.to_be_bytes());
    xxh3_64_with_seed(&bytes, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_every_bit_of_a_token_counts() {
        let id = TimerId::new("an id").unwrap();
        let num = "63.281474976710655".to_owned();
        let ticket = Ticket { num, nonce: 7, incarnation: Incarnation(8), occurrence: 9, id };
        let token = ticket.token(ShardId(63), 42);
        assert_eq!(Ticket::read(&token, ShardId(63), 42), Some(ticket));
        assert_eq!(Ticket::read(&token, ShardId(62), 42), None);
        assert_eq!(Ticket::read(&token, ShardId(63), 43), None, "another deployment's");
        for at in 0..token.own().len() {
            let mut own = token.own().to_vec();
            own[at] ^= 1;
            assert_eq!(Ticket::read(&Token::new(ShardId(63), &own), ShardId(63), 42), None);
        }
    }

    #[test]
    fn the_longest_token_fits() {
        let id = TimerId::new(&"x".repeat(256)).unwrap();
        let num = "255.1".to_owned();
        let ticket =
            Ticket { num, nonce: 1, incarnation: Incarnation(1), occurrence: u32::MAX, id };
        let token = ticket.token(ShardId(255), 0);
        assert!(token.own().len() + 2 <= duly_store::token::TOKEN_BYTES_MAX);
    }
}
