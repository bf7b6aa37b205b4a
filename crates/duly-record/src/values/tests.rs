//! The codes of enumerations are the same in every store, and frozen: a place that moved would change the
//! meaning of all records.

use duly_core::{Invalid, Timestamp};

use super::*;
use crate::from_code;

#[derive(Debug, PartialEq)]
enum Error {
    Unknown(&'static str, u64),
    Impossible(String),
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Impossible(invalid.to_string())
    }
}

impl ReadError for Error {
    fn unknown(what: &'static str, code: u64) -> Self {
        Self::Unknown(what, code)
    }

    fn impossible(why: &str) -> Self {
        Self::Impossible(why.to_owned())
    }
}

/// A form whose numbers and lengths have one byte.
struct Bytes(Vec<u8>);

impl WriteFields for Bytes {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn count(&mut self, value: u32) {
        self.number(u64::from(value));
    }
    fn number(&mut self, value: u64) {
        self.u8(u8::try_from(value).expect("a small number"));
    }
    fn word(&mut self, value: u64) {
        self.number(value);
    }
    fn float(&mut self, value: f64) {
        self.raw(&value.to_be_bytes());
    }
    fn time(&mut self, value: Timestamp) {
        self.number(value.unix_ms());
    }
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.raw(text.as_bytes());
    }
    fn field(&mut self, tag: u8, write: impl FnOnce(&mut Self)) {
        self.u8(tag);
        write(self);
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> ReadFields<'a> for Rest<'a> {
    type Error = Error;

    fn u8(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.0.split_first().ok_or_else(|| Error::impossible("short"))?;
        self.0 = rest;
        Ok(*first)
    }
    fn count(&mut self) -> Result<u32, Error> {
        self.u8().map(u32::from)
    }
    fn number(&mut self) -> Result<u64, Error> {
        self.u8().map(u64::from)
    }
    fn word(&mut self) -> Result<u64, Error> {
        self.number()
    }
    fn float(&mut self) -> Result<f64, Error> {
        self.number().map(|number| number as f64)
    }
    fn time(&mut self) -> Result<Timestamp, Error> {
        self.number().map(Timestamp::saturating_from_unix_ms)
    }
    fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let count = usize::from(self.u8()?);
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| Error::impossible("short"))?;
        self.0 = rest;
        Ok(taken)
    }
    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
    fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

#[test]
fn the_codes_of_enumerations_are_frozen() {
    let codes = |all: &[&str], code_of: &dyn Fn(usize) -> (String, u8)| {
        for (place, name) in all.iter().enumerate() {
            assert_eq!(code_of(place), ((*name).to_owned(), u8::try_from(place + 1).unwrap()));
        }
    };
    codes(
        &[
            "delivered",
            "failed",
            "timed_out",
            "not_connected",
            "connection_lost",
            "lease_lost",
            "rejected",
        ],
        &|place| {
            let outcome = AttemptOutcome::ALL[place];
            (outcome.as_str().to_owned(), code_in(&AttemptOutcome::ALL, &outcome))
        },
    );
    codes(&["attempts_spent", "rejected", "expired", "corrupt", "overdue"], &|place| {
        let reason = DeadLetterReason::ALL[place];
        (reason.as_str().to_owned(), code_in(&DeadLetterReason::ALL, &reason))
    });
    codes(&["POST", "PUT", "PATCH"], &|place| {
        (METHODS[place].as_str().to_owned(), code_in(&METHODS, &METHODS[place]))
    });
    codes(&["Json", "Text", "Binary"], &|place| {
        (format!("{:?}", FORMS[place]), code_in(&FORMS, &FORMS[place]))
    });
    codes(&["Ack", "Retry", "Dead", "Release"], &|place| {
        (format!("{:?}", VERDICTS[place]), code_in(&VERDICTS, &VERDICTS[place]))
    });
}

#[test]
fn codes_that_are_not_of_a_list_are_refused() {
    for code in [0, 8, 255] {
        let unknown = Err(Error::Unknown("outcome", u64::from(code)));
        assert_eq!(from_code(&AttemptOutcome::ALL, code, "outcome"), unknown);
    }
    for outcome in AttemptOutcome::ALL {
        let code = code_in(&AttemptOutcome::ALL, &outcome);
        assert_eq!(Rest(&[code]).code(&AttemptOutcome::ALL, "outcome"), Ok(outcome));
    }
}

#[test]
fn codes_of_later_builds_are_refused_by_name() {
    for (bytes, what, code) in
        [(&[0][..], "destination", 0), (&[3], "destination", 3), (&[HTTP, 4], "method", 4)]
    {
        let unknown = Error::Unknown(what, code);
        assert_eq!(decode_lane_key(&mut Rest(bytes)).as_ref(), Err(&unknown));
        assert_eq!(decode_destination(&mut Rest(bytes)).as_ref(), Err(&unknown));
    }
    let unknown = Error::Unknown("retry policy", 3);
    assert_eq!(decode_retry(&mut Rest(&[3])), Err(unknown));
}

#[test]
fn the_lane_of_stored_bytes_is_that_of_the_destination() {
    let http = |url| {
        let mut http = HttpDestination::new(url).unwrap();
        http.timeout = Millis::from_ms(200);
        Destination::Http(http)
    };
    for destination in [Destination::Pull, http("https://h.example/x?y"), http("http://[::1]:80/")]
    {
        let mut bytes = Bytes(Vec::new());
        encode_destination(&mut bytes, &destination);
        assert_eq!(decode_lane_key(&mut Rest(&bytes.0)), Ok(destination.lane_key()));
        assert_eq!(decode_destination(&mut Rest(&bytes.0)).as_ref(), Ok(&destination));
        bytes.0.pop();
        if !destination.is_pull() {
            assert!(decode_destination(&mut Rest(&bytes.0)).is_err(), "a shorter text");
        }
    }
}

#[test]
fn a_fallback_to_consumers_is_refused() {
    let refused = decode_fallback(&mut Rest(&[1, 1, PULL]));
    assert_eq!(refused, Err(Error::Impossible("consumers as a fallback".to_owned())));
}
