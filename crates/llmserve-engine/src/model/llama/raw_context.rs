//! A llama.cpp context with its batch: the one place that makes and frees them.

use std::ptr::NonNull;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::Weights;
use super::pages::{self, CacheTensor};
use crate::error::{LoadError, LoadErrorReason};
use crate::lock::lock;

/// A context and its batch, used on one thread.
pub(super) struct RawContext {
    ctx: NonNull<sys::llama_context>,
    batch: NonNull<sys::llama_batch_ext>,
    /// The tensors of the KV cache that is the context's own.
    cache: Vec<CacheTensor>,
    /// Dropped last.
    weights: Arc<Weights>,
}

/// The thing that llama.cpp could not make.
pub(super) enum Missing {
    Context,
    Batch,
}

impl Missing {
    /// The failure of the load; `no_context` says why there is no context.
    pub(super) fn into_load_error(self, no_context: String) -> LoadError {
        match self {
            Self::Context => LoadError::new(LoadErrorReason::NotEnoughMemory, no_context),
            Self::Batch => LoadError::new(LoadErrorReason::Other, "llama.cpp could not make a batch"),
        }
    }
}

impl Drop for RawContext {
    fn drop(&mut self) {
        let _guard = lock(&self.weights.making_context);
        // SAFETY: nobody else has these pointers; the model outlives them.
        unsafe {
            sys::llama_batch_ext_free(self.batch.as_ptr());
            sys::llama_free(self.ctx.as_ptr());
        }
    }
}

impl RawContext {
    pub(super) fn new(weights: &Arc<Weights>, params: sys::llama_context_params) -> Result<Self, Missing> {
        let _guard = lock(&weights.making_context);
        let (ctx, cache) = pages::collecting(|| {
            // SAFETY: the model is live and the lock held.
            unsafe { sys::llama_init_from_model(weights.as_ptr(), params) }
        });
        let ctx = NonNull::new(ctx).ok_or(Missing::Context)?;
        // SAFETY: the context is live.
        let Some(batch) = NonNull::new(unsafe { sys::llama_batch_ext_init(ctx.as_ptr()) }) else {
            // SAFETY: nobody else has the pointer.
            unsafe { sys::llama_free(ctx.as_ptr()) };
            return Err(Missing::Batch);
        };
        Ok(Self { ctx, batch, cache, weights: Arc::clone(weights) })
    }

    /// The context, live as long as this value.
    pub(super) fn ctx(&self) -> *mut sys::llama_context {
        self.ctx.as_ptr()
    }

    /// The batch, live as long as this value.
    pub(super) fn batch(&self) -> *mut sys::llama_batch_ext {
        self.batch.as_ptr()
    }

    /// Gives the memory of a sequence's cells back to the system, if each sequence has its own.
    ///
    /// # Safety
    /// The sequence, one of `num_sequences`, has no cells.
    pub(super) unsafe fn give_back(&self, sequence: usize, num_sequences: usize) {
        for tensor in &self.cache {
            // SAFETY: the context is live; the caller promises the rest.
            unsafe { tensor.give_back(sequence, num_sequences) };
        }
    }
}
