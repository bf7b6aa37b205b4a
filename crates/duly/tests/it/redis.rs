//! Nodes on real Redis servers: one deployment seen by all of them, servers that go away and come
//! back, what keeps a node from starting.

mod away;
mod cannot_start;
mod coordinators;
mod documented;
mod emptied;
mod moving;
mod nodes;
mod secrets;
mod waits;
