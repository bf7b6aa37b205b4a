//! The earliest of very many, with memory for few and in small steps.
//!
//! [`Earliest`] keeps them while all go by; [`Ascending`] then hands them out in order, sorting only as
//! far as it is asked. Used where an index, which is in no order of time, is walked for what comes
//! first: refills of a lane's window, evictions of tombstones.

/// Keeps the earliest of what is offered, and says how far it is complete.
#[derive(Debug)]
pub(crate) struct Earliest<T> {
    /// In no order, with some that are let go at the next cut.
    kept: Vec<T>,
    /// What came behind this one was let go.
    last: Option<T>,
    room: usize,
}

impl<T: Copy + Ord> Earliest<T> {
    /// One for at most so many, at least one.
    pub(crate) fn new(room: usize) -> Self {
        Self { kept: Vec::new(), last: None, room: room.max(1) }
    }

    pub(crate) fn offer(&mut self, one: T) {
        if self.last.is_some_and(|last| one > last) {
            return;
        }
        self.kept.push(one);
        if self.kept.len() >= 2 * self.room {
            self.cut();
        }
    }

    /// Lets go of all but the earliest. Once for as many as stay, so it costs a few comparisons each.
    fn cut(&mut self) {
        if self.kept.len() > self.room {
            self.kept.select_nth_unstable(self.room - 1);
            self.kept.truncate(self.room);
            self.last = self.kept.last().copied();
        }
    }

    /// The earliest, in no order, and the last up to which none is missing; `None`: none is.
    pub(crate) fn into_parts(mut self) -> (Vec<T>, Option<T>) {
        self.cut();
        (self.kept, self.last)
    }

    /// The last up to which none is missing; `None`: none is.
    pub(crate) const fn complete_until(&self) -> Option<T> {
        self.last
    }

    /// Takes out what is not behind this one, in no order.
    pub(crate) fn take_until(&mut self, until: T) -> Vec<T> {
        self.kept.extract_if(.., |one| *one <= until).collect()
    }
}

/// Hands out values in ascending order. What is not asked for is not sorted: a half of what is left is
/// parted from the other until what comes next is short, so that the first step costs a few comparisons
/// for each and the later ones little (incremental quicksort: Paredes and Navarro, 2006).
#[derive(Debug)]
pub(crate) struct Ascending<T> {
    values: Vec<T>,
    /// What comes before has been taken.
    start: usize,
    /// What comes before is in order.
    sorted: usize,
    /// Everything before such a place is at most what comes behind it; the nearest is last.
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
    /// The first that are left, in order: none if nothing is left, at most `most`.
    pub(crate) fn front(&mut self, most: usize) -> &[T] {
        let left = self.values.len() - self.start;
        while self.sorted - self.start < most.min(left) {
            self.sort_on(most);
        }
        &self.values[self.start..self.sorted.min(self.start + most)]
    }

    /// Takes out so many of those that [`Self::front`] has shown.
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
