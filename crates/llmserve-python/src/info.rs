//! Converts snapshots of an engine to dicts of keyword arguments for `ModelInfo` and `Stats`.

use llmserve_engine::{DeviceKind, ModelInfo, SessionInfo, Stats};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A dict with the named fields of a struct.
macro_rules! dict {
    ($py:expr, $from:expr, [$($field:ident),* $(,)?]) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($field), &$from.$field)?;)*
        dict
    }};
}

pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(
        py,
        stats,
        [
            num_preparing,
            num_waiting,
            num_running,
            num_slots,
            num_cells,
            num_used_cells,
            num_running_cells,
            context_length,
            num_threads,
            parked_bytes,
            requests_accepted,
            requests_refused,
            requests_stopped,
            requests_length,
            requests_cancelled,
            requests_failed,
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            draft_tokens,
            accepted_tokens,
            drafts,
            draft_seconds,
            num_draft_users,
            preemptions,
            steps,
            rows,
            prefill_rows,
            decode_seconds,
            overhead_seconds,
            constraints,
            constraint_seconds,
            load_seconds,
        ]
    ))
}

pub(crate) fn model_info<'py>(py: Python<'py>, info: &ModelInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = dict!(
        py,
        info,
        [
            description,
            architecture,
            num_parameters,
            size_bytes,
            trained_context_length,
            context_length,
            num_cells,
            kv_bytes_per_token,
            num_slots,
            num_threads,
            backend,
            num_layers,
            num_gpu_layers,
            vocabulary_size,
            embedding_length,
            pooling,
            metadata,
            chat_template,
            chat_templates,
            bos_text,
            eos_text,
            special_tokens,
            infill_tokens,
            control_tokens,
            end_tokens,
            kv_type_k,
            kv_type_v,
            kv_layout,
            is_recurrent,
            has_draft_head,
            sliding_window,
            fingerprint,
        ]
    );
    dict.set_item("bos_token", info.bos_token.map(|token| token.0))?;
    dict.set_item("eos_token", info.eos_token.map(|token| token.0))?;
    Ok(dict)
}

pub(crate) fn session_info<'py>(py: Python<'py>, info: &SessionInfo) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(
        py,
        info,
        [
            version,
            writer,
            created_s,
            fingerprint,
            architecture,
            description,
            num_tokens,
            is_templated,
            num_state_tokens,
            state_bytes,
            state_layout,
            file_bytes,
        ]
    ))
}

/// ggml's backends with their devices: a list of dicts. The first call loads them.
#[pyfunction]
pub(crate) fn backends(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let found = py.detach(llmserve_engine::backends);
    found
        .iter()
        .map(|backend| {
            let dict = dict!(py, backend, [name, module, failure]);
            let devices = backend.devices.iter().map(|device| {
                let dict = dict!(py, device, [name, description, total_bytes, free_bytes]);
                dict.set_item("kind", kind_name(device.kind))?;
                Ok(dict)
            });
            dict.set_item("devices", devices.collect::<PyResult<Vec<_>>>()?)?;
            Ok(dict)
        })
        .collect()
}

fn kind_name(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cpu => "cpu",
        DeviceKind::Gpu => "gpu",
        DeviceKind::IntegratedGpu => "integrated_gpu",
        DeviceKind::Accelerator => "accelerator",
    }
}
