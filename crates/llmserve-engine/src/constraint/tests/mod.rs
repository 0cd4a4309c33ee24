//! Tests of constraints on small vocabularies made for it, and on the default model's.

mod documents;
mod hostile;
mod large;
mod masks;
mod public;
mod real_vocabulary;
mod refusals;
mod vocabulary;
mod waiting;

use std::sync::Arc;

use super::{Compiler, Constraint, environment};
use crate::error::Error;
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::request::ConstraintSpec;
use vocabulary::WordVocabulary;

fn compiler() -> Compiler {
    Compiler::new(Arc::new(WordVocabulary::default()))
}

fn json(schema: &str) -> ConstraintSpec {
    ConstraintSpec::JsonSchema(schema.to_owned())
}

fn regex(text: &str) -> ConstraintSpec {
    ConstraintSpec::Regex(text.to_owned())
}

fn lark(text: &str) -> ConstraintSpec {
    ConstraintSpec::Lark(text.to_owned())
}

fn compile(spec: &ConstraintSpec) -> Constraint {
    start(&compiler(), spec).unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}

/// A state at the beginning of a text, with any budget.
fn start(compiler: &Compiler, spec: &ConstraintSpec) -> Result<Constraint, Error> {
    Constraint::new(compiler.compile(spec, &|| false)?, usize::MAX)
}

/// The reason of a refusal.
fn refusal(compiler: &Compiler, spec: &ConstraintSpec) -> String {
    match start(compiler, spec) {
        Err(Error::InvalidConstraint { field, reason }) => {
            let expected = match spec {
                ConstraintSpec::JsonSchema(_) => "json_schema",
                ConstraintSpec::Regex(_) => "regex",
                ConstraintSpec::Lark(_) => "grammar",
            };
            assert_eq!(field, expected);
            assert!(reason.len() <= 300, "{} bytes: {reason}", reason.len());
            assert!(!reason.contains('\n'), "{reason}");
            assert!(!reason.contains("panic") && !reason.contains("backtrace"), "{reason}");
            reason
        }
        Err(error) => panic!("{spec:?}: {error}"),
        Ok(_) => panic!("{spec:?} was compiled"),
    }
}

/// Feeds a text as the vocabulary tokenizes it.
fn feed(constraint: &mut Constraint, vocabulary: &dyn Vocabulary, text: &str) {
    for token in vocabulary.tokenize(text, false, false).unwrap() {
        constraint.consume(token).unwrap_or_else(|error| panic!("{token:?} of {text:?}: {error}"));
    }
}

/// The tokens of a set.
fn tokens(constraint: &mut Constraint, size: usize) -> Vec<TokenId> {
    let mask = constraint.mask().unwrap();
    (0..size as i32).map(TokenId).filter(|&token| mask.allows(token)).collect()
}
