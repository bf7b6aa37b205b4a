//! Tests of the command line against real servers: every test starts its own `duly serve`, on a free
//! port with its own data directory.

mod batch;
mod bench;
mod config;
mod contexts;
mod dead;
mod export_import;
mod generated;
mod harness;
mod json_output;
mod keys;
mod leaks;
mod memory;
mod mistakes;
mod namespaces;
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
mod startup;
mod store;
mod tenants;
mod terminal;
mod timers;
mod tools;
mod top;
mod traces;
mod unreachable;
mod usage;
mod workers;
