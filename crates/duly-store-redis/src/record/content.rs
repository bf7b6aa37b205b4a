//! The content of a record, which only Rust reads: the timer's specification as tagged fields. Also the
//! forms of destinations and retry policies, which settings use too.

use bytes::Bytes;
use duly_core::{
    Destination, Millis, Payload, RetryPolicy, TimerSpec,
    destination::{HttpDestination, Method},
    headers::Headers,
    payload::{Form, PAYLOAD_BYTES_HARD},
    retry::Exponential,
    schedule::{SlotKey, Tags},
};

use super::{
    SeparatePayload,
    fields::{Reader, Result, Unreadable, Writer, code_in, from_code},
};

const PAYLOAD: u8 = 1;
const APART: u8 = 2;
const HEADERS: u8 = 3;
const TAGS: u8 = 4;
const SLOT_KEY: u8 = 5;
const DESTINATION: u8 = 6;
const RETRY: u8 = 7;
const EXPIRE_AFTER: u8 = 8;
const TRACE_PARENT: u8 = 9;

/// Shortest payload, in bytes, that is compressed: few shorter ones become much shorter.
const COMPRESSED_FROM: usize = 256;

/// Flag in the byte of a payload's form: it is stored as an LZ4 block.
const COMPRESSED: u8 = 1 << 7;

const FORMS: [Form; 3] = [Form::Json, Form::Text, Form::Binary];
const METHODS: [Method; 3] = [Method::Post, Method::Put, Method::Patch];

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
    if !spec.headers.is_empty() {
        w.field(HEADERS, |w| encode_headers(w, &spec.headers));
    }
    if !spec.tags.is_empty() {
        w.field(TAGS, |w| spec.tags.as_slice().iter().for_each(|tag| w.text(tag)));
    }
    if let Some(key) = &spec.slot_key {
        w.field(SLOT_KEY, |w| w.raw(key.as_str().as_bytes()));
    }
    if let Some(destination) = &spec.destination {
        w.field(DESTINATION, |w| encode_destination(w, destination));
    }
    if let Some(retry) = &spec.retry {
        w.field(RETRY, |w| encode_retry(w, retry));
    }
    if let Some(after) = spec.expire_after {
        w.field(EXPIRE_AFTER, |w| w.number(after.ms()));
    }
    if let Some(trace) = &spec.trace_parent {
        w.field(TRACE_PARENT, |w| w.raw(trace.as_bytes()));
    }
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
            HEADERS => spec.headers = decode_headers(&mut field)?,
            TAGS => {
                let mut tags = Vec::new();
                while !field.is_done() {
                    tags.push(field.text()?.to_owned());
                }
                spec.tags = Tags::from_stored(tags);
            }
            SLOT_KEY => spec.slot_key = Some(SlotKey::from_stored(field.rest_text()?)),
            DESTINATION => spec.destination = Some(decode_destination(&mut field)?),
            RETRY => spec.retry = Some(decode_retry(&mut field)?),
            EXPIRE_AFTER => spec.expire_after = Some(field.millis()?),
            TRACE_PARENT => spec.trace_parent = Some(field.rest_text()?),
            other => return Err(unknown_field(other)),
        }
    }
    Ok(apart)
}

pub(crate) fn unknown_field(tag: u8) -> Unreadable {
    Unreadable::Unknown { what: "field", value: u64::from(tag) }
}

fn encode_form(w: &mut Writer, form: Form, compressed: bool) {
    w.u8(code_in(&FORMS, &form) | if compressed { COMPRESSED } else { 0 });
}

fn decode_form(r: &mut Reader<'_>) -> Result<(Form, bool)> {
    let code = r.u8()?;
    Ok((from_code(&FORMS, code & !COMPRESSED, "payload form")?, code & COMPRESSED != 0))
}

fn encode_headers(w: &mut Writer, headers: &Headers) {
    for (name, value) in headers.iter() {
        w.text(name);
        w.text(value);
    }
}

fn decode_headers(r: &mut Reader<'_>) -> Result<Headers> {
    let mut pairs = Vec::new();
    while !r.is_done() {
        pairs.push((r.text()?.to_owned(), r.text()?.to_owned()));
    }
    Ok(Headers::from_stored(pairs))
}

pub(crate) fn encode_destination(w: &mut Writer, destination: &Destination) {
    match destination {
        Destination::Pull => w.u8(1),
        Destination::Http(http) => {
            w.u8(2);
            w.u8(code_in(&METHODS, &http.method));
            w.number(http.timeout.ms());
            w.text(http.url().as_str());
            encode_headers(w, &http.headers);
        }
    }
}

pub(crate) fn decode_destination(r: &mut Reader<'_>) -> Result<Destination> {
    match r.u8()? {
        1 => Ok(Destination::Pull),
        2 => {
            let method = from_code(&METHODS, r.u8()?, "method")?;
            let timeout = r.millis()?;
            let mut http = HttpDestination::from_stored(r.text()?)?;
            (http.method, http.timeout) = (method, timeout);
            http.headers = decode_headers(r)?;
            Ok(Destination::Http(http))
        }
        other => Err(Unreadable::Unknown { what: "destination", value: u64::from(other) }),
    }
}

pub(crate) fn encode_retry(w: &mut Writer, retry: &RetryPolicy) {
    match retry {
        RetryPolicy::Exponential(policy) => {
            w.u8(1);
            w.number(u64::from(policy.max_attempts));
            w.number(policy.min_backoff.ms());
            w.number(policy.max_backoff.ms());
            w.raw(&policy.multiplier.to_be_bytes());
            w.raw(&policy.jitter.to_be_bytes());
        }
        RetryPolicy::Delays(waits) => {
            w.u8(2);
            waits.iter().for_each(|wait| w.number(wait.ms()));
        }
    }
}

pub(crate) fn decode_retry(r: &mut Reader<'_>) -> Result<RetryPolicy> {
    let policy = match r.u8()? {
        1 => RetryPolicy::Exponential(Exponential {
            max_attempts: r.small()?,
            min_backoff: r.millis()?,
            max_backoff: r.millis()?,
            multiplier: f64::from_be_bytes(r.array()?),
            jitter: f64::from_be_bytes(r.array()?),
        }),
        2 => {
            let mut waits: Vec<Millis> = Vec::new();
            while !r.is_done() {
                waits.push(r.millis()?);
            }
            RetryPolicy::Delays(waits)
        }
        other => {
            return Err(Unreadable::Unknown { what: "retry policy", value: u64::from(other) });
        }
    };
    Ok(policy.check()?)
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
