//! The configuration as the rest of the server reads it.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use duly_sink::http::options::Resolves;
use duly_store_embedded::OnClockJump;
use ipnet::IpNet;

use super::{reach::ProxyUrl, remote::Shared};
use crate::{
    http::{BackupLimits, Guard, ImplicitNamespaces, Limits},
    telemetry::logging,
};

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Address and port of their own for health, readiness and metrics.
    pub admin_listen: Option<SocketAddr>,
    /// Further names that `Host` may have.
    pub allowed_hosts: Vec<String>,
    /// Web origins that may call.
    pub allowed_origins: Vec<String>,
    /// Bytes of one body.
    pub body_bytes_max: usize,
    /// Bytes of all large bodies.
    pub request_memory_max: usize,
    /// Connections at once.
    pub connections_max: usize,
    /// Time to answer a request.
    pub request_timeout: Duration,
    /// Time for the head of the next request.
    pub header_timeout: Duration,
}

impl Server {
    /// Who may call.
    pub fn guard(&self, listen: IpAddr) -> Guard {
        Guard {
            listen,
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
        }
    }

    /// Bounds of the HTTP interface.
    pub const fn limits(&self, bounds: Bounds) -> Limits {
        Limits {
            implicit_namespaces_per_second: bounds.implicit_namespaces_per_second,
            body_bytes_max: self.body_bytes_max,
            request_memory_max: self.request_memory_max,
            request_timeout: self.request_timeout,
        }
    }
}

/// `[store]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Data directory.
    pub data: PathBuf,
    /// Directory below which backups may go; `None`: there are none.
    pub backup_dir: Option<PathBuf>,
    /// Bounds of backups.
    pub backup_limits: BackupLimits,
    /// Bytes of a journal segment.
    pub segment_bytes: u64,
    /// Growth of the journal after which a checkpoint is taken.
    pub checkpoint_bytes: u64,
    /// Bytes of the newest part of the journal, which is not rewritten.
    pub young_bytes: u64,
    /// Memory of the index; `None` is the store's own choice.
    pub index_memory_max_bytes: Option<u64>,
    /// What comes when the wall clock jumps ahead.
    pub on_clock_jump: OnClockJump,
    /// Free bytes below which new timers are refused.
    pub min_free_bytes: u64,
    /// Free share below which new timers are refused, in percent.
    pub min_free_percent: u8,
    /// The store that nodes share; `None`: the embedded one.
    pub shared: Option<Shared>,
}

/// `[delivery]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Push attempts under way at once.
    pub workers_max: usize,
    /// Bytes of payloads and headers of push attempts under way.
    pub memory_max: u64,
    /// Lease calls that wait at once.
    pub pull_waiters_max: usize,
    /// Whether webhooks may go to loopback addresses.
    pub allow_loopback: AllowLoopback,
    /// Networks that webhooks may go to although they are not public.
    pub allow_networks: Vec<IpNet>,
}

/// Whether webhooks may go to loopback addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowLoopback {
    /// While the server itself listens on loopback.
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

/// `[webhook]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Time to make a connection.
    pub connect_timeout: Duration,
    /// Time for the head of an answer.
    pub header_timeout: Duration,
    /// Time for the body of an answer.
    pub body_timeout: Duration,
    /// Bytes read of one answer.
    pub response_bytes_max: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Idle connections kept for one origin.
    pub idle_per_origin_max: usize,
    /// Idle connections kept in all.
    pub idle_max: usize,
    /// Ports that receivers may have; every port where none is named.
    pub allow_ports: Vec<RangeInclusive<u16>>,
    /// Authorities to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Certificate shown to receivers that ask for one.
    pub client_certificate_file: Option<PathBuf>,
    /// Its private key.
    pub client_key_file: Option<PathBuf>,
    /// What all webhooks go through.
    pub proxy: Option<ProxyUrl>,
    /// User name and password for it.
    pub proxy_credentials_file: Option<PathBuf>,
    /// Who finds the addresses of receivers' names where there is a proxy.
    pub proxy_resolves: Resolves,
}

/// `[defaults]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Whether a namespace comes into being at its first schedule.
    pub implicit_namespaces: ImplicitNamespaces,
}

/// `[limits]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Namespaces that there may be.
    pub namespaces_max: u64,
    /// Namespaces that come into being by themselves, in a second.
    pub implicit_namespaces_per_second: u32,
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// What is logged.
    pub level: String,
    /// How lines look.
    pub format: logging::Format,
}

/// `[drain]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long a stop lets requests and attempts finish.
    pub timeout: Duration,
}
