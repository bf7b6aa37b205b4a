//! Nodes of the build before markers. They keep members in a hash of shard 0, and never act at the same
//! time as nodes of this build.
//!
//! 1. While an older member is there, a node of this build does not join. It serves calls in the
//!    meantime.
//! 2. An older member that is gone is evicted as its own build would do it: when successful polls have
//!    seen the same heartbeat count for [`DEAD_AFTER`] in total. The time between two polls counts for
//!    at most [`GAP_MAX`].
//! 3. With the last one the hash becomes a value on which older scripts fail, and the format in the
//!    record increases. So an older node that was cut off cannot join again, and one that starts is
//!    refused.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use duly_core::shard::ShardId;
use duly_store::Result;
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use crate::{
    bootstrap::{self, Note},
    change::{AT_ONCE, digits},
    deployment::Deployment,
    link::Call,
    marker::FORMAT,
    script::Script,
};

/// Time without a new heartbeat after which an older member is dead, as in the older build.
const DEAD_AFTER: Duration = Duration::from_millis(1_750);
/// Most that the time between two polls counts.
const GAP_MAX: Duration = Duration::from_millis(400);

/// State of the older members, as this node knows it.
#[derive(Debug, Default)]
pub(crate) struct Older(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// `true`: none of them can act any more.
    is_sealed: bool,
    looked_at: Option<Instant>,
    /// By member id: its heartbeat count, and how long that has not changed.
    members: HashMap<String, (String, Duration)>,
}

impl Older {
    /// Returns the state that the markers report when a store is opened.
    pub(crate) fn new(is_sealed: bool) -> Self {
        Self(Mutex::new(State { is_sealed, ..State::default() }))
    }

    /// Returns `true` if no older node can act any more, as far as this node knows.
    pub(crate) fn is_sealed(&self) -> bool {
        self.0.lock().is_sealed
    }
}

impl State {
    /// Returns the members whose count has not changed for too long, each with its count.
    fn dead(&self) -> Vec<Vec<u8>> {
        let dead = self.members.iter().filter(|(_, (_, still_for))| *still_for >= DEAD_AFTER);
        dead.flat_map(|(run, (beats, _))| [run.as_bytes().to_vec(), beats.as_bytes().to_vec()])
            .collect()
    }

    /// Takes the result of a poll at `now`.
    fn saw(&mut self, now: Instant, found: Vec<(String, String)>) {
        let gap = self.looked_at.replace(now).map_or(Duration::ZERO, |at| now - at).min(GAP_MAX);
        let known = std::mem::take(&mut self.members);
        self.members = found
            .into_iter()
            .map(|(run, beats)| {
                let still_for = match known.get(&run) {
                    Some((before, still_for)) if *before == beats => *still_for + gap,
                    _ => Duration::ZERO,
                };
                (run, (beats, still_for))
            })
            .collect();
    }
}

impl Deployment {
    /// Returns the names of the older members that are still there; none after this build has taken
    /// over.
    pub(crate) async fn older_members(&self) -> Result<Vec<String>> {
        let mut arguments = vec![digits(FORMAT)];
        {
            let older = self.older.0.lock();
            if older.is_sealed {
                return Ok(Vec::new());
            }
            arguments.extend(older.dead());
        }
        let mut reply = self.ask(ShardId(0), Script::Seal, arguments).await?;
        let now = Instant::now();
        let (mut found, mut names) = (Vec::new(), Vec::new());
        while !reply.is_done() {
            let mut member = reply.items()?;
            found.push((member.text()?, member.text()?));
            names.push(member.text()?);
        }
        if found.is_empty() {
            self.seal().await;
        }
        self.older.0.lock().saw(now, found);
        Ok(names)
    }

    /// Notes, here and in every marker, that no older node can act any more, so that a node that starts
    /// while shard 0 is down knows it. A shard that is down does not get the note.
    async fn seal(&self) {
        let list = self.list.lock().clone();
        let note = Note { is_sealed: true, ..Note::default() };
        let arguments = bootstrap::arguments(&self.identity, &list, note);
        let marks = (0..self.shards).map(|shard| {
            let call = Call::new(Script::Mark, arguments.clone());
            bootstrap::marked(&self.router, ShardId(shard), call)
        });
        let _away: Vec<_> = stream::iter(marks).buffer_unordered(AT_ONCE).collect().await;
        tracing::info!("no node of an older build is a member: this build has the membership");
        self.older.0.lock().is_sealed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_member_is_dead_only_after_polls_of_one_count() {
        let mut state = State::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let member = |beats: &str| vec![("a".to_owned(), beats.to_owned())];
        state.saw(at(0), member("1"));
        for look in 1..=4 {
            state.saw(at(look * 400), member("1"));
        }
        assert!(state.dead().is_empty(), "1.6 s");
        state.saw(at(2_000), member("2"));
        assert!(state.dead().is_empty(), "it has beaten");
        // A long gap counts for at most GAP_MAX: a member has time for another heartbeat first.
        state.saw(at(60_000), member("2"));
        assert!(state.dead().is_empty());
        for look in 0..4 {
            state.saw(at(61_000 + look * 400), member("2"));
        }
        assert_eq!(state.dead(), [b"a".to_vec(), b"2".to_vec()]);
    }
}
