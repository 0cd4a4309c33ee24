//! A loaded model: its weights and properties.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Mutex;

use llama_cpp_sys_2 as sys;

use super::{backend, devices, params};
use crate::config::WeightsConfig;
use crate::error::{LoadError, LoadErrorReason};
use crate::ids::TokenId;
use crate::model_info::ModelInfo;

/// The weights of a model; shared by its contexts and freed with the last.
pub(crate) struct Weights {
    model: NonNull<sys::llama_model>,
    /// Whether a draft head was loaded with the weights.
    has_draft_head: bool,
    /// Number of layers that were requested on GPUs.
    gpu_layers: Option<u32>,
    /// Held while a context is made: two at a time would be a data race in llama.cpp.
    pub(super) making_context: Mutex<()>,
}

// SAFETY: after loading, llama.cpp only reads the model, except while a context or an adapter is
// made, which `making_context` guards.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: every user of the pointer keeps the weights alive.
        unsafe { sys::llama_model_free(self.model.as_ptr()) };
        give_memory_back();
    }
}

/// glibc keeps memory that threads have freed: after some loads, half as much again as the weights of a small model.
fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> c_int;
        }
        // SAFETY: may be called at any time, from any thread.
        unsafe { malloc_trim(0) };
    }
}

/// Called with the progress, from 0 to 1; false ends the load.
type Progress<'a> = &'a mut dyn FnMut(f32) -> bool;

impl Weights {
    /// Loads a model, or with `no_alloc` only what is needed to see that it can be loaded.
    pub(crate) fn load(
        path: &Path,
        config: &WeightsConfig,
        has_draft_head: bool,
        no_alloc: bool,
        mut progress: impl FnMut(f32) -> bool,
    ) -> Result<Self, LoadError> {
        backend::init();
        let path = c_path(path)?;
        let overrides = params::metadata_overrides(config)?;
        let mut split = params::tensor_split(config)?;
        let mut model_params = params::model_params(config, &overrides, &mut split);
        model_params.load_mtp = has_draft_head;
        model_params.no_alloc = no_alloc;
        if no_alloc {
            model_params.load_mode = sys::LLAMA_LOAD_MODE_NONE;
        }
        let mut progress: Progress<'_> = &mut progress;
        model_params.progress_callback = Some(on_progress);
        model_params.progress_callback_user_data = (&raw mut progress).cast();
        // SAFETY: path, overrides, split and the callback's data outlive the call.
        let model = unsafe { sys::llama_model_load_from_file(path.as_ptr(), model_params) };
        NonNull::new(model)
            .map(|model| Self {
                model,
                has_draft_head,
                gpu_layers: config.gpu_layers,
                making_context: Mutex::new(()),
            })
            .ok_or_else(|| LoadError::new(LoadErrorReason::Other, "llama.cpp could not load the model"))
    }

    pub(super) fn as_ptr(&self) -> *mut sys::llama_model {
        self.model.as_ptr()
    }

    pub(super) fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is live; so is its vocabulary, for as long.
        unsafe { sys::llama_model_get_vocab(self.as_ptr()) }
    }

    pub(crate) fn trained_context_length(&self) -> u32 {
        // SAFETY: the model is live.
        unsafe { sys::llama_model_n_ctx_train(self.as_ptr()) }.max(0).cast_unsigned()
    }

    /// Whether the model keeps a state that cannot be cut back, in all or some of its layers.
    pub(crate) fn is_recurrent(&self) -> bool {
        // SAFETY: the model is live.
        unsafe { sys::llama_model_is_recurrent(self.as_ptr()) || sys::llama_model_is_hybrid(self.as_ptr()) }
    }

    /// Size of the sliding attention window in tokens, 0 without one.
    pub(crate) fn sliding_window(&self) -> usize {
        // SAFETY: the model is live.
        usize::try_from(unsafe { sys::llama_model_n_swa(self.as_ptr()) }).unwrap_or(0)
    }

    /// Whether the model's architecture turns keys and queries by their position.
    pub(crate) fn has_rotation(&self) -> bool {
        // SAFETY: the model is live.
        unsafe { sys::llama_model_rope_type(self.as_ptr()) != sys::LLAMA_ROPE_TYPE_NONE }
    }

    /// Whether a draft head was loaded with them.
    pub(crate) fn has_draft_head(&self) -> bool {
        self.has_draft_head
    }

    /// Whether the model can generate text at all.
    pub(crate) fn can_generate(&self) -> bool {
        // SAFETY: the model is live.
        unsafe {
            sys::llama_model_has_decoder(self.as_ptr())
                && !sys::llama_model_has_encoder(self.as_ptr())
                && !sys::llama_model_is_diffusion(self.as_ptr())
        }
    }

    pub(crate) fn info(&self) -> ModelInfo {
        let metadata = self.metadata();
        let gpus = devices::gpus();
        // SAFETY: the model is live.
        let num_layers = unsafe { sys::llama_model_n_layer(self.as_ptr()) }.max(0).cast_unsigned();
        let num_gpu_layers = devices::num_gpu_layers(self.gpu_layers, num_layers, gpus.len());
        let special = |token: sys::llama_token| (token >= 0).then_some(TokenId(token));
        // SAFETY: model and vocabulary are live.
        let (bos, eos) = unsafe { (sys::llama_vocab_bos(self.vocab()), sys::llama_vocab_eos(self.vocab())) };
        ModelInfo {
            description: text(|buf, size| {
                // SAFETY: the model is live, the buffer valid for its size.
                unsafe { sys::llama_model_desc(self.as_ptr(), buf, size) }
            }),
            architecture: metadata.get("general.architecture").cloned().unwrap_or_default(),
            // SAFETY: the model is live.
            num_parameters: unsafe { sys::llama_model_n_params(self.as_ptr()) },
            // SAFETY: the model is live.
            size_bytes: unsafe { sys::llama_model_size(self.as_ptr()) },
            trained_context_length: self.trained_context_length(),
            // SAFETY: the vocabulary is live.
            vocabulary_size: unsafe { sys::llama_vocab_n_tokens(self.vocab()) }.max(0).cast_unsigned(),
            // SAFETY: the model is live.
            embedding_length: unsafe { sys::llama_model_n_embd(self.as_ptr()) }.max(0).cast_unsigned(),
            chat_template: metadata.get("tokenizer.chat_template").cloned(),
            chat_templates: named_templates(&metadata),
            bos_token: special(bos),
            eos_token: special(eos),
            is_recurrent: self.is_recurrent(),
            has_draft_head: self.has_draft_head,
            backend: if num_gpu_layers == 0 {
                "CPU".to_owned()
            } else {
                gpus.iter().map(devices::full_name).collect::<Vec<_>>().join(", ")
            },
            num_layers,
            num_gpu_layers,
            sliding_window: self.sliding_window() as u32,
            metadata,
            ..ModelInfo::default()
        }
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        // SAFETY: the model is live.
        let count = unsafe { sys::llama_model_meta_count(self.as_ptr()) };
        let pair = |index| {
            let key = text(|buf, size| {
                // SAFETY: the model is live, the buffer valid for its size.
                unsafe { sys::llama_model_meta_key_by_index(self.as_ptr(), index, buf, size) }
            });
            let value = text(|buf, size| {
                // SAFETY: the model is live, the buffer valid for its size.
                unsafe { sys::llama_model_meta_val_str_by_index(self.as_ptr(), index, buf, size) }
            });
            (key, value)
        };
        (0..count).map(pair).collect()
    }
}

/// Text that llama.cpp writes with `snprintf`: its length is returned even if the buffer was too
/// small.
fn text(write: impl Fn(*mut c_char, usize) -> i32) -> String {
    let mut buffer = vec![0_u8; 256];
    loop {
        let len = write(buffer.as_mut_ptr().cast(), buffer.len());
        match usize::try_from(len) {
            Err(_) => return String::new(),
            Ok(len) if len < buffer.len() => {
                buffer.truncate(len);
                return String::from_utf8_lossy(&buffer).into_owned();
            }
            Ok(len) => buffer.resize(len + 1, 0),
        }
    }
}

fn named_templates(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let named = metadata.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("tokenizer.chat_template.")?;
        Some((name.to_owned(), value.clone()))
    });
    named.collect()
}

pub(super) fn c_path(path: &Path) -> Result<CString, LoadError> {
    let refused = || LoadError::new(LoadErrorReason::NotFound, "the path cannot name a file");
    let text = path.to_str().ok_or_else(refused)?;
    CString::new(text).map_err(|_| refused())
}

/// Called by llama.cpp on the loading thread; false ends the load.
unsafe extern "C" fn on_progress(progress: f32, user_data: *mut c_void) -> bool {
    // SAFETY: `load` passes a pointer to its callback, which outlives the load.
    let callback = unsafe { &mut *user_data.cast::<Progress<'_>>() };
    // A panic must not cross into C++.
    std::panic::catch_unwind(AssertUnwindSafe(|| callback(progress))).unwrap_or(false)
}
