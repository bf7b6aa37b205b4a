//! Fixed-size numbers and tagged fields, of which the record bodies are made.
//!
//! A tagged field is `tag u8, length u32, bytes`; the list ends with tag 0.

use duly_core::Timestamp;
use duly_record::{ReadFields, WriteFields};

use super::DecodeError;

/// Ends a list of tagged fields.
pub(crate) const END: u8 = 0;

/// Appends values to a buffer.
#[derive(Debug)]
pub(crate) struct FieldWriter<'a>(pub(crate) &'a mut Vec<u8>);

impl FieldWriter<'_> {
    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends length and bytes; texts of this format are shorter than 4 GiB.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(length(bytes.len()));
        self.raw(bytes);
    }

    /// Ends a list of tagged fields.
    pub(crate) fn end(&mut self) {
        self.u8(END);
    }
}

impl WriteFields for FieldWriter<'_> {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn count(&mut self, value: u32) {
        self.u32(value);
    }

    fn number(&mut self, value: u64) {
        self.u64(value);
    }

    fn word(&mut self, value: u64) {
        self.u64(value);
    }

    fn float(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    fn time(&mut self, value: Timestamp) {
        self.u64(value.unix_ms());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn field(&mut self, tag: u8, write: impl FnOnce(&mut Self)) {
        debug_assert_ne!(tag, END, "tag 0 ends the list");
        self.u8(tag);
        let at = self.0.len();
        self.u32(0);
        write(self);
        let written = length(self.0.len() - at - 4);
        self.0[at..at + 4].copy_from_slice(&written.to_le_bytes());
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("requests are bounded far below 4 GiB before they are encoded")
}

/// Takes values from a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FieldReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Takes the next `count` bytes as they are.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(count).ok_or(DecodeError::Truncated(self.at))?;
        let taken = self.bytes.get(self.at..end).ok_or(DecodeError::Truncated(self.bytes.len()))?;
        self.at = end;
        Ok(taken)
    }

    /// Takes bytes of a length that both sides know.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        Ok(<[u8; N]>::try_from(taken).expect("take(N) answers exactly N bytes"))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Returns the next tagged field; `None` at the end of the list.
    pub(crate) fn field(&mut self) -> Result<Option<(u8, FieldReader<'a>)>, DecodeError> {
        let tag = self.u8()?;
        if tag == END {
            return Ok(None);
        }
        Ok(Some((tag, FieldReader::new(self.bytes()?))))
    }
}

impl<'a> ReadFields<'a> for FieldReader<'a> {
    type Error = DecodeError;

    fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    fn count(&mut self) -> Result<u32, DecodeError> {
        self.u32()
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        self.u64()
    }

    fn word(&mut self) -> Result<u64, DecodeError> {
        self.u64()
    }

    fn float(&mut self) -> Result<f64, DecodeError> {
        self.u64().map(f64::from_bits)
    }

    fn time(&mut self) -> Result<Timestamp, DecodeError> {
        let ms = self.u64()?;
        Timestamp::from_unix_ms(ms).ok_or(DecodeError::Unknown { what: "time", value: ms })
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

#[cfg(test)]
mod tests;
