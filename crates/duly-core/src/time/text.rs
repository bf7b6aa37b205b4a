//! The texts of times: RFC 3339 and its relatives, each for exactly one instant.
//!
//! ```text
//! time   = date ("T" | "t" | " ") hour ":" minute [":" second [("." | ",") digits]] offset *suffix
//! offset = [" "] ("Z" | "z" | "UTC" | "GMT" | ["UTC" | "GMT"] sign hour [[":"] minute [":" second]])
//! suffix = " " zone | " m=" sign digits "." digits           of Go
//!        | "[" ["!"] characters "]"                          of RFC 9557
//! ```
//!
//! So every text is accepted that these print: Java (`Instant`, `OffsetDateTime`, `ZonedDateTime`), .NET (`o`, `u`), Go
//! (`String`), Python (`str`, `isoformat`), JavaScript, PostgreSQL (`timestamptz`). [`parse`] also reads the forms of
//! HTTP, JavaScript's `toString` and Java's `Date`, which begin with a weekday.
//!
//! 1. The offset decides. A zone that follows it is not looked up: the rules of zones change, the offset does not. A
//!    zone that RFC 9557 marks as critical (`!`) is refused.
//! 2. Nothing is assumed. The error names the piece that is missing or wrong.
//! 3. Digits below a millisecond round up. A leap second is the first instant of the next day, as in POSIX.

use jiff::{
    civil::{Date, Time, Weekday},
    tz::Offset,
};

use super::{ALLOWED, Timestamp, decimal_hint};
use crate::invalid::{Invalid, shorten};

/// Longest text of a time.
const BYTES_MAX: usize = 256;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday),
    ("Tue", Weekday::Tuesday),
    ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday),
    ("Fri", Weekday::Friday),
    ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];

const NO_OFFSET: &str = "the offset is missing: add Z or +01:00";
const NO_SIGN: &str = "the sign of the offset is missing: write +01:00; in a URL + is %2B";
const NO_TIME: &str = "the time of day and the offset are missing: add T00:00:00Z, for instance";
const NO_TIME_BEFORE_OFFSET: &str =
    "the time of day is missing: add T00:00:00 in front of the offset, for instance";
const NO_SEPARATORS: &str = "the separators of the time of day are missing: write 09:00:00";
const NO_SECOND: &str = "a fraction belongs to a second: write 09:00:30, for instance";
const OTHER_FORM: &str = "write it as 2031-12-01T09:00:00Z, for instance";
const YEAR_FIRST: &str = "the year comes first: write 2031-12-01T09:00:00Z, for instance";
const OTHER_SEPARATORS: &str = "the date has other separators: write 2031-12-01";
const NO_MINUTE: &str = "the minute is missing: write 09:00, for instance";
const NO_DIGITS: &str = "digits after the point are missing";
const NO_DATE: &str = "there is no such date";
const NO_SUCH_TIME: &str = "there is no such time of day";
const NO_SUCH_OFFSET: &str = "there is no such offset: write Z, +01:00 or -08:00";
const OTHER_WEEKDAY: &str = "the date has another weekday";
const TWO_OFFSETS: &str = "there are two offsets: write one of them";
const CRITICAL: &str =
    "a zone with ! asks for a check that Duly does not make: the offset is enough";

/// The fault of a text: a sentence about it, or none if the text has another form.
type Fault = Option<String>;

/// Returns the time that a text means.
///
/// # Errors
/// The missing or wrong piece; or the allowed forms and times.
pub(super) fn parse(text: &str) -> Result<Timestamp, Invalid> {
    let refuse = |fault: Fault| {
        let allowed = match fault {
            Some(fault) => format!("an RFC 3339 time ({fault})"),
            None => ALLOWED.to_owned(),
        };
        Invalid::new("", text, allowed)
    };
    if let Some(allowed) = decimal_hint(text, true) {
        return Err(Invalid::new("", text, allowed));
    }
    let ms = match text.bytes().next() {
        _ if text.len() > BYTES_MAX => Err(None),
        Some(first) if first.is_ascii_alphabetic() => with_weekday(text),
        _ => Reader(text).time(),
    };
    let ms = ms.map_err(|fault| refuse(fault.or_else(|| expected_form(text))))?;
    Timestamp::from_integer(ms).map_err(|_| refuse(None))
}

/// Returns the form that is expected in place of another known form of a whole time.
fn expected_form(text: &str) -> Fault {
    if text.len() > BYTES_MAX {
        return None;
    }
    if let Some(extended) = extended(text) {
        return match Reader(&extended).time() {
            Ok(_) => Some(format!("the separators are missing: write {extended}")),
            Err(fault) => fault,
        };
    }
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic());
    if text.contains(':') && words.any(|word| MONTHS.contains(&word)) {
        return Some(OTHER_FORM.to_owned());
    }
    let date = text.split([' ', 'T', ',']).next()?;
    let lengths: Vec<_> = date
        .split(['/', '.', '-'])
        .map(|part| if part.bytes().all(|byte| byte.is_ascii_digit()) { part.len() } else { 0 })
        .collect();
    match lengths[..] {
        [1 | 2, 1 | 2, 4] => Some(YEAR_FIRST.to_owned()),
        [4, 1 | 2, 1 | 2] if !date.contains('-') => Some(OTHER_SEPARATORS.to_owned()),
        _ => None,
    }
}

/// Returns the text of ISO 8601's basic form (`20311201T090000Z`) in the extended form.
fn extended(text: &str) -> Option<String> {
    let mut rest = Reader(text);
    let mut two = || {
        let before = rest.0;
        rest.digits(2).map(|_| &before[..2])
    };
    let [century, year, month, day] = [two()?, two()?, two()?, two()?];
    let mut extended = format!("{century}{year}-{month}-{day}");
    if rest.take("T") || rest.take("t") || rest.take(" ") {
        extended.push('T');
        for separator in ["", ":", ":"] {
            let before = rest.0;
            if rest.digits(2).is_none() {
                break;
            }
            extended.push_str(separator);
            extended.push_str(&before[..2]);
        }
    }
    Some(extended + rest.0)
}

/// Reads the texts that begin with a weekday. The offset is a word of its own, before or behind the year:
///
/// ```text
/// Mon, 01 Dec 2031 09:00:00 GMT                                         HTTP
/// Mon Dec 01 2031 10:00:00 GMT+0100 (Central European Standard Time)    JavaScript
/// Mon Dec 01 09:00:00 UTC 2031                                          Java, Go, Ruby
/// Mon Dec 01 09:00:00 2031 UTC                                          C, with the zone behind it
/// Mon Dec  1 09:00:00 2031                                              C, Python: refused, without an offset
/// ```
fn with_weekday(text: &str) -> Result<i128, Fault> {
    let text = match text.split_once(" (") {
        Some((time, name)) if name.ends_with(')') => time,
        _ => text,
    };
    let words: Vec<_> = text.split_whitespace().collect();
    let [weekday, one, other, rest @ ..] = &words[..] else { return Err(None) };
    let (weekday, day, month) = match weekday.strip_suffix(',') {
        Some(weekday) => (weekday, one, other),
        None => (*weekday, other, one),
    };
    let weekday = WEEKDAYS.iter().find(|(name, _)| *name == weekday).ok_or(None)?;
    let month = MONTHS.iter().position(|name| name == month).ok_or(None)? + 1;
    let is_year = |word: &str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let (year, time, zone) = match *rest {
        [time, year, zone] if time.contains(':') && is_year(year) => (year, time, zone),
        [time, zone, year] if time.contains(':') => (year, time, zone),
        [time, year] if time.contains(':') => (year, time, ""),
        [year, time, zone] => (year, time, zone),
        [year, time] => (year, time, ""),
        _ => return Err(None),
    };
    let date = format!("{year}-{month:02}-{day:0>2}");
    if Reader(&date).date()?.weekday() != weekday.1 {
        return fault(OTHER_WEEKDAY);
    }
    let time = format!("{date}T{time}");
    let instant = Reader(&format!("{time}{zone}")).time();
    // The text has another form, and maybe another order, than the cure.
    let has_name = !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_alphabetic());
    match instant {
        Err(Some(_)) if zone.is_empty() && Reader(&format!("{time}Z")).time().is_ok() => {
            fault(format!("the offset is missing: write {time}Z or {time}+01:00"))
        }
        Err(Some(_)) if has_name && Reader(&format!("{time}Z")).time().is_ok() => {
            fault(format!("{} names no offset: write {time}+01:00, for instance", shorten(zone)))
        }
        instant => instant,
    }
}

fn fault<T>(sentence: impl Into<String>) -> Result<T, Fault> {
    Err(Some(sentence.into()))
}

/// The rest of a text.
struct Reader<'t>(&'t str);

impl<'t> Reader<'t> {
    /// Reads the whole text as Unix milliseconds.
    fn time(mut self) -> Result<i128, Fault> {
        let date = self.date()?;
        if self.0.is_empty() {
            return fault(NO_TIME);
        }
        if self.0.starts_with(['Z', 'z', '+', '-']) {
            return fault(NO_TIME_BEFORE_OFFSET);
        }
        if !["T", "t", " "].iter().any(|separator| self.take(separator)) {
            return Err(None);
        }
        let hour = self.digits(2).ok_or(None)?;
        if !self.take(":") {
            let has_digit = self.0.starts_with(|c: char| c.is_ascii_digit());
            return fault(if has_digit { NO_SEPARATORS } else { NO_MINUTE });
        }
        let minute = self.digits(2).ok_or(None)?;
        if self.0.starts_with(['.', ',']) {
            return fault(NO_SECOND);
        }
        let (mut second, mut fraction) = (0, "");
        if self.take(":") {
            second = self.digits(2).ok_or(None)?;
            if self.take(".") || self.take(",") {
                fraction = self.while_in(|c| c.is_ascii_digit());
                if fraction.is_empty() {
                    return fault(NO_DIGITS);
                }
            }
        }
        let is_leap = second == 60;
        let read = Time::new(small(hour), small(minute), small(second.min(59)), 0);
        let time = read.ok().filter(|_| second <= 60).ok_or(Some(NO_SUCH_TIME.to_owned()))?;
        let offset_s = self.offset()?;
        self.suffixes(offset_s)?;
        let offset = Offset::from_seconds(offset_s).map_err(|_| Some(NO_SUCH_OFFSET.to_owned()))?;
        let instant = offset.to_timestamp(date.to_datetime(time)).map_err(|_| None)?;
        let mut ms = i128::from(instant.as_millisecond());
        if is_leap {
            // Leap seconds end a month of UTC.
            ms += 1_000;
            let next = jiff::Timestamp::from_millisecond(i64::try_from(ms).map_err(|_| None)?);
            let next = Offset::UTC.to_datetime(next.map_err(|_| None)?);
            if (next.day(), next.time()) != (1, Time::midnight()) {
                return fault(NO_SUCH_TIME);
            }
        }
        Ok(ms + milliseconds(fraction))
    }

    fn date(&mut self) -> Result<Date, Fault> {
        let year = self.digits(4).ok_or(None)?;
        let month = self.part("-").ok_or(None)?;
        let day = self.part("-").ok_or(None)?;
        let year = i16::try_from(year).map_err(|_| None)?;
        Date::new(year, small(month), small(day)).map_err(|_| Some(NO_DATE.to_owned()))
    }

    /// Reads the offset from UTC, in seconds.
    fn offset(&mut self) -> Result<i32, Fault> {
        let has_space = self.take(" ");
        if self.0.is_empty() || self.0.starts_with('[') {
            return fault(NO_OFFSET);
        }
        if self.take("Z") || self.take("z") {
            return Ok(0);
        }
        let is_utc = self.take("UTC") || self.take("GMT");
        if is_utc && !self.0.starts_with(['+', '-']) {
            return Ok(0);
        }
        let has_digit = self.0.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let has_letter = self.0.starts_with(|c: char| c.is_ascii_alphabetic());
        let sign = if self.take("+") {
            1
        } else if self.take("-") {
            -1
        } else if has_space && has_digit {
            return fault(NO_SIGN);
        } else if has_letter {
            let name = shorten(self.0);
            return fault(format!("{name} names no offset: write Z or +01:00 in its place"));
        } else {
            return Err(None);
        };
        let wrong = || Some(NO_SUCH_OFFSET.to_owned());
        let hours = self.digits(2).ok_or_else(wrong)?;
        let minutes = match self.0.starts_with(':') {
            true => self.part(":").ok_or_else(wrong)?,
            false => self.digits(2).unwrap_or_default(),
        };
        let seconds = match self.0.starts_with(':') {
            true => self.part(":").ok_or_else(wrong)?,
            false => 0,
        };
        if hours > 23 || minutes > 59 || seconds > 59 {
            return Err(wrong());
        }
        let seconds = i32::try_from(hours * 3_600 + minutes * 60 + seconds).map_err(|_| None)?;
        Ok(sign * seconds)
    }

    /// Reads what may follow the offset, which changes nothing.
    fn suffixes(&mut self, offset_s: i32) -> Result<(), Fault> {
        let before = self.0;
        if !self.0.starts_with(" m=") && self.take(" ") {
            let agrees = if self.0.starts_with(['+', '-']) {
                self.offset()? == offset_s
            } else {
                let zone = self.while_in(|c| c.is_ascii_uppercase());
                if !(3..=5).contains(&zone.len()) {
                    self.0 = before;
                    return self.unknown();
                }
                offset_s == 0 || !["UTC", "GMT"].contains(&zone)
            };
            if !agrees {
                return fault(TWO_OFFSETS);
            }
        }
        if self.take(" m=") {
            let _sign = self.take("+") || self.take("-");
            let seconds = self.while_in(|c| c.is_ascii_digit() || c == '.');
            if seconds.is_empty() {
                return self.unknown();
            }
        }
        while let Some(rest) = self.0.strip_prefix('[') {
            let Some((zone, rest)) = rest.split_once(']') else { return self.unknown() };
            if zone.starts_with('!') {
                return fault(CRITICAL);
            }
            let fits = |c: char| c.is_ascii_alphanumeric() || "_.-+/=:".contains(c);
            if zone.is_empty() || !zone.chars().all(fits) {
                return self.unknown();
            }
            self.0 = rest;
        }
        if self.0.is_empty() { Ok(()) } else { self.unknown() }
    }

    /// Returns the fault of a rest that no text of a time has.
    fn unknown<T>(&self) -> Result<T, Fault> {
        match self.0.starts_with(['+', '-']) {
            true => fault(TWO_OFFSETS),
            false => fault(format!("leave out {} at the end", shorten(self.0))),
        }
    }

    /// Reads a separator and two digits.
    fn part(&mut self, separator: &str) -> Option<u32> {
        if self.take(separator) { self.digits(2) } else { None }
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Reads exactly `count` digits.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.0 = rest;
        digits.parse().ok()
    }

    fn while_in(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let end = self.0.find(|c| !fits(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }
}

/// Returns a number of at most two digits.
fn small(number: u32) -> i8 {
    i8::try_from(number).unwrap_or(i8::MAX)
}

/// Returns the digits after a point as milliseconds, rounded up.
pub(super) fn milliseconds(fraction: &str) -> i128 {
    let digit = |place| fraction.as_bytes().get(place).map_or(0, |digit| i128::from(digit - b'0'));
    let rest = fraction.as_bytes().get(3..).unwrap_or_default();
    let up = i128::from(rest.iter().any(|digit| *digit != b'0'));
    digit(0) * 100 + digit(1) * 10 + digit(2) + up
}
