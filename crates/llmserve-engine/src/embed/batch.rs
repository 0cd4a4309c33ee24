//! Chooses, from plain numbers, which inputs are computed together.

/// A request's remaining inputs, by their lengths in tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remaining<'a> {
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

/// Takes inputs in turn from all requests, so that a short one does not wait for the end of a long one.
/// Each request's inputs are taken in their order. The first input is taken whatever its length; a request
/// whose next one does not fit has its turn in the next batch.
pub(super) fn plan(requests: &[Remaining<'_>], max_rows: usize, max_inputs: usize) -> Vec<Pick> {
    let mut picks = Vec::new();
    let mut num_rows = 0;
    let mut next: Vec<Option<usize>> = requests.iter().map(|request| Some(request.next)).collect();
    while next.iter().any(Option::is_some) {
        for (request, (remaining, next)) in requests.iter().zip(&mut next).enumerate() {
            let Some((input, length)) = next.and_then(|input| Some((input, *remaining.lengths.get(input)?)))
            else {
                *next = None;
                continue;
            };
            let fits = num_rows + length <= max_rows && picks.len() < max_inputs;
            if !fits && !picks.is_empty() {
                *next = None;
                continue;
            }
            num_rows += length;
            picks.push(Pick { request, input });
            *next = Some(input + 1);
        }
    }
    picks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn planned(requests: &[&[usize]], max_rows: usize, max_inputs: usize) -> Vec<(usize, usize)> {
        let remaining: Vec<_> = requests.iter().map(|lengths| Remaining { next: 0, lengths }).collect();
        plan(&remaining, max_rows, max_inputs).iter().map(|pick| (pick.request, pick.input)).collect()
    }

    #[test]
    fn requests_take_turns() {
        let many = [2_usize; 9];
        assert_eq!(planned(&[&many, &[1], &[3, 3]], 12, 8), [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1)]);
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
        let lengths = [1, 2, 3];
        let picks = plan(&[Remaining { next: 2, lengths: &lengths }], 10, 8);
        assert_eq!(picks, [Pick { request: 0, input: 2 }]);
        assert_eq!(plan(&[Remaining { next: 3, lengths: &lengths }], 10, 8), []);
        assert_eq!(plan(&[], 10, 8), []);
    }

    proptest! {
        #[test]
        fn every_batch_keeps_the_limits_and_all_are_computed_once(
            requests in prop::collection::vec(prop::collection::vec(1_usize..30, 1..12), 1..6),
            max_rows in 1_usize..40,
            max_inputs in 1_usize..6,
        ) {
            let mut next = vec![0; requests.len()];
            let total: usize = requests.iter().map(Vec::len).sum();
            for _ in 0..total {
                let remaining: Vec<_> = requests
                    .iter()
                    .zip(&next)
                    .map(|(lengths, next)| Remaining { next: *next, lengths })
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
