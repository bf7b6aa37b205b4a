//! Scans the frames of one segment, through a window of the file.
//!
//! [`super::walk`] decides what the absence of a frame means.

use std::collections::VecDeque;

use crate::{
    disk::File,
    format::{ALIGN, frame, segment},
    open::Result,
};

/// Bytes read at once, unless a frame is longer.
const WINDOW_BYTES: u64 = 1 << 20;

/// A part of a file, in memory.
struct ReadWindow<'a> {
    file: &'a dyn File,
    length: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl ReadWindow<'_> {
    /// Returns the bytes from `from` on, cut at the end of the file.
    fn slice(&mut self, from: u64, bytes: u64) -> Result<&[u8]> {
        let until = from.saturating_add(bytes).min(self.length);
        let from = from.min(until);
        if from < self.start || until > self.start + self.bytes.len() as u64 {
            let read = (until - from).max(WINDOW_BYTES).min(self.length - from);
            self.bytes.resize(memory(read), 0);
            self.start = from;
            self.file.read_exact_at(from, &mut self.bytes)?;
        }
        Ok(&self.bytes[memory(from - self.start)..memory(until - self.start)])
    }
}

/// Converts a number of bytes of a segment.
fn memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a segment fits memory")
}

/// A valid frame and its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) start: u64,
    pub(super) header: frame::Header,
}

/// The state of a scan over a segment.
pub(super) struct Scan<'a> {
    window: ReadWindow<'a>,
    seed: frame::Seed,
    /// End of the last valid frame.
    pub(super) at: u64,
    /// Epoch of the last valid frame.
    pub(super) epoch: u32,
    /// Number of the next frame.
    pub(super) lsn: u64,
    /// The last valid frame.
    pub(super) last: Option<frame::Header>,
    /// Numbers and starts of the latest frames that no later frame declares durable.
    unsure: VecDeque<(u64, u64)>,
}

impl<'a> Scan<'a> {
    /// Starts at the beginning of a segment of `length` bytes, behind a frame of `epoch`.
    pub(super) fn new(
        file: &'a dyn File,
        length: u64,
        seed: frame::Seed,
        epoch: u32,
        lsn: u64,
    ) -> Self {
        let window = ReadWindow { file, length, start: 0, bytes: Vec::new() };
        let at = segment::HEADER_BYTES;
        Self { window, seed, at, epoch, lsn, last: None, unsure: VecDeque::new() }
    }

    /// Moves to a place where frame `lsn` begins, or would begin.
    pub(super) const fn begin_at(&mut self, offset: u64, lsn: u64) {
        (self.at, self.lsn) = (offset, lsn);
    }

    /// Returns the segment's header, if it is valid.
    pub(super) fn segment_header(&mut self) -> Result<Option<segment::Header>> {
        Ok(segment::Header::read(self.window.slice(0, segment::HEADER_BYTES)?))
    }

    /// Returns the next frame in order; `None` if there is none.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>> {
        let (lsn, epoch) = (self.lsn, self.epoch);
        let follows = |header: &frame::Header| header.lsn == lsn && header.epoch >= epoch;
        let Some(frame) = self.frame_at(self.at, follows)? else {
            return Ok(None);
        };
        let durable = frame.header.durable_lsn();
        while self.unsure.front().is_some_and(|(lsn, _)| *lsn <= durable) {
            self.unsure.pop_front();
        }
        self.unsure.push_back((lsn, frame.start));
        self.at += frame.header.frame_bytes();
        self.lsn += 1;
        self.epoch = frame.header.epoch;
        self.last = Some(frame.header);
        Ok(Some(frame))
    }

    /// Returns the bytes of a frame, header included.
    pub(super) fn bytes_of(&mut self, frame: Frame) -> Result<&[u8]> {
        self.window.slice(frame.start, frame.header.frame_bytes())
    }

    /// Returns the start of the frames that may never have been synced.
    pub(super) fn unsure_from(&self) -> u64 {
        self.unsure.front().map_or(self.at, |(_, start)| *start)
    }

    /// Returns the first valid frame behind the last one that is of the present life of the segment and
    /// accepted by `wanted`.
    pub(super) fn later_frame(
        &mut self,
        wanted: impl Fn(&frame::Header) -> bool,
    ) -> Result<Option<Frame>> {
        let (lsn, epoch) = (self.lsn, self.epoch);
        self.frame_behind(|header| header.lsn >= lsn && header.epoch >= epoch && wanted(header))
    }

    /// Returns the first valid frame behind the last one, of any life of the segment, that `wanted`
    /// accepts.
    fn frame_behind(&mut self, wanted: impl Fn(&frame::Header) -> bool) -> Result<Option<Frame>> {
        let magic = frame::MAGIC.to_le_bytes();
        let mut from = self.at;
        while from < self.window.length {
            let part = self.window.slice(from, WINDOW_BYTES)?;
            let places = part.chunks(ALIGN_BYTES).enumerate();
            let begins = places.filter(|(_, place)| place.starts_with(&magic));
            let starts: Vec<u64> =
                begins.map(|(number, _)| from + (number * ALIGN_BYTES) as u64).collect();
            for start in starts {
                if let Some(frame) = self.frame_at(start, &wanted)? {
                    return Ok(Some(frame));
                }
            }
            from += WINDOW_BYTES;
        }
        Ok(None)
    }

    /// Returns the end of left-over bytes in the place of the next frame: neither zeros, nor a whole
    /// frame, nor what the file held before it became this segment. If the file was another segment
    /// before, their end is unknown, and their start is returned.
    pub(super) fn leftovers_until(&mut self) -> Result<Option<u64>> {
        let (at, lsn) = (self.at, self.lsn);
        let next = self.window.slice(at, frame::HEADER_BYTES as u64)?;
        if next.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let resembles = frame::resembles(next, lsn) && self.frame_at(at, |_| true)?.is_none();
        if self.frame_behind(|header| header.lsn < lsn)?.is_some() {
            return Ok(resembles.then_some(at));
        }
        let (mut from, mut until) = (at, at);
        while from < self.window.length {
            let part = self.window.slice(from, WINDOW_BYTES)?;
            let last = part.iter().rposition(|byte| *byte != 0);
            until = last.map_or(until, |last| from + last as u64 + 1);
            from += WINDOW_BYTES;
        }
        Ok(Some(until))
    }

    /// Returns the valid frame at this place, if `wanted` accepts its header.
    fn frame_at(
        &mut self,
        start: u64,
        wanted: impl Fn(&frame::Header) -> bool,
    ) -> Result<Option<Frame>> {
        let seed = self.seed;
        let header = self.window.slice(start, frame::HEADER_BYTES as u64)?;
        let Some(header) = frame::Header::read(header, seed).filter(wanted) else {
            return Ok(None);
        };
        if start + header.frame_bytes() > self.window.length {
            return Ok(None);
        }
        let bytes = self.window.slice(start, header.frame_bytes())?;
        Ok(frame::is_intact(bytes, seed, &header).then_some(Frame { start, header }))
    }
}

/// Alignment of frames.
const ALIGN_BYTES: usize = ALIGN as usize;
