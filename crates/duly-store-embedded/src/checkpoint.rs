//! Checkpoints: files that let a start skip most of the journal.
//!
//! 1. The layout is in [`crate::format::checkpoint`].
//! 2. A checkpoint is written as `checkpoints/<number>.tmp`. It is renamed to `checkpoints/<number>.ckp`
//!    when it is complete and durable, so a file of that name is always complete.
//! 3. A checkpoint that does not read back is therefore damage of the disk, and a start may load the one
//!    before it.
//! 4. The start of the store makes the directory [`CHECKPOINTS`]`.dir` durable before the first writer.
//! 5. A reader goes block by block, through a window of the file. The end block has a fixed place, the last
//!    bytes of the file, and is read first. A file without it is refused before anything of it is used. The
//!    counts of the end block say how much to expect, and the blocks must add up to them.

use std::{
    panic,
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

use crate::{
    disk::{
        self, Disk, File,
        fresh::{self, Caching, FreshFile, Throttle},
    },
    format::{
        DecodeError,
        checkpoint::{
            BLOCK_HEADER_BYTES, Block, BlockHeader, END_BLOCK_BYTES, ENTRY_BYTES, End,
            HEADER_BYTES, Header,
        },
        frame::Seed,
    },
    manifest::Manifest,
    numbered::{CHECKPOINTS, damaged},
    open::{OpenError, OpenProgress, Result},
};

/// Bytes read at once, unless a block is longer. Tests cross the boundaries with small files.
const WINDOW_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 2 << 20 };

/// An open checkpoint.
#[derive(Debug)]
pub(crate) struct CheckpointReader {
    file: Arc<dyn File>,
    name: String,
    seed: Seed,
    pub(crate) header: Header,
    pub(crate) end: End,
    /// Start of the end block.
    end_at: u64,
    /// Start of the next block.
    at: u64,
    /// Counts of the blocks that were read.
    seen: End,
    /// Buffer for bytes of the file from `window_at` on; the first `filled` are read.
    window: Vec<u8>,
    filled: usize,
    window_at: u64,
}

impl CheckpointReader {
    /// Opens the checkpoint with this number, and checks its header and its end.
    pub(crate) fn open(disk: &dyn Disk, number: u64, manifest: &Manifest) -> Result<Self> {
        let name = CHECKPOINTS.name(number);
        let file = disk.open(&name)?;
        let seed = manifest.frame_seed();
        let length = file.len()?;
        let Some(end_at) = length.checked_sub(END_BLOCK_BYTES).filter(|at| *at >= HEADER_BYTES)
        else {
            return Err(damaged(&name, 0, &format!("no checkpoint has {length} bytes")));
        };
        let mut bytes = [0; HEADER_BYTES as usize];
        file.read_exact_at(0, &mut bytes)?;
        let header = Header::read(&bytes, seed)
            .map_err(|error| damaged(&name, 0, &format!("the checkpoint's header: {error}")))?;
        manifest.check_origin(&name, "file", header.version, header.store)?;
        if header.number != number {
            return Err(damaged(&name, 32, "the checkpoint was renamed"));
        }
        let mut bytes = [0; END_BLOCK_BYTES as usize];
        file.read_exact_at(end_at, &mut bytes)?;
        let end = read_end(&bytes, seed, end_at)
            .map_err(|error| damaged(&name, end_at, &format!("the checkpoint's end: {error}")))?;
        Ok(Self {
            file,
            name,
            seed,
            header,
            end,
            end_at,
            at: HEADER_BYTES,
            seen: End::default(),
            window: Vec::new(),
            filled: 0,
            window_at: HEADER_BYTES,
        })
    }

    pub(crate) const fn read_progress(&self) -> OpenProgress {
        let (bytes_done, bytes_total) = (self.at, self.end_at);
        OpenProgress { what: OpenProgress::CHECKPOINT, bytes_done, bytes_total }
    }

    /// Returns header and payload of the next block before the end, checked and counted. Returns `None`
    /// after the last block, if the counts add up. After an error the reader is of no further use.
    pub(crate) fn next_checked(&mut self) -> Result<Option<(BlockHeader, &[u8])>> {
        if self.at == self.end_at {
            self.check_seen()?;
            return Ok(None);
        }
        let at = self.at;
        self.fill(BLOCK_HEADER_BYTES)?;
        let header =
            BlockHeader::read(self.rest()).map_err(|error| wrong(&self.name, at, &error))?;
        self.fill(header.block_bytes())?;
        self.at += header.block_bytes();
        let start = usize::try_from(at - self.window_at).expect("within the window");
        let wrong = |error: &DecodeError| wrong(&self.name, at, error);
        let payload =
            header.payload(&self.window[start..self.filled], self.seed).map_err(|e| wrong(&e))?;
        let block = Block::decode(&header, payload).map_err(|error| wrong(&error))?;
        if matches!(block, Block::End(_)) {
            return Err(damaged(&self.name, at, "an end before the end"));
        }
        self.seen.count(&block);
        Ok(Some((header, payload)))
    }

    fn check_seen(&self) -> Result<()> {
        let End { blocks, namespaces, entries, highest_namespace } = self.seen;
        let counted = (blocks, namespaces, entries);
        if counted != (self.end.blocks, self.end.namespaces, self.end.entries)
            || highest_namespace > self.end.highest_namespace
        {
            let what = format!("{:?} were read where there should be {:?}", self.seen, self.end);
            return Err(damaged(&self.name, self.end_at, &what));
        }
        Ok(())
    }

    /// Returns the bytes of the window from the next block on.
    fn rest(&self) -> &[u8] {
        let start = usize::try_from(self.at - self.window_at).unwrap_or(usize::MAX);
        self.window.get(start..self.filled).unwrap_or(&[])
    }

    /// Fills the window with at least this many bytes from the next block on. They must not reach into
    /// the end block.
    fn fill(&mut self, bytes: u64) -> Result<()> {
        let there = self.rest().len();
        if there as u64 >= bytes {
            return Ok(());
        }
        let left_bytes = self.end_at - self.at;
        if bytes > left_bytes {
            let what = format!("a block of {bytes} bytes where {left_bytes} are left");
            return Err(damaged(&self.name, self.at, &what));
        }
        self.window.copy_within(self.filled - there..self.filled, 0);
        (self.window_at, self.filled) = (self.at, there);
        let wanted = usize::try_from(bytes.max(WINDOW_BYTES).min(left_bytes))
            .expect("a block is little longer than 4 MiB");
        if self.window.len() < wanted {
            self.window.resize(wanted, 0);
        }
        self.file.read_exact_at(self.at + there as u64, &mut self.window[there..wanted])?;
        self.filled = wanted;
        let next = self.at + wanted as u64;
        self.file.will_need(next, (self.end_at - next).min(2 * WINDOW_BYTES));
        Ok(())
    }
}

fn wrong(name: &str, at: u64, error: &DecodeError) -> OpenError {
    damaged(name, at, &format!("the checkpoint's block: {error}"))
}

fn read_end(bytes: &[u8], seed: Seed, end_at: u64) -> Result<End, DecodeError> {
    let header = BlockHeader::read(bytes)?;
    let payload = header.payload(bytes, seed)?;
    let Block::End(end) = Block::decode(&header, payload)? else {
        return Err(DecodeError::Impossible("it is another block".into()));
    };
    // Callers reserve memory by this number, so it must be plausible.
    if end.entries > end_at / ENTRY_BYTES as u64 {
        return Err(DecodeError::Impossible(format!("{} entries in {end_at} bytes", end.entries)));
    }
    Ok(end)
}

/// Most blocks that wait for the caller's thread. A block of entries has about 100 KB.
const BLOCKS_AHEAD: usize = 64;

/// A checked block, on its way to the caller's thread.
struct CheckedBlock {
    header: BlockHeader,
    payload: Vec<u8>,
    read_progress: OpenProgress,
}

/// Passes every block of a checkpoint before its end to `each`, in order, on two threads: one reads the
/// file and checks its blocks, and the caller's thread applies them.
///
/// ```text
///   duly-checkpoint: Reader ─► whole blocks ══ at most 64 wait ══► each
/// ```
///
/// The result does not depend on the speed of either thread. Every block before a refused place is
/// applied before the refusal is returned, and an error of `each` takes precedence.
pub(crate) fn each_block(
    reader: CheckpointReader,
    each: &mut dyn FnMut(Block<'_>, OpenProgress) -> Result<()>,
) -> Result<()> {
    let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
    thread::scope(|scope| {
        let reader = thread::Builder::new()
            .name("duly-checkpoint".into())
            .spawn_scoped(scope, || read(reader, sender))
            .map_err(OpenError::no_thread)?;
        // The loop drops the receiver in every case, and that stops the reader.
        let taken =
            receiver.into_iter().try_for_each(|CheckedBlock { header, payload, read_progress }| {
                let block = Block::decode(&header, &payload).expect("the reader has decoded it");
                each(block, read_progress)
            });
        let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        taken.and(read)
    })
}

fn read(mut reader: CheckpointReader, sender: SyncSender<CheckedBlock>) -> Result<()> {
    while let Some((header, payload)) = reader.next_checked()? {
        let payload = payload.to_vec();
        let read_progress = reader.read_progress();
        if sender.send(CheckedBlock { header, payload, read_progress }).is_err() {
            break;
        }
    }
    Ok(())
}

/// A checkpoint that is being written. If it is dropped or fails, it leaves nothing behind.
pub(crate) struct CheckpointWriter {
    disk: Arc<dyn Disk>,
    file: FreshFile,
    number: u64,
    seed: Seed,
    /// The block being encoded.
    block: Vec<u8>,
    /// Counts of the blocks that were written.
    end: End,
}

/// A complete checkpoint under its final name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedCheckpoint {
    pub(crate) bytes: u64,
    pub(crate) end: End,
}

impl CheckpointWriter {
    /// Creates `checkpoints/<number>.tmp`.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        header: &Header,
        seed: Seed,
        throttle: Throttle,
    ) -> disk::Result<Self> {
        let name = CHECKPOINTS.temporary_name(header.number);
        let mut file = FreshFile::create(Arc::clone(&disk), name, throttle, Caching::CacheBypass)?;
        file.append(&header.encode(seed))?;
        let (number, block, end) = (header.number, Vec::new(), End::default());
        Ok(Self { disk, file, number, seed, block, end })
    }

    /// Appends a block.
    ///
    /// # Panics
    /// When the block is an end block, which only [`CheckpointWriter::finish`] writes, or is longer than a block
    /// may be.
    pub(crate) fn block(&mut self, block: &Block<'_>) -> disk::Result<()> {
        assert!(!matches!(block, Block::End(_)), "a checkpoint ends by being finished");
        self.end.count(block);
        self.append(block)
    }

    fn append(&mut self, block: &Block<'_>) -> disk::Result<()> {
        self.block.clear();
        block.encode(&mut self.block, self.seed);
        self.file.append(&self.block)
    }

    /// Ends the checkpoint, makes it durable and gives it its name. Everything that it saw of the
    /// journal must be durable before. If the sync of the directory fails, the checkpoint may have its
    /// name.
    ///
    /// `highest_namespace` is the highest number that a namespace ever had.
    pub(crate) fn finish(mut self, highest_namespace: u32) -> disk::Result<FinishedCheckpoint> {
        self.end.highest_namespace = self.end.highest_namespace.max(highest_namespace);
        let end = self.end;
        self.append(&Block::End(end))?;
        let bytes = self.file.finish()?;
        let (temporary, name) =
            (CHECKPOINTS.temporary_name(self.number), CHECKPOINTS.name(self.number));
        fresh::publish(&*self.disk, &temporary, &name)?;
        Ok(FinishedCheckpoint { bytes, end })
    }
}

#[cfg(test)]
mod tests;
