//! The fields of a timer that `schedule` and `reschedule` accept.

use std::{
    io::Read as _,
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
    /// The payload as the bytes of a file, `-` for stdin (application/octet-stream, unless there is a
    /// header content-type)
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
}

impl TimerArgs {
    /// The arguments that set the due time.
    pub(crate) const WHEN: [&str; 2] = ["delay", "at"];

    /// Returns a schedule with the given fields; reads the named files.
    pub(crate) fn read(self) -> Result<Schedule, Failure> {
        let PayloadArgs { payload, payload_text, payload_file } = self.payload;
        Ok(Schedule {
            due_at: self.at.map(Time::from),
            delay: self.delay.map(Duration::from),
            payload: payload.map(|json| Bytes::from(String::from(Box::<str>::from(json)))),
            payload_text: payload_text.map(Bytes::from),
            payload_base64: payload_file.map(|path| read(&path)).transpose()?,
            headers: self.headers,
            tags: self.tags,
            destination: self.destination.destination()?,
            ..Schedule::default()
        })
    }
}

/// Returns the bytes of a file or of stdin. A payload that is larger than any namespace allows is
/// refused.
fn read(path: &Path) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    input::open(path, "payload")?
        .take(PAYLOAD_BYTES_HARD + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| input::unreadable(path, "payload", &error))?;
    if bytes.len() as u64 > PAYLOAD_BYTES_HARD {
        let name = input::name(path);
        return Err(Failure::new(format_args!(
            "the payload from {name} is larger than the {PAYLOAD_BYTES_HARD} bytes that a payload can have: send a reference to it instead"
        )));
    }
    Ok(bytes.into())
}
