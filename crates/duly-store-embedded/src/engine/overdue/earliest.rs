//! The earliest of very many places, with memory for few.

use super::Place;

/// Keeps the earliest of what is offered, and says how far it is complete.
#[derive(Debug)]
pub(crate) struct Earliest {
    /// In no order, with some that are let go at the next cut.
    places: Vec<Place>,
    /// What came behind this one was let go.
    last: Option<Place>,
    room: usize,
}

impl Earliest {
    /// One for at most so many, at least one.
    pub(crate) fn new(room: usize) -> Self {
        Self { places: Vec::new(), last: None, room: room.max(1) }
    }

    pub(crate) fn offer(&mut self, place: Place) {
        if self.last.is_some_and(|last| place > last) {
            return;
        }
        self.places.push(place);
        if self.places.len() >= 2 * self.room {
            self.cut();
        }
    }

    /// Lets go of all but the earliest. Once for as many as stay, so it costs a few comparisons each.
    fn cut(&mut self) {
        if self.places.len() > self.room {
            self.places.select_nth_unstable(self.room - 1);
            self.places.truncate(self.room);
            self.last = self.places.last().copied();
        }
    }

    /// The earliest, in no order, and the last up to which none is missing; `None`: none is.
    pub(crate) fn into_parts(mut self) -> (Vec<Place>, Option<Place>) {
        self.cut();
        (self.places, self.last)
    }

    /// The last up to which none is missing; `None`: none is.
    pub(crate) const fn complete_until(&self) -> Option<Place> {
        self.last
    }

    /// Takes out what is not behind a place, in no order.
    pub(crate) fn take_until(&mut self, until: Place) -> Vec<Place> {
        self.places.extract_if(.., |place| *place <= until).collect()
    }
}
