//! The module's entry point: refuses a CPU that lacks what the code was compiled for, where its first instruction of
//! that kind would end the process.
#![expect(unsafe_code, reason = "an entry point that C calls")]

use pyo3::ffi::PyObject;

unsafe extern "C" {
    fn llmserve_is_built_for_this_cpu() -> bool;
    /// The one that PyO3 makes.
    fn PyInit__unchecked_core() -> *mut PyObject;
}

/// What Python calls to import `_core`.
#[unsafe(no_mangle)]
extern "C" fn PyInit__core() -> *mut PyObject {
    // SAFETY: Python calls this with the GIL, once for each interpreter, as both functions expect.
    unsafe { if llmserve_is_built_for_this_cpu() { PyInit__unchecked_core() } else { std::ptr::null_mut() } }
}
