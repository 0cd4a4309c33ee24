//! The C++ shim: calls that may throw, with the exception as a message.

#[cfg(feature = "portable")]
use std::ffi::CString;
use std::ffi::{CStr, c_char, c_void};
#[cfg(feature = "portable")]
use std::path::{Path, PathBuf};

use llama_cpp_sys_2 as sys;

const MESSAGE_BYTES: usize = 256;
const MAX_PATH_BYTES: usize = 4096;

unsafe extern "C" {
    fn llmserve_library_of(address: *const c_void, path: *mut c_char, size: usize);
    #[cfg(feature = "portable")]
    fn llmserve_load_backends(folder: *const c_char);
    #[cfg(feature = "portable")]
    fn llmserve_can_load(path: *const c_char, err: *mut c_char, err_size: usize) -> bool;
    fn llmserve_process(
        ctx: *mut sys::llama_context,
        kind: i32,
        batch: *mut sys::llama_batch_ext,
        err: *mut c_char,
        err_size: usize,
    ) -> i32;
    fn llmserve_tokenize(
        vocab: *const sys::llama_vocab,
        text: *const c_char,
        len: i32,
        tokens: *mut i32,
        max: i32,
        flags: i32,
        err: *mut c_char,
        err_size: usize,
    ) -> i32;
    fn llmserve_token_to_piece(
        vocab: *const sys::llama_vocab,
        token: i32,
        buf: *mut c_char,
        len: i32,
        special: bool,
        err: *mut c_char,
        err_size: usize,
    ) -> i32;
    fn llmserve_state_size(
        ctx: *mut sys::llama_context,
        seq: i32,
        err: *mut c_char,
        err_size: usize,
    ) -> usize;
    fn llmserve_state_get(
        ctx: *mut sys::llama_context,
        dst: *mut u8,
        size: usize,
        seq: i32,
        err: *mut c_char,
        err_size: usize,
    ) -> usize;
    fn llmserve_state_set(
        ctx: *mut sys::llama_context,
        src: *const u8,
        size: usize,
        seq: i32,
        err: *mut c_char,
        err_size: usize,
    ) -> usize;
    fn llmserve_seq_rm(
        mem: sys::llama_memory_t,
        seq: i32,
        p0: i32,
        err: *mut c_char,
        err_size: usize,
    ) -> bool;
    fn llmserve_seq_cp(
        mem: sys::llama_memory_t,
        src: i32,
        dst: i32,
        err: *mut c_char,
        err_size: usize,
    ) -> bool;
    fn llmserve_set_hidden_rows(ctx: *mut sys::llama_context, value: bool, masked: bool);
    fn llmserve_hidden_rows(ctx: *mut sys::llama_context, err: *mut c_char, err_size: usize) -> *const f32;
    fn llmserve_hidden_row(
        ctx: *mut sys::llama_context,
        index: i32,
        err: *mut c_char,
        err_size: usize,
    ) -> *const f32;
}

/// The path of the library that has an address, or if that is null, this code; empty if it is in none.
pub(super) fn library_of(address: *const c_void) -> String {
    let mut path = vec![0; MAX_PATH_BYTES];
    // SAFETY: the shim writes a terminated string of at most this length.
    unsafe {
        llmserve_library_of(address, path.as_mut_ptr(), path.len());
        CStr::from_ptr(path.as_ptr()).to_string_lossy().into_owned()
    }
}

/// Where a wheel has ggml's modules, beside this library.
#[cfg(feature = "portable")]
pub(super) fn modules_folder(own: &str) -> PathBuf {
    Path::new(own).with_file_name("_native")
}

/// Loads the best of ggml's backends from that folder.
#[cfg(feature = "portable")]
pub(super) fn load_backends() {
    if let Some(folder) = c_path(&modules_folder(&library_of(std::ptr::null()))) {
        // SAFETY: called once, before ggml is used.
        unsafe { llmserve_load_backends(folder.as_ptr()) }
    }
}

/// Why a library cannot be loaded; `None` if it can.
#[cfg(feature = "portable")]
pub(super) fn load_failure(path: &Path) -> Option<String> {
    let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
    let path = c_path(path)?;
    // SAFETY: the path and the shim's message are terminated.
    unsafe {
        let can_load = llmserve_can_load(path.as_ptr(), message.as_mut_ptr(), MESSAGE_BYTES);
        (!can_load).then(|| CStr::from_ptr(message.as_ptr()).to_string_lossy().into_owned())
    }
}

#[cfg(feature = "portable")]
fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.to_str()?).ok()
}

/// Makes a call with room for the exception's message, which is logged.
fn guarded<T>(call: impl FnOnce(*mut c_char, usize) -> T) -> T {
    let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
    let result = call(message.as_mut_ptr(), MESSAGE_BYTES);
    if message[0] != 0 {
        // SAFETY: the shim writes a terminated string of at most MESSAGE_BYTES.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        log::error!("llama.cpp threw: {}", message.to_string_lossy());
    }
    result
}

/// `llama_process` with the decode graph; its codes, or `i32::MIN` after an exception.
///
/// # Safety
/// Both pointers are live and belong together; no other call on the context runs.
pub(super) unsafe fn decode(ctx: *mut sys::llama_context, batch: *mut sys::llama_batch_ext) -> i32 {
    // SAFETY: the caller's promise.
    guarded(|err, size| unsafe {
        llmserve_process(ctx, sys::LLAMA_PROCESS_TYPE_DECODE as i32, batch, err, size)
    })
}

/// `llama_tokenize` into `tokens`; the count, or minus the count that was needed, or `i32::MIN`.
///
/// # Safety
/// The vocabulary is live.
pub(super) unsafe fn tokenize(
    vocab: *const sys::llama_vocab,
    text: &str,
    tokens: &mut [i32],
    add_special: bool,
    parse_special: bool,
) -> i32 {
    let flags = i32::from(add_special) | i32::from(parse_special) << 1;
    let (pointer, max) = (tokens.as_mut_ptr(), tokens.len() as i32);
    guarded(|err, size| {
        let text_pointer = text.as_ptr().cast();
        // SAFETY: the caller's promise; text and tokens are valid for their lengths.
        unsafe { llmserve_tokenize(vocab, text_pointer, text.len() as i32, pointer, max, flags, err, size) }
    })
}

/// `llama_token_to_piece` into `buffer`; the length, or minus the length that was needed.
///
/// # Safety
/// The vocabulary is live and has the token.
pub(super) unsafe fn token_to_piece(
    vocab: *const sys::llama_vocab,
    token: i32,
    buffer: &mut [u8],
    special: bool,
) -> i32 {
    let (pointer, len) = (buffer.as_mut_ptr().cast(), buffer.len() as i32);
    // SAFETY: the caller's promise; the buffer is valid for its length.
    guarded(|err, size| unsafe { llmserve_token_to_piece(vocab, token, pointer, len, special, err, size) })
}

/// Size of the state of one sequence in bytes; 0 if that failed.
///
/// # Safety
/// The context is live and no other call on it runs.
pub(super) unsafe fn state_size(ctx: *mut sys::llama_context, seq: i32) -> usize {
    // SAFETY: the caller's promise.
    guarded(|err, err_size| unsafe { llmserve_state_size(ctx, seq, err, err_size) })
}

/// The state of one sequence; empty if it is larger than `max_bytes` or that failed.
///
/// # Safety
/// The context is live and no other call on it runs.
pub(super) unsafe fn state_get(ctx: *mut sys::llama_context, seq: i32, max_bytes: usize) -> Vec<u8> {
    // SAFETY: the caller's promise.
    let size = unsafe { state_size(ctx, seq) };
    if size > max_bytes {
        return Vec::new();
    }
    let mut state: Vec<u8> = Vec::with_capacity(size);
    // SAFETY: the buffer has room for `size` bytes.
    let written = guarded(|err, err_size| unsafe {
        llmserve_state_get(ctx, state.as_mut_ptr(), size, seq, err, err_size)
    });
    // SAFETY: llama.cpp has written this many bytes, at most `size`.
    unsafe { state.set_len(written.min(size)) };
    state
}

/// Restores the state of a sequence; false if that failed.
///
/// # Safety
/// The context is live and no other call on it runs.
pub(super) unsafe fn state_set(ctx: *mut sys::llama_context, seq: i32, state: &[u8]) -> bool {
    let (pointer, len) = (state.as_ptr(), state.len());
    // SAFETY: the caller's promise; the state is valid for its length.
    guarded(|err, err_size| unsafe { llmserve_state_set(ctx, pointer, len, seq, err, err_size) }) == len
}

/// `llama_memory_seq_rm` from `position` to the end.
///
/// # Safety
/// The memory is live and no other call on its context runs.
pub(super) unsafe fn remove_from(memory: sys::llama_memory_t, seq: i32, position: i32) -> bool {
    // SAFETY: the caller's promise.
    guarded(|err, size| unsafe { llmserve_seq_rm(memory, seq, position, err, size) })
}

/// `llama_memory_seq_cp` of the whole sequence.
///
/// # Safety
/// The memory is live and no other call on its context runs.
pub(super) unsafe fn copy(memory: sys::llama_memory_t, from: i32, to: i32) -> bool {
    // SAFETY: the caller's promise.
    guarded(|err, size| unsafe { llmserve_seq_cp(memory, from, to, err, size) })
}

/// Has a context give the hidden rows that a draft head continues from: those of all rows, or if `masked`, of rows
/// with output. If they are not wanted but `masked`, it computes less of the rows without output.
///
/// # Safety
/// The context is live and no other call on it runs.
pub(super) unsafe fn set_hidden_rows(ctx: *mut sys::llama_context, is_wanted: bool, masked: bool) {
    // SAFETY: the caller's promise.
    unsafe { llmserve_set_hidden_rows(ctx, is_wanted, masked) }
}

/// The hidden rows of the last batch, one after the other in the order of the batch; null if there are none.
///
/// # Safety
/// The context is live, no other call on it runs, and it gives hidden rows of all rows.
pub(super) unsafe fn hidden_rows(ctx: *mut sys::llama_context) -> *const f32 {
    // SAFETY: the caller's promise.
    guarded(|err, size| unsafe { llmserve_hidden_rows(ctx, err, size) })
}

/// The hidden row of one row of the last batch; null if there is none.
///
/// # Safety
/// The context is live, no other call on it runs, and it gives hidden rows.
pub(super) unsafe fn hidden_row(ctx: *mut sys::llama_context, index: i32) -> *const f32 {
    // SAFETY: the caller's promise.
    guarded(|err, size| unsafe { llmserve_hidden_row(ctx, index, err, size) })
}
