//! Meters the frames of HTTP/2 connections, and finds the connections of floods.
//!
//! Frames without a request or its body (SETTINGS, PING, PRIORITY, WINDOW_UPDATE, RST_STREAM, CONTINUATION, empty
//! DATA, and unknown types) cost the server CPU, and no budget of memory bounds them. So each connection has an
//! allowance of such frames, as in Envoy:
//!
//! 1. A frame without use takes one from the allowance. An empty allowance ends the connection.
//! 2. Useful frames of both directions add to it: a caller answers responses with WINDOW_UPDATE and PING. Bytes of
//!    responses add to it too, also past the usual maximum: clients of Go send two WINDOW_UPDATE for each 4 KiB that
//!    their program reads, long after the bytes were written.
//! 3. Time adds to it: a connection without calls may send keep-alive pings.
//!
//! The meter sees the bytes of the connection as they come, also in parts, below the library and above TLS. On a
//! connection of HTTP/1.1 it does nothing.

use std::time::Instant;

/// Begins each HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes in front of each frame: length, type, flags, stream.
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// Allowance of a new connection: settings, windows, and the priorities that some clients send at first.
const ALLOWANCE_FIRST: u32 = 200;
/// Largest allowance, but for bytes of responses.
pub(crate) const FRAMES_MAX: u32 = 1_000;
/// Largest allowance with bytes of responses: for 64 MiB that the caller has not read yet.
const FRAMES_IN_FLIGHT_MAX: u32 = 64 * 1024;
/// Frames that a second adds.
const ALLOWANCE_PER_SECOND: u32 = 100;
/// Frames that a request adds: its windows, priorities and reset.
const PER_REQUEST: u32 = 8;
/// Frames that a part of a response adds: a PING and two WINDOW_UPDATE.
const PER_RESPONSE_PART: u32 = 3;
/// Bytes of a response that add one frame more: half of those for which clients send a WINDOW_UPDATE.
const RESPONSE_BYTES_PER_FRAME: usize = 1024;
/// Frames that a part of a body adds.
const PER_BODY_PART: u32 = 1;

/// The allowance of frames of a connection.
#[derive(Debug)]
pub(crate) struct FrameMeter {
    read: FrameReader,
    written: FrameReader,
    allowance: u32,
    refilled: Instant,
    heads: u32,
}

/// A connection has sent too many frames without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyFrames;

impl FrameMeter {
    /// Creates the meter of a connection that has sent nothing.
    pub(crate) fn new() -> Self {
        Self {
            read: FrameReader::Preface { matched: 0 },
            written: FrameReader::NONE,
            allowance: ALLOWANCE_FIRST,
            refilled: Instant::now(),
            heads: 0,
        }
    }

    /// Returns the number of heads of requests that have begun since the last call.
    pub(crate) const fn take_heads(&mut self) -> u32 {
        std::mem::replace(&mut self.heads, 0)
    }

    /// Returns `true` once the caller has begun HTTP/2.
    pub(crate) const fn is_http2(&self) -> bool {
        self.read.is_http2()
    }

    /// Counts bytes that the caller has sent.
    ///
    /// # Errors
    /// When the allowance is empty.
    pub(crate) fn count_read(&mut self, bytes: &[u8]) -> Result<(), TooManyFrames> {
        let (allowance, refilled) = (&mut self.allowance, &mut self.refilled);
        let heads = &mut self.heads;
        self.read.read(bytes, |frame| {
            *heads += u32::from(frame.kind == HEADERS);
            let earned = match (frame.kind, frame.length) {
                (HEADERS, _) => PER_REQUEST,
                (DATA, 1..) => PER_BODY_PART,
                // The end of a body.
                (DATA, 0) if frame.flags & END_STREAM != 0 => 0,
                _ => return take(allowance, refilled),
            };
            add(allowance, earned, FRAMES_MAX);
            Ok(())
        })
    }

    /// Counts bytes that were sent to the caller.
    pub(crate) fn count_written(&mut self, bytes: &[u8]) {
        if !self.is_http2() {
            return;
        }
        let allowance = &mut self.allowance;
        let counted = self.written.read(bytes, |frame| {
            if matches!(frame.kind, DATA | HEADERS) {
                add(allowance, PER_RESPONSE_PART, FRAMES_MAX);
            }
            if frame.kind == DATA {
                let earned = u32::try_from(frame.length / RESPONSE_BYTES_PER_FRAME);
                add(allowance, earned.unwrap_or(u32::MAX), FRAMES_IN_FLIGHT_MAX);
            }
            Ok(())
        });
        debug_assert!(counted.is_ok(), "frames of the server are not refused");
    }
}

/// Takes one frame from an allowance, with that of the time since it was last empty.
fn take(allowance: &mut u32, refilled: &mut Instant) -> Result<(), TooManyFrames> {
    if *allowance == 0 {
        let ms = u32::try_from(refilled.elapsed().as_millis()).unwrap_or(u32::MAX);
        let earned = ms / (1_000 / ALLOWANCE_PER_SECOND);
        if earned > 0 {
            *refilled = Instant::now();
            add(allowance, earned, FRAMES_MAX);
        }
    }
    *allowance = allowance.checked_sub(1).ok_or(TooManyFrames)?;
    Ok(())
}

/// Adds frames to an allowance, up to a maximum.
fn add(allowance: &mut u32, more: u32, most: u32) {
    *allowance = allowance.saturating_add(more).min(most).max(*allowance);
}

/// The first bytes of a frame.
#[derive(Debug, Clone, Copy)]
struct FrameHead {
    length: usize,
    kind: u8,
    flags: u8,
}

/// A position in the bytes of one direction.
#[derive(Debug)]
enum FrameReader {
    /// Within the preface, of which this many bytes have come.
    Preface { matched: usize },
    /// Within a frame: bytes of its head that have come, and bytes of its payload that are missing.
    Frame { head: [u8; HEAD_BYTES], head_bytes: usize, missing: usize },
    /// The connection is none of HTTP/2.
    Other,
}

impl FrameReader {
    /// Before the first frame.
    const NONE: Self = Self::Frame { head: [0; HEAD_BYTES], head_bytes: 0, missing: 0 };

    const fn is_http2(&self) -> bool {
        matches!(self, Self::Frame { .. })
    }

    /// Calls `each` for each frame that begins in these bytes.
    fn read(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(FrameHead) -> Result<(), TooManyFrames>,
    ) -> Result<(), TooManyFrames> {
        while !bytes.is_empty() {
            match self {
                Self::Other => return Ok(()),
                Self::Preface { matched } => {
                    let rest = &PREFACE[*matched..];
                    let count = rest.len().min(bytes.len());
                    if rest[..count] != bytes[..count] {
                        *self = Self::Other;
                        return Ok(());
                    }
                    *matched += count;
                    bytes = &bytes[count..];
                    if *matched == PREFACE.len() {
                        *self = Self::NONE;
                    }
                }
                Self::Frame { missing, .. } if *missing > 0 => {
                    let count = bytes.len().min(*missing);
                    *missing -= count;
                    bytes = &bytes[count..];
                }
                Self::Frame { head, head_bytes, missing } => {
                    let count = bytes.len().min(HEAD_BYTES - *head_bytes);
                    head[*head_bytes..*head_bytes + count].copy_from_slice(&bytes[..count]);
                    *head_bytes += count;
                    bytes = &bytes[count..];
                    if *head_bytes == HEAD_BYTES {
                        let [high, middle, low, kind, flags, ..] = *head;
                        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
                        (*head_bytes, *missing) = (0, length);
                        each(FrameHead { length, kind, flags })?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Returns a meter after the preface, whose time does not add to the allowance.
    fn begun() -> FrameMeter {
        let mut meter = FrameMeter::new();
        meter.count_read(PREFACE).expect("allowed");
        meter.refilled = Instant::now() + std::time::Duration::from_secs(3_600);
        meter
    }

    #[test]
    fn p10_each_frame_without_a_request_is_counted() {
        const WITHOUT_REQUEST: [(u8, &[u8]); 9] = [
            (2, &[0; 5]),
            (3, &[0; 4]),
            (4, &[]),
            (4, &[0; 6]),
            (6, &[0; 8]),
            (8, &[0; 4]),
            (9, &[]),
            (DATA, &[]),
            (0xBE, b"unknown"),
        ];
        for (kind, payload) in WITHOUT_REQUEST {
            let mut meter = begun();
            let frames = frame(kind, 0, payload);
            let sent = (0..).take_while(|_| meter.count_read(&frames).is_ok()).count();
            assert_eq!(sent, ALLOWANCE_FIRST as usize, "type {kind}");
        }
    }

    #[test]
    fn p10_frames_are_counted_over_split_reads() {
        let ping = frame(6, 0, &[7; 8]);
        // A payload that looks like frames is none.
        let data = frame(DATA, 0, &ping.repeat(100));
        let text = [PREFACE, &data, &ping.repeat(150)].concat();
        for size in [1, 2, 3, 8, 9, 10, 17, 100, text.len()] {
            let mut meter = FrameMeter::new();
            let read = text.chunks(size).try_for_each(|part| meter.count_read(part));
            assert_eq!(read, Ok(()), "{size}");
            assert_eq!(meter.allowance, ALLOWANCE_FIRST + PER_BODY_PART - 150, "{size}");
        }
    }

    #[test]
    fn calls_and_responses_add_to_the_allowance() {
        let mut meter = begun();
        let (request, response) = (frame(HEADERS, 5, &[0; 20]), frame(DATA, 1, &[0; 30]));
        let (ping, window) = (frame(6, 0, &[0; 8]), frame(8, 0, &[0; 4]));
        for _ in 0..10_000 {
            for sent in [&request, &ping, &window, &window] {
                meter.count_read(sent).expect("a caller that calls");
            }
        }
        // A stream of firings, of which each is answered.
        for _ in 0..10_000 {
            meter.count_written(&response);
            for sent in [&ping, &window, &window] {
                meter.count_read(sent).expect("a caller that reads");
            }
        }
        // Its own pongs earn it nothing.
        let pong = frame(6, 1, &[0; 8]);
        let sent = (0..).take_while(|_| {
            meter.count_written(&pong);
            meter.count_read(&ping).is_ok()
        });
        assert!(sent.count() <= FRAMES_MAX as usize);
    }

    #[test]
    fn bytes_of_responses_add_to_the_allowance() {
        let (part, window) = (frame(DATA, 0, &[0; 64 * 1024]), frame(8, 0, &[0; 4]));
        let mut meter = begun();
        for _ in 0..10_000 {
            meter.count_written(&part);
            meter.count_read(&window.repeat(32)).expect("a caller that reads 4 KiB at a time");
        }
        // The caller reads what came long before.
        let mut meter = begun();
        for _ in 0..10 {
            (0..512).for_each(|_| meter.count_written(&part));
            for _ in 0..512 {
                meter.count_read(&window.repeat(32)).expect("a caller that reads later");
            }
        }
        // The bytes of one large response are no allowance for ever.
        (0..2_000).for_each(|_| meter.count_written(&part));
        let sent = (0..).take_while(|_| meter.count_read(&window).is_ok()).count();
        assert_eq!(sent, FRAMES_IN_FLIGHT_MAX as usize);
    }

    #[test]
    fn time_adds_to_the_allowance() {
        let mut meter = begun();
        let ping = frame(6, 0, &[0; 8]);
        while meter.count_read(&ping).is_ok() {}
        meter.read = FrameReader::NONE;
        meter.refilled = Instant::now() - std::time::Duration::from_secs(1);
        let sent = (0..).take_while(|_| meter.count_read(&ping).is_ok()).count();
        assert!((100..200).contains(&sent), "{sent}");
    }

    #[test]
    fn other_protocols_are_not_metered() {
        let mut meter = FrameMeter::new();
        for _ in 0..10_000 {
            meter.count_read(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("HTTP/1.1");
            meter.count_written(b"HTTP/1.1 200 OK\r\n\r\n");
        }
    }
}
