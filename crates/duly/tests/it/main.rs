//! The command line against real servers: every test starts `duly serve` of its own, on a free
//! port with a data directory of its own.

mod config;
mod dead;
mod harness;
mod namespaces;
mod opening;
mod pages;
mod pull;
mod receive;
mod reference;
mod serve;
mod store;
mod timers;
mod tools;
mod unreachable;
mod usage;
mod workers;
