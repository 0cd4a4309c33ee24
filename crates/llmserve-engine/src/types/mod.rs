//! Plain data: requests, results, and how a model is loaded. It imports nothing above it.

mod backend;
pub(crate) mod cached;
pub(crate) mod config;
pub(crate) mod drafting;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod ids;
pub(crate) mod model_info;
mod ranges;
pub(crate) mod request;
pub(crate) mod sampling;
pub(crate) mod session_error;
pub(crate) mod stats;
pub(crate) mod tenant;

pub use backend::{Backend, Device, DeviceKind};
pub use cached::CachedTokens;
pub use config::*;
pub use drafting::*;
pub use error::*;
pub use event::*;
pub use ids::*;
pub use model_info::ModelInfo;
pub use request::*;
pub use sampling::*;
pub use session_error::{SessionError, SessionErrorReason};
pub use stats::*;
pub use tenant::*;
