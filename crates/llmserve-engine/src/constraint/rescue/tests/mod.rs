//! The outline against llguidance and a validator, at every byte of random documents.

mod bounds;
mod corpus;
mod random;
mod refusals;
mod rescue;
mod texts;
