pub(crate) mod rescue;
