//! The hold on an engine's draft context.

use std::fmt;
use std::sync::Arc;

use crate::shared::Shared;

/// Keeps the draft context of an engine open: that of the model's own head for multi-token prediction.
/// The last clone of the last head frees it.
#[derive(Debug, Clone)]
pub struct Head {
    hold: Arc<Hold>,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.hold, &other.hold)
    }
}

impl Head {
    /// A holder of an engine's draft context, and its way to say that it has released it.
    pub(crate) fn new(engine: &Arc<Shared>, close: impl Fn() + Send + Sync + 'static) -> Self {
        Self { hold: Arc::new(Hold { engine: Arc::clone(engine), close: Box::new(close) }) }
    }

    /// Whether the head belongs to this engine.
    pub(crate) fn is_of(&self, engine: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.hold.engine, engine)
    }
}

struct Hold {
    engine: Arc<Shared>,
    close: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hold").finish_non_exhaustive()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.engine.owner().is_current() {
            (self.close)();
        }
    }
}
