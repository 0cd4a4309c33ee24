//! Text with drafts and without: on the default model (`LLMSERVE_TEST_MODEL`), whose floating point sums depend on
//! the shape of the batch, and on a tiny model with a head (in `LLMSERVE_SYNTHETIC_DIR`). `make test` sets both.

use llmserve_engine::*;

use crate::common::{Output, collect, from_env, load_engine, request};

/// Texts may part where log-probabilities of the two runs differ by less than this, and only there: a draw is a
/// function of logits and seed, so such a decision lay that near to a border. For greedy text it bounds half
/// the distance of the two best.
const EPSILON: f32 = 0.1;
const NUM_PROMPTS: usize = 6;
const MAX_TOKENS: u32 = 40;

fn config(kv_layout: KvLayout) -> ModelConfig {
    let context = ContextConfig {
        // Threads that wait for each other are slow on a busy machine.
        threads: Some(1),
        context_length: Some(512),
        max_sequences: Some(4),
        kv_layout,
        ..ContextConfig::default()
    };
    ModelConfig { context, ..ModelConfig::default() }
}

/// A token with the log-probabilities that it was drawn by.
type Step = (TokenId, Vec<(TokenId, f32)>);

fn run(engine: &Engine, sampling: &SamplingParams, drafts: bool) -> (Vec<Vec<Step>>, usize) {
    let drafting = Drafting { method: DraftMethod::PromptLookup, draft_len: 5, adaptive: false };
    let submit = |index: usize| {
        let text = format!(
            "List {index}: one apple, two apples, three apples, four apples, five apples, six apples, seven"
        );
        let parts = RequestParts {
            sampling: sampling.clone(),
            logprobs: Some(50),
            drafting: drafts.then_some(drafting),
            ..RequestParts::text(text, MAX_TOKENS)
        };
        engine.submit(request(parts), None)
    };
    let handles: Vec<RequestHandle> = (0..NUM_PROMPTS).map(submit).collect();
    let mut num_accepted = 0;
    let mut texts = Vec::new();
    for handle in &handles {
        let mut steps = Vec::new();
        while let Some(event) = handle.recv() {
            match event {
                Event::Accepted { .. }
                | Event::Started { .. }
                | Event::Progress { .. }
                | Event::Prompt(_) => {}
                Event::Delta(delta) => {
                    let step = |record: TokenRecord| (record.id, record.logprobs.expect("asked for").top);
                    steps.extend(delta.tokens.into_iter().map(step));
                }
                Event::Finished(finished) => num_accepted += finished.usage.num_accepted_tokens,
                Event::Failed(error) => panic!("{error}"),
            }
        }
        texts.push(steps);
    }
    (texts, num_accepted)
}

/// Whether two texts part; they may only where the two runs' numbers differ by floating point alone.
fn parted(without: &[Step], with: &[Step], what: &str) -> bool {
    let Some(at) = without.iter().zip(with).position(|(a, b)| a.0 != b.0) else {
        assert_eq!(without.len(), with.len(), "{what}");
        return false;
    };
    let (known, other) = (&without[at].1, &with[at].1);
    let pairs = known.iter().filter_map(|(token, logprob)| {
        let same = other.iter().find(|(id, _)| id == token)?;
        Some((logprob - same.1).abs())
    });
    let differences: Vec<f32> = pairs.collect();
    let most = differences.iter().copied().fold(0.0, f32::max);
    println!("{what}: parted at token {at}, where log-probabilities differ by at most {most}");
    assert!(differences.len() > known.len() / 2, "{what}: other candidates at token {at}");
    assert!(most < EPSILON, "{what}: parted at token {at} with numbers that differ by {most}");
    let margin = known[0].1 - known[1].1;
    assert!(without[at].0 == known[0].0 || what.contains("sampled"), "{what}: not the best at token {at}");
    assert!(what.contains("sampled") || margin < EPSILON, "{what}: a margin of {margin} at token {at}");
    true
}

fn compare(sampling: &SamplingParams, what: &str) {
    let engine = load_engine(&from_env("LLMSERVE_TEST_MODEL"), config(KvLayout::PerSequence));
    let (without, _) = run(&engine, sampling, false);
    let (with, num_accepted) = run(&engine, sampling, true);
    assert!(num_accepted > NUM_PROMPTS, "{what}: {num_accepted} drafted tokens were accepted");
    let num_parted = without.iter().zip(&with).filter(|(a, b)| parted(a, b, what)).count();
    println!(
        "{what}: {num_parted} of {NUM_PROMPTS} texts parted within {EPSILON}, {num_accepted} tokens accepted"
    );
}

#[test]
fn greedy_text_is_the_same_with_drafts() {
    compare(&SamplingParams::default(), "greedy");
}

#[test]
fn sampled_text_is_the_same_with_drafts() {
    let sampling = SamplingParams {
        temperature: 0.8,
        top_k: 40,
        top_p: 0.95,
        seed: Some(7),
        ..SamplingParams::default()
    };
    compare(&sampling, "sampled");
}

fn submit_tiny(engine: &Engine, text: &str, head: Option<&Head>) -> Output {
    let drafting = Drafting { method: DraftMethod::Head, draft_len: 3, adaptive: false };
    let parts = RequestParts {
        drafting: head.map(|_| drafting),
        cache_prompt: false,
        ..RequestParts::text(text, 40)
    };
    let submission = Submission { head: head.cloned(), ..request(parts).into() };
    collect(&engine.submit(submission, None)).unwrap()
}

/// llama.cpp goes on with the graph of a batch for the next one of the same shape: one that was made without
/// hidden rows must not be.
#[test]
fn a_head_that_is_opened_and_closed_between_equal_batches_drafts_right() {
    let path = from_env("LLMSERVE_SYNTHETIC_DIR").join("draft_head.gguf");
    for layout in [KvLayout::PerSequence, KvLayout::Unified] {
        let engine = load_engine(&path, config(layout));
        let text = "a prompt of several chunks; ".repeat(14);
        let plain = submit_tiny(&engine, &text, None);
        let mut drafted = Vec::new();
        for _ in 0..2 {
            let head = engine.open_head(None).wait().unwrap();
            let with = submit_tiny(&engine, &text, Some(&head));
            let usage = with.finished.usage;
            assert!(usage.num_accepted_tokens > 0, "{layout:?}: {usage:?}");
            drafted.push((usage.num_draft_tokens, usage.num_accepted_tokens));
            assert_eq!(with.tokens, plain.tokens);
            drop(head);
            assert_eq!(submit_tiny(&engine, &text, None).tokens, plain.tokens);
        }
        assert_eq!(drafted[0], drafted[1]);
    }
}
