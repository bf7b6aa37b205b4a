//! Writes a checkpoint block by block.

use std::sync::Arc;

use super::FILES;
use crate::{
    disk::{
        self, Disk,
        fresh::{self, Caching, FreshFile, Throttle},
    },
    format::{
        checkpoint::{Block, End, Header},
        frame::Seed,
    },
};

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
        let name = FILES.temporary_name(header.number);
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
        let (temporary, name) = (FILES.temporary_name(self.number), FILES.name(self.number));
        fresh::publish(&*self.disk, &temporary, &name)?;
        Ok(FinishedCheckpoint { bytes, end })
    }
}
