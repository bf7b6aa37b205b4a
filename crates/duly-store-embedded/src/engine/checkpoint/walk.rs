//! The walk of a checkpoint over the engine's memory: copies a few tables a step into pieces that the
//! background thread writes.
//!
//! The place of the walk is a name and a cursor, so namespaces and tables may come and go between the
//! steps. Every copied entry is written already, because the caller waits for the frame under
//! construction.

use duly_core::NamespaceName;

use crate::{
    checkpoint::Writer,
    disk,
    format::{
        checkpoint::{self as layout, Block, Entries, Which, append_entry},
        record,
    },
    index::{Cursor, Entry, Flags, Index, PackedKey},
    journal::recovery::ReplayPoint,
};

use super::{
    super::{Engine, lanes, leases::Lease, namespaces::Namespace},
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
pub(in crate::engine) enum Piece {
    Namespace(Box<layout::Namespace>),
    Entries { namespace: u32, which: Which, bytes: Vec<u8> },
    Leases(layout::Leases),
    Several(layout::Several),
    Files(Vec<layout::FileSlot>),
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").finish_non_exhaustive()
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Self::Entries { bytes, .. } => bytes.len(),
            Self::Leases(leases) => LEASE_BYTES * leases.leases.len(),
            Self::Several(several) => 40 * several.letters.len(),
            Self::Namespace(_) | Self::Files(_) => 1_024,
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

    pub(super) fn write(&self, writer: &mut Writer) -> disk::Result<()> {
        match self {
            Self::Namespace(namespace) => writer.block(&Block::Namespace(namespace.clone())),
            Self::Entries { namespace, which, bytes } => {
                writer.block(&Block::Entries(Entries::new(*namespace, *which, bytes)))
            }
            Self::Leases(leases) => writer.block(&Block::Leases(leases.clone())),
            Self::Several(several) => writer.block(&Block::Several(several.clone())),
            Self::Files(files) => writer.block(&Block::Files(files.clone())),
        }
    }
}

/// A checkpoint under way.
pub(super) struct Taking {
    pub(super) number: u64,
    pub(super) replay: ReplayPoint,
    pub(super) place: Place,
    pub(super) pieces: Vec<Piece>,
    pub(super) pieces_bytes: usize,
    /// Leases of copied entries, and the number of their namespace. They become a piece when the
    /// namespace is complete or the pieces are handed over. A piece of leases between the entries of two
    /// tables would keep the tables from sharing a block.
    leases: (u32, Vec<(PackedKey, record::Lease)>),
    /// Buffers of written entries, for reuse.
    pub(super) buffers: Vec<Vec<u8>>,
    /// `None` while the background thread has it.
    pub(super) writer: Option<Box<Writer>>,
    /// Newest frame whose effects the copy may include.
    pub(super) seen_lsn: u64,
    /// Bytes of the journal at which the checkpoint began.
    pub(super) begun_at_bytes: u64,
}

impl std::fmt::Debug for Taking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taking").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Place of the walk.
pub(super) enum Place {
    /// After this namespace, or at the beginning.
    Behind(Option<NamespaceName>),
    /// In an index of a namespace.
    In { name: NamespaceName, number: u32, which: Which, cursor: Cursor },
    /// All namespaces are copied.
    Done,
    /// The table of files is copied too. The rest waits for durability.
    Ended,
}

impl Taking {
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
            place: Place::Behind(None),
            pieces: Vec::new(),
            pieces_bytes: 0,
            leases: (0, Vec::new()),
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
            self.push(Piece::Leases(layout::Leases { namespace, leases }));
        }
    }

    /// Returns the collected pieces.
    pub(super) fn take_pieces(&mut self) -> Vec<Piece> {
        self.push_leases();
        self.pieces_bytes = 0;
        std::mem::take(&mut self.pieces)
    }

    fn push(&mut self, piece: Piece) {
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
        (number, which, len): (u32, Which, usize),
        entries: impl Iterator<Item = Entry>,
    ) {
        for entry in entries {
            let room = match self.pieces.last_mut() {
                Some(Piece::Entries { namespace, which: last, bytes })
                    if (*namespace, *last) == (number, which) && bytes.len() < BLOCK_BYTES =>
                {
                    bytes
                }
                _ => self.new_block(number, which, len),
            };
            append_entry(room, entry.words());
            self.pieces_bytes += layout::ENTRY_BYTES;
        }
    }

    fn new_block(&mut self, namespace: u32, which: Which, len: usize) -> &mut Vec<u8> {
        let capacity = BLOCK_BYTES.min(len * layout::ENTRY_BYTES);
        let bytes = self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(capacity));
        self.pieces.push(Piece::Entries { namespace, which, bytes });
        match self.pieces.last_mut() {
            Some(Piece::Entries { bytes, .. }) => bytes,
            _ => unreachable!("it was pushed just now"),
        }
    }
}

impl Engine {
    /// Copies the next few tables.
    pub(super) fn walk_on(&mut self) {
        let Some(mut taking) = self.checkpoints.taking.take() else {
            return;
        };
        let (mut tables, mut namespaces) = (0, 0);
        while taking.pieces_bytes < PIECES_BYTES_MAX
            && tables < TABLES_PER_STEP
            && namespaces < NAMESPACES_PER_STEP
        {
            match std::mem::replace(&mut taking.place, Place::Done) {
                Place::Behind(behind) => {
                    taking.place = self.copy_next_namespace(&mut taking, behind.as_ref());
                    namespaces += 1;
                }
                Place::In { name, number, which, cursor } => {
                    taking.place = self.copy_table(&mut taking, name, (number, which), cursor);
                    tables += 1;
                }
                Place::Done => {
                    for files in self.files.slots().chunks(layout::FILES_MAX) {
                        taking.push(Piece::Files(files.to_vec()));
                    }
                    taking.place = Place::Ended;
                }
                Place::Ended => {
                    taking.place = Place::Ended;
                    break;
                }
            }
        }
        if !matches!(taking.place, Place::Ended) || !taking.pieces.is_empty() {
            taking.seen_lsn = self.journal.written_lsn();
        }
        let waits = taking.writer.is_none() && taking.pieces_bytes >= PIECES_BYTES_MAX;
        self.busy |= !waits && !matches!(taking.place, Place::Ended);
        self.checkpoints.taking = Some(taking);
    }

    fn copy_next_namespace(&self, taking: &mut Taking, behind: Option<&NamespaceName>) -> Place {
        let Some((name, number)) = self.namespaces.names_after(behind).next() else {
            return Place::Done;
        };
        let Some(namespace) = self.namespaces.get(number) else {
            return Place::Behind(Some(name.clone()));
        };
        let lane =
            |(number, lane): (u8, &lanes::Lane)| layout::Lane { number, key: lane.key().cloned() };
        taking.push(Piece::Namespace(Box::new(layout::Namespace {
            number,
            lsn: self.journal.written_lsn(),
            record: namespace.record(),
            lanes: namespace.lanes.iter().map(lane).collect(),
            counts: index_of_all(namespace).map(|index| index.len() as u64),
        })));
        Place::In { name: name.clone(), number, which: Which::Live, cursor: Cursor::START }
    }

    fn copy_table(
        &self,
        taking: &mut Taking,
        name: NamespaceName,
        (number, which): (u32, Which),
        cursor: Cursor,
    ) -> Place {
        let Some(namespace) = self.namespaces.get(number) else {
            taking.push_leases();
            return Place::Behind(Some(name));
        };
        let mut next = None;
        let index = index_of(namespace, which);
        if let Some(scan) = index.scan(cursor) {
            next = scan.next;
            let is_live = which == Which::Live;
            let (mut leases, mut several) = (Vec::new(), Vec::new());
            let seen = |entry: &Entry| {
                let key = entry.key(number);
                match which {
                    Which::Live if entry.flags().has(Flags::LEASED) => {
                        let lease = self.leases.get(key).map(Lease::in_checkpoint);
                        leases.extend(lease.map(|lease| (key.pack(), lease)));
                    }
                    // The dead letters of one timer are copied at one moment.
                    Which::DeadByTimer => several.extend(namespace.letters.several(key)),
                    Which::Live | Which::Tombstones | Which::DeadLetters => {}
                }
            };
            let kept = |entry: Entry| match is_live {
                true => entry.with_flags(kept_flags(entry.flags())),
                false => entry,
            };
            let entries = scan.entries().inspect(seen).map(kept);
            taking.push_entries((number, which, index.len()), entries);
            taking.add_leases(number, leases);
            for letters in several.chunks(layout::LETTERS_MAX) {
                let letters = letters.to_vec();
                taking.push(Piece::Several(layout::Several { namespace: number, letters }));
            }
        }
        if next.is_none() && which == Which::Live {
            taking.push_leases();
        }
        match (next, after(which)) {
            (Some(cursor), _) => Place::In { name, number, which, cursor },
            (None, Some(which)) => Place::In { name, number, which, cursor: Cursor::START },
            (None, None) => Place::Behind(Some(name)),
        }
    }
}

/// Returns the flags that a checkpoint keeps. Startup finds due timers again by time, and leases are
/// stored beside the entries.
const fn kept_flags(flags: Flags) -> Flags {
    flags.without(Flags::DUE).without(Flags::LEASED)
}

const fn after(which: Which) -> Option<Which> {
    match which {
        Which::Live => Some(Which::Tombstones),
        Which::Tombstones => Some(Which::DeadLetters),
        Which::DeadLetters => Some(Which::DeadByTimer),
        Which::DeadByTimer => None,
    }
}

fn index_of(namespace: &Namespace, which: Which) -> &Index {
    match which {
        Which::Live => &namespace.live,
        Which::Tombstones => namespace.tombstones.index(),
        Which::DeadLetters => namespace.letters.by_delivery(),
        Which::DeadByTimer => namespace.letters.by_timer(),
    }
}

fn index_of_all(namespace: &Namespace) -> [&Index; 4] {
    [Which::Live, Which::Tombstones, Which::DeadLetters, Which::DeadByTimer]
        .map(|which| index_of(namespace, which))
}

#[cfg(test)]
mod tests;
