//! duly-server
