//! Tests against real servers, which they start as child processes.

mod alone;
mod audit;
mod blocks;
mod calls;
mod cluster;
mod conformance;
mod failover;
mod harness;
mod in_order;
mod model;
mod server;
mod shards;
