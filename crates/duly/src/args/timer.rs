//! The fields of a timer that `schedule` and `reschedule` accept.

use std::{
    io,
    path::{Path, PathBuf},
};

use axum::body::Bytes;
use duly_api::{Duration, Header, Schedule, Time};
use duly_core::{Millis, Timestamp, payload::PAYLOAD_BYTES_HARD};
use serde_json::value::RawValue;

use super::{delivery::DestinationArgs, input, values};
use crate::failure::Failure;

/// Due time, payload and destination of a timer. A command that needs a time adds a group over
/// [`TimerArgs::WHEN`].
#[derive(clap::Args)]
pub(crate) struct TimerArgs {
    /// Due this long from now: 250ms, 30m, 2h30m, 7d
    #[arg(
        long = "in",
        value_name = "DURATION",
        value_parser = values::duration,
        allow_hyphen_values = true,
        conflicts_with = "at"
    )]
    delay: Option<Millis>,
    /// Due at this time: RFC 3339 with any offset, or Unix milliseconds
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_hyphen_values = true)]
    at: Option<Timestamp>,
    #[command(flatten)]
    payload: PayloadArgs,
    // A repeated name is sent twice, so that the server refuses it.
    /// A header of the delivery, as name:value; repeat it for more
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = values::header)]
    headers: Vec<Header>,
    /// A tag to find the timer by; repeat it for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    destination: DestinationArgs,
}

#[derive(clap::Args)]
#[group(multiple = false)]
struct PayloadArgs {
    /// The payload as JSON, delivered as exactly this text (application/json)
    #[arg(long, value_name = "JSON", value_parser = values::json, allow_hyphen_values = true)]
    payload: Option<Box<RawValue>>,
    /// The payload as plain text (text/plain; charset=utf-8)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    payload_text: Option<String>,
    /// The payload as the content of a file, `-` for stdin: NAME.json as JSON, NAME.txt as text, others as
    /// bytes (application/octet-stream); with a header content-type all as bytes
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
}

impl TimerArgs {
    /// The arguments that set the due time.
    pub(crate) const WHEN: [&str; 2] = ["delay", "at"];

    /// Returns a schedule with the given fields; reads the named files.
    pub(crate) fn read(self) -> Result<Schedule, Failure> {
        let PayloadArgs { payload, payload_text, payload_file } = self.payload;
        let has_type = self.headers.iter().any(|it| it.name.eq_ignore_ascii_case("content-type"));
        let of_file = match payload_file {
            Some(path) => FilePayload::read(&path, has_type)?,
            None => FilePayload::default(),
        };
        let json = |json: Box<RawValue>| Bytes::from(String::from(Box::<str>::from(json)));
        Ok(Schedule {
            due_at: self.at.map(Time::from),
            delay: self.delay.map(Duration::from),
            payload: payload.or(of_file.json).map(json),
            payload_text: payload_text.map(Bytes::from).or(of_file.text),
            payload_base64: of_file.bytes,
            headers: self.headers,
            tags: self.tags,
            destination: self.destination.destination()?,
            ..Schedule::default()
        })
    }
}

/// The content of a file, in one of the forms of a payload.
#[derive(Default)]
struct FilePayload {
    json: Option<Box<RawValue>>,
    text: Option<Bytes>,
    bytes: Option<Bytes>,
}

impl FilePayload {
    /// Reads a file: JSON and text by the end of its name, unless a header has the content type.
    fn read(path: &Path, has_type: bool) -> Result<Self, Failure> {
        let bytes = read(path)?;
        let end = path.extension().filter(|_| !has_type).and_then(|end| end.to_str());
        let is = |wanted: &str| end.is_some_and(|end| end.eq_ignore_ascii_case(wanted));
        let refused = |what: &str, error: &dyn std::fmt::Display| {
            let name = input::name(path);
            Failure::new(format_args!(
                "{name} is not {what} ({error}): correct it, or send its bytes with --header \
                 content-type:application/octet-stream"
            ))
        };
        if is("json") {
            let text = input::without_mark(&bytes);
            let json = serde_json::from_slice(text).map_err(|error| refused("JSON", &error))?;
            return Ok(Self { json: Some(json), ..Self::default() });
        }
        if is("txt") {
            std::str::from_utf8(&bytes).map_err(|error| refused("text in UTF-8", &error))?;
            return Ok(Self { text: Some(bytes), ..Self::default() });
        }
        Ok(Self { bytes: Some(bytes), ..Self::default() })
    }
}

/// Returns the bytes of a file or of stdin. A payload that is larger than any namespace allows is
/// refused.
fn read(path: &Path) -> Result<Bytes, Failure> {
    let read = input::bytes(path, PAYLOAD_BYTES_HARD);
    let bytes = read.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => Failure::new(format_args!(
            "the payload from {} is larger than the {PAYLOAD_BYTES_HARD} bytes that a payload can have: send a reference \
             to it instead",
            input::name(path)
        )),
        _ => input::unreadable(path, "payload", &error),
    })?;
    Ok(bytes.into())
}
