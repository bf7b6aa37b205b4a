//! The content of a record, which only Rust reads: the timer's specification as tagged fields, and the payload.

use crate::{Layout, ReadFields as _, WriteFields as _, code_in, from_code, values::FORMS};
use bytes::Bytes;
use duly_core::{
    Payload, Settings, TimerSpec,
    payload::{Form, PAYLOAD_BYTES_HARD},
};

use super::{
    SeparatePayload,
    fields::{Reader, Result, Unreadable, Writer},
};

const PAYLOAD: u8 = 1;
const APART: u8 = 2;

/// Shortest payload, in bytes, that is compressed: few shorter ones become much shorter.
const COMPRESSED_FROM: usize = 256;

/// Flag in the byte of a payload's form: it is stored as an LZ4 block.
const COMPRESSED: u8 = 1 << 7;

pub(super) fn encode(w: &mut Writer, spec: &TimerSpec, apart: Option<&SeparatePayload>) {
    match (apart, &spec.payload) {
        (Some(apart), _) => w.field(APART, |w| {
            encode_form(w, apart.form, apart.compressed);
            w.raw(&apart.version);
            w.number(apart.bytes);
        }),
        (None, Some(payload)) => w.field(PAYLOAD, |w| {
            let block = compressed(&payload.bytes);
            encode_form(w, payload.form, block.is_some());
            if let Some(block) = block {
                w.number(payload.bytes.len() as u64);
                w.raw(&block);
            } else {
                w.raw(&payload.bytes);
            }
        }),
        (None, None) => {}
    }
    Layout::PACKED.encode_spec(w, spec);
}

pub(super) fn decode(r: &mut Reader<'_>, spec: &mut TimerSpec) -> Result<Option<SeparatePayload>> {
    let mut apart = None;
    while let Some((tag, mut field)) = r.field()? {
        match tag {
            PAYLOAD => {
                let (form, compressed) = decode_form(&mut field)?;
                let bytes = if compressed {
                    let bytes = field.number()?;
                    decompressed(field.rest(), bytes)?
                } else {
                    Bytes::copy_from_slice(field.rest())
                };
                spec.payload = Some(Payload { form, bytes });
            }
            APART => {
                let (form, compressed) = decode_form(&mut field)?;
                let (version, bytes) = (field.array()?, field.number()?);
                apart = Some(SeparatePayload { form, version, bytes, compressed });
            }
            other if Layout::PACKED.decode_spec(other, &mut field, spec)? => {}
            other => return Err(unknown_field(other)),
        }
    }
    Ok(apart)
}

/// Encodes settings.
pub fn encode_settings(settings: &Settings) -> Vec<u8> {
    let mut w = Writer::default();
    Layout::PACKED.encode_settings(&mut w, settings);
    w.0
}

/// Decodes settings.
///
/// # Errors
/// For bytes that the format does not write.
pub fn decode_settings(bytes: &[u8]) -> Result<Settings> {
    let mut settings = Settings::default();
    let mut r = Reader(bytes);
    while let Some((tag, mut field)) = r.field()? {
        if !Layout::PACKED.decode_settings(tag, &mut field, &mut settings)? {
            return Err(unknown_field(tag));
        }
    }
    Ok(settings)
}

fn unknown_field(tag: u8) -> Unreadable {
    Unreadable::Unknown { what: "field", value: u64::from(tag) }
}

fn encode_form(w: &mut Writer, form: Form, compressed: bool) {
    w.u8(code_in(&FORMS, &form) | if compressed { COMPRESSED } else { 0 });
}

fn decode_form(r: &mut Reader<'_>) -> Result<(Form, bool)> {
    let code = r.u8()?;
    Ok((
        from_code::<_, Unreadable>(&FORMS, code & !COMPRESSED, "payload form")?,
        code & COMPRESSED != 0,
    ))
}

/// Compresses a payload into an LZ4 block: a timer costs its memory in Redis, and most payloads are JSON.
///
/// The format of a block is that of <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>. The
/// length before compression is kept beside it. Returns `None` unless that saves an eighth, about a size
/// class of the allocator that Redis uses.
pub(super) fn compressed(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() < COMPRESSED_FROM {
        return None;
    }
    let block = lz4_flex::block::compress(payload);
    (block.len() <= payload.len() / 8 * 7).then_some(block)
}

/// Decompresses a block into the payload of `bytes` bytes.
pub(super) fn decompressed(block: &[u8], bytes: u64) -> Result<Bytes> {
    let wrong = |why: String| Unreadable::Impossible(format!("a payload of {bytes} bytes: {why}"));
    if bytes > PAYLOAD_BYTES_HARD {
        return Err(wrong("more than there may be".to_owned()));
    }
    let room = usize::try_from(bytes).map_err(|error| wrong(error.to_string()))?;
    let payload = lz4_flex::block::decompress(block, room).map_err(|e| wrong(e.to_string()))?;
    if payload.len() != room {
        return Err(wrong(format!("{} are stored", payload.len())));
    }
    Ok(payload.into())
}
