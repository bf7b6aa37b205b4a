//! The end of implicit namespaces that have been idle for a day.
//!
//! 1. The coordinator shard of a namespace has it in its list `implicit`. It notes since when the
//!    namespace is idle, together with a count of its uses. The count shows a timer that came and went
//!    between two passes.
//! 2. Every node makes passes. A node whose lease calls waited for a namespace clears the note.
//! 3. The end itself is that of an empty namespace (`ending.rs`): all shards are locked, and only then
//!    each is checked to hold nothing, tombstones included. A timer that is scheduled before its shard
//!    is locked is seen. A later schedule call waits for the lock, and then finds no namespace.

use std::collections::BTreeSet;

use duly_core::{NamespaceName, Timestamp, shard::ShardId};
use duly_store::{
    Result,
    namespaces::{IDLE_AFTER, IdleCursor, IdlePage},
};

use crate::{
    change::{digits, everywhere},
    deployment::Deployment,
    script::Script,
};

/// Namespaces of one page.
const PAGE: usize = 200;

impl Deployment {
    pub(crate) async fn remove_idle(
        &self,
        from: Option<IdleCursor>,
        waited: &BTreeSet<NamespaceName>,
    ) -> Result<IdlePage> {
        let IdleCursor { shard, after } =
            from.unwrap_or(IdleCursor { shard: ShardId(0), after: None });
        let (last, namespaces) = self.implicit(shard, after.as_ref()).await?;
        let mut removed = Vec::new();
        if !namespaces.is_empty() {
            let nums: Vec<&str> = namespaces.iter().map(|(_, num)| num.as_str()).collect();
            let uses = self.uses_if_vacant(&nums).await?;
            for ((name, num), uses) in namespaces.iter().zip(uses) {
                let uses = uses.filter(|_| !waited.contains(name));
                let (now, since) = self.note_idle(shard, name, num, uses).await?;
                let is_over = since.is_some_and(|since| now.saturating_since(since) >= IDLE_AFTER);
                if is_over && self.end_idle(shard, name, num).await? {
                    removed.push(name.clone());
                }
            }
        }
        let next = match last {
            Some(last) => Some(IdleCursor { shard, after: Some(last) }),
            None if shard.0 + 1 < self.shards => {
                Some(IdleCursor { shard: ShardId(shard.0 + 1), after: None })
            }
            None => None,
        };
        Ok(IdlePage { removed, next })
    }

    /// Returns a page of the implicit namespaces of a coordinator shard, and its last name unless it is
    /// the last page.
    async fn implicit(
        &self,
        shard: ShardId,
        after: Option<&NamespaceName>,
    ) -> Result<(Option<NamespaceName>, Vec<(NamespaceName, String)>)> {
        let after = after.map_or_else(Vec::new, |after| after.as_str().into());
        let arguments = vec![b"page".to_vec(), after, digits(PAGE)];
        let mut reply = self.call_script(shard, Script::Idle, arguments).await?;
        let (_now, last) = (reply.time()?, reply.maybe_name()?);
        Ok((last, reply.rest(|reply| Ok((reply.name()?, reply.text()?)))?))
    }

    /// Asks all shards what they hold under these numbers. Returns the uses of each number that no shard
    /// holds anything of.
    async fn uses_if_vacant(&self, nums: &[&str]) -> Result<Vec<Option<u64>>> {
        let arguments: Vec<Vec<u8>> = nums.iter().map(|num| num.as_bytes().to_vec()).collect();
        let asked = (0..self.shards).map(|shard| {
            let arguments = arguments.clone();
            async move { self.call_script(ShardId(shard), Script::NamespaceUse, arguments).await }
        });
        let mut sums = vec![Some(0_u64); nums.len()];
        for mut reply in everywhere(asked).await? {
            let _now = reply.time()?;
            for sum in &mut sums {
                let (is_vacant, uses) = (reply.flag()?, reply.number()?);
                *sum = sum.filter(|_| is_vacant).map(|sum| sum + uses);
            }
        }
        Ok(sums)
    }

    /// Notes that a namespace is idle with this count of uses, or that it is not idle. Returns since
    /// when it is.
    async fn note_idle(
        &self,
        coordinator: ShardId,
        name: &NamespaceName,
        num: &str,
        uses: Option<u64>,
    ) -> Result<(Timestamp, Option<Timestamp>)> {
        let uses = uses.map_or_else(Vec::new, digits);
        let arguments = vec![b"note".to_vec(), name.as_str().into(), num.as_bytes().to_vec(), uses];
        let mut reply = self.call_script(coordinator, Script::Idle, arguments).await?;
        Ok((reply.time()?, reply.maybe_time()?))
    }

    /// Ends an idle namespace, unless it is used again by now. Returns `true` if it did.
    async fn end_idle(
        &self,
        coordinator: ShardId,
        name: &NamespaceName,
        num: &str,
    ) -> Result<bool> {
        let Some(control) =
            self.control_of(coordinator, name).await?.1.filter(|found| found.num == num)
        else {
            return Ok(false);
        };
        let own = format!("{:016x}", rand::random::<u64>());
        let empty = match self.lock_shards(&control, &own).await {
            Ok((0, 0)) => self.uses_if_vacant(&[num]).await,
            Ok(_) => Ok(vec![None]),
            Err(error) => Err(error),
        };
        let is_vacant = empty.as_ref().is_ok_and(|uses| uses.iter().all(Option::is_some));
        if is_vacant && self.end_number(name, num, "idle", &own).await?.0 == "DONE" {
            return Ok(true);
        }
        // A lock that stays is released by the call that finds it expired.
        let _later = self.unlock_shards(&control, &own).await;
        empty.map(|_| false)
    }
}
