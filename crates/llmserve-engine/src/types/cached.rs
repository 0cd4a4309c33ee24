//! Which tokens an engine's cells are of.

use super::ids::TokenId;

/// The token sequences whose cells exist and may be used by every request. A beginning that several share is in each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CachedTokens {
    /// Those in slots, of running and of finished sequences.
    pub in_slots: Vec<Vec<TokenId>>,
    /// Those in host memory.
    pub parked: Vec<Vec<TokenId>>,
}
