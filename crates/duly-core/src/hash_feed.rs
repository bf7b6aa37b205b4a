//! The fields of a request on their way into its hash, each tagged and with its length. The form is frozen.

use xxhash_rust::xxh3::Xxh3Default;

use crate::headers::Headers;

/// The hash of the fields so far.
#[derive(Default)]
pub(crate) struct Feed(Xxh3Default);

impl Feed {
    pub(crate) fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        self.0.update(&[tag]);
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn number(&mut self, tag: u8, number: u64) {
        self.bytes(tag, &number.to_le_bytes());
    }

    pub(crate) fn headers(&mut self, headers: &Headers) {
        for (name, value) in headers.iter() {
            self.bytes(b'h', name.as_bytes());
            self.bytes(b'v', value.as_bytes());
        }
    }

    /// Returns the hash.
    pub(crate) fn digest(&self) -> u128 {
        self.0.digest128()
    }
}
