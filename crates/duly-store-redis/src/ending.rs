//! The end of a namespace, in all shards.
//!
//! The coordinator shard decides and writes an *end record* of the number, the other shards follow, and a
//! note in the coordinator's `todo` has any node that finds it finish what was left half done.
//!
//! 1. **Only an end record allows a shard to remove what it holds under a number.** That a record is
//!    missing means nothing: the coordinator shard may have lost it with everything else. Numbers are never
//!    used again, so a removal that comes late removes only what was recorded.
//! 2. The end record stays until every shard has confirmed the end, and for a day after that.
//!
//! An end on condition that the namespace is empty needs all shards to be empty at one moment. So each
//! gets a *gate* first, the home before the others: while it is shut the shard takes nothing that would
//! make the namespace hold more, and says so. A shard that was empty when its gate was shut stays so; if
//! all were, the home ends the namespace, provided that the gate is still the same one there.
//!
//! * **A gate is opened only after the same gate was opened at home**, whoever does it: the caller,
//!   whose shards were not all empty, or somebody who finds a gate that has lasted too long, its caller
//!   being dead. So either the home has ended the namespace under this gate, and every shard that was
//!   shut for it stays shut until it ends too, or it never will under this gate. No clock is trusted
//!   with that; the clock says only when somebody may doubt a gate.
//! * A gate is shut only where there is none. One that comes late, after it was opened at home, ends
//!   nothing and is doubted in its time.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{Error, Result, namespaces::DeleteMode};

use crate::{
    case::Control,
    change::{TRIES, digits, everywhere},
    deployment::Deployment,
    error::{after, damaged, unavailable},
    namespaces::unrecorded,
    reply::Reply,
    script::Script,
};

/// How long a gate is not doubted.
const GATE_LASTS: Duration = Duration::from_secs(5);
/// How often a gate is looked at before its end is left to the caller, and how long between.
const GATE_LOOKS: u32 = 40;
const GATE_PAUSE: Duration = Duration::from_millis(25);

/// What a shard says of a gate.
#[derive(Debug)]
enum Gate {
    /// This shard has no such namespace.
    Absent,
    Open,
    /// It is the caller's, and the shard holds so many pending timers and dead letters.
    Shut(u64, u64),
    /// It is another one's, and has lasted too long or not.
    Held(String, bool),
}

impl Deployment {
    pub(crate) async fn delete_namespace(
        &self,
        name: &NamespaceName,
        mode: DeleteMode,
    ) -> Result<()> {
        let Some(control) = self.control_of(self.home(name), name).await?.1 else {
            return self.end_of_nothing(name).await;
        };
        if mode == DeleteMode::Force {
            return self.end(&control, "", "").await;
        }
        if self.shards == 1 {
            return self.end(&control, "empty", "").await;
        }
        // What holds timers is told so at once, without a gate.
        self.expect_empty(name).await?;
        let own = format!("{:016x}", rand::random::<u64>());
        let held = self.shut_gates(&control, &own).await;
        if held != Ok((0, 0)) {
            // A gate that stays is opened by the call that meets it.
            let _later = self.open_gates(&control, &own).await;
            let (pending, dead) = held?;
            return Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead });
        }
        self.end(&control, "empty", &own).await
    }

    /// Ends a namespace at its home, on conditions, and then everywhere.
    async fn end(&self, control: &Control, condition: &str, gate: &str) -> Result<()> {
        let name = &control.name;
        let home = self.home(name);
        let mut reply = self.end_at_home(name, &control.num, condition, gate).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        match word.as_str() {
            "DONE" => {
                let ver = reply.text()?;
                self.end_elsewhere(home, name, &control.num, &ver).await
            }
            "NONE" => self.end_of_nothing(name).await,
            "AGAIN" => Err(unavailable("the deletion took too long and was given up; repeat it")),
            "FULL" => {
                let (pending, dead) = (reply.number()?, reply.number()?);
                Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead })
            }
            other => Err(damaged(format!("an end was answered with {other}"))),
        }
    }

    /// Ends a namespace whose gates are shut, everywhere. Returns whether the condition held at its home.
    pub(crate) async fn end_if(
        &self,
        control: &Control,
        condition: &str,
        gate: &str,
    ) -> Result<bool> {
        let name = &control.name;
        let mut reply = self.end_at_home(name, &control.num, condition, gate).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        if word != "DONE" {
            return Ok(false);
        }
        let ver = reply.text()?;
        self.end_elsewhere(self.home(name), name, &control.num, &ver).await.map(|()| true)
    }

    /// Records the end of a number at the coordinator shard of its name, on conditions, and removes what
    /// that shard holds of it.
    pub(crate) async fn end_at_home(
        &self,
        name: &NamespaceName,
        num: &str,
        condition: &str,
        gate: &str,
    ) -> Result<Reply> {
        let arguments = [name.as_str(), num, "", condition, gate].map(bytes).to_vec();
        self.ask(self.home(name), Script::Gone, arguments).await
    }

    /// A namespace that its home does not have: perhaps it has ended there and nowhere else.
    async fn end_of_nothing(&self, name: &NamespaceName) -> Result<()> {
        match self.records(name, &[]).await?.half_done {
            Some((num, ver)) => self.end_elsewhere(self.home(name), name, &num, &ver).await,
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
        self.ask(shard, Script::Gone, arguments).await.map(drop)
    }

    /// Ends a namespace that its home has ended in all other shards, and says there that it is so.
    pub(crate) async fn end_elsewhere(
        &self,
        home: ShardId,
        name: &NamespaceName,
        num: &str,
        ver: &str,
    ) -> Result<()> {
        let ends = self.others(home).map(|shard| self.end_in(shard, name, num, ver));
        after(everywhere(ends).await)?;
        // If this is lost, a background pass ends it once more.
        let done = [name.as_str(), num, ver, "done"].map(bytes).to_vec();
        let _done = self.ask(home, Script::Gone, done).await;
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

    /// Shuts the gate of every shard, the home's first; answers what all of them hold.
    pub(crate) async fn shut_gates(&self, control: &Control, own: &str) -> Result<(u64, u64)> {
        let home = self.home(&control.name);
        let at_home = self.shut_gate(home, control, own).await?;
        let gates = self.others(home).map(|shard| self.shut_gate(shard, control, own));
        let others = everywhere(gates).await?;
        Ok(others.iter().fold(at_home, |sum, held| (sum.0 + held.0, sum.1 + held.1)))
    }

    async fn shut_gate(&self, shard: ShardId, control: &Control, own: &str) -> Result<(u64, u64)> {
        for _ in 0..TRIES {
            match self.gate(shard, control, "close", own).await? {
                Gate::Shut(pending, dead) => return Ok((pending, dead)),
                Gate::Held(_, false) if shard == self.home(&control.name) => {
                    return Err(unavailable("another call is deleting the namespace"));
                }
                Gate::Held(whose, _) => self.doubt(shard, control, &whose).await?,
                Gate::Open => {}
                Gate::Absent if shard == self.home(&control.name) => {
                    return Err(self.no_namespace(&control.name).await);
                }
                // It is to have the namespace, so that it can be shut.
                Gate::Absent => {
                    let todo = format!("put\0{}", control.name);
                    self.finish(self.home(&control.name), &todo).await?;
                }
            }
        }
        Err(unavailable("the namespace keeps changing"))
    }

    pub(crate) async fn open_gates(&self, control: &Control, own: &str) -> Result<()> {
        let home = self.home(&control.name);
        self.gate(home, control, "open", own).await?;
        let gates = self.others(home).map(|shard| self.gate(shard, control, "open", own));
        everywhere(gates).await.map(drop)
    }

    /// Opens a gate whose caller is gone, unless the namespace has ended: then it ends here too.
    pub(crate) async fn doubt(&self, shard: ShardId, control: &Control, whose: &str) -> Result<()> {
        let home = self.home(&control.name);
        if let Gate::Absent = self.gate(home, control, "open", whose).await? {
            return self.end_recorded(shard, &control.name, &control.num).await;
        }
        self.gate(shard, control, "open", whose).await.map(drop)
    }

    /// Waits a while for the gate of a shard to open.
    pub(crate) async fn wait_at_gate(&self, shard: ShardId, control: &Control) -> Result<()> {
        for _ in 0..GATE_LOOKS {
            match self.gate(shard, control, "look", "").await? {
                Gate::Held(whose, true) => self.doubt(shard, control, &whose).await?,
                Gate::Held(_, false) => tokio::time::sleep(GATE_PAUSE).await,
                Gate::Absent | Gate::Open | Gate::Shut(..) => return Ok(()),
            }
        }
        Err(unavailable("the namespace is being deleted"))
    }

    async fn gate(
        &self,
        shard: ShardId,
        control: &Control,
        what: &str,
        whose: &str,
    ) -> Result<Gate> {
        let mut arguments = [control.name.as_str(), &control.num, what, whose].map(bytes).to_vec();
        arguments.push(digits(GATE_LASTS.as_millis()));
        let mut reply = self.ask(shard, Script::Gate, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        Ok(match word.as_str() {
            "NONE" => Gate::Absent,
            "OPEN" => Gate::Open,
            "SHUT" => Gate::Shut(reply.number()?, reply.number()?),
            "HELD" => Gate::Held(reply.text()?, reply.flag()?),
            other => return Err(damaged(format!("a gate was answered with {other}"))),
        })
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

#[cfg(test)]
mod tests;
