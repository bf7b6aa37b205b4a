//! The command line against real servers: every test starts `duly serve` of its own, on a free
//! port with a data directory of its own.

mod answers;
mod batch;
mod bench;
mod config;
mod dead;
mod generated;
mod harness;
mod memory;
mod moving;
mod namespaces;
mod opening;
mod page_client;
mod pages;
mod pipes;
mod pull;
mod receive;
mod redis;
mod reference;
mod refusals;
mod serve;
mod settings;
mod store;
mod terminal;
mod timers;
mod tools;
mod top;
mod unreachable;
mod usage;
mod workers;
