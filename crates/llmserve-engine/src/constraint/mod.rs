//! stub
use crate::error::Error;
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::request::ConstraintSpec;
use std::sync::Arc;
pub(crate) struct Compiler;
impl Compiler {
    pub(crate) fn new(_v: Arc<dyn Vocabulary>) -> Self {
        Self
    }
    pub(crate) fn compile(&self, _s: &ConstraintSpec) -> Result<Constraint, Error> {
        Err(Error::EmptyPrompt)
    }
}
pub(crate) struct Constraint;
pub struct Mask(Vec<u32>);
impl Mask {
    pub fn words(&self) -> &[u32] {
        &self.0
    }
}
impl Constraint {
    pub(crate) fn is_json(&self) -> bool {
        true
    }
    pub(crate) fn num_minimum_tokens(&self) -> Option<usize> {
        None
    }
    pub(crate) fn mask(&mut self) -> Result<&Mask, Error> {
        Err(Error::EmptyPrompt)
    }
    pub(crate) fn consume(&mut self, _t: TokenId) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) fn rollback(&mut self, _n: usize) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) fn forced(&mut self) -> Vec<TokenId> {
        vec![]
    }
    pub(crate) fn num_valid(&mut self, _d: &[TokenId]) -> usize {
        0
    }
    pub(crate) fn is_complete(&mut self) -> bool {
        true
    }
    pub(crate) fn is_finished(&self) -> bool {
        true
    }
    pub(crate) fn tail(&mut self) -> Option<Vec<TokenId>> {
        None
    }
    pub(crate) fn max_tail_growth(&self) -> usize {
        1
    }
    pub(crate) fn check_document(&self) -> Result<(), Error> {
        Ok(())
    }
}
