//! Initialises llama.cpp once per process.

use std::ffi::{CStr, c_char};
use std::io::Write;
use std::sync::OnceLock;

use llama_cpp_2::llama_backend::LlamaBackend;

use super::{log_sink, pages};

static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();

/// Initialises llama.cpp. Later calls have no effect.
pub(super) fn init() {
    BACKEND.get_or_init(|| {
        log_sink::install();
        // SAFETY: the callback is a plain function that lives for ever.
        unsafe { llama_cpp_sys_2::ggml_set_abort_callback(Some(log_abort)) };
        #[cfg(feature = "portable")]
        super::shim::load_backends();
        pages::install();
        LlamaBackend::init().inspect_err(|error| log::error!("llama.cpp was not initialised: {error}")).ok()
    });
}

/// ggml is about to abort the process. That cannot be stopped; the reason must not be lost.
unsafe extern "C" fn log_abort(message: *const c_char) {
    if !message.is_null() {
        // SAFETY: ggml passes a terminated string.
        let message = unsafe { CStr::from_ptr(message) };
        let message = message.to_string_lossy();
        log::error!("llama.cpp aborts the process: {message}");
        // A log that another thread writes has no time left, and the probe's parent reads this. There
        // is nobody to tell that it failed.
        drop(writeln!(std::io::stderr(), "{message}"));
    }
}
