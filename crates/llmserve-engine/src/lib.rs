//! The llmserve engine.
