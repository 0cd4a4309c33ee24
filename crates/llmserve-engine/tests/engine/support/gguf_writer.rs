//! Writes small GGUF files and tells where each field of the header lies.

/// A value of a key.
#[derive(Clone, Debug)]
pub enum Meta {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(String),
    U64(u64),
    I64(i64),
    F64(f64),
    Strs(Vec<String>),
    F32s(Vec<f32>),
    I32s(Vec<i32>),
    U32s(Vec<u32>),
    Bools(Vec<bool>),
    /// An array of arrays, which the format knows and llama.cpp does not.
    Nested,
}

pub fn text(value: &str) -> Meta {
    Meta::Str(value.to_owned())
}

/// A tensor whose data are zeros.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub name: String,
    pub dimensions: Vec<u64>,
    pub kind: u32,
}

impl Tensor {
    pub fn new(name: &str, dimensions: &[u64], kind: u32) -> Self {
        Self { name: name.to_owned(), dimensions: dimensions.to_vec(), kind }
    }

    fn data_bytes(&self) -> usize {
        let (values, bytes) = match self.kind {
            0 | 26 => (1, 4),
            1 => (1, 2),
            2 => (32, 18),
            other => unreachable!("type {other} is not written by these tests"),
        };
        self.dimensions.iter().product::<u64>() as usize / values * bytes
    }
}

/// What a stretch of the header means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Magic,
    Version,
    TensorCount,
    PairCount,
    KeyLength,
    ValueType,
    TextLength,
    ElementType,
    ArrayLength,
    NameLength,
    DimensionCount,
    Dimension,
    TensorType,
    Offset,
}

/// A written file.
pub struct Image {
    pub bytes: Vec<u8>,
    /// Field, start and width in bytes.
    pub fields: Vec<(Field, usize, usize)>,
    /// Where the data of the last tensor end.
    pub data_end: usize,
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct Gguf {
    pub pairs: Vec<(String, Meta)>,
    pub tensors: Vec<Tensor>,
    pub alignment: usize,
}

impl Gguf {
    /// A model of the architecture `llama` in all that a header shows.
    pub fn model() -> Self {
        let pairs = [
            ("general.architecture", text("llama")),
            ("general.type", text("model")),
            ("general.alignment", Meta::U32(32)),
            ("llama.block_count", Meta::U32(1)),
            ("llama.context_length", Meta::U32(64)),
            ("llama.embedding_length", Meta::U32(32)),
            ("llama.feed_forward_length", Meta::U32s(vec![64])),
            ("llama.attention.head_count", Meta::U32(2)),
            ("llama.attention.head_count_kv", Meta::I32s(vec![1])),
            ("llama.attention.layer_norm_rms_epsilon", Meta::F32(1e-5)),
            ("llama.rope.dimension_count", Meta::U32(16)),
            ("llama.expert_count", Meta::U32(0)),
            ("tokenizer.ggml.model", text("llama")),
            ("tokenizer.ggml.tokens", Meta::Strs(["<unk>", "<s>", "</s>", "a", ""].map(String::from).into())),
            ("tokenizer.ggml.scores", Meta::F32s(vec![0.0; 5])),
            ("tokenizer.ggml.token_type", Meta::I32s(vec![2, 3, 3, 1, 1])),
            ("tokenizer.ggml.bos_token_id", Meta::U32(1)),
            ("tokenizer.ggml.eos_token_id", Meta::U32(2)),
            ("tokenizer.ggml.add_bos_token", Meta::Bool(true)),
            ("test.u8", Meta::U8(1)),
            ("test.i8", Meta::I8(-1)),
            ("test.u16", Meta::U16(1)),
            ("test.i16", Meta::I16(-1)),
            ("test.i32", Meta::I32(-1)),
            ("test.u64", Meta::U64(1)),
            ("test.i64", Meta::I64(-1)),
            ("test.f64", Meta::F64(0.5)),
            ("test.bools", Meta::Bools(vec![true, false])),
        ];
        let tensors = vec![
            Tensor::new("token_embd.weight", &[32, 5], 0),
            Tensor::new("blk.0.attn_norm.weight", &[32], 0),
            Tensor::new("blk.0.attn_q.weight", &[32, 32], 2),
            Tensor::new("blk.0.ffn_up.weight", &[32, 64, 1, 1], 2),
            Tensor::new("output_norm.weight", &[32], 0),
        ];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value)).into();
        Self { pairs, tensors, alignment: 32 }
    }

    /// The file with another value under a key, or with a new pair.
    pub fn with(mut self, key: &str, value: Meta) -> Self {
        match self.pairs.iter_mut().find(|(known, _)| known == key) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((key.to_owned(), value)),
        }
        self
    }

    /// Without a key.
    pub fn without(mut self, key: &str) -> Self {
        self.pairs.retain(|(known, _)| known != key);
        self
    }

    pub fn write(&self) -> Image {
        let mut writer = Writer::default();
        writer.field(Field::Magic, b"GGUF");
        writer.field(Field::Version, &3_u32.to_le_bytes());
        writer.field(Field::TensorCount, &(self.tensors.len() as u64).to_le_bytes());
        writer.field(Field::PairCount, &(self.pairs.len() as u64).to_le_bytes());
        for (key, value) in &self.pairs {
            writer.text(Field::KeyLength, key);
            writer.value(value);
        }
        let mut offset = 0_usize;
        for tensor in &self.tensors {
            writer.tensor(tensor, offset as u64);
            offset = (offset + tensor.data_bytes()).next_multiple_of(self.alignment);
        }
        let mut data_end = writer.bytes.len();
        for tensor in &self.tensors {
            let start = writer.bytes.len().next_multiple_of(self.alignment);
            data_end = start + tensor.data_bytes();
            writer.bytes.resize(data_end, 0);
        }
        let end = data_end.next_multiple_of(self.alignment);
        writer.bytes.resize(end, 0);
        Image { bytes: writer.bytes, fields: writer.fields, data_end }
    }
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    fields: Vec<(Field, usize, usize)>,
}

impl Writer {
    fn field(&mut self, field: Field, bytes: &[u8]) {
        self.fields.push((field, self.bytes.len(), bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    fn text(&mut self, length: Field, text: &str) {
        self.field(length, &(text.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn tensor(&mut self, tensor: &Tensor, offset: u64) {
        self.text(Field::NameLength, &tensor.name);
        self.field(Field::DimensionCount, &(tensor.dimensions.len() as u32).to_le_bytes());
        for size in &tensor.dimensions {
            self.field(Field::Dimension, &size.to_le_bytes());
        }
        self.field(Field::TensorType, &tensor.kind.to_le_bytes());
        self.field(Field::Offset, &offset.to_le_bytes());
    }

    fn value(&mut self, value: &Meta) {
        match value {
            Meta::U8(value) => self.scalar(0, &value.to_le_bytes()),
            Meta::I8(value) => self.scalar(1, &value.to_le_bytes()),
            Meta::U16(value) => self.scalar(2, &value.to_le_bytes()),
            Meta::I16(value) => self.scalar(3, &value.to_le_bytes()),
            Meta::U32(value) => self.scalar(4, &value.to_le_bytes()),
            Meta::I32(value) => self.scalar(5, &value.to_le_bytes()),
            Meta::F32(value) => self.scalar(6, &value.to_le_bytes()),
            Meta::Bool(value) => self.scalar(7, &[u8::from(*value)]),
            Meta::Str(value) => {
                self.scalar(8, &[]);
                self.text(Field::TextLength, value);
            }
            Meta::U64(value) => self.scalar(10, &value.to_le_bytes()),
            Meta::I64(value) => self.scalar(11, &value.to_le_bytes()),
            Meta::F64(value) => self.scalar(12, &value.to_le_bytes()),
            Meta::Strs(values) => {
                self.array(8, values.len());
                for value in values {
                    self.text(Field::TextLength, value);
                }
            }
            Meta::F32s(values) => self.numbers(6, values.iter().map(|value| value.to_le_bytes().to_vec())),
            Meta::I32s(values) => self.numbers(5, values.iter().map(|value| value.to_le_bytes().to_vec())),
            Meta::U32s(values) => self.numbers(4, values.iter().map(|value| value.to_le_bytes().to_vec())),
            Meta::Bools(values) => self.numbers(7, values.iter().map(|value| vec![u8::from(*value)])),
            Meta::Nested => {
                self.array(9, 1);
                self.bytes.extend_from_slice(&4_u32.to_le_bytes());
                self.bytes.extend_from_slice(&0_u64.to_le_bytes());
            }
        }
    }

    fn scalar(&mut self, kind: u32, bytes: &[u8]) {
        self.field(Field::ValueType, &kind.to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    fn array(&mut self, element: u32, length: usize) {
        self.field(Field::ValueType, &9_u32.to_le_bytes());
        self.field(Field::ElementType, &element.to_le_bytes());
        self.field(Field::ArrayLength, &(length as u64).to_le_bytes());
    }

    fn numbers(&mut self, element: u32, values: impl ExactSizeIterator<Item = Vec<u8>>) {
        self.array(element, values.len());
        values.for_each(|bytes| self.bytes.extend_from_slice(&bytes));
    }
}
