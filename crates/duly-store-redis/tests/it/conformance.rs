//! The conformance suite on one server.

use crate::harness::RedisHarness;

duly_store::conformance_tests!(RedisHarness::new);
