//! Reads whose a request is.

use std::num::NonZeroU32;

use llmserve_engine::{Tenant, TenantId};
use pyo3::prelude::*;

use crate::errors::invalid_parameter;
use crate::fields::Field;

/// The argument `tenant`: a `Tenant`, or `None` for the one without a name.
pub(crate) struct TenantArgument(pub(crate) Tenant);

impl FromPyObject<'_, '_> for TenantArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let Some(tenant) = Field::new("tenant", value.to_owned(), invalid_parameter).optional() else {
            return Ok(Self(Tenant::default()));
        };
        let weight = tenant.attribute("weight")?;
        let weight = NonZeroU32::new(weight.uint()?).ok_or_else(|| weight.refused("at least 1"))?;
        Ok(Self(Tenant { id: TenantId(tenant.attribute("id")?.text()?.into()), weight }))
    }
}
