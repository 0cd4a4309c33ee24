#[derive(Debug, Clone)]
pub(crate) struct Acceptance;
impl Acceptance {
    pub(crate) fn record(&mut self, _d: usize, _a: usize) {}
}
