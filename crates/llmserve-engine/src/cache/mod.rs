//! The KV cells of finished sequences, kept for later requests with the same prefix.

mod parking;
mod prefix;
mod slots;

pub(crate) use parking::{ParkedPrefix, Parking};
pub(crate) use prefix::common_prefix;
pub(crate) use slots::Slots;
