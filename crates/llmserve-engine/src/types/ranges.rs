//! The checks of numbers that several fields share.

use super::error::Error;

pub(super) fn at_least(field: &'static str, value: f32, least: f32) -> Result<(), Error> {
    if value.is_finite() && value >= least {
        return Ok(());
    }
    lower_bound(field, value, least, format!("must be a number of at least {least}, got {value}"))
}

pub(super) fn above_zero(field: &'static str, value: f32) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    lower_bound(field, value, 0.0, format!("must be a number above 0, got {value}"))
}

/// A value that is below its bound, or not a finite number.
fn lower_bound(field: &'static str, value: f32, bound: f32, reason: String) -> Result<(), Error> {
    if value.is_finite() {
        Err(Error::beyond(field, f64::from(bound), reason))
    } else {
        invalid(field, reason)
    }
}

pub(super) fn between(field: &'static str, value: f32, low: f32, high: f32) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let reason = format!("must be a number from {low} to {high}, got {value}");
    if value.is_nan() {
        return invalid(field, reason);
    }
    Err(Error::beyond(field, f64::from(if value < low { low } else { high }), reason))
}

pub(super) fn too_many(field: &'static str, most: usize, reason: String) -> Error {
    Error::beyond(field, most as f64, reason)
}

pub(super) fn invalid<T>(field: &'static str, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::invalid(field, reason))
}
