//! Compiles a specification to a grammar.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::toktrie::TokEnv;
use llguidance::{Matcher, ParserFactory, TokenParser};

use super::byte_matcher::ByteMatcher;
use super::cache::{Bounds, Cache, Making, NotMade, POLL};
use super::environment::TokenEnvironment;
use super::grammar::{Grammar, Rules, Start, guarded};
use super::memory::Memory;
use super::refusal::{self, GRAMMAR, JSON_SCHEMA, REGEX, refuse};
use super::schema::{MAX_PROPERTIES, Schema};
use crate::error::Error;
use crate::lock::lock;
use crate::model::Vocabulary;
use crate::request::ConstraintSpec;

/// The limits on what is kept for later requests: compiled grammars, and bytes of their lexers.
const MAX_CACHED: usize = 32;
const MAX_CACHED_BYTES: usize = 256 << 20;
/// Maximum lengths of texts, in bytes.
const MAX_SCHEMA_BYTES: usize = 256 << 10;
const MAX_REGEX_BYTES: usize = 64 << 10;
const MAX_GRAMMAR_BYTES: usize = 256 << 10;
/// Maximum number of alternatives in all rules of a grammar.
const MAX_ALTERNATIVES: usize = 10_000;
/// Stack size of the thread that compiles. A chain of rules recurses: some 4 KiB for each, and at most 25,000
/// have room in a grammar. The pages are touched only when needed.
const STACK_BYTES: usize = 256 << 20;

/// Maximum number of simultaneous compilations, including abandoned ones: each may briefly take some 300 MB.
const MAX_COMPILATIONS: usize = 4;

type Compiled = Result<Arc<Grammar>, Error>;

/// Compiles the specifications of one model's requests. The prepare threads share it.
pub(crate) struct Compiler {
    workshop: Arc<Workshop>,
    cache: Cache<Compiled>,
}

impl Compiler {
    /// Creating a compiler is cheap: what it needs of the vocabulary is made at the first use.
    pub(crate) fn new(vocabulary: Arc<dyn Vocabulary>) -> Self {
        let bounds = Bounds { num_values: MAX_CACHED, bytes: MAX_CACHED_BYTES, weigh };
        let workshop = Workshop {
            vocabulary,
            tools: OnceLock::new(),
            memory: Memory::default(),
            num_running: Mutex::new(0),
            has_ended: Condvar::new(),
        };
        Self { workshop: Arc::new(workshop), cache: Cache::new(bounds) }
    }

    /// The grammar of a specification; one that is in use needs no compiling. `is_stopped` is asked now and
    /// then, and ends the wait. A compilation that nobody wants is given up as soon as llguidance returns.
    ///
    /// # Errors
    /// [`Error::InvalidConstraint`] if the specification is malformed, uses what cannot be honoured,
    /// allows no text, or is too large. [`Error::ConstraintFailed`] if the vocabulary is unfit.
    /// [`Error::QueueFull`] if constraints take too much memory. [`Error::ShutDown`] if stopped.
    pub(crate) fn compile(&self, spec: &ConstraintSpec, is_stopped: &dyn Fn() -> bool) -> Compiled {
        check_size(spec)?;
        self.workshop.memory.check()?;
        let start = |making| self.workshop.start(spec.clone(), making);
        match self.cache.get_or_make(spec, start, is_stopped) {
            Ok(compiled) => compiled,
            Err(NotMade::Stopped) => Err(Error::ShutDown),
            Err(NotMade::Failed) => Err(not_compiled()),
        }
    }

    #[cfg(test)]
    pub(super) fn num_bytes(&self) -> usize {
        self.workshop.memory.num_bytes()
    }
}

fn not_compiled() -> Error {
    Error::ConstraintFailed { reason: "it could not be compiled" }
}

/// Compiles specifications. A compilation that nobody waits for may outlive its engine.
struct Workshop {
    vocabulary: Arc<dyn Vocabulary>,
    tools: OnceLock<Result<Tools, Error>>,
    memory: Memory,
    num_running: Mutex<usize>,
    has_ended: Condvar,
}

impl Workshop {
    /// Starts a thread that compiles; whether that was possible.
    fn start(self: &Arc<Self>, spec: ConstraintSpec, making: Making<Compiled>) -> bool {
        let workshop = Arc::clone(self);
        let builder = std::thread::Builder::new().name("llmserve-compile".to_owned()).stack_size(STACK_BYTES);
        builder.spawn(move || workshop.run(&spec, making)).is_ok()
    }

    fn run(&self, spec: &ConstraintSpec, making: Making<Compiled>) {
        if !self.enter(&making) {
            return;
        }
        let compile = AssertUnwindSafe(|| self.compile(spec, &mut || making.is_wanted()));
        match catch_unwind(compile).unwrap_or_else(|_| Err(not_compiled())) {
            // Nobody wants it: a later caller starts over.
            Err(Error::ShutDown) => drop(making),
            compiled => making.finish(compiled),
        }
        *lock(&self.num_running) -= 1;
        self.has_ended.notify_one();
    }

    /// Waits until there is room for another compilation; false if nobody wants it any more.
    fn enter(&self, making: &Making<Compiled>) -> bool {
        let mut num_running = lock(&self.num_running);
        while *num_running >= MAX_COMPILATIONS {
            if !making.is_wanted() {
                return false;
            }
            let woken = self.has_ended.wait_timeout(num_running, POLL);
            num_running = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *num_running += 1;
        true
    }

    fn compile(&self, spec: &ConstraintSpec, goes_on: &mut dyn FnMut() -> bool) -> Compiled {
        let tools = self.tools.get_or_init(|| Tools::new(&self.vocabulary)).as_ref().map_err(Clone::clone)?;
        let job = |refusal| Job { tools, memory: &self.memory, refusal };
        let (grammar, rules) = match spec {
            ConstraintSpec::JsonSchema(text) => {
                let schema = Schema::parse(text)?;
                let rules = schema.rules()?;
                let outline = Arc::clone(&rules.outline);
                let grammar = schema.grammar(&outline)?;
                let refused = |message: &str| schema.refusal(&outline, &grammar, message);
                let top = TopLevelGrammar::from_json_schema(grammar.clone());
                return job(&refused).compile(top, Rules::Json(Box::new(rules)), goes_on);
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
        job(&|message: &str| refusal::from_text(field, message)).compile(grammar, rules, goes_on)
    }
}

/// The compilation of one grammar.
struct Job<'a> {
    tools: &'a Tools,
    memory: &'a Memory,
    refusal: &'a dyn Fn(&str) -> Error,
}

impl Job<'_> {
    fn compile(&self, grammar: TopLevelGrammar, rules: Rules, goes_on: &mut dyn FnMut() -> bool) -> Compiled {
        let Tools { environment, tokens, bytes } = self.tools;
        let grammar = GrammarInit::Serialized(grammar);
        let (grammar, lexer) = self.take(goes_on, || grammar.to_internal(None, limits()))?;
        let grammar = GrammarInit::Internal(grammar, lexer);
        let (tokens, num_bytes) = self.take(goes_on, || start(tokens, grammar.clone()))?;
        let bytes = self.take(goes_on, || ByteMatcher::new(bytes, grammar))?;
        // The lexer over bytes is as large as the one over tokens.
        let start = Start { tokens, bytes, memory: self.memory.count(2 * num_bytes) };
        let grammar = Grammar::new(Arc::clone(environment), start, rules, goes_on);
        if !goes_on() {
            return Err(Error::ShutDown);
        }
        if grammar.is_json() && grammar.witness().is_none() {
            return Err((self.refusal)("no document was found that its patterns allow"));
        }
        Ok(Arc::new(grammar))
    }

    /// Takes one of llguidance's steps, if there is still a reason to.
    fn take<T>(
        &self,
        goes_on: &mut dyn FnMut() -> bool,
        step: impl FnOnce() -> anyhow::Result<T>,
    ) -> Result<T, Error> {
        if !goes_on() {
            return Err(Error::ShutDown);
        }
        guarded(step).map_err(|error| {
            log::debug!("a constraint was refused: {error}");
            (self.refusal)(&error.to_string())
        })
    }
}

/// A refusal is kept too, since finding it may have taken as long.
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
}

/// The state at the beginning of a text, and the bytes of its lexer.
fn start(factory: &ParserFactory, grammar: GrammarInit) -> anyhow::Result<(Matcher, usize)> {
    let mut parser = factory.create_parser_from_init_default(grammar)?;
    check_features(&parser)?;
    parser.start_without_prompt();
    try_out(&mut parser)?;
    let num_bytes = parser.parser.lexer_stats().num_bytes;
    Ok((Matcher::new(Ok(parser)), num_bytes))
}

/// A grammar without any text, or with too much text, shows at the first step.
fn try_out(parser: &mut TokenParser) -> anyhow::Result<()> {
    parser.compute_mask()?;
    if let Some(&token) = parser.compute_ff_tokens().first() {
        parser.consume_token(token)?;
        parser.rollback(1)?;
    }
    Ok(())
}

/// Limits on the cost of a grammar. Those of the lexer amount to about a second and 150 MB at most; a mask takes
/// at most some 15 ms. Each optional member that may come next is some items of a row.
fn limits() -> ParserLimits {
    ParserLimits {
        initial_lexer_fuel: 600_000,
        max_lexer_states: 150_000,
        max_items_in_row: 20 * MAX_PROPERTIES,
        step_max_items: 200_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Refuses features of grammars that a sequence cannot support.
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
    // llguidance would drop the backslash.
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
