//! Plain data: what is asked, what comes back, how a model is loaded. It imports nothing above it.

pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod ids;
pub(crate) mod request;
pub(crate) mod stats;

pub use config::*;
pub use error::*;
pub use event::*;
pub use ids::*;
pub use request::*;
pub use stats::*;
