//! Redis or Valkey servers as child processes, one alone or a Cluster, for tests.
//!
//! * Each server has a free port and a directory of its own, keeps every write that it acknowledged, and
//!   ends when its value is dropped.
//! * The crate knows nothing of Duly: the tests of the store and those of the command line share it.
//! * It is for development only and is not published. `DULY_REDIS_SERVER` names another program than
//!   `redis-server`.
//!
//! Start reading at [`server::Server`], then [`cluster::Cluster`].

pub mod cluster;
pub mod server;
