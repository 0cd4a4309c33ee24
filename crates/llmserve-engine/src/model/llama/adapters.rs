//! `LoRA` adapters: loaded for a context, freed after it.

use std::ptr::NonNull;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::Weights;
use super::raw_context::RawContext;
use super::weights::c_path;
use crate::config::LoraAdapter;
use crate::error::LoadError;
use crate::lock::lock;

/// The adapters of a context, which must be dropped before them.
pub(super) struct Adapters {
    loaded: Vec<NonNull<sys::llama_adapter_lora>>,
    weights: Arc<Weights>,
}

impl Drop for Adapters {
    fn drop(&mut self) {
        let _guard = lock(&self.weights.making_context);
        for adapter in &self.loaded {
            // SAFETY: nobody else has the pointer; the model outlives it.
            unsafe { sys::llama_adapter_lora_free(adapter.as_ptr()) };
        }
    }
}

impl Adapters {
    /// No adapters yet.
    pub(super) fn new(weights: &Arc<Weights>) -> Self {
        Self { loaded: Vec::new(), weights: Arc::clone(weights) }
    }

    /// Loads adapters and applies them to every batch of a context.
    pub(super) fn apply(&mut self, context: &RawContext, adapters: &[LoraAdapter]) -> Result<(), LoadError> {
        if adapters.is_empty() {
            return Ok(());
        }
        let _guard = lock(&self.weights.making_context);
        for (index, adapter) in adapters.iter().enumerate() {
            let path = c_path(&adapter.path)?;
            // SAFETY: the model is live and the lock held; the path is terminated.
            let loaded = unsafe { sys::llama_adapter_lora_init(self.weights.as_ptr(), path.as_ptr()) };
            let failed = || {
                let message = format!("adapter {} could not be loaded for this model", index + 1);
                LoadError::invalid_option("lora", message)
            };
            self.loaded.push(NonNull::new(loaded).ok_or_else(failed)?);
        }
        let mut pointers: Vec<_> = self.loaded.iter().map(|adapter| adapter.as_ptr()).collect();
        let mut scales: Vec<f32> = adapters.iter().map(|adapter| adapter.scale).collect();
        // SAFETY: context and adapters are live; both arrays have as many values.
        let code = unsafe {
            sys::llama_set_adapters_lora(
                context.ctx(),
                pointers.as_mut_ptr(),
                pointers.len(),
                scales.as_mut_ptr(),
            )
        };
        if code == 0 {
            return Ok(());
        }
        Err(LoadError::invalid_option("lora", "the adapters do not fit this model"))
    }
}
