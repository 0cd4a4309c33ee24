//! The outline against llguidance and a validator, at every byte of random documents.

mod bounds;
mod closed;
mod combined;
mod corpus;
mod judge;
mod random;
mod refusals;
mod rescue;
mod suite;
mod texts;

use std::sync::Arc;

use serde_json::Value;

use super::{Normal, Objects, Outline, SchemaError, Walk};

/// The outline of a schema as it is sent.
fn compiled(schema: &Value) -> Result<Outline, SchemaError> {
    Outline::compile(&Normal::new(schema, Objects::Open)?)
}

/// Texts that may complete `partial`.
fn closings(outline: Outline, partial: &[u8]) -> Vec<Vec<u8>> {
    let mut walk = Walk::new(Arc::new(outline));
    walk.feed(partial);
    walk.closings()
}
