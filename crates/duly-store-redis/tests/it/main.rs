//! Tests against real servers, which they start as child processes.

mod access;
mod alone;
mod audit;
mod blocks;
mod calls;
mod conformance;
mod counts;
mod delay_proxy;
mod emptied;
mod ending;
mod failover;
mod far;
mod golden;
mod harness;
mod idle;
mod in_order;
mod lane_allocations;
mod limits;
mod lists;
mod lost;
mod marker;
mod members;
mod model;
mod not_serving;
mod older;
mod opening;
mod rolled_back_keys;
mod shards;
mod withheld;

use duly_redis_testkit::{cluster, server};
