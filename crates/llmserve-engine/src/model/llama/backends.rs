//! The backends that ggml has, and those that it could not load.

use std::ffi::c_void;
use std::path::Path;

use llama_cpp_sys_2 as sys;

use super::devices::{described, text};
use super::{backend, shim};
use crate::types::Backend;

/// The backends that a static build may have, by feature.
const BUILT_IN: [(bool, &str); 3] = [
    (cfg!(feature = "cuda"), "CUDA"),
    (cfg!(feature = "metal"), "MTL"),
    (cfg!(feature = "vulkan"), "Vulkan"),
];

/// All backends of this build.
pub(crate) fn backends() -> Vec<Backend> {
    backend::init();
    let own = shim::library_of(std::ptr::null());
    // SAFETY: the backends are registered, and live for ever.
    let mut found: Vec<Backend> = unsafe {
        (0..sys::ggml_backend_reg_count())
            .map(|index| registered(sys::ggml_backend_reg_get(index), &own))
            .collect()
    };
    if cfg!(feature = "portable") {
        found.extend(unloaded_modules(&own, &found));
    } else {
        let is_missing = |name: &str| found.iter().all(|backend| backend.name != name);
        let missing: Vec<Backend> = BUILT_IN
            .into_iter()
            .filter(|(is_built, name)| *is_built && is_missing(name))
            .map(|(_, name)| failed(name, None, "it could not be initialised"))
            .collect();
        found.extend(missing);
    }
    found
}

/// # Safety
/// The backend is one of ggml's.
unsafe fn registered(backend: sys::ggml_backend_reg_t, own: &str) -> Backend {
    // SAFETY: the caller's promise.
    unsafe {
        let library = shim::library_of(backend.cast::<c_void>());
        Backend {
            name: text(sys::ggml_backend_reg_name(backend)),
            module: (library != own).then(|| file_name(&library)).flatten(),
            failure: None,
            devices: (0..sys::ggml_backend_reg_dev_count(backend))
                .map(|index| described(sys::ggml_backend_reg_dev_get(backend, index)))
                .collect(),
        }
    }
}

/// The modules beside this library that ggml has not loaded, other than those for other CPUs.
#[cfg(feature = "portable")]
fn unloaded_modules(own: &str, loaded: &[Backend]) -> Vec<Backend> {
    let Ok(files) = std::fs::read_dir(shim::modules_folder(own)) else { return Vec::new() };
    let mut modules: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    modules.sort();
    modules
        .iter()
        .filter_map(|path| {
            let file = file_name(path.to_str()?)?;
            let name = module_backend(&file)?;
            if loaded.iter().any(|backend| backend.module.as_ref() == Some(&file)) {
                return None;
            }
            let reason = shim::load_failure(path).unwrap_or_else(|| "it has no device".to_owned());
            Some(failed(&name, Some(file), &reason))
        })
        .collect()
}

#[cfg(not(feature = "portable"))]
fn unloaded_modules(_own: &str, _loaded: &[Backend]) -> Vec<Backend> {
    Vec::new()
}

/// The backend in a module, by its file's name; `None` for code of a CPU, and for other libraries.
#[cfg_attr(not(any(feature = "portable", test)), expect(dead_code, reason = "only wheels have modules"))]
fn module_backend(file: &str) -> Option<String> {
    let name = file.strip_prefix("libggml-")?.strip_suffix(".so")?;
    (!name.starts_with("cpu")).then(|| name.to_uppercase())
}

fn failed(name: &str, module: Option<String>, reason: &str) -> Backend {
    Backend { name: name.to_owned(), module, failure: Some(reason.to_owned()), devices: Vec::new() }
}

fn file_name(path: &str) -> Option<String> {
    Some(Path::new(path).file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DeviceKind;

    #[test]
    fn the_processor_is_a_device() {
        let found = backends();
        let devices: Vec<_> = found.iter().flat_map(|backend| &backend.devices).collect();
        let cpu = devices.iter().find(|device| device.kind == DeviceKind::Cpu);
        assert!(cpu.is_some_and(|cpu| cpu.total_bytes >= cpu.free_bytes && cpu.total_bytes > 0), "{found:?}");
    }

    #[test]
    fn modules_are_named_after_their_backend() {
        assert_eq!(module_backend("libggml-cuda.so").as_deref(), Some("CUDA"));
        assert_eq!(module_backend("libggml-cpu-haswell.so"), None);
        assert_eq!(module_backend("libllmserve-ggml-base.so"), None);
    }
}
