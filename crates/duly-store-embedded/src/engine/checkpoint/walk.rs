//! The walk of a checkpoint over the engine's memory: copies a few tables a step into pieces that the
//! background thread writes.
//!
//! The place of the walk is a name and a cursor, so namespaces and tables may come and go between the
//! steps. Every copied entry is written already, because the caller waits for the frame under
//! construction.

use duly_core::{NamespaceName, Timestamp};

use crate::{
    checkpoint::CheckpointWriter,
    disk,
    format::{
        checkpoint::{self as layout, Block, Entries, IndexKind, append_entry},
        record,
    },
    index::{Cursor, Entry, Flags, Index, PackedKey},
    journal::recovery::ReplayPoint,
};

use super::{
    super::{Engine, lanes, namespaces::Namespace},
    PIECES_BYTES_MAX,
};

/// Tables that one step copies. Tests change the state between any two.
const TABLES_PER_STEP: usize = if cfg!(test) { 1 } else { 4 };
/// Namespaces that one step copies.
const NAMESPACES_PER_STEP: usize = 64;
/// Size of a lease in a piece: an estimate.
const LEASE_BYTES: usize = 64;
/// Entries of one block. Neighbouring tables share a block.
const BLOCK_ENTRIES: usize = 32_768;
const BLOCK_BYTES: usize = BLOCK_ENTRIES * layout::ENTRY_BYTES;
const _: () = assert!(BLOCK_ENTRIES <= layout::ENTRIES_MAX, "a block takes them");

/// A part of a checkpoint on its way to the writer.
pub(super) enum CheckpointPiece {
    /// Entries of a block that may still grow.
    Entries { namespace: u32, which: IndexKind, bytes: Vec<u8> },
    /// Any other block.
    Block(Block<'static>),
}

impl CheckpointPiece {
    fn bytes(&self) -> usize {
        match self {
            Self::Entries { bytes, .. } => bytes.len(),
            Self::Block(Block::Leases(leases)) => LEASE_BYTES * leases.leases.len(),
            Self::Block(Block::MultipleDeadLetters(several)) => 40 * several.dead_letters.len(),
            Self::Block(_) => 1_024,
        }
    }

    /// Returns the buffer of a piece that was written.
    pub(super) fn into_buffer(self) -> Option<Vec<u8>> {
        let Self::Entries { mut bytes, .. } = self else {
            return None;
        };
        bytes.clear();
        Some(bytes)
    }

    pub(super) fn write(&self, writer: &mut CheckpointWriter) -> disk::Result<()> {
        match self {
            Self::Block(block) => writer.block(block),
            Self::Entries { namespace, which, bytes } => {
                writer.block(&Block::Entries(Entries::new(*namespace, *which, bytes)))
            }
        }
    }
}

/// A checkpoint under way.
pub(super) struct CheckpointUnderWay {
    pub(super) number: u64,
    pub(super) replay: ReplayPoint,
    pub(super) place: WalkPlace,
    pub(super) pieces: Vec<CheckpointPiece>,
    pub(super) pieces_bytes: usize,
    /// Leases of copied entries, and the number of their namespace. They become a piece when the
    /// namespace is complete or the pieces are handed over. A piece of leases between the entries of two
    /// tables would keep the tables from sharing a block.
    leases: (u32, Vec<(PackedKey, record::Lease)>),
    /// Retention of the namespace in the copy, which the copies of its tombstones include.
    retention_ms: u64,
    /// Buffers of written entries, for reuse.
    pub(super) buffers: Vec<Vec<u8>>,
    /// `None` while the background thread has it.
    pub(super) writer: Option<Box<CheckpointWriter>>,
    /// Newest frame whose effects the copy may include.
    pub(super) seen_lsn: u64,
    /// Bytes of the journal at which the checkpoint began.
    pub(super) begun_at_bytes: u64,
}

impl std::fmt::Debug for CheckpointUnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taking").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Place of the walk.
pub(super) enum WalkPlace {
    /// After this namespace, or at the beginning.
    Behind(Option<NamespaceName>),
    /// In an index of a namespace.
    In { name: NamespaceName, number: u32, which: IndexKind, cursor: Cursor },
    /// All namespaces are copied.
    Done,
    /// The table of files is copied too. The rest waits for durability.
    Ended,
}

impl CheckpointUnderWay {
    /// Creates a checkpoint under way of which nothing is copied yet.
    pub(super) fn new(
        number: u64,
        replay: ReplayPoint,
        seen_lsn: u64,
        begun_at_bytes: u64,
        buffers: Vec<Vec<u8>>,
    ) -> Self {
        Self {
            number,
            replay,
            place: WalkPlace::Behind(None),
            pieces: Vec::new(),
            pieces_bytes: 0,
            leases: (0, Vec::new()),
            retention_ms: 0,
            buffers,
            writer: None,
            seen_lsn,
            begun_at_bytes,
        }
    }

    fn add_leases(&mut self, number: u32, leases: Vec<(PackedKey, record::Lease)>) {
        if self.leases.0 != number {
            self.push_leases();
            self.leases.0 = number;
        }
        self.pieces_bytes += LEASE_BYTES * leases.len();
        self.leases.1.extend(leases);
    }

    /// Turns the copied leases into pieces.
    fn push_leases(&mut self) {
        let (namespace, leases) = (self.leases.0, std::mem::take(&mut self.leases.1));
        self.pieces_bytes -= LEASE_BYTES * leases.len();
        for leases in leases.chunks(layout::LEASES_MAX) {
            let leases = leases.to_vec();
            self.push(Block::Leases(layout::Leases { namespace, leases }));
        }
    }

    /// Returns the collected pieces.
    pub(super) fn take_pieces(&mut self) -> Vec<CheckpointPiece> {
        self.push_leases();
        self.pieces_bytes = 0;
        std::mem::take(&mut self.pieces)
    }

    fn push(&mut self, block: Block<'static>) {
        let piece = CheckpointPiece::Block(block);
        self.pieces_bytes += piece.bytes();
        self.pieces.push(piece);
    }

    /// Returns as many of its buffers as are used at a time.
    pub(super) fn into_buffers(mut self) -> Vec<Vec<u8>> {
        self.buffers.truncate(2 * PIECES_BYTES_MAX / BLOCK_BYTES);
        self.buffers
    }

    /// Copies the entries of a scan into a block. `len` is the number of entries of the whole index.
    /// Neighbouring tables share a block.
    fn push_entries(
        &mut self,
        (number, which, len): (u32, IndexKind, usize),
        entries: impl Iterator<Item = Entry>,
    ) {
        for entry in entries {
            let block = match self.pieces.last_mut() {
                Some(CheckpointPiece::Entries { namespace, which: last, bytes })
                    if (*namespace, *last) == (number, which) && bytes.len() < BLOCK_BYTES =>
                {
                    bytes
                }
                _ => self.new_block(number, which, len),
            };
            append_entry(block, entry.words());
            self.pieces_bytes += layout::ENTRY_BYTES;
        }
    }

    fn new_block(&mut self, namespace: u32, which: IndexKind, len: usize) -> &mut Vec<u8> {
        let capacity = BLOCK_BYTES.min(len * layout::ENTRY_BYTES);
        let bytes = self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(capacity));
        self.pieces.push(CheckpointPiece::Entries { namespace, which, bytes });
        match self.pieces.last_mut() {
            Some(CheckpointPiece::Entries { bytes, .. }) => bytes,
            _ => unreachable!("it was pushed just now"),
        }
    }
}

impl Engine {
    /// Copies the next few tables.
    pub(super) fn walk_step(&mut self) {
        let Some(mut taking) = self.checkpoints.taking.take() else {
            return;
        };
        let (mut tables, mut namespaces) = (0, 0);
        while taking.pieces_bytes < PIECES_BYTES_MAX
            && tables < TABLES_PER_STEP
            && namespaces < NAMESPACES_PER_STEP
        {
            match std::mem::replace(&mut taking.place, WalkPlace::Done) {
                WalkPlace::Behind(behind) => {
                    taking.place = self.copy_next_namespace(&mut taking, behind.as_ref());
                    namespaces += 1;
                }
                WalkPlace::In { name, number, which, cursor } => {
                    taking.place = self.copy_table(&mut taking, name, (number, which), cursor);
                    tables += 1;
                }
                WalkPlace::Done => {
                    for files in self.files.slots().chunks(layout::FILES_MAX) {
                        taking.push(Block::Files(files.to_vec()));
                    }
                    taking.place = WalkPlace::Ended;
                }
                WalkPlace::Ended => {
                    taking.place = WalkPlace::Ended;
                    break;
                }
            }
        }
        if !matches!(taking.place, WalkPlace::Ended) || !taking.pieces.is_empty() {
            taking.seen_lsn = self.journal.written_lsn();
        }
        let waits = taking.writer.is_none() && taking.pieces_bytes >= PIECES_BYTES_MAX;
        self.busy |= !waits && !matches!(taking.place, WalkPlace::Ended);
        self.checkpoints.taking = Some(taking);
    }

    fn copy_next_namespace(
        &self,
        taking: &mut CheckpointUnderWay,
        behind: Option<&NamespaceName>,
    ) -> WalkPlace {
        let Some((name, number)) = self.namespaces.names_after(behind).next() else {
            return WalkPlace::Done;
        };
        let Some(namespace) = self.namespaces.get(number) else {
            return WalkPlace::Behind(Some(name.clone()));
        };
        taking.retention_ms = namespace.tombstones.retention_ms();
        let lane =
            |(number, lane): (u8, &lanes::Lane)| layout::Lane { number, key: lane.key.clone() };
        taking.push(Block::Namespace(Box::new(layout::Namespace {
            number,
            lsn: self.journal.written_lsn(),
            record: namespace.record.clone(),
            lanes: namespace.lanes.iter().map(lane).collect(),
            counts: IndexKind::ALL.map(|which| index_of(namespace, which).len() as u64),
        })));
        WalkPlace::In { name: name.clone(), number, which: IndexKind::Live, cursor: Cursor::START }
    }

    fn copy_table(
        &self,
        taking: &mut CheckpointUnderWay,
        name: NamespaceName,
        (number, which): (u32, IndexKind),
        cursor: Cursor,
    ) -> WalkPlace {
        let Some(namespace) = self.namespaces.get(number) else {
            taking.push_leases();
            return WalkPlace::Behind(Some(name));
        };
        let mut next = None;
        let index = index_of(namespace, which);
        if let Some(scan) = index.scan(cursor) {
            next = scan.next;
            let (mut leases, mut several) = (Vec::new(), Vec::new());
            let seen = |entry: &Entry| {
                let key = entry.key(number);
                match which {
                    IndexKind::Live if entry.flags().has(Flags::LEASED) => {
                        let lease = self.leases.get(key).map(|lease| lease.granted);
                        leases.extend(lease.map(|lease| (key.pack(), lease)));
                    }
                    // The dead letters of one timer are copied at one moment.
                    IndexKind::DeadByTimer => several.extend(namespace.dead_letters.several(key)),
                    IndexKind::Live | IndexKind::Tombstones | IndexKind::DeadLetters => {}
                }
            };
            let retention_ms = taking.retention_ms;
            let kept = |entry: Entry| match which {
                IndexKind::Live => Some(entry.with_flags(kept_flags(entry.flags()))),
                IndexKind::Tombstones if namespace.tombstones.end_of(&entry) == 0 => None,
                IndexKind::Tombstones => {
                    let ends_ms = entry.claimable().at_ms + retention_ms;
                    Some(entry.due(ends_ms.min(Timestamp::MAX.unix_ms())))
                }
                IndexKind::DeadLetters | IndexKind::DeadByTimer => Some(entry),
            };
            let entries = scan.entries().inspect(seen).filter_map(kept);
            taking.push_entries((number, which, index.len()), entries);
            taking.add_leases(number, leases);
            for dead_letters in several.chunks(layout::DEAD_LETTERS_MAX) {
                let (namespace, dead_letters) = (number, dead_letters.to_vec());
                taking.push(Block::MultipleDeadLetters(layout::MultipleDeadLetters {
                    namespace,
                    dead_letters,
                }));
            }
        }
        if next.is_none() && which == IndexKind::Live {
            taking.push_leases();
        }
        // The codes begin with 1, so this is the next kind.
        match (next, IndexKind::ALL.get(which as usize)) {
            (Some(cursor), _) => WalkPlace::In { name, number, which, cursor },
            (None, Some(&which)) => WalkPlace::In { name, number, which, cursor: Cursor::START },
            (None, None) => WalkPlace::Behind(Some(name)),
        }
    }
}

/// Returns the flags that a checkpoint keeps. Startup finds due timers again by time, and leases are
/// stored beside the entries.
const fn kept_flags(flags: Flags) -> Flags {
    flags.without(Flags::DUE).without(Flags::LEASED)
}

fn index_of(namespace: &Namespace, which: IndexKind) -> &Index {
    match which {
        IndexKind::Live => &namespace.live,
        IndexKind::Tombstones => &namespace.tombstones.index,
        IndexKind::DeadLetters => &namespace.dead_letters.by_delivery,
        IndexKind::DeadByTimer => &namespace.dead_letters.by_timer,
    }
}

#[cfg(test)]
mod tests;
