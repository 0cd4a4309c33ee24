//! Tenants: those who share a model.

use std::num::NonZeroU32;
use std::sync::Arc;

/// The name of a tenant. All requests without one belong to the tenant with the empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TenantId(pub Arc<str>);

/// Whose a request is. Tenants whose requests wait take turns, by the tokens that they were served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub id: TenantId,
    /// Its share: twice the weight is served twice the tokens.
    pub weight: NonZeroU32,
}

impl Tenant {
    /// A tenant with the weight 1.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: TenantId(id.into()), ..Self::default() }
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self { id: TenantId::default(), weight: NonZeroU32::MIN }
    }
}
