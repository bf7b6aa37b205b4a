//! The form of values in one store.

use duly_core::{Invalid, Millis, Timestamp};

/// Appends values in the form of one store.
pub trait WriteFields {
    /// Appends a byte.
    fn u8(&mut self, value: u8);
    /// Appends bytes of a length that the reader knows.
    fn raw(&mut self, bytes: &[u8]);
    /// Appends a number of at most 32 bits.
    fn count(&mut self, value: u32);
    /// Appends a number of at most 64 bits, most often a small one.
    fn number(&mut self, value: u64);
    /// Appends 64 random bits.
    fn word(&mut self, value: u64);
    /// Appends a floating-point number.
    fn float(&mut self, value: f64);
    /// Appends a time.
    fn time(&mut self, value: Timestamp);
    /// Appends a text with its length.
    fn text(&mut self, text: &str);
    /// Appends a field: its tag, its length, and the bytes that `write` appends.
    fn field(&mut self, tag: u8, write: impl FnOnce(&mut Self));

    /// Appends a field for a value, if there is one.
    fn optional<T>(&mut self, tag: u8, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        if let Some(value) = value {
            self.field(tag, |w| write(w, value));
        }
    }
}

/// The error of bytes that a store's format does not write.
pub trait ReadError: From<Invalid> {
    /// Creates the error of a code that this build does not know.
    fn unknown(what: &'static str, code: u64) -> Self;
    /// Creates the error of a value that breaks a rule of its type.
    fn impossible(why: &str) -> Self;
}

/// Takes values from the front, in the form of one store.
pub trait ReadFields<'a> {
    /// The error of bytes that the format does not write.
    type Error: ReadError;

    /// Takes a byte.
    fn u8(&mut self) -> Result<u8, Self::Error>;
    /// Takes a number of at most 32 bits.
    fn count(&mut self) -> Result<u32, Self::Error>;
    /// Takes a number of at most 64 bits.
    fn number(&mut self) -> Result<u64, Self::Error>;
    /// Takes 64 random bits.
    fn word(&mut self) -> Result<u64, Self::Error>;
    /// Takes a floating-point number.
    fn float(&mut self) -> Result<f64, Self::Error>;
    /// Takes a time.
    fn time(&mut self) -> Result<Timestamp, Self::Error>;
    /// Takes bytes with their length.
    fn bytes(&mut self) -> Result<&'a [u8], Self::Error>;
    /// Takes the rest.
    fn rest(&mut self) -> &'a [u8];
    /// Returns `true` if nothing is left.
    fn is_done(&self) -> bool;

    /// Takes a length of time.
    fn millis(&mut self) -> Result<Millis, Self::Error> {
        Ok(Millis::from_ms(self.number()?))
    }

    /// Takes the code of a value in a list.
    fn code<T: Copy>(&mut self, all: &[T], what: &'static str) -> Result<T, Self::Error> {
        from_code(all, self.u8()?, what)
    }

    /// Takes a text with its length.
    fn text(&mut self) -> Result<&'a str, Self::Error> {
        utf8(self.bytes()?)
    }

    /// Takes the rest as a text.
    fn rest_text(&mut self) -> Result<String, Self::Error> {
        utf8(self.rest()).map(str::to_owned)
    }
}

fn utf8<E: ReadError>(bytes: &[u8]) -> Result<&str, E> {
    str::from_utf8(bytes).map_err(|_| E::impossible("text that is not UTF-8"))
}

/// Returns the code of an enumeration's value: its place in the list, from 1.
pub fn code_in<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let place = all.iter().position(|known| known == value).unwrap_or(0);
    u8::try_from(place + 1).expect("enumerations of the formats have fewer than 255 members")
}

/// Returns the value of a code.
///
/// # Errors
/// For a code that is not of the list.
pub fn from_code<T: Copy, E: ReadError>(all: &[T], code: u8, what: &'static str) -> Result<T, E> {
    let place = usize::from(code).checked_sub(1);
    let known = place.and_then(|place| all.get(place).copied());
    known.ok_or_else(|| E::unknown(what, u64::from(code)))
}
