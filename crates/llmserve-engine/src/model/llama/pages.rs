//! ggml's buffers in host memory as mappings of their own: cells that were never used take no memory.
//!
//! llama.cpp clears a KV cache when it makes it. ggml's own buffers are cleared by writing zeros, which makes all of
//! it resident. A fresh mapping is zero without being touched, and what has been used can be given back, page by
//! page. ggml has no public way to supply a buffer; so the one function of the CPU's buffer type that
//! allocates is replaced, in this process's copy of ggml, before anything is allocated.
#![expect(clippy::cast_ptr_alignment, reason = "the bindings do not know the fields of ggml's buffers")]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;

use llama_cpp_sys_2 as sys;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

type BufferType = sys::ggml_backend_buffer_type_t;
type Tensor = *mut sys::ggml_tensor;
/// A function of ggml's that is not called here.
type Other = *const c_void;

/// The part of ggml's `ggml_backend_buffer_type` that is used (ggml-backend-impl.h).
#[repr(C)]
struct BufferTypeFields {
    get_name: Other,
    alloc_buffer: unsafe extern "C" fn(BufferType, usize) -> *mut BufferFields,
}

/// ggml's `ggml_backend_buffer` (ggml-backend-impl.h).
#[repr(C)]
struct BufferFields {
    free_buffer: Option<unsafe extern "C" fn(*mut BufferFields)>,
    get_base: Other,
    init_tensor: Option<unsafe extern "C" fn(*mut BufferFields, Tensor) -> c_int>,
    /// `memset_tensor`, `set_tensor`, `get_tensor`, `set_tensor_2d`, `get_tensor_2d`, `cpy_tensor`.
    transfers: [Other; 6],
    clear: unsafe extern "C" fn(*mut BufferFields, u8),
    reset: Other,
    buft: BufferType,
    context: *mut c_void,
    size: usize,
    usage: c_int,
}

thread_local! {
    /// The caches' tensors of the context that this thread is making.
    static FOUND: RefCell<Option<Vec<CacheTensor>>> = const { RefCell::new(None) };
}

/// Has ggml take its host buffers from here. Called once, before anything is allocated.
pub(super) fn install() {
    // SAFETY: the type lives for ever and nobody else uses ggml yet; its layout is that of the exact version that is
    // linked, and a buffer made by its own function shows whether it is.
    unsafe {
        let kind = sys::ggml_backend_cpu_buffer_type();
        let sample = sys::ggml_backend_buft_alloc_buffer(kind, 64);
        if sample.is_null() {
            return;
        }
        let fields = sample.cast::<BufferFields>();
        let is_known = (*fields).buft == kind && (*fields).size == sys::ggml_backend_buffer_get_size(sample);
        sys::ggml_backend_buffer_free(sample);
        if is_known {
            (*kind.cast::<BufferTypeFields>()).alloc_buffer = alloc_buffer;
        } else {
            log::warn!("ggml's buffers have another layout: the KV cache takes all its memory at once");
        }
    }
}

/// Runs `make` and returns the KV cache tensors that it allocated.
pub(super) fn collecting<T>(make: impl FnOnce() -> T) -> (T, Vec<CacheTensor>) {
    FOUND.set(Some(Vec::new()));
    let result = make();
    (result, FOUND.take().unwrap_or_default())
}

/// The keys or values of one layer, in a buffer that was allocated here: the cells of one sequence after those of
/// another, where each has its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheTensor {
    data: *mut u8,
    sequence_bytes: usize,
    num_sequences: usize,
}

impl CacheTensor {
    /// A tensor that is being given its place, if it is part of a KV cache.
    unsafe fn new(tensor: Tensor) -> Option<Self> {
        // SAFETY: ggml passes a live tensor with a terminated name.
        let tensor = unsafe { &*tensor };
        let name: Vec<u8> =
            tensor.name.iter().map(|letter| *letter as u8).take_while(|byte| *byte != 0).collect();
        let is_cache = name.starts_with(b"cache_") && (contains(&name, b"k_l") || contains(&name, b"v_l"));
        (is_cache && tensor.view_src.is_null()).then_some(Self {
            data: tensor.data.cast(),
            sequence_bytes: tensor.nb[2],
            num_sequences: usize::try_from(tensor.ne[2]).unwrap_or(0),
        })
    }

    /// Gives the pages of a sequence back to the system: they read as zeros. Nothing where sequences share the cells.
    ///
    /// # Safety
    /// The context is live and the sequence has no cells.
    pub(super) unsafe fn give_back(&self, sequence: usize, num_sequences: usize) {
        if self.num_sequences != num_sequences || sequence >= num_sequences {
            return;
        }
        let page = rustix::param::page_size();
        // SAFETY: within the tensor, whose buffer is a private mapping of our own. Pages that are shared with another
        // sequence stay, and so do locked ones, with what is in them.
        unsafe {
            let start = self.data.add(sequence * self.sequence_bytes);
            let to_page = start.align_offset(page);
            if let Some(len) = self.sequence_bytes.checked_sub(to_page).filter(|len| *len >= page) {
                madvise(start.add(to_page).cast(), len / page * page, Advice::LinuxDontNeed).unwrap_or(());
            }
        }
    }
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

unsafe extern "C" fn alloc_buffer(kind: BufferType, size: usize) -> *mut BufferFields {
    // SAFETY: a new mapping at an address that the system chooses.
    let mapping = unsafe {
        mmap_anonymous(ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    let Ok(data) = mapping else {
        // ggml logs the failure.
        return ptr::null_mut();
    };
    // SAFETY: the mapping has this size; the buffer is nobody else's yet.
    unsafe {
        let buffer = sys::ggml_backend_cpu_buffer_from_ptr(data, size).cast::<BufferFields>();
        (*buffer).buft = kind;
        (*buffer).free_buffer = Some(free_buffer);
        (*buffer).init_tensor = Some(init_tensor);
        (*buffer).clear = clear;
        buffer
    }
}

unsafe extern "C" fn free_buffer(buffer: *mut BufferFields) {
    // SAFETY: the mapping of `alloc_buffer`, which nobody uses any more.
    if let Err(error) = unsafe { munmap((*buffer).context, (*buffer).size) } {
        log::error!("a buffer was not freed: {error}");
    }
}

unsafe extern "C" fn init_tensor(_buffer: *mut BufferFields, tensor: Tensor) -> c_int {
    FOUND.with_borrow_mut(|found| {
        if let Some(found) = found {
            // SAFETY: ggml passes a live tensor.
            found.extend(unsafe { CacheTensor::new(tensor) });
        }
    });
    sys::GGML_STATUS_SUCCESS
}

unsafe extern "C" fn clear(buffer: *mut BufferFields, value: u8) {
    // SAFETY: ggml passes a live buffer of ours.
    let (data, size) = unsafe { ((*buffer).context.cast::<u8>(), (*buffer).size) };
    // SAFETY: the buffer's mapping, which begins with a page; nobody else uses a buffer that is being cleared.
    unsafe {
        let is_zero = value == 0 && madvise(data.cast(), size, Advice::LinuxDontNeed).is_ok();
        // Huge pages would fill up with the first cells of a sequence. A kernel without them refuses, which is as good.
        madvise(data.cast(), size, Advice::LinuxNoHugepage).unwrap_or(());
        if !is_zero {
            ptr::write_bytes(data, value, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::backend;
    use super::*;

    const MIB: usize = 1 << 20;

    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size()
    }

    #[test]
    fn a_cleared_buffer_takes_memory_only_where_it_is_written() {
        backend::init();
        // SAFETY: the buffer is live until it is freed.
        unsafe {
            let before = resident_bytes();
            let buffer = sys::ggml_backend_buft_alloc_buffer(sys::ggml_backend_cpu_buffer_type(), 1024 * MIB);
            sys::ggml_backend_buffer_clear(buffer, 0);
            let data = sys::ggml_backend_buffer_get_base(buffer).cast::<u8>();
            assert!(resident_bytes() < before + 512 * MIB);
            ptr::write_bytes(data, 1, 700 * MIB);
            assert!(resident_bytes() > before + 512 * MIB);
            let tensor = CacheTensor { data: data.add(100), sequence_bytes: 699 * MIB, num_sequences: 1 };
            tensor.give_back(0, 1);
            assert!(resident_bytes() < before + 512 * MIB);
            // The bytes beside the sequence stay.
            assert_eq!((*data, *data.add(100 + 350 * MIB), *data.add(700 * MIB - 1)), (1, 0, 1));
            sys::ggml_backend_buffer_clear(buffer, 0);
            assert_eq!((*data, *data.add(700 * MIB - 1)), (0, 0));
            sys::ggml_backend_buffer_free(buffer);
        }
    }
}
