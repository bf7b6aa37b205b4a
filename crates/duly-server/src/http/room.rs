//! Room in the memory of bodies for the firings of one lease.
//!
//! Asked for by the node at the moment of the claim: a consumer that waits for firings costs nothing,
//! and what is claimed for it after any wait has its room before it is read (P10). Where there is too
//! little for a whole answer, fewer firings are claimed, and none where there is too little for a
//! small one.

use duly_node::Room;
use duly_store::Firing;
use parking_lot::Mutex;

use super::{
    Problem,
    budget::{Budget, SMALL_BYTES_MAX, Share},
};

/// Room for one lease.
#[derive(Debug)]
pub(crate) struct LeaseRoom(Mutex<Share>);

impl LeaseRoom {
    /// None yet.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self(Mutex::new(budget.share()))
    }

    /// What was reserved, for firings and as much for their text; a lease that is still under way finds
    /// none of it.
    ///
    /// # Errors
    /// One firing comes whatever its size: one that is larger may find no room. Its claim has to go back.
    pub(crate) fn for_firings(
        &self,
        budget: &Budget,
        firings: &[Firing],
    ) -> Result<Share, Problem> {
        let bytes = firings.iter().map(memory_bytes).sum::<usize>();
        let mut share = std::mem::replace(&mut *self.0.lock(), budget.share());
        share.grow_to(2 * bytes)?;
        Ok(share)
    }

    /// What was set aside, as a share of the size of the answer; a lease that is still under way
    /// finds none of it.
    ///
    /// # Errors
    /// What was set aside is for payloads and headers, and one firing comes whatever its size: an
    /// answer that is larger may find no room. Its claims have to go back.
    pub(crate) fn for_answer(&self, budget: &Budget, bytes: usize) -> Result<Share, Problem> {
        let mut share = std::mem::replace(&mut *self.0.lock(), budget.share());
        share.grow_to(bytes)?;
        share.shrink_to(bytes);
        Ok(share)
    }
}

/// Returns the bytes of memory of a firing, about.
fn memory_bytes(firing: &Firing) -> usize {
    size_of::<Firing>().saturating_add(usize::try_from(firing.bytes()).unwrap_or(usize::MAX))
}

impl Room for LeaseRoom {
    fn set_aside(&self, bytes_max: u64) -> Option<u64> {
        // Half of it for the firings, half for their text.
        let bytes = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_mul(2);
        let mut share = self.0.lock();
        share.grow_up_to(bytes, bytes.min(SMALL_BYTES_MAX)).ok().map(|bytes| bytes as u64 / 2)
    }

    fn let_go(&self) {
        self.0.lock().shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn p10_fewer_bytes_are_claimed_where_less_is_left_and_none_where_that_is_too_little() {
        let budget = Budget::new(4 * 1024 * 1024);
        let room = LeaseRoom::new(&budget);
        assert_eq!(room.set_aside(MIB), Some(MIB));
        room.let_go();
        let others = budget.take_anyway(2 * 1024 * 1024 + 500_000);
        assert_eq!(room.set_aside(MIB), Some(MIB / 4), "and as much for the text");
        let more = budget.take_anyway(1024 * 1024);
        room.let_go();
        assert_eq!(room.set_aside(MIB), Some(SMALL_BYTES_MAX as u64 / 2), "of the last quarter");
        room.let_go();
        let rest = budget.take_anyway(500_000);
        assert_eq!(room.set_aside(MIB), None);
        drop((others, more, rest));
        assert_eq!(room.set_aside(MIB), Some(MIB));
        let share = room.for_answer(&budget, 1_000_000).unwrap();
        assert!(budget.take(3 * 1024 * 1024).is_err());
        assert!(budget.take(3 * 1024 * 1024 - 1_000_000).is_ok(), "what is not used goes back");
        drop(share);
        assert!(budget.take(3 * 1024 * 1024).is_ok());
    }
}
