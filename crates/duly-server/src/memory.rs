//! Memory of requests and responses: the budget, and the reservation of a lease.

pub(crate) mod budget;
pub(crate) mod lease_reservation;
