//! The options of the parts, from the configuration.

use std::net::SocketAddr;

use duly_sink::http::{AddressPolicy, Loopback};

use crate::config::{AllowLoopback, Config};

pub(super) fn store_options(config: &Config) -> duly_store_embedded::Options {
    let defaults = duly_store_embedded::Options::default();
    duly_store_embedded::Options {
        segment_bytes: config.store.segment_bytes,
        checkpoint_bytes: config.store.checkpoint_bytes,
        young_bytes: config.store.young_bytes,
        min_free_bytes: config.store.min_free_bytes,
        min_free_percent: config.store.min_free_percent,
        index_memory_max_bytes: config
            .store
            .index_memory_max_bytes
            .unwrap_or(defaults.index_memory_max_bytes),
        ..defaults
    }
}

pub(super) fn node_options(config: &Config) -> duly_node::Options {
    duly_node::Options {
        workers_max: config.delivery.workers_max,
        pull_waiters_max: config.delivery.pull_waiters_max,
        drain_within: config.drain.within,
        ..duly_node::Options::default()
    }
}

pub(super) fn sink_options(config: &Config, listen: SocketAddr) -> duly_sink::http::Options {
    let allows = match config.delivery.allow_loopback {
        AllowLoopback::Auto => listen.ip().is_loopback(),
        AllowLoopback::Always => true,
        AllowLoopback::Never => false,
    };
    duly_sink::http::Options {
        addresses: AddressPolicy {
            loopback: if allows { Loopback::Allowed } else { Loopback::Refused },
            allow: config.delivery.allow_networks.clone(),
        },
    }
}
