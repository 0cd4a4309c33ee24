//! A prompt's log-probabilities are those of a direct computation, however its rows were shared out among steps.

use llmserve_engine::model::fake::{self, Memory};
use llmserve_engine::*;

use super::{KINDS, prompt, settled};
use crate::common::{FakeEngine, collect, expected_tokens, greedy, request, wait_for_delta};

const NUM_TOP: u32 = 3;

/// A request for a prompt's log-probabilities.
fn scored(prompt: &str, max_tokens: u32) -> RequestParts {
    RequestParts { prompt_logprobs: Some(NUM_TOP), ..RequestParts::text(prompt, max_tokens) }
}

/// All events up to the end: the prompt's tokens, and those of the output.
fn read(handle: &RequestHandle) -> (Vec<PromptToken>, Vec<TokenId>, Finished) {
    let (mut prompt, mut tokens) = (Vec::new(), Vec::new());
    loop {
        match handle.recv().expect("a terminal event comes first") {
            Event::Accepted { .. } | Event::Started { .. } | Event::Progress { .. } => {}
            Event::Prompt(more) => {
                assert!(tokens.is_empty(), "the prompt comes before the output");
                prompt.extend(more);
            }
            Event::Delta(delta) => tokens.extend(delta.tokens.iter().map(|record| record.id)),
            Event::Finished(finished) => return (prompt, tokens, finished),
            Event::Failed(error) => panic!("{error}"),
        }
    }
}

/// Compares with the log-softmax of the model's logits after each prefix.
fn assert_scores(scores: &[PromptToken], prompt: &str) {
    let ids: Vec<TokenId> = prompt.bytes().map(|byte| TokenId(i32::from(byte))).collect();
    assert_eq!(scores.iter().map(|token| token.id).collect::<Vec<_>>(), ids);
    assert_eq!(scores.iter().flat_map(|token| token.bytes.clone()).collect::<Vec<_>>(), prompt.as_bytes());
    assert_eq!(scores[0].score, None);
    for (position, token) in scores.iter().enumerate().skip(1) {
        let logits = fake::logits_after(&ids[..position]);
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        let logprob = |id: TokenId| f64::from(logits[id.0 as usize]) - sum.ln();
        let TokenScore { logprobs, rank } = token.score.as_ref().expect("all but the first have one");
        assert!((f64::from(logprobs.logprob) - logprob(token.id)).abs() < 1e-4, "{position}");
        let mut best: Vec<TokenId> = (0..logits.len() as i32).map(TokenId).collect();
        best.sort_by(|a, b| logprob(*b).total_cmp(&logprob(*a)));
        let top: Vec<TokenId> = logprobs.top.iter().map(|(id, _)| *id).collect();
        assert_eq!(top, best[..NUM_TOP as usize]);
        assert!(logprobs.top.iter().all(|(id, given)| (f64::from(*given) - logprob(*id)).abs() < 1e-4));
        assert_eq!(best[*rank as usize - 1], token.id);
    }
}

/// Submits a request, and compares all that it gives with the reference.
fn assert_scored(engine: &Engine, parts: RequestParts, text: &str) -> Finished {
    let max_tokens = parts.stopping.max_tokens.unwrap() as usize;
    let (scores, tokens, finished) = read(&engine.submit(request(parts), None));
    assert_scores(&scores, text);
    assert_eq!(tokens, expected_tokens(text, max_tokens));
    assert_eq!(finished.usage.num_prompt_tokens, text.len());
    assert_eq!(finished.usage.num_completion_tokens, tokens.len());
    finished
}

#[test]
fn alone_in_chunks_and_with_a_warm_cache() {
    let text = "x".repeat(10) + &prompt(6);
    for memory in KINDS {
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        for prefill_step_size in [None, Some(1), Some(7), Some(64)] {
            let parts = RequestParts { prefill_step_size, ..scored(&text, 5) };
            let finished = assert_scored(&engine, parts, &text);
            assert_eq!(finished.usage.num_cached_tokens, 0, "cached cells have no logits");
        }
        // Its own cells stay for others.
        let again = collect(&engine.submit(greedy(&text, 5), None)).unwrap();
        assert_eq!(again.finished.usage.num_cached_tokens, text.len() - 1);
    }
}

#[test]
fn beside_others_of_both_kinds() {
    for layout in [KvLayout::PerSequence, KvLayout::Unified] {
        let setup = FakeEngine { limits: fake::limits(4, 512, layout, 4 * 512), ..FakeEngine::default() };
        let engine = setup.start();
        let stopping = StopParams { ignore_eos: true, ..StopParams::default() };
        let parts = RequestParts { stopping, ..RequestParts::text("a stream", 1_000_000) };
        let stream = engine.submit(request(parts), None);
        wait_for_delta(&stream);
        // More than run at once, and more rows than a batch has logits.
        let texts: Vec<String> = (0..12).map(|index| prompt(index).repeat(3)).collect();
        let handles: Vec<_> =
            texts.iter().map(|text| engine.submit(request(scored(text, 4)), None)).collect();
        let plain: Vec<_> = texts.iter().map(|text| engine.submit(greedy(text, 4), None)).collect();
        for (handle, text) in handles.iter().zip(&texts) {
            let (scores, tokens, _) = read(handle);
            assert_scores(&scores, text);
            assert_eq!(tokens, expected_tokens(text, 4));
        }
        for (handle, text) in plain.iter().zip(&texts) {
            assert_eq!(collect(handle).unwrap().tokens, expected_tokens(text, 4));
        }
        stream.abort();
    }
}

#[test]
fn beside_streams_that_draft() {
    let engine = FakeEngine { has_head: true, ..FakeEngine::default() }.start();
    let head = engine.open_head(None).wait().unwrap();
    let stopping = StopParams { ignore_eos: true, ..StopParams::default() };
    let drafting = Some(Drafting { method: DraftMethod::Head, draft_len: 8, adaptive: false });
    let streams: Vec<_> = (0..7)
        .map(|index| {
            let parts = RequestParts {
                stopping: stopping.clone(),
                drafting,
                ..RequestParts::text(prompt(index), 1_000_000)
            };
            let submission = Submission { head: Some(head.clone()), ..request(parts).into() };
            engine.submit(submission, None)
        })
        .collect();
    streams.iter().for_each(wait_for_delta);
    let text = prompt(3).repeat(2);
    assert_scored(&engine, scored(&text, 3), &text);
}

#[test]
fn a_preempted_prompt_loses_nothing() {
    for parking_bytes in [0, 1 << 20] {
        let scheduler = SchedulerConfig { parking_bytes, ..SchedulerConfig::default() };
        let limits = fake::limits(4, 300, KvLayout::Unified, 400);
        let engine = FakeEngine { limits, scheduler, ..FakeEngine::default() }.start();
        let texts: Vec<String> = (0..4).map(|index| format!("{index}{}", "words ".repeat(22))).collect();
        let parts = |text: &String| RequestParts { prefill_step_size: Some(5), ..scored(text, 60) };
        let handles: Vec<_> = texts.iter().map(|text| engine.submit(request(parts(text)), None)).collect();
        for (handle, text) in handles.iter().zip(&texts) {
            let (scores, tokens, _) = read(handle);
            assert_scores(&scores, text);
            assert_eq!(tokens, expected_tokens(text, 60));
        }
    }
}

#[test]
fn a_prompt_alone_ends_without_a_draw() {
    for memory in KINDS {
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        for text in ["p", "pr", &prompt(4), &"long ".repeat(60)] {
            let finished = assert_scored(&engine, scored(text, 0), text);
            assert_eq!(finished.reason, FinishReason::Length);
            assert_eq!(finished.timings.decode, std::time::Duration::ZERO);
        }
        let stats = settled(&engine);
        assert_eq!((stats.completion_tokens, stats.requests_length), (0, 4));
    }
}

#[test]
fn steps_stay_within_the_place_for_logits() {
    let setup = FakeEngine { memory: Memory::Attention, ..FakeEngine::default() };
    let text = "y".repeat(300);
    assert_scored(&setup.start(), scored(&text, 1), &text);
    let max_outputs = setup.limits.max_outputs;
    assert!(setup.trace.lines().len() >= text.len() / max_outputs, "{:?}", setup.trace.lines());
}

#[test]
fn the_answer_is_bounded() {
    let setup = FakeEngine {
        limits: fake::limits(1, 1 << 14, KvLayout::PerSequence, 1 << 14),
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let parts = RequestParts { prompt_logprobs: Some(100), ..RequestParts::text("z".repeat(6000), 1) };
    let error = collect(&engine.submit(request(parts), None)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "prompt_logprobs: gives at most 262144 log-probabilities, and 606000 with 100 alternatives for each of 6000 \
         tokens"
    );
    assert!(matches!(error, Error::InvalidParameter { limit: Some(42.0), .. }), "{error:?}");
}
