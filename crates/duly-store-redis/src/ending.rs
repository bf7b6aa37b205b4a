//! The end of a namespace, in all shards.
//!
//! The coordinator shard decides, and writes an *end record* of the number. The other shards follow. An
//! entry in the coordinator's `todo` makes any node that finds it finish an unfinished end.
//!
//! 1. **Only an end record allows a shard to remove what it holds under a number.** A missing record
//!    proves nothing: the coordinator shard may have lost it with everything else. Numbers are never
//!    used again, so a late removal removes only what was recorded.
//! 2. The end record stays until every shard has confirmed the end, and for a day after that.
//!
//! To end a namespace only if it is empty, all shards must be empty at one time. So each shard is locked
//! first, the coordinator shard before the others. This *deletion lock* is the field `gate` in Redis.
//! While it is held, the shard refuses everything that would make the namespace hold more. A shard that
//! was empty when it was locked stays empty. If all were empty, the coordinator shard ends the
//! namespace, provided that the same lock is still held there.
//!
//! 3. **A lock is released in a shard only after the same lock was released in the coordinator shard.**
//!    This holds for the caller whose shards were not all empty. It also holds for a node that finds an
//!    expired lock, whose caller is gone. So either the coordinator shard has ended the namespace under
//!    this lock, and every locked shard stays locked until it ends too; or it never will under this
//!    lock. This does not depend on a clock. The clock only says when a node may release the lock of
//!    another.
//! 4. A lock is taken only where there is none. A late one, after its release in the coordinator shard,
//!    ends nothing and expires.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{Error, Result, namespaces::DeleteMode};

use crate::{
    change::{TRIES, digits, everywhere},
    deployment::Deployment,
    error::{after_change, damaged, unavailable},
    namespaces::unrecorded,
    reply::Reply,
    row::Control,
    script::Script,
};

/// Time after which a deletion lock counts as expired.
const LOCK_EXPIRES_AFTER: Duration = Duration::from_secs(5);
/// Polls of a deletion lock before the call fails, and the pause between them.
const LOCK_POLLS: u32 = 40;
const LOCK_POLL_PAUSE: Duration = Duration::from_millis(25);

/// State of a deletion lock in a shard.
#[derive(Debug)]
enum DeletionLock {
    /// This shard has no such namespace.
    NoNamespace,
    Unlocked,
    /// The caller holds it; the shard holds this many pending timers and dead letters.
    Locked(u64, u64),
    /// Another caller holds it; `true`: it has expired.
    HeldByOther(String, bool),
}

impl Deployment {
    pub(crate) async fn delete_namespace(
        &self,
        name: &NamespaceName,
        mode: DeleteMode,
    ) -> Result<()> {
        let Some(control) = self.control_of(self.coordinator_of(name), name).await?.1 else {
            return self.finish_end_or_refuse(name).await;
        };
        if mode == DeleteMode::Force {
            return self.end(&control, "", "").await;
        }
        if self.shards == 1 {
            return self.end(&control, "empty", "").await;
        }
        // Most namespaces with timers are refused here, without a lock.
        self.expect_empty(name).await?;
        let own = format!("{:016x}", rand::random::<u64>());
        let locked = self.lock_shards(&control, &own).await;
        if locked != Ok((0, 0)) {
            // A lock that stays is released by the call that finds it expired.
            let _later = self.unlock_shards(&control, &own).await;
            let (pending, dead) = locked?;
            return Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead });
        }
        self.end(&control, "empty", &own).await
    }

    /// Ends a namespace on conditions, and reports what prevents it.
    async fn end(&self, control: &Control, condition: &str, lock: &str) -> Result<()> {
        let name = &control.name;
        let (word, mut reply) = self.end_number(name, &control.num, condition, lock).await?;
        match word.as_str() {
            "DONE" => Ok(()),
            "NONE" => self.finish_end_or_refuse(name).await,
            "AGAIN" => Err(unavailable("the deletion took longer than its lock; repeat it")),
            "FULL" => {
                let (pending, dead) = (reply.number()?, reply.number()?);
                Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead })
            }
            other => Err(damaged(format!("unknown reply to the end of a namespace: {other}"))),
        }
    }

    /// Ends a number at the coordinator shard of its name, on conditions, and then everywhere. Returns the
    /// word of the coordinator shard, `DONE` if the conditions held, and the rest of its reply.
    pub(crate) async fn end_number(
        &self,
        name: &NamespaceName,
        num: &str,
        condition: &str,
        lock: &str,
    ) -> Result<(String, Reply)> {
        let mut reply = self.end_at_coordinator(name, num, condition, lock).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        if word == "DONE" {
            self.end_elsewhere(name, num, &reply.text()?).await?;
        }
        Ok((word, reply))
    }

    /// Records the end of a number at the coordinator shard of its name, on conditions, and removes what
    /// that shard holds of it.
    pub(crate) async fn end_at_coordinator(
        &self,
        name: &NamespaceName,
        num: &str,
        condition: &str,
        lock: &str,
    ) -> Result<Reply> {
        let arguments = [name.as_str(), num, "", condition, lock].map(bytes).to_vec();
        self.call_script(self.coordinator_of(name), Script::EndNamespace, arguments).await
    }

    /// Ends a namespace that its coordinator shard does not have: perhaps it has ended there and nowhere
    /// else.
    async fn finish_end_or_refuse(&self, name: &NamespaceName) -> Result<()> {
        match self.records(name, &[]).await?.unfinished_end {
            Some((num, ver)) => self.end_elsewhere(name, &num, &ver).await,
            None => Err(self.no_namespace(name).await),
        }
    }

    /// Removes in a shard what it holds under a number, provided that the end of the number is recorded.
    pub(crate) async fn end_recorded(
        &self,
        shard: ShardId,
        name: &NamespaceName,
        num: &str,
    ) -> Result<()> {
        let records = self.records(name, &[num]).await?;
        match records.ended.first().and_then(Option::as_deref) {
            Some(ver) => self.end_in(shard, name, num, ver).await,
            None => Err(unrecorded(name)),
        }
    }

    /// Removes in a shard what it holds under a number whose end is recorded with this version.
    pub(crate) async fn end_in(
        &self,
        shard: ShardId,
        name: &NamespaceName,
        num: &str,
        ver: &str,
    ) -> Result<()> {
        let arguments = [name.as_str(), num, ver, ""].map(bytes).to_vec();
        self.call_script(shard, Script::EndNamespace, arguments).await.map(drop)
    }

    /// Ends a namespace in all other shards, after its coordinator shard has ended it. Marks the end as
    /// complete there.
    pub(crate) async fn end_elsewhere(
        &self,
        name: &NamespaceName,
        num: &str,
        ver: &str,
    ) -> Result<()> {
        let coordinator = self.coordinator_of(name);
        let ends = self.others(coordinator).map(|shard| self.end_in(shard, name, num, ver));
        after_change(everywhere(ends).await)?;
        // If this is lost, a background pass ends it once more.
        let done = [name.as_str(), num, ver, "done"].map(bytes).to_vec();
        let _done = self.call_script(coordinator, Script::EndNamespace, done).await;
        Ok(())
    }

    /// Refuses a namespace that holds something in any shard.
    async fn expect_empty(&self, name: &NamespaceName) -> Result<()> {
        let counts = (0..self.shards).map(|shard| self.stats(ShardId(shard), name));
        let counts = everywhere(counts).await?;
        let (mut pending, mut dead) = (0, 0);
        for stats in counts.into_iter().flatten() {
            pending += stats.pending();
            dead += stats.dead;
        }
        if pending + dead == 0 {
            return Ok(());
        }
        Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead })
    }

    /// Takes the deletion lock of every shard, the coordinator shard first. Returns the pending timers
    /// and dead letters of all.
    pub(crate) async fn lock_shards(&self, control: &Control, own: &str) -> Result<(u64, u64)> {
        let coordinator = self.coordinator_of(&control.name);
        let at_coordinator = self.lock_shard(coordinator, control, own).await?;
        let locks = self.others(coordinator).map(|shard| self.lock_shard(shard, control, own));
        let others = everywhere(locks).await?;
        Ok(others.iter().fold(at_coordinator, |sum, locked| (sum.0 + locked.0, sum.1 + locked.1)))
    }

    async fn lock_shard(&self, shard: ShardId, control: &Control, own: &str) -> Result<(u64, u64)> {
        for _ in 0..TRIES {
            match self.deletion_lock(shard, control, "close", own).await? {
                DeletionLock::Locked(pending, dead) => return Ok((pending, dead)),
                DeletionLock::HeldByOther(_, false)
                    if shard == self.coordinator_of(&control.name) =>
                {
                    return Err(unavailable("another call is deleting the namespace"));
                }
                DeletionLock::HeldByOther(holder, _) => {
                    self.release_expired_lock(shard, control, &holder).await?;
                }
                DeletionLock::Unlocked => {}
                DeletionLock::NoNamespace if shard == self.coordinator_of(&control.name) => {
                    return Err(self.no_namespace(&control.name).await);
                }
                // The shard must have the namespace, so that it can be locked.
                DeletionLock::NoNamespace => {
                    self.spread_again(&control.name).await?;
                }
            }
        }
        Err(unavailable("the namespace keeps changing"))
    }

    pub(crate) async fn unlock_shards(&self, control: &Control, own: &str) -> Result<()> {
        let coordinator = self.coordinator_of(&control.name);
        self.deletion_lock(coordinator, control, "open", own).await?;
        let locks =
            self.others(coordinator).map(|shard| self.deletion_lock(shard, control, "open", own));
        everywhere(locks).await.map(drop)
    }

    /// Releases a lock whose caller is gone, unless the namespace has ended: then it ends in this shard
    /// too.
    pub(crate) async fn release_expired_lock(
        &self,
        shard: ShardId,
        control: &Control,
        holder: &str,
    ) -> Result<()> {
        let coordinator = self.coordinator_of(&control.name);
        if let DeletionLock::NoNamespace =
            self.deletion_lock(coordinator, control, "open", holder).await?
        {
            return self.end_recorded(shard, &control.name, &control.num).await;
        }
        self.deletion_lock(shard, control, "open", holder).await.map(drop)
    }

    /// Waits for the deletion lock of a shard to be released, for at most [`LOCK_POLLS`] polls.
    pub(crate) async fn wait_for_deletion_lock(
        &self,
        shard: ShardId,
        control: &Control,
    ) -> Result<()> {
        for _ in 0..LOCK_POLLS {
            match self.deletion_lock(shard, control, "look", "").await? {
                DeletionLock::HeldByOther(holder, true) => {
                    self.release_expired_lock(shard, control, &holder).await?;
                }
                DeletionLock::HeldByOther(_, false) => tokio::time::sleep(LOCK_POLL_PAUSE).await,
                DeletionLock::NoNamespace | DeletionLock::Unlocked | DeletionLock::Locked(..) => {
                    return Ok(());
                }
            }
        }
        Err(unavailable("the namespace is being deleted"))
    }

    async fn deletion_lock(
        &self,
        shard: ShardId,
        control: &Control,
        what: &str,
        holder: &str,
    ) -> Result<DeletionLock> {
        let mut arguments = [control.name.as_str(), &control.num, what, holder].map(bytes).to_vec();
        arguments.push(digits(LOCK_EXPIRES_AFTER.as_millis()));
        let mut reply = self.call_script(shard, Script::DeletionLock, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        Ok(match word.as_str() {
            "NONE" => DeletionLock::NoNamespace,
            "OPEN" => DeletionLock::Unlocked,
            "SHUT" => DeletionLock::Locked(reply.number()?, reply.number()?),
            "HELD" => DeletionLock::HeldByOther(reply.text()?, reply.flag()?),
            other => return Err(damaged(format!("unknown reply about a deletion lock: {other}"))),
        })
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

#[cfg(test)]
mod tests;
