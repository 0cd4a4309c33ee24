//! The tensor types of ggml, with the sizes that a file's layout follows from.

/// How values of one tensor type are packed. Source: ggml's `type_traits` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorType {
    /// ggml's name.
    pub name: &'static str,
    /// Number of values in a block; a row consists of whole blocks.
    pub block_values: u64,
    /// Size of a block in bytes.
    pub block_bytes: u64,
}

/// The meaning of a type number in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeNumber {
    /// A type that llama.cpp supports.
    Known(TensorType),
    /// A type that llama.cpp once supported.
    Removed,
    /// Not a type.
    Unknown,
}

impl TypeNumber {
    /// The meaning of `number`.
    pub(super) fn of(number: u32) -> Self {
        TYPES.get(number as usize).copied().unwrap_or(Self::Unknown)
    }
}

/// Numbers that are known, or once were.
pub(super) const NUM_TYPES: u32 = TYPES.len() as u32;

const fn of(name: &'static str, block_values: u64, block_bytes: u64) -> TypeNumber {
    TypeNumber::Known(TensorType { name, block_values, block_bytes })
}

const TYPES: [TypeNumber; 43] = [
    of("f32", 1, 4),
    of("f16", 1, 2),
    of("q4_0", 32, 18),
    of("q4_1", 32, 20),
    TypeNumber::Removed,
    TypeNumber::Removed,
    of("q5_0", 32, 22),
    of("q5_1", 32, 24),
    of("q8_0", 32, 34),
    of("q8_1", 32, 36),
    of("q2_K", 256, 84),
    of("q3_K", 256, 110),
    of("q4_K", 256, 144),
    of("q5_K", 256, 176),
    of("q6_K", 256, 210),
    of("q8_K", 256, 292),
    of("iq2_xxs", 256, 66),
    of("iq2_xs", 256, 74),
    of("iq3_xxs", 256, 98),
    of("iq1_s", 256, 50),
    of("iq4_nl", 32, 18),
    of("iq3_s", 256, 110),
    of("iq2_s", 256, 82),
    of("iq4_xs", 256, 136),
    of("i8", 1, 1),
    of("i16", 1, 2),
    of("i32", 1, 4),
    of("i64", 1, 8),
    of("f64", 1, 8),
    of("iq1_m", 256, 56),
    of("bf16", 1, 2),
    TypeNumber::Removed,
    TypeNumber::Removed,
    TypeNumber::Removed,
    of("tq1_0", 256, 54),
    of("tq2_0", 256, 66),
    TypeNumber::Removed,
    TypeNumber::Removed,
    TypeNumber::Removed,
    of("mxfp4", 32, 17),
    of("nvfp4", 64, 36),
    of("q1_0", 128, 18),
    of("q2_0", 64, 18),
];

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// Fails when a raised llama.cpp has other types than the table.
    #[test]
    #[expect(unsafe_code, reason = "asks ggml for the sizes that the table repeats")]
    fn the_table_is_that_of_the_linked_ggml() {
        assert_eq!(NUM_TYPES, llama_cpp_sys_2::GGML_TYPE_COUNT);
        for number in 0..NUM_TYPES {
            // SAFETY: these look up a constant table by a number below its length.
            let (values, bytes, name) = unsafe {
                (
                    llama_cpp_sys_2::ggml_blck_size(number),
                    llama_cpp_sys_2::ggml_type_size(number),
                    CStr::from_ptr(llama_cpp_sys_2::ggml_type_name(number)),
                )
            };
            match TypeNumber::of(number) {
                TypeNumber::Known(known) => {
                    assert_eq!((known.block_values, known.block_bytes), (values as u64, bytes as u64));
                    assert_eq!(known.name, name.to_str().unwrap());
                }
                TypeNumber::Removed => assert_eq!(bytes, 0, "type {number}"),
                TypeNumber::Unknown => unreachable!("numbers below the count"),
            }
        }
    }
}
