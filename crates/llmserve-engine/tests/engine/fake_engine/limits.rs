//! What bounds a request, and where its text ends.

use llmserve_engine::model::fake;
use llmserve_engine::*;

use super::{prompt, settled};
use crate::common::{FakeEngine, collect, expected_tokens, greedy, request};

#[test]
fn the_queue_is_bounded_and_drains() {
    let setup = FakeEngine {
        limits: fake::limits(1, 512, KvLayout::PerSequence, 512),
        scheduler: SchedulerConfig { max_queued_requests: 4, ..SchedulerConfig::default() },
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let handles: Vec<_> = (0..200).map(|index| engine.submit(greedy(&prompt(index), 50), None)).collect();
    let mut refused = 0;
    for handle in &handles {
        match collect(handle) {
            Ok(_) => {}
            Err(Error::QueueFull { limit: 4, unit: "requests", retry_after }) => {
                assert!(retry_after.as_secs() >= 1);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    let stats = settled(&engine);
    assert_eq!(stats.requests_refused, refused);
    assert_eq!(stats.requests_accepted, 200 - refused);
    collect(&engine.submit(greedy("again", 5), None)).unwrap();
}

#[test]
fn prompts_that_do_not_fit_are_refused_with_the_numbers() {
    let engine = FakeEngine::default().start();
    for len in [512, 562] {
        let error = collect(&engine.submit(greedy(&"x".repeat(len), 5), None)).unwrap_err();
        assert_eq!(error, Error::ContextExceeded { prompt_tokens: len, context_length: 512 });
    }
    let error = collect(&engine.submit(greedy(&"x".repeat(2000), 5), None)).unwrap_err();
    assert_eq!(error, Error::TextTooLong { fewest_tokens: 2000, context_length: 512 });
    // One token less leaves room for one.
    let output = collect(&engine.submit(greedy(&"x".repeat(511), 5), None)).unwrap();
    assert_eq!(output.tokens.len(), 1);
    assert_eq!(collect(&engine.submit(greedy("", 5), None)).unwrap_err(), Error::EmptyPrompt);
    let unknown = RequestParts::tokens(vec![TokenId(1), TokenId(9999)], 5);
    assert_eq!(collect(&engine.submit(request(unknown), None)).unwrap_err().code(), "invalid_parameter");
}

#[test]
fn the_context_length_ends_a_generation_without_a_limit() {
    let engine = FakeEngine::default().start();
    let stopping = StopParams { ignore_eos: true, ..StopParams::default() };
    let parts = RequestParts { stopping, ..RequestParts::text("free", 1) };
    let output = collect(&engine.submit(request(parts), None)).unwrap();
    assert_eq!(output.finished.reason, FinishReason::Length);
    assert_eq!(output.tokens.len(), 512 - "free".len());
}

#[test]
fn a_total_limit_counts_prompt_and_output() {
    let engine = FakeEngine::default().start();
    let limited = |max_total_tokens| {
        let stopping = StopParams {
            ignore_eos: true,
            max_total_tokens: Some(max_total_tokens),
            ..StopParams::default()
        };
        request(RequestParts { stopping, ..RequestParts::text("four", 1) })
    };
    let count = |limit| collect(&engine.submit(limited(limit), None)).map(|output| output.tokens.len());
    assert_eq!(count(10), Ok(6));
    assert_eq!(count(4), Ok(0));
    assert_eq!(count(3), Err(Error::ContextExceeded { prompt_tokens: 4, context_length: 3 }));
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let engine = FakeEngine::default().start();
    let text: String =
        expected_tokens("stop here", 40).iter().map(|token| char::from(token.0 as u8)).collect();
    let stop = text[10..14].to_owned();
    let end = text.find(&stop).unwrap();
    let stopping = StopParams { max_tokens: Some(40), stop: vec![stop.clone()], ..StopParams::default() };
    let handle =
        engine.submit(request(RequestParts { stopping, ..RequestParts::text("stop here", 40) }), None);
    let output = collect(&handle).unwrap();
    assert_eq!(output.text, text[..end]);
    assert_eq!((output.finished.reason, output.finished.stop), (FinishReason::Stop, Some(stop)));
}

#[test]
fn a_stop_string_may_begin_in_the_prompt() {
    let engine = FakeEngine::default().start();
    let text: String =
        expected_tokens("stop here", 40).iter().map(|token| char::from(token.0 as u8)).collect();
    let generate = |stop: &str| {
        let stopping =
            StopParams { max_tokens: Some(40), stop: vec![stop.to_owned()], ..StopParams::default() };
        let parts = RequestParts { stopping, ..RequestParts::text("stop here", 40) };
        let parts = RequestParts { begun: b"here".to_vec(), ..parts };
        let output = collect(&engine.submit(request(parts), None)).unwrap();
        (output.text, output.tokens.len(), output.finished.reason)
    };
    let across = format!("re{}", &text[..2]);
    assert_eq!(generate(&across), ("he".to_owned(), 2, FinishReason::Stop));
    assert_eq!(generate("ere"), ("h".to_owned(), 1, FinishReason::Stop));
    let (shown, ..) = generate("never");
    assert_eq!(shown, format!("here{}", text.trim_end_matches('\0')));
}

#[test]
fn a_held_tail_is_released_at_the_end() {
    let engine = FakeEngine::default().start();
    let text: String = expected_tokens("held", 12).iter().map(|token| char::from(token.0 as u8)).collect();
    let stop = format!("{}and more", &text[text.len() - 3..]);
    let stopping = StopParams { max_tokens: Some(12), stop: vec![stop], ..StopParams::default() };
    let handle = engine.submit(request(RequestParts { stopping, ..RequestParts::text("held", 12) }), None);
    let output = collect(&handle).unwrap();
    assert_eq!((output.text, output.finished.reason), (text, FinishReason::Length));
}

#[test]
fn min_tokens_puts_the_end_off() {
    let engine = FakeEngine::default().start();
    let (text, natural) = (0..200)
        .map(|index| (prompt(index), expected_tokens(&prompt(index), 60).len()))
        .find(|(_, len)| (2..20).contains(len))
        .expect("some prompt ends early");
    let stopping =
        StopParams { max_tokens: Some(60), min_tokens: natural as u32 + 3, ..StopParams::default() };
    let output =
        collect(&engine.submit(request(RequestParts { stopping, ..RequestParts::text(&text, 60) }), None))
            .unwrap();
    assert!(output.tokens.len() > natural + 2);
    assert_eq!(output.tokens[..natural - 1], expected_tokens(&text, 60)[..natural - 1]);
}
