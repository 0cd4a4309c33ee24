//! The engine on real GGUF files: the default model (`LLMSERVE_TEST_MODEL`) and tiny generated
//! ones for each kind of cache (`LLMSERVE_SYNTHETIC_DIR`). `make test` sets both.

use std::path::PathBuf;

use llmserve_engine::*;

use crate::common::{Output, collect, from_env, load_engine, request, wait_for_delta};

/// Greedy texts may part where the two best logits differ by less than this: the order of
/// floating point sums depends on the batch. Measured errors on the default model are below 0.1; on
/// the tiny models, whose caches hold 32 bit here, below 0.003.
const EPSILON: f32 = 0.1;
const TINY_EPSILON: f32 = 0.01;

fn default_model() -> PathBuf {
    from_env("LLMSERVE_TEST_MODEL")
}

/// The tiny models: full attention, sliding window, recurrent, hybrid.
fn synthetic_models() -> Vec<PathBuf> {
    let folder = from_env("LLMSERVE_SYNTHETIC_DIR");
    ["llama", "swa", "recurrent", "hybrid"].map(|kind| folder.join(format!("{kind}.gguf"))).to_vec()
}

fn config(context_length: u32, max_sequences: u32, kv_layout: KvLayout) -> ModelConfig {
    ModelConfig {
        // Threads that wait for each other are slow on a busy machine.
        context: ContextConfig {
            threads: Some(1),
            context_length: Some(context_length),
            max_sequences: Some(max_sequences),
            kv_layout,
            ..ContextConfig::default()
        },
        ..ModelConfig::default()
    }
}

/// For the tiny models: what depends least on the shape of the batch.
fn exact(context_length: u32, max_sequences: u32, kv_layout: KvLayout) -> ModelConfig {
    let mut config = config(context_length, max_sequences, kv_layout);
    config.context.kv_type_k = KvType::F32;
    config.context.kv_type_v = KvType::F32;
    config.context.flash_attention = FlashAttention::Disabled;
    config
}

/// Greedy with log-probabilities, so that near-ties can be told from mistakes.
fn watched(prompt: &str, max_tokens: u32) -> GenerationRequest {
    let stopping = StopParams { max_tokens: Some(max_tokens), ignore_eos: true, ..StopParams::default() };
    request(RequestParts { stopping, logprobs: Some(2), ..RequestParts::text(prompt, max_tokens) })
}

struct Watched {
    tokens: Vec<TokenId>,
    margins: Vec<f32>,
    finished: Finished,
}

fn collect_watched(handle: &RequestHandle) -> Watched {
    let (mut tokens, mut margins) = (Vec::new(), Vec::new());
    loop {
        match handle.recv().expect("a terminal event comes first") {
            Event::Accepted { .. } | Event::Started { .. } | Event::Progress { .. } | Event::Prompt(_) => {}
            Event::Delta(delta) => {
                for record in delta.tokens {
                    let top = record.logprobs.expect("asked for").top;
                    tokens.push(record.id);
                    margins.push(top[0].1 - top[1].1);
                }
            }
            Event::Finished(finished) => return Watched { tokens, margins, finished },
            Event::Failed(error) => panic!("{error}"),
        }
    }
}

/// Equal up to a near-tie; true if they parted there.
fn parted(alone: &Watched, other: &Watched, epsilon: f32, what: &str) -> bool {
    assert_eq!(alone.tokens.len(), other.tokens.len(), "{what}");
    let Some(at) = (0..alone.tokens.len()).find(|&at| alone.tokens[at] != other.tokens[at]) else {
        return false;
    };
    let margin = alone.margins[at];
    assert!(margin < epsilon, "{what}: parted at token {at} with a margin of {margin}");
    true
}

fn prompts(count: usize) -> Vec<String> {
    let topics =
        ["the sea", "a bicycle", "old maps", "winter", "bread", "a lighthouse", "numbers", "the moon"];
    let prompt =
        |index: usize| format!("Story {index} about {}: Once upon a time", topics[index % topics.len()]);
    (0..count).map(prompt).collect()
}

fn run_alone(engine: &Engine, prompts: &[String], max_tokens: u32) -> Vec<Watched> {
    prompts.iter().map(|prompt| collect_watched(&engine.submit(watched(prompt, max_tokens), None))).collect()
}

/// Submits all at once and compares with each alone.
fn compare_batched(engine: &Engine, prompts: &[String], alone: &[Watched], epsilon: f32, what: &str) {
    let max_tokens = alone.first().map_or(0, |alone| alone.tokens.len() as u32);
    let handles: Vec<_> =
        prompts.iter().map(|prompt| engine.submit(watched(prompt, max_tokens), None)).collect();
    let batched: Vec<Watched> = handles.iter().map(collect_watched).collect();
    let num_parted =
        alone.iter().zip(&batched).filter(|(alone, batched)| parted(alone, batched, epsilon, what)).count();
    println!("{what}: {num_parted} of {} texts parted at a near-tie (< {epsilon})", prompts.len());
}

#[test]
fn thirty_two_streams_of_the_default_model_equal_each_alone() {
    let path = default_model();
    let engine = load_engine(&path, config(512, 16, KvLayout::PerSequence));
    let prompts = prompts(32);
    let alone = run_alone(&engine, &prompts, 12);
    compare_batched(&engine, &prompts, &alone, EPSILON, "default model, per sequence");
    assert_eq!(engine.stats().requests_failed, 0);
}

#[test]
fn every_kind_of_cache_gives_the_same_text_batched_reused_and_preempted() {
    for path in synthetic_models() {
        for layout in [KvLayout::PerSequence, KvLayout::Unified] {
            let mut tight = exact(256, 6, layout);
            if layout == KvLayout::Unified {
                tight.context.kv_cells = Some(512);
            }
            let engine = load_engine(&path, tight);
            let what = format!("{} {layout:?}", path.file_stem().unwrap().to_string_lossy());
            let prompts = prompts(12);
            let alone = run_alone(&engine, &prompts, 120);
            compare_batched(&engine, &prompts, &alone, TINY_EPSILON, &what);
            // Again, now with cached prefixes.
            compare_batched(&engine, &prompts, &alone, TINY_EPSILON, &what);
            if layout == KvLayout::Unified {
                assert!(engine.stats().preemptions > 0, "{what}: nothing was preempted");
            }
        }
    }
}

#[test]
fn a_conversation_that_goes_on_reuses_its_cells() {
    for path in synthetic_models() {
        let engine = load_engine(&path, exact(512, 2, KvLayout::PerSequence));
        let what = path.file_stem().unwrap().to_string_lossy().into_owned();
        let first = collect_watched(&engine.submit(watched("A first turn.", 40), None));
        let prompt =
            engine.tokenize("A first turn.".to_owned(), true, Special::Control, None).wait().unwrap();
        let mut second: Vec<TokenId> = prompt.iter().chain(&first.tokens).copied().collect();
        second.extend(
            engine.tokenize(" And a second.".to_owned(), false, Special::Plain, None).wait().unwrap(),
        );
        let parts = |cache_prompt| RequestParts {
            logprobs: Some(2),
            cache_prompt,
            ..RequestParts::tokens(second.clone(), 40)
        };
        let reused = collect_watched(&engine.submit(request(parts(true)), None));
        assert_eq!(reused.finished.usage.num_cached_tokens, prompt.len() + first.tokens.len() - 1, "{what}");
        let fresh = collect_watched(&engine.submit(request(parts(false)), None));
        parted(&fresh, &reused, TINY_EPSILON, &what);
    }
}

#[test]
fn a_window_whose_cells_are_kept_gives_the_same_text_after_every_cut() {
    let path = synthetic_models().swap_remove(1);
    for layout in [KvLayout::PerSequence, KvLayout::Unified] {
        let mut config = exact(512, 2, layout);
        config.context.swa_full = true;
        let engine = load_engine(&path, config);
        let what = format!("swa_full {layout:?}");
        // Far longer than the window, evicted by the others, then shared in part.
        let long = "A long text that is kept and cut back. ".repeat(8);
        let texts: Vec<String> = vec![long.clone(), "Another. ".repeat(30), "A third. ".repeat(30)];
        run_alone(&engine, &texts, 20);
        let half = format!("{} and on it goes", &long[..long.len() / 2]);
        let ask = |cache_prompt| {
            let stopping = StopParams { max_tokens: Some(60), ignore_eos: true, ..StopParams::default() };
            let parts =
                RequestParts { stopping, logprobs: Some(2), cache_prompt, ..RequestParts::text(&half, 60) };
            collect_watched(&engine.submit(request(parts), None))
        };
        let reused = ask(true);
        parted(&ask(false), &reused, TINY_EPSILON, &what);
    }
}

#[test]
fn a_long_run_of_letters_overflows_no_stack() {
    // The tiny models use the `default` pre-tokenizer, which recurses for each letter.
    let engine = load_engine(&synthetic_models()[0], config(256, 1, KvLayout::PerSequence));
    let text = "a".repeat(1 << 20);
    let tokens = engine.tokenize(text.clone(), false, Special::Plain, None).wait().unwrap();
    assert!(tokens.len() > 1000);
    let error = collect(&engine.submit(watched(&text, 1), None)).unwrap_err();
    assert_eq!(error.code(), "context_exceeded");
}

#[test]
fn a_repeated_prompt_reuses_its_cells_or_a_checkpoint() {
    for path in synthetic_models() {
        for layout in [KvLayout::PerSequence, KvLayout::Unified] {
            let engine = load_engine(&path, exact(512, 2, layout));
            let what = format!("{} {layout:?}", path.file_stem().unwrap().to_string_lossy());
            let prompt = "A prompt that is asked again and again, and is long enough to be kept.";
            let first = collect_watched(&engine.submit(watched(prompt, 100), None));
            for _ in 0..2 {
                let again = collect_watched(&engine.submit(watched(prompt, 100), None));
                let usage = again.finished.usage;
                assert_eq!(usage.num_cached_tokens, usage.num_prompt_tokens - 1, "{what}");
                parted(&first, &again, TINY_EPSILON, &what);
            }
        }
    }
}

/// Guesses what was said before, wrong at every third token.
struct Recorded {
    prompt_len: usize,
    script: Vec<TokenId>,
}

impl Drafter for Recorded {
    fn draft(&mut self, tokens: &[TokenId], max: usize) -> Vec<TokenId> {
        let position = tokens.len() - self.prompt_len;
        let guess = |(index, &token): (usize, &TokenId)| {
            if (position + index) % 3 == 2 { TokenId(token.0 / 2) } else { token }
        };
        self.script.iter().skip(position).enumerate().map(guess).take(max.min(4)).collect()
    }
}

#[test]
fn rejected_drafts_are_rolled_back_on_every_kind_of_cache() {
    for path in synthetic_models() {
        let engine = load_engine(&path, exact(512, 4, KvLayout::PerSequence));
        let what = path.file_stem().unwrap().to_string_lossy().into_owned();
        let prompts = prompts(4);
        let alone = run_alone(&engine, &prompts, 60);
        let handles: Vec<_> = prompts
            .iter()
            .zip(&alone)
            .map(|(prompt, alone)| {
                let drafter = Recorded {
                    prompt_len: engine
                        .tokenize(prompt.clone(), true, Special::Control, None)
                        .wait()
                        .unwrap()
                        .len(),
                    script: alone.tokens.clone(),
                };
                let drafter: Option<Box<dyn Drafter>> = Some(Box::new(drafter));
                engine.submit(Submission { drafter, ..watched(prompt, 60).into() }, None)
            })
            .collect();
        for (handle, alone) in handles.iter().zip(&alone) {
            let drafted = collect_watched(handle);
            let usage = drafted.finished.usage;
            // A state that cannot be taken back is not drafted on.
            let is_drafted =
                usage.num_accepted_tokens > 0 && usage.num_accepted_tokens < usage.num_draft_tokens;
            let can_draft = !engine.info().is_recurrent;
            assert!(if can_draft { is_drafted } else { usage.num_draft_tokens == 0 }, "{what}: {usage:?}");
            parted(alone, &drafted, TINY_EPSILON, &what);
        }
    }
}

#[test]
fn texts_end_at_utf8_borders() {
    let path = default_model();
    let engine = load_engine(&path, config(512, 2, KvLayout::PerSequence));
    let sampling = SamplingParams { temperature: 2.0, seed: Some(5), ..SamplingParams::default() };
    let parts = RequestParts { sampling, ..RequestParts::text("日本語と絵文字 🎉🎊", 60) };
    let handle = engine.submit(request(parts), None);
    let (mut bytes, mut text) = (Vec::new(), String::new());
    while let Some(event) = handle.recv() {
        if let Event::Delta(delta) = event {
            text.push_str(&delta.text());
            bytes.extend(delta.tokens.into_iter().flat_map(|record| record.bytes));
        }
    }
    assert_eq!(text, String::from_utf8_lossy(&bytes));
}

#[test]
fn weights_are_shared_and_engines_are_their_own() {
    let path = default_model();
    let first = load_engine(&path, config(512, 2, KvLayout::PerSequence));
    let second = load_engine(&path, config(256, 1, KvLayout::Unified));
    let long = "word ".repeat(300);
    let ask =
        |engine: &Engine| collect(&engine.submit(watched(&long, 1), None)).map(|output| output.tokens.len());
    assert_eq!(ask(&first), Ok(1));
    assert_eq!(ask(&second).unwrap_err().code(), "context_exceeded");
    let stream = second.submit(watched("go on", 60), None);
    wait_for_delta(&stream);
    first.shutdown();
    first.join();
    drop(first);
    assert_eq!(collect(&stream).map(|output: Output| output.finished.reason), Ok(FinishReason::Length));
}

#[test]
fn a_load_is_shared_and_the_last_one_leaving_cancels_it() {
    let path = default_model();
    let config = config(4096, 4, KvLayout::PerSequence);
    let first = load(&path, config.clone(), LoadOptions::default(), None);
    let second = load(&path, config.clone(), LoadOptions::default(), None);
    first.cancel();
    let ends = |handle: &LoadHandle| loop {
        match handle.recv().unwrap() {
            LoadEvent::Progress(_) => {}
            LoadEvent::Ready(_) | LoadEvent::ReadyEmbedder(_) => return "ready".to_owned(),
            LoadEvent::Failed(error) => return error.reason.code().to_owned(),
        }
    };
    assert_eq!(ends(&first), "cancelled");
    assert_eq!(ends(&second), "ready");
    let third = load(&path, config.clone(), LoadOptions::default(), None);
    third.cancel();
    assert_eq!(ends(&third), "cancelled");
    // It can be tried again at once.
    let fourth = load(&path, config, LoadOptions::default(), None);
    assert_eq!(ends(&fourth), "ready");
}

#[test]
fn a_bad_option_is_refused_by_name() {
    let path = default_model();
    let refuse = |config: ModelConfig| {
        let handle = load(&path, config, LoadOptions::default(), None);
        loop {
            match handle.recv().unwrap() {
                LoadEvent::Progress(_) => {}
                LoadEvent::Ready(_) | LoadEvent::ReadyEmbedder(_) => panic!("loaded"),
                LoadEvent::Failed(error) => return error,
            }
        }
    };
    let error = refuse(config(1 << 24, 1, KvLayout::PerSequence));
    assert_eq!(error.reason, LoadErrorReason::NotEnoughMemory);
    assert!(error.message.contains("context_length"), "{error}");
    assert!(refuse(config(512, 300, KvLayout::PerSequence)).to_string().starts_with("max_sequences: "));
}
