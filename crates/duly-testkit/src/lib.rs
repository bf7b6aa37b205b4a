//! duly-testkit
