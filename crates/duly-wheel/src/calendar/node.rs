//! A bucket of the calendar, and how it becomes finer ones.
//!
//! ```text
//!             ┌───────────┐  spread begins   ┌──────────────┐  bag empty   ┌──────────┐
//!  insert ──► │ whole     │ ───────────────► │ being spread │ ───────────► │ spread   │
//!             │ bag       │                  │ bag+children │              │ children │
//!             └───────────┘ ◄─────────────── └──────────────┘              └──────────┘
//!                  ▲          children drained                                   │
//!                  └─────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants: children exist only while one of them is filled. Inserts go to the children where
//! there are any, else to the bag; only a whole block from the parent may still join the bag of a
//! node that has children, which then is being spread again. Before anything is popped from the
//! children, the bag beside them holds nothing that is due, so the first child holds the earliest
//! due entry. A node of one millisecond is never spread: its entries are all of one instant.

use super::bag::{Bag, Entry, Span};
use super::slots::{SLOTS, Slots};

/// A bag up to this size is searched and sorted on the spot instead of being spread.
pub(super) const SMALL_ENTRIES: usize = 256;

/// How coarse a node is; it spans 256 to the power of the level milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Level(u32);

impl Level {
    /// The coarsest: 2^32 ms.
    pub(super) const ERA: Self = Self(4);

    /// For nodes of 1 ms, 256 ms, 65 s, 4.7 h and 49.7 days: how long before its start a node may
    /// be spread. Long enough to spread millions of entries in small pieces, short enough that
    /// only a handful of nodes are cut up at any time.
    const AHEAD_MS: [u64; 5] = [0, 1_000, 10_000, 600_000, 3_600_000];

    /// Nodes that start later than this are not spread yet.
    pub(super) fn horizon_ms(self, from_ms: u64) -> u64 {
        from_ms.saturating_add(Self::AHEAD_MS[self.0 as usize])
    }

    fn child(self) -> Self {
        Self(self.0 - 1)
    }

    fn child_bits(self) -> u32 {
        self.child().0 * SLOTS.trailing_zeros()
    }

    /// Which child of a node of this level an offset belongs to.
    fn slot_of(self, low: u32) -> u8 {
        (low >> self.child_bits()) as u8
    }

    fn is_millisecond(self) -> bool {
        self.0 == 0
    }
}

/// What one call of `pop_due` wants from an era.
pub(super) struct Pop<'a, T> {
    pub(super) era_start_ms: u64,
    /// Offset of the latest entry wanted.
    pub(super) latest_low: u32,
    /// Length of `out` at which to stop.
    pub(super) full_len: usize,
    pub(super) out: &'a mut Vec<(u64, T)>,
}

impl<T> Pop<'_, T> {
    fn room(&self) -> usize {
        self.full_len.saturating_sub(self.out.len())
    }
}

pub(super) struct Node<T> {
    bag: Bag<T>,
    children: Option<Box<Slots<Node<T>>>>,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { bag: Bag::default(), children: None }
    }
}

/// The methods without a level are those of an era; the others name the level of the node.
impl<T: Copy> Node<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.bag.is_empty() && self.children.is_none()
    }

    /// Offset of the earliest entry.
    pub(super) fn min_low(&self) -> Option<u32> {
        let children = self.children.as_ref();
        let below = children.and_then(|children| children.first()?.min_low());
        [self.bag.min_low(), below].into_iter().flatten().min()
    }

    /// True when an entry is at or before `latest_low`.
    pub(super) fn has_due(&self, latest_low: u32) -> bool {
        self.min_low().is_some_and(|low| low <= latest_low)
    }

    pub(super) fn insert(&mut self, low: u32, value: T) {
        self.insert_at(Level::ERA, Entry::new(low, value));
    }

    fn insert_at(&mut self, level: Level, entry: Entry<T>) {
        let mut node = self;
        let mut level = level;
        while let Some(children) = &mut node.children {
            node = children.get_or_default(level.slot_of(entry.low()));
            level = level.child();
        }
        node.bag.push(entry);
    }

    /// Moves due entries to `pop.out`, in due order, until it is full or nothing more is due here.
    pub(super) fn pop_due(&mut self, pop: &mut Pop<'_, T>) {
        self.pop_at(Level::ERA, pop);
    }

    fn pop_at(&mut self, level: Level, pop: &mut Pop<'_, T>) {
        let bag_is_due = self.bag.min_low().is_some_and(|low| low <= pop.latest_low);
        if bag_is_due && self.wants_spreading() {
            while !self.bag.is_empty() {
                self.spread_block(level);
            }
        }
        if self.children.is_some() {
            self.pop_children(level, pop);
        } else if bag_is_due {
            let room = pop.room();
            if self.bag.is_one_instant() {
                self.bag.pop_any(room, pop.era_start_ms, pop.out);
            } else {
                self.bag.pop_sorted(pop.latest_low, room, pop.era_start_ms, pop.out);
            }
        }
    }

    fn pop_children(&mut self, level: Level, pop: &mut Pop<'_, T>) {
        let Some(children) = &mut self.children else {
            return;
        };
        while pop.room() > 0
            && let Some((slot, child)) = children.first_mut(0)
            && child.has_due(pop.latest_low)
        {
            child.pop_at(level.child(), pop);
            if child.is_empty() {
                children.remove(slot);
            }
        }
        if children.is_empty() {
            self.children = None;
        }
    }

    /// True when the bag has to go to the children before it can be popped in order.
    fn wants_spreading(&self) -> bool {
        if self.children.is_some() {
            return !self.bag.is_empty();
        }
        self.bag.len() > SMALL_ENTRIES && !self.bag.is_one_instant()
    }

    /// Moves one block of the bag to the children; returns the number of entries moved. A block
    /// that belongs to one child goes there in one piece.
    fn spread_block(&mut self, level: Level) -> usize {
        debug_assert!(!level.is_millisecond());
        let block = self.bag.pop_block();
        let moved = block.len();
        let span = Span::of(&block);
        let children = self.children.get_or_insert_with(|| Box::new(Slots::new()));
        let first = children.get_or_default(level.slot_of(span.min));
        if level.slot_of(span.min) == level.slot_of(span.max) {
            first.bag.push_block(block);
            return moved;
        }
        for entry in block {
            children.get_or_default(level.slot_of(entry.low())).insert_at(level.child(), entry);
        }
        moved
    }

    /// Spreads what `Calendar::prepare` describes in this era, which starts at `start_ms`; takes
    /// the entries moved off `budget` and returns true when it did not suffice.
    pub(super) fn prepare(&mut self, start_ms: u64, from_ms: u64, budget: &mut usize) -> bool {
        self.prepare_at(Level::ERA, start_ms, from_ms, budget)
    }

    fn prepare_at(
        &mut self,
        level: Level,
        start_ms: u64,
        from_ms: u64,
        budget: &mut usize,
    ) -> bool {
        if self.wants_spreading() {
            while !self.bag.is_empty() {
                if *budget == 0 {
                    return true;
                }
                *budget = budget.saturating_sub(self.spread_block(level));
            }
        }
        let Some(children) = &mut self.children else {
            return false;
        };
        if level.child().is_millisecond() {
            return false;
        }
        let mut from_slot = Some(0);
        while let Some((slot, child)) = from_slot.and_then(|from| children.first_mut(from)) {
            let child_start_ms = start_ms + (u64::from(slot) << level.child_bits());
            if child_start_ms > level.child().horizon_ms(from_ms) {
                return false;
            }
            if child.prepare_at(level.child(), child_start_ms, from_ms, budget) {
                return true;
            }
            from_slot = slot.checked_add(1);
        }
        false
    }

    /// Heap bytes below this node.
    pub(super) fn heap_bytes(&self) -> usize {
        let children = self.children.as_ref().map_or(0, |children| {
            size_of::<Slots<Self>>()
                + children.iter().map(|child| size_of::<Self>() + child.heap_bytes()).sum::<usize>()
        });
        self.bag.heap_bytes() + children
    }
}
