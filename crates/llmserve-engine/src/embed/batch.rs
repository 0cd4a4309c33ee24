//! Chooses, from plain numbers, which inputs are computed together.

use std::collections::VecDeque;

use crate::tenant::TenantId;

/// A request's remaining inputs, by their lengths in tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remaining<'a> {
    /// Whose it is.
    pub(super) tenant: &'a TenantId,
    /// The first remaining input.
    pub(super) next: usize,
    /// Lengths of all inputs, done ones included.
    pub(super) lengths: &'a [usize],
}

/// An input that is taken: whose it is, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) request: usize,
    pub(super) input: usize,
}

/// Takes inputs in turn from all tenants, and within a tenant from all its requests, so that a short one does not
/// wait for the end of a long one. Each request's inputs are taken in their order. The first input is taken whatever
/// its length; a request whose next one does not fit has its turn in the next batch.
pub(super) fn plan(requests: &[Remaining<'_>], max_rows: usize, max_inputs: usize) -> Vec<Pick> {
    let mut picks = Vec::new();
    let mut num_rows = 0;
    let mut turns = turns(requests);
    while let Some(mut own) = turns.pop_front() {
        while let Some(Pick { request, input }) = own.pop_front() {
            let Some(length) = requests[request].lengths.get(input) else {
                continue;
            };
            let fits = num_rows + length <= max_rows && picks.len() < max_inputs;
            if fits || picks.is_empty() {
                num_rows += length;
                picks.push(Pick { request, input });
                own.push_back(Pick { request, input: input + 1 });
                turns.push_back(own);
                break;
            }
        }
    }
    picks
}

/// The next input of each request, by tenant, in the order of the requests.
fn turns(requests: &[Remaining<'_>]) -> VecDeque<VecDeque<Pick>> {
    let mut tenants: Vec<&TenantId> = Vec::new();
    let mut turns: VecDeque<VecDeque<Pick>> = VecDeque::new();
    for (request, remaining) in requests.iter().enumerate() {
        let known = tenants.iter().position(|tenant| *tenant == remaining.tenant);
        let index = known.unwrap_or_else(|| {
            tenants.push(remaining.tenant);
            turns.push_back(VecDeque::new());
            tenants.len() - 1
        });
        turns[index].push_back(Pick { request, input: remaining.next });
    }
    turns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tenant::Tenant;

    fn planned(requests: &[&[usize]], max_rows: usize, max_inputs: usize) -> Vec<(usize, usize)> {
        let named: Vec<_> = requests.iter().map(|lengths| ("", *lengths)).collect();
        planned_of(&named, max_rows, max_inputs)
    }

    fn planned_of(requests: &[(&str, &[usize])], max_rows: usize, max_inputs: usize) -> Vec<(usize, usize)> {
        let tenants: Vec<Tenant> = requests.iter().map(|(tenant, _)| Tenant::new(tenant)).collect();
        let remaining: Vec<_> = requests
            .iter()
            .zip(&tenants)
            .map(|((_, lengths), tenant)| Remaining { tenant: &tenant.id, next: 0, lengths })
            .collect();
        plan(&remaining, max_rows, max_inputs).iter().map(|pick| (pick.request, pick.input)).collect()
    }

    #[test]
    fn requests_take_turns() {
        let many = [2_usize; 9];
        assert_eq!(planned(&[&many, &[1], &[3, 3]], 12, 8), [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1)]);
    }

    #[test]
    fn tenants_take_turns_however_many_requests_they_have() {
        let flood: (&str, &[usize]) = ("flood", &[1, 1]);
        let requests = [flood, flood, flood, ("newcomer", &[1, 1, 1])];
        assert_eq!(planned_of(&requests, 100, 6), [(0, 0), (3, 0), (1, 0), (3, 1), (2, 0), (3, 2)]);
    }

    #[test]
    fn a_batch_is_bounded_by_inputs_too() {
        assert_eq!(planned(&[&[1; 9], &[1; 9]], 100, 3), [(0, 0), (1, 0), (0, 1)]);
    }

    #[test]
    fn an_input_beyond_the_rows_is_computed_alone() {
        assert_eq!(planned(&[&[50, 1], &[1]], 10, 8), [(0, 0)]);
        // And only as the first input: others continue meanwhile.
        assert_eq!(planned(&[&[1, 50, 1], &[1, 1]], 10, 8), [(0, 0), (1, 0), (1, 1)]);
    }

    #[test]
    fn what_is_done_is_left_out() {
        let (lengths, tenant) = ([1, 2, 3], TenantId::default());
        let left = |next| [Remaining { tenant: &tenant, next, lengths: &lengths }];
        let picks = plan(&left(2), 10, 8);
        assert_eq!(picks, [Pick { request: 0, input: 2 }]);
        assert_eq!(plan(&left(3), 10, 8), []);
        assert_eq!(plan(&[], 10, 8), []);
    }

    proptest! {
        #[test]
        fn every_batch_keeps_the_limits_and_all_are_computed_once(
            requests in prop::collection::vec(prop::collection::vec(1_usize..30, 1..12), 1..6),
            num_tenants in 1_usize..4,
            max_rows in 1_usize..40,
            max_inputs in 1_usize..6,
        ) {
            let mut next = vec![0; requests.len()];
            let total: usize = requests.iter().map(Vec::len).sum();
            let tenants: Vec<Tenant> =
                (0..requests.len()).map(|index| Tenant::new(&(index % num_tenants).to_string())).collect();
            for _ in 0..total {
                let remaining: Vec<_> = requests
                    .iter()
                    .zip(&next)
                    .zip(&tenants)
                    .map(|((lengths, next), tenant)| Remaining { tenant: &tenant.id, next: *next, lengths })
                    .collect();
                let picks = plan(&remaining, max_rows, max_inputs);
                if picks.is_empty() {
                    break;
                }
                let rows: usize = picks.iter().map(|pick| requests[pick.request][pick.input]).sum();
                prop_assert!(rows <= max_rows || picks.len() == 1);
                prop_assert!(picks.len() <= max_inputs);
                for pick in picks {
                    prop_assert_eq!(pick.input, next[pick.request]);
                    next[pick.request] += 1;
                }
            }
            prop_assert_eq!(next, requests.iter().map(Vec::len).collect::<Vec<_>>());
        }
    }
}
