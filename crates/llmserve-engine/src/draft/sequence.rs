//! How one sequence drafts.

use super::acceptance::Acceptance;
use super::controller::DraftController;
use super::lookup::PromptLookup;
use super::{DraftMethod, Drafter, Drafting, MAX_DRAFT_TOKENS};

/// Drafting of one sequence: where its guesses come from, how long they are, and how they fared.
pub(crate) struct SequenceDrafts {
    /// `None`: the model's own head, which drafts for all sequences together.
    drafter: Option<Box<dyn Drafter>>,
    draft_len: usize,
    adaptive: bool,
    pub(crate) acceptance: Acceptance,
}

impl SequenceDrafts {
    /// The drafting of a sequence, by the engine's drafter or as the request says.
    pub(crate) fn new(
        drafting: Option<&Drafting>,
        drafter: Option<Box<dyn Drafter>>,
        controller: &DraftController,
    ) -> Option<Self> {
        let (drafter, draft_len, adaptive) = match (drafter, drafting) {
            (Some(drafter), _) => (Some(drafter), MAX_DRAFT_TOKENS, false),
            (None, Some(drafting)) => (own(drafting.method), drafting.draft_len, drafting.adaptive),
            (None, None) => return None,
        };
        let acceptance = controller.acceptance(drafter.is_none());
        Some(Self { drafter, draft_len, adaptive, acceptance })
    }

    /// Whether the model's own head drafts.
    pub(crate) fn is_head(&self) -> bool {
        self.drafter.is_none()
    }

    pub(crate) fn drafter(&mut self) -> Option<&mut (dyn Drafter + 'static)> {
        self.drafter.as_deref_mut()
    }

    pub(crate) fn draft_len(&self) -> usize {
        self.draft_len
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        self.adaptive
    }
}

fn own(method: DraftMethod) -> Option<Box<dyn Drafter>> {
    match method {
        DraftMethod::Head => None,
        DraftMethod::PromptLookup => Some(Box::new(PromptLookup::new())),
    }
}
