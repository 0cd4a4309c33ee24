//! Drafts change neither text nor counts.

use llmserve_engine::model::fake::{self, Memory};
use llmserve_engine::*;

use super::{KINDS, assert_expected, prompt};
use crate::common::{FakeEngine, collect, expected_tokens, greedy};

/// Guesses what the model will say, wrong at every `period`-th token.
struct Scripted {
    prompt_len: usize,
    script: Vec<TokenId>,
    period: usize,
}

impl Drafter for Scripted {
    fn draft(&mut self, tokens: &[TokenId], max: usize) -> Vec<TokenId> {
        let position = tokens.len() - self.prompt_len;
        let guess = |(index, &token): (usize, &TokenId)| {
            if (position + index) % self.period == self.period - 1 { TokenId(token.0 ^ 1) } else { token }
        };
        self.script.iter().skip(position).enumerate().map(guess).take(max.min(4)).collect()
    }
}

#[test]
fn drafts_change_neither_text_nor_counts_on_any_kind_of_cache() {
    for memory in KINDS {
        for layout in [KvLayout::PerSequence, KvLayout::Unified] {
            let setup =
                FakeEngine { limits: fake::limits(8, 512, layout, 8 * 512), memory, ..FakeEngine::default() };
            let engine = setup.start();
            let handles: Vec<(String, RequestHandle)> = (0..12)
                .map(|index| {
                    let text = prompt(index);
                    let drafter: Box<dyn Drafter> = Box::new(Scripted {
                        prompt_len: text.len(),
                        script: expected_tokens(&text, 60),
                        period: 2 + index % 5,
                    });
                    let drafter = (index % 3 != 0).then_some(drafter);
                    let handle = engine.submit(Submission { drafter, ..greedy(&text, 60).into() }, None);
                    (text, handle)
                })
                .collect();
            for (index, (text, handle)) in handles.iter().enumerate() {
                let output = collect(handle).unwrap();
                assert_expected(&output, text, 60);
                let (drafted, accepted) = simulate_drafting(output.tokens.len(), 60, 2 + index % 5, text);
                let usage = output.finished.usage;
                let simulated = if index % 3 == 0 { (0, 0) } else { (drafted, accepted) };
                let counted = (usage.num_draft_tokens, usage.num_accepted_tokens);
                match memory {
                    // A state that cannot be cut back is computed again, which draws undrafted tokens.
                    Memory::Recurrent => assert!(counted.1 <= counted.0, "{text}"),
                    Memory::Attention | Memory::SlidingWindow(_) => {
                        assert_eq!(counted, simulated, "{memory:?} {text}");
                    }
                }
            }
        }
    }
}

/// Drafted and accepted tokens that the scripted drafter must give: four guesses a step at most,
/// accepted up to the first wrong one.
fn simulate_drafting(len: usize, max_tokens: usize, period: usize, text: &str) -> (usize, usize) {
    let script_len = expected_tokens(text, 60).len();
    let (mut done, mut drafted, mut accepted) = (1, 0, 0);
    while done < len {
        let count = (script_len - done).min(4).min(max_tokens - done - 1);
        let right = (0..count).take_while(|index| (done + index) % period != period - 1).count();
        // The end of the text is not a guess that could be followed.
        let right = right.min(len - done - 1);
        drafted += count;
        accepted += right;
        done += right + 1;
    }
    (drafted, accepted)
}
