//! The `Store` port on Redis or Valkey: one server, or a Cluster.
//!
//! ```text
//!  Store ── apply, settle, claim, … ──► Script + arguments ──► Router ──► Connection ──► a master
//!                │                                              │ server of the shard;
//!                ▼                                              │ MOVED, ASK, NOSCRIPT, WAIT
//!               Row: the data that was read; `duly-decide` says what follows (pure)
//! ```
//!
//! This crate keeps the promises of [`duly_store::Store`] as far as Redis keeps acknowledged writes: an
//! asynchronous failover can undo writes that the promoted replica did not have. With
//! `Options::min_replicas` every change waits until that many replicas have it (`WAIT`). With
//! `Options::on_disk` it waits until the change is on disks too (`WAITAOF`). Both make such a loss rare;
//! they are no consensus. Leases and retries run by the wall clock of the master, so a step of that
//! clock ends leases early or delays retries. A settlement is fenced all the same (P8).
//!
//! Differences from the design in `docs/adr/0001-the-store-port.md`, with the reasons:
//!
//! * **Records are fields of one hash per namespace**, not keys of their own, and packed. The price: the
//!   records of a shard move to another master as a few large keys.
//! * **First attempts wait in blocks**: small sorted sets of at most 64 entries. A directory holds where
//!   each block begins, like the leaves of a B+ tree. An entry takes 57 bytes; in one large sorted set
//!   it would take 145. Ending a namespace removes 64 blocks of each lane at once, and the rest in later
//!   sweeps. Counting up to a time reads every block up to it.
//! * **There is no set of all pending timers**: a list is the merge of the lanes' sets and those of
//!   retried and leased timers. The set of leased timers is made only on demand (`scripts/index.lua`).
//!   One set of all timers would double the memory of every timer.
//! * **Tombstones are fields too**, and a list has them in order of ending: an ack creates no key and no
//!   entry of a sorted set. Lists by due time use a set that is made on demand.
//! * **There is no row version**: the first bytes of a record, its *core*, differ after every change.
//!   The compare-and-set compares them.
//! * **Scripts never end a lease, dead-letter or retry**: they report that something is owed, and the
//!   adapter reads, decides by `duly_core` and writes. So the lifecycle has one implementation, and no
//!   table has to be generated for Lua.
//! * **`schedule_per_second` is kept by the coordinator shard of the namespace**. It grants schedule
//!   operations to a node that makes them in other shards (`rate.rs`).
//! * **Limits over several shards** are quotas that move between shards: a node rebalances unused quota
//!   before it refuses. Transfers are announced as running totals, so a call that is lost, late or
//!   repeated does not change the sum (`quota.rs`). Of `max_retained` each shard has its even split,
//!   rounded up.
//!
//! The client is the crate `redis` (redis-rs), the most used and best maintained one. Its multiplexed
//! connection sends a pipeline as one message and returns a reply or an error for each command. It
//! speaks RESP3, so it delivers sharded pub/sub on a connection of its own.
//!
//! The crate does not use its Cluster client. Both that client and the other candidate, `fred`, route,
//! redirect and resend inside the client. That may execute a script twice, and does not tell on which
//! connection a `WAIT` is sent. A shard has one slot and every request is a script, so a table of at
//! most 256 entries finds the master. `MOVED`, `ASK`, `NOSCRIPT` and `WAIT` are handled in this crate,
//! which knows what may be sent again.
//!
//! The crate does not deal with the sockets of callers, fairness between lanes or HTTP. Start reading at
//! the table of keys in `keys.rs` and the bytes in `duly-record` (`packed.rs`), then `scripts/blocks.lua` and
//! `scripts/claim.lua`, then `row.rs` and `rows.rs`.

mod access;
mod address;
mod apply;
mod audit;
mod change;
mod checks;
mod claim;
mod connect;
mod connection;
mod coordinators;
mod deployment;
mod ending;
mod error;
mod features;
mod health;
mod keys;
mod marker;
mod namespaces;
mod nodes;
mod older;
mod open;
mod options;
mod punctual;
mod quota;
mod rate;
mod read;
mod ready;
mod record;
mod repair;
mod reply;
mod rollback;
mod router;
mod row;
mod rows;
mod script;
mod settings;
mod settle;
mod skew;
mod store;
mod token;
mod verdicts;
mod wakeups;

pub use address::check_url;
pub use error::OpenError;
use error::Opened;
pub use keys::SHARDS_MAX;
pub use options::{Check, Create, OnRollback, Options};
pub use store::RedisStore;

#[cfg(test)]
mod tests {
    pub(crate) mod direct_scripts;
}
