//! The `Store` port on Redis or Valkey: one server, or a Cluster.
//!
//! ```text
//!  Store ── apply, settle, claim, … ──► Script + arguments ──► Router ──► Link ──► a master
//!                │                                              │ which server has the shard,
//!                ▼                                              │ MOVED, ASK, NOSCRIPT, WAIT
//!              Case: what was read, and what follows (pure)
//! ```
//!
//! It promises what [`duly_store::Store`] promises, as far as Redis keeps acknowledged writes: an
//! asynchronous failover can undo what the promoted replica had not got. `Options::min_replicas`
//! has every change wait until so many replicas have it (`WAIT`), `Options::on_disk` until it is on
//! disks too (`WAITAOF`), which makes that rare; it is no consensus. Leases and retries run by the wall clock of the master, so a step of that clock ends
//! leases early or holds retries up; a verdict is fenced all the same (P8).
//!
//! What differs from the design in `docs/adr/0001-the-store-port.md`, and why:
//!
//! * **Records are fields of a hash a namespace**, not keys of their own, and packed. The price is
//!   that the records of a shard move to another master as a few large keys.
//! * **First attempts wait in blocks**: small sorted sets of at most 64 entries, found by a directory
//!   of where each begins, as the leaves of a B+ tree. An entry takes 57 bytes; in one large sorted
//!   set it would take 145. Ending a namespace takes 64 blocks of each lane at once, and the
//!   rest with the sweeps that follow. Counting up to a moment looks at every block up to it.
//! * **There is no set of all pending timers**: a list is the merge of the lanes' sets and those of
//!   what is retried or leased, the last of them made when somebody asks (`scripts/index.lua`). One
//!   set of all would have doubled the memory of every timer.
//! * **Tombstones are fields too**, in order of ending a list: an acknowledgement makes no key and no entry
//!   of a sorted set. By due time they are listed from a set that is made when somebody asks.
//! * **No row version**: the first bytes of a record, its *core*, differ after every change, and
//!   are what a compare-and-set compares.
//! * **Scripts never end a lease, bury or retry**: they say that something is owed, and the adapter
//!   reads, decides by `duly_core` and writes. So the lifecycle has one implementation, and there
//!   is no table to be generated for Lua.
//! * **`schedule_per_second` is kept by the namespace's home**, which grants schedules to the node that
//!   makes them in other shards (`rate.rs`).
//! * **Limits over several shards** are parts that move: a node calls in what others do not use before
//!   it refuses. What is on its way is told by totals, so no call that is lost, late or repeated has any
//!   effect on the sum (`shares.rs`). Of `max_retained` each shard has a plain share, rounded up.
//!
//! The client is the crate `redis` (redis-rs): the most used and kept one, and its multiplexed
//! connection sends a pipeline as one message with an answer or an error for each command, speaks
//! RESP3, and so delivers sharded pub/sub on a connection of its own. Of its Cluster client nothing
//! is used, and that decided against the other candidate, `fred`, too: both route, redirect and
//! send again inside the client, which may carry a script out twice and leaves open on which
//! connection a `WAIT` is sent. A shard has one slot and all that is sent are scripts, so finding
//! its master is a table of at most 256 entries, and `MOVED`, `ASK`, `NOSCRIPT` and `WAIT` are dealt
//! with where it is known what may be sent again.
//!
//! The crate refuses to know about sockets of callers, lanes' fairness or HTTP. Start reading at
//! the table of keys in `keys.rs` and the bytes in `record.rs`, then `scripts/blocks.lua` and
//! `scripts/claim.lua`, then `case.rs`.

mod address;
mod apply;
mod bootstrap;
#[cfg(test)]
mod by_hand;
mod case;
mod change;
mod checks;
mod claim;
mod coordinators;
mod deployment;
mod ending;
mod error;
mod health;
mod keys;
mod link;
mod marker;
mod namespaces;
mod nodes;
mod older;
mod open;
mod options;
mod rate;
mod read;
mod ready;
mod record;
mod repair;
mod reply;
mod rollback;
mod router;
mod script;
mod settings;
mod settle;
mod shares;
mod skew;
mod store;
mod token;
mod wakeups;

pub use address::check_url;
pub use checks::Check;
pub use error::OpenError;
use error::Opened;
pub use keys::SHARDS_MAX;
pub use options::{Create, OnRollback, Options};
pub use store::RedisStore;
