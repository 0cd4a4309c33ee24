//! Whose request is admitted next: tenants take turns by the tokens that they were served.
//!
//! These are the virtual token counters (VTC) of Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024:
//! the tenant with the least counter is next, and one that comes new starts with the least counter of those who wait,
//! so that nobody saves up turns. Within a tenant the order is that of arrival; with one tenant it is the only order.

use std::collections::VecDeque;

use crate::tenant::{Tenant, TenantId};

/// What a generated token costs, in tokens of a prompt: the paper's choice.
const OUTPUT_COST: u64 = 2;
/// Counters count in parts of a token, so that costs can be divided by weights.
const PARTS: u64 = 1 << 16;

/// What waits, by tenant. `T` is a waiting request.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    /// Tenants with requests, and those who are ahead of all who wait.
    lines: Vec<Line<T>>,
    /// The tenant that was admitted last, and its counter: where a tenant starts if nobody waits.
    last: (TenantId, u64),
}

/// The requests of a tenant.
#[derive(Debug)]
struct Line<T> {
    tenant: TenantId,
    /// What it was served, and what it was lifted by when it came.
    counter: u64,
    waiting: VecDeque<T>,
    /// How many at the front are passed over in this round.
    num_passed: usize,
    num_running: usize,
}

impl<T> FairQueue<T> {
    pub(crate) fn new() -> Self {
        Self { lines: Vec::new(), last: (TenantId::default(), 0) }
    }

    /// Number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(|line| line.waiting.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.waiting.is_empty())
    }

    /// Adds a new request behind the others of its tenant.
    pub(crate) fn push(&mut self, tenant: &TenantId, request: T) {
        self.begin_waiting(tenant);
        if let Some(line) = self.line_mut(tenant) {
            line.waiting.push_back(request);
        }
    }

    /// Puts a request that had to give way in front of the others of its tenant, who wait for the next round with it.
    pub(crate) fn put_back(&mut self, tenant: &TenantId, request: T) {
        self.begin_waiting(tenant);
        if let Some(line) = self.line_mut(tenant) {
            line.waiting.push_front(request);
            line.num_passed = usize::MAX;
        }
    }

    /// Begins a round of admissions, in which nobody has been passed over.
    pub(crate) fn begin_round(&mut self) {
        for line in &mut self.lines {
            line.num_passed = 0;
        }
    }

    /// The request whose turn it is.
    pub(crate) fn next(&self) -> Option<&T> {
        let line = self.lines.get(self.turn()?)?;
        line.waiting.get(line.num_passed)
    }

    /// Passes the next request over in this round.
    pub(crate) fn pass_over(&mut self) {
        if let Some(index) = self.turn() {
            self.lines[index].num_passed += 1;
        }
    }

    /// Takes the next request out: it runs.
    pub(crate) fn take(&mut self) -> Option<T> {
        let index = self.turn()?;
        let line = &mut self.lines[index];
        let request = line.waiting.remove(line.num_passed)?;
        line.num_running += 1;
        self.last = (line.tenant.clone(), line.counter);
        Some(request)
    }

    /// Takes the waiting requests out that nobody wants any more.
    pub(crate) fn remove_if(&mut self, is_unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for line in self.lines.iter_mut().filter(|line| line.waiting.iter().any(&is_unwanted)) {
            let (unwanted, wanted) = line.waiting.drain(..).partition::<VecDeque<T>, _>(&is_unwanted);
            removed.extend(unwanted);
            line.waiting = wanted;
        }
        removed
    }

    /// A running request of a tenant is over.
    pub(crate) fn note_end(&mut self, tenant: &TenantId) {
        if let Some(line) = self.line_mut(tenant) {
            line.num_running -= 1;
        }
    }

    /// Charges a tenant for tokens of a prompt.
    pub(crate) fn charge_prompt(&mut self, tenant: &Tenant, num_tokens: usize) {
        self.charge(tenant, num_tokens as u64);
    }

    /// Charges a tenant for generated tokens.
    pub(crate) fn charge_output(&mut self, tenant: &Tenant, num_tokens: usize) {
        self.charge(tenant, OUTPUT_COST * num_tokens as u64);
    }

    /// What a tenant was served, as it counts against others.
    pub(crate) fn served(&self, tenant: &TenantId) -> u64 {
        self.line(tenant).map_or(0, |line| line.counter)
    }

    /// How many requests of a tenant run.
    pub(crate) fn num_running(&self, tenant: &TenantId) -> usize {
        self.line(tenant).map_or(0, |line| line.num_running)
    }

    /// Whether a tenant lets the next request have the place of one of its own: it has several, the other's tenant has
    /// none, and was served no more.
    pub(crate) fn gives_way(&self, tenant: &TenantId) -> bool {
        let next = self.turn().map(|index| &self.lines[index]);
        next.zip(self.line(tenant)).is_some_and(|(next, own)| {
            next.num_running == 0 && own.num_running > 1 && own.counter >= next.counter
        })
    }

    fn charge(&mut self, tenant: &Tenant, cost: u64) {
        let Some(line) = self.line_mut(&tenant.id) else {
            return;
        };
        line.counter += cost * PARTS / u64::from(tenant.weight.get());
        let counter = line.counter;
        if self.last.0 == tenant.id {
            self.last.1 = counter;
        }
    }

    /// The line whose turn it is. At a tie, a tenant with fewer running requests goes first, and who was admitted last
    /// goes last.
    fn turn(&self) -> Option<usize> {
        let waiting = self.lines.iter().enumerate().filter(|(_, line)| line.waiting.len() > line.num_passed);
        waiting
            .min_by_key(|(_, line)| (line.counter, line.num_running, line.tenant == self.last.0))
            .map(|(index, _)| index)
    }

    /// Lifts the counter of a tenant that begins to wait.
    fn begin_waiting(&mut self, tenant: &TenantId) {
        if self.line(tenant).is_some_and(|line| !line.waiting.is_empty()) {
            return;
        }
        if self.lines.iter().all(Line::is_idle) {
            // Nobody was kept waiting, so there is nothing to make up for.
            self.lines.clear();
            self.last = (TenantId::default(), 0);
        }
        let waiting = self.lines.iter().filter(|line| !line.waiting.is_empty());
        let least = waiting.map(|line| line.counter).min().unwrap_or(self.last.1);
        // Others would start there again.
        self.lines.retain(|line| !line.is_idle() || line.counter > least);
        match self.line_mut(tenant) {
            Some(line) => line.counter = line.counter.max(least),
            None => self.lines.push(Line {
                tenant: tenant.clone(),
                counter: least,
                waiting: VecDeque::new(),
                num_passed: 0,
                num_running: 0,
            }),
        }
    }

    fn line(&self, tenant: &TenantId) -> Option<&Line<T>> {
        self.lines.iter().find(|line| line.tenant == *tenant)
    }

    fn line_mut(&mut self, tenant: &TenantId) -> Option<&mut Line<T>> {
        self.lines.iter_mut().find(|line| line.tenant == *tenant)
    }
}

impl<T> Line<T> {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.num_running == 0
    }
}

#[cfg(test)]
mod tests;
