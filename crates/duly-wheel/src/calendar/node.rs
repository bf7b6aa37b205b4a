//! A bucket of the calendar, which is spread into finer buckets when its time comes near.
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
//! Invariants:
//!
//! 1. Children exist only while at least one of them is filled.
//! 2. An insert goes to the children if there are any, else to the bag.
//! 3. Only a whole block from the parent may still join the bag of a node that has children. The node is
//!    then being spread again.
//! 4. Before anything is popped from the children, the bag beside them holds nothing that is due. So the
//!    first child holds the earliest due entry.
//! 5. A node of one millisecond is never spread: all its entries have one due time.

use super::bag::{Bag, Entry, Span};
use super::slots::{SLOTS, Slots};

/// Most entries of a bag that is searched and sorted in place instead of being spread.
pub(super) const SMALL_ENTRIES: usize = 256;

/// Level of a node, which spans 256 to the power of the level milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Level(u32);

impl Level {
    /// The coarsest level: 2^32 ms.
    pub(super) const ERA: Self = Self(4);

    /// Milliseconds before its start from which a node may be spread, for nodes of 1 ms, 256 ms, 65 s,
    /// 4.7 h and 49.7 days. Long enough to spread millions of entries in small pieces, short enough that
    /// only a handful of nodes are spread at any time.
    const AHEAD_MS: [u64; 5] = [0, 1_000, 10_000, 600_000, 3_600_000];

    /// Returns the latest start, in ms, of a node of this level that may be spread already.
    pub(super) fn horizon_ms(self, from_ms: u64) -> u64 {
        from_ms.saturating_add(Self::AHEAD_MS[self.0 as usize])
    }

    fn child(self) -> Self {
        Self(self.0 - 1)
    }

    fn child_bits(self) -> u32 {
        self.child().0 * SLOTS.trailing_zeros()
    }

    /// Returns the child of a node of this level that an offset belongs to.
    fn slot_of(self, low: u32) -> u8 {
        (low >> self.child_bits()) as u8
    }

    fn is_millisecond(self) -> bool {
        self.0 == 0
    }
}

/// Arguments of one call of `pop_due` to an era.
pub(super) struct Pop<'a, T> {
    pub(super) era_start_ms: u64,
    /// Offset of the latest entry that is due.
    pub(super) latest_low: u32,
    /// Length of `out` at which the call stops.
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

/// Methods whose work depends on the level of the node take it.
impl<T: Copy> Node<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.bag.is_empty() && self.children.is_none()
    }

    /// Returns the offset of the earliest entry.
    pub(super) fn min_low(&self) -> Option<u32> {
        let children = self.children.as_ref();
        let below = children.and_then(|children| children.first()?.min_low());
        [self.bag.min_low(), below].into_iter().flatten().min()
    }

    /// Returns `true` if an entry is at or before `latest_low`.
    pub(super) fn has_due(&self, latest_low: u32) -> bool {
        self.min_low().is_some_and(|low| low <= latest_low)
    }

    /// Adds an entry to a node of this level.
    pub(super) fn insert(&mut self, level: Level, entry: Entry<T>) {
        let mut node = self;
        let mut level = level;
        while let Some(children) = &mut node.children {
            node = children.get_or_default(level.slot_of(entry.low()));
            level = level.child();
        }
        node.bag.push(entry);
    }

    /// Moves due entries to `pop.out`, in due order, until it is full or nothing more is due here.
    pub(super) fn pop_due(&mut self, level: Level, pop: &mut Pop<'_, T>) {
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
            child.pop_due(level.child(), pop);
            if child.is_empty() {
                children.remove(slot);
            }
        }
        if children.is_empty() {
            self.children = None;
        }
    }

    /// Returns `true` if the bag must go to the children before it can be popped in order.
    fn wants_spreading(&self) -> bool {
        if self.children.is_some() {
            return !self.bag.is_empty();
        }
        self.bag.len() > SMALL_ENTRIES && !self.bag.is_one_instant()
    }

    /// Moves one block of the bag to the children. Returns the number of entries moved. A block that
    /// belongs to one child goes there in one piece.
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
            children.get_or_default(level.slot_of(entry.low())).insert(level.child(), entry);
        }
        moved
    }

    /// Spreads this node, which starts at `start_ms`, and those below it, as `Calendar::prepare` describes.
    /// Subtracts the entries moved from `budget`. Returns `true` if the budget did not suffice.
    pub(super) fn prepare(
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
            if child.prepare(level.child(), child_start_ms, from_ms, budget) {
                return true;
            }
            from_slot = slot.checked_add(1);
        }
        false
    }

    /// Returns the heap bytes below this node.
    pub(super) fn heap_bytes(&self) -> usize {
        let children = self.children.as_ref().map_or(0, |children| {
            size_of::<Slots<Self>>()
                + children.iter().map(|child| size_of::<Self>() + child.heap_bytes()).sum::<usize>()
        });
        self.bag.heap_bytes() + children
    }
}
