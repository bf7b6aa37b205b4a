//! The 256 children of a spread node, with a bitmap to skip empty ones.
//!
//! Invariant: a bit is set exactly if its slot is filled.

/// Children of a node: one for each value of a byte.
pub(super) const SLOTS: usize = 256;

const WORD_BITS: usize = u64::BITS as usize;

pub(super) struct Slots<N> {
    filled: [u64; SLOTS / WORD_BITS],
    slots: [Option<Box<N>>; SLOTS],
}

impl<N: Default> Slots<N> {
    pub(super) fn new() -> Self {
        Self { filled: [0; SLOTS / WORD_BITS], slots: [const { None }; SLOTS] }
    }

    pub(super) fn get_or_default(&mut self, index: u8) -> &mut N {
        let at = usize::from(index);
        self.filled[at / WORD_BITS] |= 1 << (at % WORD_BITS);
        self.slots[at].get_or_insert_default()
    }

    pub(super) fn remove(&mut self, index: u8) {
        let at = usize::from(index);
        self.filled[at / WORD_BITS] &= !(1 << (at % WORD_BITS));
        self.slots[at] = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled.iter().all(|&word| word == 0)
    }

    pub(super) fn first(&self) -> Option<&N> {
        let index = self.first_index(0)?;
        self.slots[usize::from(index)].as_deref()
    }

    /// Returns the first filled slot at or after `from`, with its child.
    pub(super) fn first_mut(&mut self, from: u8) -> Option<(u8, &mut N)> {
        let index = self.first_index(from)?;
        let node = self.slots[usize::from(index)].as_deref_mut()?;
        Some((index, node))
    }

    fn first_index(&self, from: u8) -> Option<u8> {
        let from = usize::from(from);
        let first_word = from / WORD_BITS;
        (first_word..self.filled.len()).find_map(|at| {
            let mut word = self.filled[at];
            if at == first_word {
                word &= u64::MAX << (from % WORD_BITS);
            }
            if word == 0 {
                return None;
            }
            u8::try_from(at * WORD_BITS + word.trailing_zeros() as usize).ok()
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &N> {
        self.slots.iter().flatten().map(Box::as_ref)
    }
}
