//! Memory for what a call reads: taken before it is read (P10).
//!
//! ```text
//!   share ──► bytes_max of the store's call ──► views ──► text, in parts, beyond the views
//!     │            half of the share              │
//!     └── less where there is little room         └── let go when the text is written
//! ```
//!
//! A store reads no more than it is allowed to. Where that is too little even for the first timer it says
//! how much that one takes: the share grows to it, or the call is refused.

use duly_core::{NamespaceName, TimerId};
use duly_store::{
    Answer, Command, Error, Outcome, Page, Refusal, TimerView,
    query::{ListRequest, PAGE_BYTES},
};

use super::{
    App, Problem,
    budget::{Budget, SMALL_BYTES_MAX, Share, TINY_BYTES_MAX, no_room},
};

/// How often a timer is read again that has become larger than it said.
const TRIES: usize = 4;
/// Memory of a page of one shard, at least.
const SHARD_BYTES_MIN: usize = 16 * 1024;

/// What was read, with the memory that it takes.
#[derive(Debug)]
pub(crate) struct Read<T> {
    /// What was read.
    pub(crate) value: T,
    /// Its memory.
    pub(crate) share: Share,
    /// What is left of what was taken, for what is made of it.
    pub(crate) rest: Share,
}

/// Returns half of a share, in which a store may read.
fn half(share: &Share) -> u64 {
    (share.bytes() / 2) as u64
}

/// Makes a share large enough for a timer that takes so many bytes, and as many more.
pub(crate) fn grow_for(share: &mut Share, bytes: u64) -> Result<(), Problem> {
    share.grow_to(usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(2))
}

/// Takes memory for one timer, as much as most take; of a larger one the store says how much.
pub(crate) fn for_one(budget: &Budget) -> Result<Share, Problem> {
    let mut share = budget.share();
    share.grow_up_to(SMALL_BYTES_MAX, TINY_BYTES_MAX)?;
    Ok(share)
}

impl App {
    /// Carries out one command whose request takes `share`. The share grows by what its answer shows of a
    /// timer that the store has read, and by as much for its text; where there is no room for it nothing
    /// changes.
    pub(crate) async fn apply_within(
        &self,
        command: Command,
        share: &mut Share,
    ) -> Result<Outcome, Problem> {
        let own = share.bytes();
        let all = share.grow_up_to(own + SMALL_BYTES_MAX, own + TINY_BYTES_MAX / 2)?;
        let bytes_max = ((all - own) / 2) as u64;
        let mut command = Command { answer: Answer::Within(bytes_max), ..command };
        for _ in 0..TRIES {
            match self.apply_one(command.clone()).await? {
                Outcome::Failed(Error::TooLarge { bytes }) => {
                    grow_for(share, own as u64 + bytes)?;
                    command.answer = Answer::Within(bytes);
                }
                Outcome::Refused(Refusal::UnknownNamespace(name)) if self.creates(&command) => {
                    self.create_implicitly(name).await?;
                }
                outcome => return Ok(outcome),
            }
        }
        Err(no_room())
    }

    /// Reads one timer, its tombstone, or its latest dead letter.
    pub(crate) async fn read_timer(
        &self,
        namespace: NamespaceName,
        id: TimerId,
    ) -> Result<Read<TimerView>, Problem> {
        let shard = self.sharded().shard_of(&namespace, id.as_str());
        let mut share = for_one(self.budget())?;
        for _ in 0..TRIES {
            let (name, id) = (namespace.clone(), id.clone());
            match self.store().get(shard, name, id.clone(), half(&share)).await {
                Ok(Some(value)) => {
                    let bytes = usize::try_from(value.memory_bytes()).unwrap_or(usize::MAX);
                    let rest = share.split(share.bytes().saturating_sub(bytes));
                    return Ok(Read { value, share, rest });
                }
                Ok(None) if self.store().get_namespace(namespace.clone()).await?.is_none() => {
                    return Err(Problem::no_namespace(namespace.as_str()));
                }
                Ok(None) => return Err(Problem::no_timer(id.as_str(), namespace.as_str())),
                Err(Error::TooLarge { bytes }) => grow_for(&mut share, bytes)?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(no_room())
    }

    /// Reads a page of the list over all shards.
    pub(crate) async fn read_page(&self, request: ListRequest) -> Result<Read<Page>, Problem> {
        let mut share = self.budget().share();
        let least = SMALL_BYTES_MAX.max(2 * SHARD_BYTES_MIN * self.sharded().shards().len());
        let most = usize::try_from(2 * PAGE_BYTES).unwrap_or(usize::MAX).max(least);
        share.grow_up_to(most, least)?;
        let request = ListRequest { bytes_max: half(&share), ..request };
        let grow = |bytes| {
            let others = half(&share);
            grow_for(&mut share, others + bytes)
        };
        let value = self.sharded().list::<Problem>(&request, grow).await?;
        let bytes: u64 = value.timers.iter().map(TimerView::memory_bytes).sum();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let rest = share.split(share.bytes().saturating_sub(bytes));
        Ok(Read { value, share, rest })
    }
}
