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

use crate::{
    change::at_once,
    deployment::Deployment,
    features::KEYS,
    marker::{MarkerNote, write_marker},
    script::Script,
};

/// Time without a new heartbeat after which an older member is dead, as in the older build.
const DEAD_AFTER: Duration = Duration::from_millis(1_750);
/// Most that the time between two polls counts.
const GAP_MAX: Duration = Duration::from_millis(400);

/// State of the older members, as this node knows it.
#[derive(Debug, Default)]
pub(crate) struct OlderMembers {
    /// `true`: none of them can act any more, as far as this node knows.
    pub(crate) is_sealed: bool,
    polled_at: Option<Instant>,
    /// By member id: its heartbeat count, and how long that has not changed.
    members: HashMap<String, (String, Duration)>,
}

impl OlderMembers {
    /// Returns the state that the markers report when a store is opened.
    pub(crate) fn new(is_sealed: bool) -> Self {
        Self { is_sealed, ..Self::default() }
    }

    /// Returns the members whose count has not changed for too long, each with its count.
    fn dead(&self) -> Vec<Vec<u8>> {
        let dead =
            self.members.iter().filter(|(_, (_, unchanged_for))| *unchanged_for >= DEAD_AFTER);
        dead.flat_map(|(member_id, (heartbeats, _))| {
            [member_id.as_bytes().to_vec(), heartbeats.as_bytes().to_vec()]
        })
        .collect()
    }

    /// Takes the result of a poll at `now`.
    fn observe(&mut self, now: Instant, found: Vec<(String, String)>) {
        let gap = self.polled_at.replace(now).map_or(Duration::ZERO, |at| now - at).min(GAP_MAX);
        let known = std::mem::take(&mut self.members);
        self.members = found
            .into_iter()
            .map(|(member_id, heartbeats)| {
                let unchanged_for = match known.get(&member_id) {
                    Some((before, unchanged_for)) if *before == heartbeats => *unchanged_for + gap,
                    _ => Duration::ZERO,
                };
                (member_id, (heartbeats, unchanged_for))
            })
            .collect();
    }
}

impl Deployment {
    /// Returns the names of the older members that are still there; none after this build has taken
    /// over.
    pub(crate) async fn older_members(&self) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        {
            let older = self.older.lock();
            if older.is_sealed {
                return Ok(Vec::new());
            }
            arguments.extend(older.dead());
        }
        let mut reply = self.call_script(ShardId(0), Script::Seal, arguments).await?;
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
        self.older.lock().observe(now, found);
        Ok(names)
    }

    /// Notes, here and in every marker, that no older node can act any more, so that a node that starts
    /// while shard 0 is down knows it. A shard that is down does not get the note.
    async fn seal(&self) {
        let list = self.list.lock().clone();
        let features = if self.access.is_used() { KEYS } else { "" };
        let note = MarkerNote { is_sealed: true, ..MarkerNote::default() };
        let marks = (0..self.shards).map(ShardId);
        let marks = marks
            .map(|shard| write_marker(&self.router, shard, &self.identity, &list, features, note));
        at_once(marks).await;
        tracing::info!(
            "no node of an older build is a member any more; this build took the membership over"
        );
        self.older.lock().is_sealed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_member_is_dead_only_after_polls_of_one_count() {
        let mut older = OlderMembers::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let member = |heartbeats: &str| vec![("a".to_owned(), heartbeats.to_owned())];
        older.observe(at(0), member("1"));
        for poll in 1..=4 {
            older.observe(at(poll * 400), member("1"));
        }
        assert!(older.dead().is_empty(), "1.6 s");
        older.observe(at(2_000), member("2"));
        assert!(older.dead().is_empty(), "it has sent another heartbeat");
        // A long gap counts for at most GAP_MAX: a member has time for another heartbeat first.
        older.observe(at(60_000), member("2"));
        assert!(older.dead().is_empty());
        for poll in 0..4 {
            older.observe(at(61_000 + poll * 400), member("2"));
        }
        assert_eq!(older.dead(), [b"a".to_vec(), b"2".to_vec()]);
    }
}
