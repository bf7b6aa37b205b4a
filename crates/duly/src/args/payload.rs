//! What: the payload, given as JSON, as text, or as a file's exact bytes.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use duly_core::payload::PAYLOAD_BYTES_HARD;
use serde_json::value::RawValue;

use super::{fields::RequestFields, input, values};
use crate::failure::Failure;

/// The payload.
#[derive(clap::Args)]
#[group(multiple = false)]
pub(crate) struct PayloadArgs {
    /// The payload as JSON, delivered as exactly this text (application/json)
    #[arg(long, value_name = "JSON", value_parser = values::json, allow_hyphen_values = true)]
    payload: Option<Box<RawValue>>,
    /// The payload as plain text (text/plain; charset=utf-8)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    payload_text: Option<String>,
    /// The payload as the bytes of a file, `-` for stdin (application/octet-stream, unless a
    /// header content-type says otherwise)
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
}

impl PayloadArgs {
    /// Sets the payload, where one is given; reads the file.
    pub(crate) fn set(&self, fields: &mut RequestFields) -> Result<(), Failure> {
        fields.set_some("payload", self.payload.as_ref());
        fields.set_some("payload_text", self.payload_text.as_ref());
        if let Some(path) = &self.payload_file {
            fields.set("payload_base64", &STANDARD.encode(read(path)?));
        }
        Ok(())
    }
}

/// The bytes of a file or of stdin, refused past what any namespace allows.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
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
    Ok(bytes)
}
