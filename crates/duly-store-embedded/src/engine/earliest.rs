//! The earliest of a very large number of values, with little memory and in small steps.
//!
//! [`Earliest`] keeps the earliest values of a walk. [`Ascending`] then returns them in order, and sorts
//! no more than is asked for. Both serve walks over an index, which is not in time order: refills of a
//! resident window and evictions of tombstones.

/// Collects the earliest of the offered values, and knows up to which value it is complete.
#[derive(Debug)]
pub(crate) struct Earliest<T> {
    /// Unordered; includes values that the next cut drops.
    kept: Vec<T>,
    /// Values after this one were dropped.
    pub(crate) last: Option<T>,
    capacity: usize,
}

impl<T: Copy + Ord> Earliest<T> {
    /// Creates a collection of at most `capacity` values, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { kept: Vec::new(), last: None, capacity: capacity.max(1) }
    }

    pub(crate) fn offer(&mut self, one: T) {
        if self.last.is_some_and(|last| one > last) {
            return;
        }
        self.kept.push(one);
        if self.kept.len() >= 2 * self.capacity {
            self.cut();
        }
    }

    /// Drops all but the earliest values. It runs once for every `capacity` values, so it costs a few
    /// comparisons for each.
    fn cut(&mut self) {
        if self.kept.len() > self.capacity {
            self.kept.select_nth_unstable(self.capacity - 1);
            self.kept.truncate(self.capacity);
            self.last = self.kept.last().copied();
        }
    }

    /// Returns the earliest values, unordered, and the value up to which none is missing (`None`: none is
    /// missing at all).
    pub(crate) fn into_parts(mut self) -> (Vec<T>, Option<T>) {
        self.cut();
        (self.kept, self.last)
    }

    /// Takes out the values up to `until`, unordered.
    pub(crate) fn take_until(&mut self, until: T) -> Vec<T> {
        self.kept.extract_if(.., |one| *one <= until).collect()
    }
}

/// Returns values in ascending order, and sorts only as far as it is asked (incremental quicksort:
/// Paredes and Navarro, 2006). It halves the rest until the first part is short. So the first call costs
/// a few comparisons for each value, and the later ones cost little.
#[derive(Debug)]
pub(crate) struct Ascending<T> {
    values: Vec<T>,
    /// Values before this place have been taken.
    start: usize,
    /// Values before this place are sorted.
    sorted: usize,
    /// Partition points: no value before such a place is larger than one after it. The nearest is last.
    parted: Vec<usize>,
}

impl<T> Default for Ascending<T> {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl<T> Ascending<T> {
    pub(crate) const fn of(values: Vec<T>) -> Self {
        Self { values, start: 0, sorted: 0, parted: Vec::new() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.start == self.values.len()
    }
}

impl<T: Copy + Ord> Ascending<T> {
    /// Returns the first values that are left, in order: at most `most`, and none only if nothing is
    /// left.
    pub(crate) fn front(&mut self, most: usize) -> &[T] {
        let left = self.values.len() - self.start;
        while self.sorted - self.start < most.min(left) {
            self.sort_on(most);
        }
        &self.values[self.start..self.sorted.min(self.start + most)]
    }

    /// Takes out the first `count` of the values that [`Self::front`] has returned.
    pub(crate) fn take_out(&mut self, count: usize) {
        self.start = self.sorted.min(self.start + count);
        if self.is_empty() {
            *self = Self::default();
        }
    }

    fn sort_on(&mut self, piece: usize) {
        let mut end = self.parted.pop().unwrap_or(self.values.len());
        while end - self.sorted > 2 * piece {
            self.parted.push(end);
            let half = (end - self.sorted) / 2;
            self.values[self.sorted..end].select_nth_unstable(half);
            end = self.sorted + half;
        }
        self.values[self.sorted..end].sort_unstable();
        self.sorted = end;
    }
}

#[cfg(test)]
mod tests;
