//! The encoding of values in packed records: big-endian numbers, numbers of variable length, and texts
//! with their length in front.
//!
//! A number of variable length has seven bits in each byte, the lowest first; the high bit says that
//! more follow.

use crate::{ReadFields, WriteFields};
use duly_core::Timestamp;

/// Error of bytes that this format does not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The bytes end too early.
    #[error("it ends too early")]
    Short,
    /// A field has a value that this build does not know.
    #[error("{what} {value} is not known")]
    Unknown {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A value that breaks a rule of its type.
    #[error("{0}")]
    Impossible(String),
}

/// Result of reading.
pub type Result<T> = std::result::Result<T, Unreadable>;

impl crate::ReadError for Unreadable {
    fn unknown(what: &'static str, value: u64) -> Self {
        Self::Unknown { what, value }
    }

    fn impossible(why: &str) -> Self {
        Self::Impossible(why.to_owned())
    }
}

impl From<duly_core::Invalid> for Unreadable {
    fn from(invalid: duly_core::Invalid) -> Self {
        Self::Impossible(invalid.to_string())
    }
}

/// Appends values.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Appends bytes with their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }
}

impl WriteFields for Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn count(&mut self, value: u32) {
        self.number(u64::from(value));
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(low_bits(value) | 0x80);
            value >>= 7;
        }
        self.0.push(low_bits(value));
    }

    fn word(&mut self, value: u64) {
        self.raw(&value.to_be_bytes());
    }

    fn float(&mut self, value: f64) {
        self.raw(&value.to_be_bytes());
    }

    /// Appends a time: six bytes hold every valid one.
    fn time(&mut self, value: Timestamp) {
        self.raw(&value.unix_ms().to_be_bytes()[2..]);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn field(&mut self, tag: u8, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.u8(tag);
        self.bytes(&inner.0);
    }
}

const fn low_bits(value: u64) -> u8 {
    (value & 0x7f) as u8
}

/// Reads values from the front.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Unreadable::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Unreadable::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Takes the next field; `None` at the end.
    ///
    /// # Errors
    /// When the field ends too early.
    pub fn field(&mut self) -> Result<Option<(u8, Reader<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        Ok(Some((self.u8()?, Reader(self.bytes()?))))
    }
}

impl<'a> ReadFields<'a> for Reader<'a> {
    type Error = Unreadable;

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn count(&mut self) -> Result<u32> {
        let value = self.number()?;
        u32::try_from(value).map_err(|_| Unreadable::Unknown { what: "number", value })
    }

    fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Unreadable::Impossible("a number of more than 64 bits".to_owned()))
    }

    fn word(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn float(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    fn time(&mut self) -> Result<Timestamp> {
        let mut wide = [0; 8];
        wide[2..].copy_from_slice(&self.array::<6>()?);
        let ms = u64::from_be_bytes(wide);
        Timestamp::from_unix_ms(ms).ok_or(Unreadable::Unknown { what: "time", value: ms })
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = usize::try_from(self.number()?).map_err(|_| Unreadable::Short)?;
        self.take(count)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}
