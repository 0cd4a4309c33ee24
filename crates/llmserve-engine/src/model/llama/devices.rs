//! The devices that llama.cpp would use, and the options that ask for others in vain.

use std::ffi::{CStr, c_char};

use llama_cpp_sys_2 as sys;

use super::backend;
use crate::config::WeightsConfig;
use crate::types::{Device, DeviceKind};

/// The GPUs of this machine in llama.cpp's order. Integrated ones count only if there are no others, as in
/// llama.cpp.
pub(crate) fn gpus() -> Vec<Device> {
    backend::init();
    // SAFETY: the backends are registered; devices live for ever.
    let devices: Vec<Device> = unsafe {
        (0..sys::ggml_backend_dev_count()).map(|index| described(sys::ggml_backend_dev_get(index))).collect()
    };
    let of = |kind| devices.iter().filter(|device| device.kind == kind).cloned().collect::<Vec<_>>();
    let discrete = of(DeviceKind::Gpu);
    if discrete.is_empty() { of(DeviceKind::IntegratedGpu) } else { discrete }
}

/// ggml's and the maker's name, such as `CUDA0 (NVIDIA H200)`.
pub(super) fn full_name(device: &Device) -> String {
    format!("{} ({})", device.name, device.description)
}

/// # Safety
/// The device is one of ggml's.
pub(super) unsafe fn described(device: sys::ggml_backend_dev_t) -> Device {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the caller's promise.
    unsafe {
        sys::ggml_backend_dev_memory(device, &raw mut free, &raw mut total);
        Device {
            name: text(sys::ggml_backend_dev_name(device)),
            description: text(sys::ggml_backend_dev_description(device)),
            kind: match sys::ggml_backend_dev_type(device) {
                sys::GGML_BACKEND_DEVICE_TYPE_CPU => DeviceKind::Cpu,
                sys::GGML_BACKEND_DEVICE_TYPE_GPU => DeviceKind::Gpu,
                sys::GGML_BACKEND_DEVICE_TYPE_IGPU => DeviceKind::IntegratedGpu,
                _ => DeviceKind::Accelerator,
            },
            total_bytes: total as u64,
            free_bytes: free as u64,
        }
    }
}

/// # Safety
/// The text is terminated.
pub(super) unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Describes, for the log, options that ask for GPUs which do not exist.
pub(crate) fn unmet(config: &WeightsConfig, num_gpus: usize) -> Vec<String> {
    let mut unmet = Vec::new();
    if num_gpus == 0 {
        let none = "has no effect: this build has no GPU backend, or the machine has no GPU that it can use";
        if let Some(layers @ 1..) = config.gpu_layers {
            unmet.push(format!("gpu_layers ({layers}) {none}"));
        }
        if config.main_gpu > 0 {
            unmet.push(format!("main_gpu ({}) {none}", config.main_gpu));
        }
        if !config.tensor_split.is_empty() {
            unmet.push(format!("tensor_split {none}"));
        }
    } else if config.main_gpu as usize >= num_gpus {
        unmet.push(format!("main_gpu ({}) has no effect: there are {num_gpus} GPUs", config.main_gpu));
    }
    unmet
}

/// Layers that are computed on GPUs, including the output layer, as llama.cpp counts (`load_tensors`).
pub(crate) fn num_gpu_layers(wanted: Option<u32>, num_layers: u32, num_gpus: usize) -> u32 {
    let all = num_layers + 1;
    if num_gpus == 0 { 0 } else { wanted.map_or(all, |layers| layers.min(all)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_gpus_in_vain_is_told() {
        let plain = WeightsConfig::default();
        assert!(unmet(&plain, 0).is_empty());
        assert!(unmet(&WeightsConfig { gpu_layers: Some(0), ..plain.clone() }, 0).is_empty());
        let layers = WeightsConfig { gpu_layers: Some(99), ..plain.clone() };
        assert!(unmet(&layers, 0)[0].starts_with("gpu_layers (99) has no effect"));
        assert!(unmet(&layers, 1).is_empty());
        let other = WeightsConfig { main_gpu: 3, ..plain };
        assert!(unmet(&other, 0)[0].starts_with("main_gpu (3) has no effect"));
        assert_eq!(unmet(&other, 2), ["main_gpu (3) has no effect: there are 2 GPUs"]);
        assert!(unmet(&other, 4).is_empty());
    }

    #[test]
    fn layers_are_counted_as_llama_cpp_does() {
        assert_eq!(num_gpu_layers(Some(99), 32, 0), 0);
        assert_eq!(num_gpu_layers(Some(99), 32, 1), 33);
        assert_eq!(num_gpu_layers(Some(7), 32, 1), 7);
        assert_eq!(num_gpu_layers(None, 32, 2), 33);
    }
}
