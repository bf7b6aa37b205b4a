//! Lease tokens. The holder of a token may settle the firing.
//!
//! A token is opaque to its holder. Its first two bytes are the shard (big endian), so any node can route a
//! settlement. The other bytes belong to the store that issued the token. The text form is base64url without
//! padding.

use std::{fmt, sync::Arc};

use duly_core::shard::ShardId;

/// Maximum size of a token, in bytes. A timer's id fits, so a store need not keep a table of leases.
pub const TOKEN_BYTES_MAX: usize = 320;

/// The token of one lease of one firing. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// Creates a token of `shard` with the store's own bytes.
    pub fn new(shard: ShardId, own: &[u8]) -> Self {
        Self(shard.0.to_be_bytes().into_iter().chain(own.iter().copied()).collect())
    }

    /// Parses the text form; `None` if the text is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > TOKEN_BYTES_MAX * 4 / 3 + 4 {
            return None;
        }
        let bytes = data_encoding::BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        (bytes.len() > 2).then(|| Self(bytes.into()))
    }

    /// Returns the shard that issued it.
    pub fn shard(&self) -> ShardId {
        ShardId(u16::from_be_bytes([self.0[0], self.0[1]]))
    }

    /// Returns the store's own bytes.
    pub fn own(&self) -> &[u8] {
        &self.0[2..]
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_text_form_round_trips_and_junk_is_no_token() {
        let token = Token::new(ShardId(513), &[1, 2, 3]);
        let parsed = Token::parse(&token.to_string()).unwrap();
        assert_eq!((&parsed, parsed.shard(), parsed.own()), (&token, ShardId(513), &[1, 2, 3][..]));
        for junk in ["", "AA", "!!!", "AAA=", &"A".repeat(10_000)] {
            assert_eq!(Token::parse(junk), None, "{junk}");
        }
    }
}
