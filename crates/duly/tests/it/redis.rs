//! Nodes on real Redis servers: one deployment seen by all of them, servers that fail and return,
//! conditions that keep a node from starting.

mod cannot_start;
mod coordinators;
mod documented;
mod fault;
mod keys;
mod lost_record;
mod migration;
mod nodes;
mod outage;
mod rolled_back_keys;
mod secrets;
mod unusable_master;
mod waiting_for_store;
