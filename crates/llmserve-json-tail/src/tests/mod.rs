//! The outline against llguidance and a validator, at every byte of random documents.

mod bounds;
mod corpus;
mod judge;
mod random;
mod refusals;
mod rescue;
mod texts;

use std::sync::Arc;

use super::{Outline, Walk};

/// Texts that may complete `partial`.
fn closings(outline: Outline, partial: &[u8]) -> Vec<Vec<u8>> {
    let mut walk = Walk::new(Arc::new(outline));
    walk.feed(partial);
    walk.closings()
}
