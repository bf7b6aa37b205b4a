//! Nodes on real Redis servers: one deployment seen by all of them, servers that fail and return,
//! conditions that keep a node from starting.

mod away;
mod cannot_start;
mod coordinators;
mod documented;
mod emptied;
mod moving;
mod nodes;
mod secrets;
mod waits;
