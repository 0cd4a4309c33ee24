//! From a specification to a grammar.

use std::sync::{Arc, OnceLock};

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::toktrie::TokEnv;
use llguidance::{Matcher, ParserFactory, TokenParser};

use super::Constraint;
use super::cache::{Bounds, Cache};
use super::environment::TokenEnvironment;
use super::grammar::{Grammar, Rules, Start, guarded};
use super::refusal::{self, GRAMMAR, JSON_SCHEMA, REGEX, refuse};
use super::rescue::ByteMatcher;
use super::schema::Schema;
use crate::error::Error;
use crate::model::Vocabulary;
use crate::request::ConstraintSpec;

/// What is kept for the next request: compiled grammars, and bytes of their lexers.
const MAX_CACHED: usize = 32;
const MAX_CACHED_BYTES: usize = 256 << 20;
/// Longest texts in bytes.
const MAX_SCHEMA_BYTES: usize = 256 << 10;
const MAX_REGEX_BYTES: usize = 64 << 10;
const MAX_GRAMMAR_BYTES: usize = 256 << 10;
/// Alternatives of a grammar, all rules together.
const MAX_ALTERNATIVES: usize = 10_000;
/// Stack of the thread that compiles. A chain of rules recurses: some 4 KiB for each, and at most 25,000
/// have room in a grammar. The pages are touched only when needed.
const STACK_BYTES: usize = 256 << 20;

/// Compiles the specifications of one model's requests. The prepare threads share it.
pub(crate) struct Compiler {
    vocabulary: Arc<dyn Vocabulary>,
    tools: OnceLock<Result<Tools, Error>>,
    cache: Cache<Result<Arc<Grammar>, Error>>,
}

impl Compiler {
    /// Cheap: what is needed of the vocabulary is made at the first use.
    pub(crate) fn new(vocabulary: Arc<dyn Vocabulary>) -> Self {
        let bounds = Bounds { num_values: MAX_CACHED, bytes: MAX_CACHED_BYTES, weigh };
        Self { vocabulary, tools: OnceLock::new(), cache: Cache::new(bounds) }
    }

    /// The start of a text under a specification. A grammar that is in use needs no compiling.
    ///
    /// # Errors
    /// [`Error::InvalidConstraint`] if the specification is malformed, uses what cannot be honoured,
    /// allows no text, or is too large. [`Error::ConstraintFailed`] if the vocabulary is unfit.
    pub(crate) fn compile(&self, spec: &ConstraintSpec) -> Result<Constraint, Error> {
        check_size(spec)?;
        let grammar = self.cache.get_or_make(spec, || on_large_stack(|| self.compile_grammar(spec)))?;
        Constraint::new(grammar)
    }

    fn compile_grammar(&self, spec: &ConstraintSpec) -> Result<Arc<Grammar>, Error> {
        let tools = self.tools.get_or_init(|| Tools::new(&self.vocabulary)).as_ref().map_err(Clone::clone)?;
        let (grammar, rules) = match spec {
            ConstraintSpec::JsonSchema(text) => {
                let schema = Schema::parse(text)?;
                let rules = Rules::Json(Box::new(schema.rules()?));
                let refused = |message: &str| refusal::from_schema(schema.value(), message);
                return tools.compile(schema.grammar(), rules, &refused);
            }
            ConstraintSpec::Regex(regex) => {
                check_regex(regex)?;
                (TopLevelGrammar::from_regex(regex), Rules::Text)
            }
            ConstraintSpec::Lark(text) => {
                check_grammar(text)?;
                (TopLevelGrammar::from_lark(text.clone()), Rules::Text)
            }
        };
        let field = field(spec);
        tools.compile(grammar, rules, &|message| refusal::from_text(field, message))
    }
}

/// A refusal is kept too: to find it may have taken as long.
fn weigh(compiled: &Result<Arc<Grammar>, Error>) -> Option<usize> {
    match compiled {
        Ok(grammar) => Some(grammar.num_bytes()),
        Err(Error::InvalidConstraint { reason, .. }) => Some(reason.len()),
        Err(_) => None,
    }
}

/// llguidance's factories for one vocabulary.
struct Tools {
    environment: Arc<TokenEnvironment>,
    tokens: ParserFactory,
    bytes: ParserFactory,
}

impl Tools {
    fn new(vocabulary: &Arc<dyn Vocabulary>) -> Result<Self, Error> {
        let make = || {
            let environment = Arc::new(TokenEnvironment::new(Arc::clone(vocabulary)));
            let tokens: TokEnv = Arc::clone(&environment) as TokEnv;
            let mut tokens = ParserFactory::new_simple(&tokens)?;
            let mut bytes = ByteMatcher::factory()?;
            for factory in [&mut tokens, &mut bytes] {
                *factory.quiet().limits_mut() = limits();
            }
            Ok(Self { environment, tokens, bytes })
        };
        guarded(make).map_err(|error| {
            log::error!("the vocabulary cannot be used with constraints: {error}");
            Error::ConstraintFailed { reason: "the vocabulary cannot be used with constraints" }
        })
    }

    fn compile(
        &self,
        grammar: TopLevelGrammar,
        rules: Rules,
        refusal: &dyn Fn(&str) -> Error,
    ) -> Result<Arc<Grammar>, Error> {
        let refused = |error: anyhow::Error| {
            log::debug!("a constraint was refused: {error}");
            refusal(&error.to_string())
        };
        let grammar = GrammarInit::Serialized(grammar);
        let (grammar, lexer) = guarded(|| grammar.to_internal(None, limits())).map_err(refused)?;
        let grammar = GrammarInit::Internal(grammar, lexer);
        let (tokens, num_bytes) = start(&self.tokens, grammar.clone()).map_err(refused)?;
        let bytes = ByteMatcher::new(&self.bytes, grammar).map_err(refused)?;
        // The lexer over bytes is as large as the one over tokens.
        let start = Start { tokens, bytes, num_bytes: 2 * num_bytes };
        let grammar = Grammar::new(Arc::clone(&self.environment), start, rules);
        if grammar.is_json() && grammar.witness().is_none() {
            return Err(refusal("no document was found that its patterns allow"));
        }
        Ok(Arc::new(grammar))
    }
}

/// The state at the beginning of a text, and the bytes of its lexer.
fn start(factory: &ParserFactory, grammar: GrammarInit) -> anyhow::Result<(Matcher, usize)> {
    let mut parser = guarded(|| factory.create_parser_from_init_default(grammar))?;
    check_features(&parser)?;
    parser.start_without_prompt();
    guarded(|| try_out(&mut parser))?;
    let num_bytes = parser.parser.lexer_stats().num_bytes;
    Ok((Matcher::new(Ok(parser)), num_bytes))
}

/// A grammar without any text, or with too much of it, shows at the first step.
fn try_out(parser: &mut TokenParser) -> anyhow::Result<()> {
    parser.compute_mask()?;
    if let Some(&token) = parser.compute_ff_tokens().first() {
        parser.consume_token(token)?;
        parser.rollback(1)?;
    }
    Ok(())
}

/// Bounds on what a grammar may cost. The lexer's take about a second and 150 MB where all is used; a mask
/// at most some 15 ms.
fn limits() -> ParserLimits {
    ParserLimits {
        initial_lexer_fuel: 600_000,
        max_lexer_states: 150_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Refuses what a grammar may ask for and a sequence cannot do.
fn check_features(parser: &TokenParser) -> anyhow::Result<()> {
    let spec = parser.parser.grammar().lexer_spec();
    anyhow::ensure!(spec.can_rollback(), "`stop` and `max_tokens` are not supported; `suffix` is");
    let has_tokens = !spec.token_range_lexemes(&spec.all_lexemes()).is_empty();
    anyhow::ensure!(!has_tokens, "tokens (`<...>`) are not supported, only text");
    Ok(())
}

fn field(spec: &ConstraintSpec) -> &'static str {
    match spec {
        ConstraintSpec::JsonSchema(_) => JSON_SCHEMA,
        ConstraintSpec::Regex(_) => REGEX,
        ConstraintSpec::Lark(_) => GRAMMAR,
    }
}

fn check_size(spec: &ConstraintSpec) -> Result<(), Error> {
    let (len, max) = match spec {
        ConstraintSpec::JsonSchema(text) => (text.len(), MAX_SCHEMA_BYTES),
        ConstraintSpec::Regex(text) => (text.len(), MAX_REGEX_BYTES),
        ConstraintSpec::Lark(text) => (text.len(), MAX_GRAMMAR_BYTES),
    };
    if len <= max {
        return Ok(());
    }
    Err(refuse(field(spec), &format!("must have at most {max} bytes, got {len}")))
}

fn check_regex(regex: &str) -> Result<(), Error> {
    if regex.is_empty() {
        return Err(refuse(REGEX, "must not be empty"));
    }
    // llguidance would drop it.
    let num_backslashes = regex.bytes().rev().take_while(|&byte| byte == b'\\').count();
    if num_backslashes % 2 == 1 {
        return Err(refuse(REGEX, "ends with a single backslash"));
    }
    Ok(())
}

/// llguidance's time grows with the square of the number of alternatives.
fn check_grammar(text: &str) -> Result<(), Error> {
    let num_bars = text.bytes().filter(|&byte| byte == b'|').count();
    if num_bars <= MAX_ALTERNATIVES {
        return Ok(());
    }
    Err(refuse(GRAMMAR, &format!("must have at most {MAX_ALTERNATIVES} alternatives (`|`), got {num_bars}")))
}

/// Runs a compilation on a stack that no text can overflow.
fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let failed = || Error::ConstraintFailed { reason: "it could not be compiled" };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("llmserve-prepare".to_owned()).stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, work).map_err(|_| failed())?;
        thread.join().unwrap_or_else(|_| Err(failed()))
    })
}
