//! Development only: real Redis or Valkey servers as child processes, one alone or a Cluster.
//!
//! * Each server has a free port and a directory of its own, keeps everything that it answered, and
//!   ends when its value is dropped.
//! * It knows nothing of Duly: the tests of the store and those of the command line share it.
//! * It refuses to be shipped. `DULY_REDIS_SERVER` names another program than `redis-server`.
//!
//! Start reading at [`server::Server`], then [`cluster::Cluster`].

pub mod cluster;
pub mod server;
