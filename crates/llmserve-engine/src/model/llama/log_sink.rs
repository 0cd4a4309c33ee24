//! Passes llama.cpp's log lines to the `log` crate, and keeps them for the load in progress.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};

use llama_cpp_sys_2 as sys;

/// Maximum number of bytes that are kept for a load.
const MAX_CAPTURED_BYTES: usize = 64 << 10;

thread_local! {
    /// Lines of this thread's load; llama.cpp logs on the thread that loads.
    static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
    static LAST_LEVEL: Cell<log::Level> = const { Cell::new(log::Level::Debug) };
}

/// Routes llama.cpp's log to the `log` crate.
pub(super) fn install() {
    // SAFETY: the callback is a plain function that lives for ever and takes no user data.
    unsafe { sys::llama_log_set(Some(log_line), std::ptr::null_mut()) };
}

/// Runs `work` and gives the warnings and errors that llama.cpp logged on this thread meanwhile.
pub(crate) fn with_log<T>(work: impl FnOnce() -> T) -> (T, String) {
    CAPTURED.with_borrow_mut(|captured| *captured = Some(String::new()));
    let result = work();
    (result, CAPTURED.with_borrow_mut(Option::take).unwrap_or_default())
}

unsafe extern "C" fn log_line(level: sys::ggml_log_level, text: *const c_char, _user_data: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a terminated string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let level = level_of(level);
    if level <= log::Level::Warn {
        capture(&text);
    }
    let line = text.trim_end();
    if !line.is_empty() && line != "." {
        log::log!(target: "llama.cpp", level, "{line}");
    }
}

fn capture(text: &str) {
    // A log line while the thread's storage is being torn down is not worth keeping.
    CAPTURED
        .try_with(|captured| {
            if let Ok(mut captured) = captured.try_borrow_mut()
                && let Some(lines) = captured.as_mut()
                && lines.len() + text.len() <= MAX_CAPTURED_BYTES
            {
                lines.push_str(text);
            }
        })
        .unwrap_or(());
}

fn level_of(level: sys::ggml_log_level) -> log::Level {
    let level = match level {
        sys::GGML_LOG_LEVEL_ERROR => log::Level::Error,
        sys::GGML_LOG_LEVEL_WARN => log::Level::Warn,
        // llama.cpp's information is detail to us.
        sys::GGML_LOG_LEVEL_INFO => log::Level::Debug,
        sys::GGML_LOG_LEVEL_CONT => {
            return LAST_LEVEL.try_with(Cell::get).unwrap_or(log::Level::Debug);
        }
        _ => log::Level::Trace,
    };
    LAST_LEVEL.try_with(|last| last.set(level)).unwrap_or(());
    level
}
