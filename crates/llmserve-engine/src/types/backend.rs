//! What computes: ggml's backends and their devices.

/// A backend of ggml that this build has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// ggml's name, such as `CPU`, `CUDA` or `Vulkan`.
    pub name: String,
    /// The file it was loaded from; `None` if it is part of this library.
    pub module: Option<String>,
    /// Why it cannot be used, where that is known.
    pub failure: Option<String>,
    /// Its devices. A backend may have none, as without a driver.
    pub devices: Vec<Device>,
}

/// A device that a backend computes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// ggml's name, such as `CUDA0`.
    pub name: String,
    /// The maker's name, such as `NVIDIA H200`.
    pub description: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its memory in bytes; the machine's where it has none of its own.
    pub total_bytes: u64,
    /// Memory that nobody uses, in bytes.
    pub free_bytes: u64,
}

/// Kinds of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// The machine's processors.
    Cpu,
    /// A GPU with memory of its own.
    Gpu,
    /// A GPU that uses the machine's memory.
    IntegratedGpu,
    /// Computes some operations beside the processors, such as BLAS.
    Accelerator,
}
