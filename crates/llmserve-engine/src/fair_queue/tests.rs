use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

const MAX_PROMPT: usize = 40;
const MAX_OUTPUT: usize = 20;
const MAX_SLOTS: usize = 5;
const MAX_WEIGHT: u32 = 4;

#[derive(Debug, Clone)]
struct Job {
    tenant: Tenant,
    /// Its place among the jobs of its tenant.
    number: usize,
    prompt: usize,
    left: usize,
    has_run: bool,
}

/// An engine in which every running request gets a token in each step.
struct Engine {
    queue: FairQueue<Job>,
    running: Vec<Job>,
    num_slots: usize,
    /// How many jobs of each tenant came, and how many were admitted.
    num_came: [usize; 4],
    num_admitted: [usize; 4],
    /// Tokens that each tenant was served, by what they cost.
    served: [u64; 4],
}

fn tenant(index: usize) -> Tenant {
    Tenant::new(&index.to_string())
}

fn index(tenant: &Tenant) -> usize {
    tenant.id.0.parse().unwrap()
}

impl Engine {
    fn new(num_slots: usize) -> Self {
        Self {
            queue: FairQueue::new(),
            running: Vec::new(),
            num_slots,
            num_came: [0; 4],
            num_admitted: [0; 4],
            served: [0; 4],
        }
    }

    fn submit(&mut self, tenant: Tenant, prompt: usize, output: usize) {
        let number = self.num_came[index(&tenant)];
        self.num_came[index(&tenant)] += 1;
        let id = tenant.id.clone();
        self.queue.push(&id, Job { tenant, number, prompt, left: output, has_run: false });
    }

    fn step(&mut self) {
        self.admit();
        for job in &mut self.running {
            self.queue.charge_output(&job.tenant, 1);
            self.served[index(&job.tenant)] += OUTPUT_COST;
            job.left -= 1;
        }
        for job in self.running.extract_if(.., |job| job.left == 0) {
            self.queue.note_end(&job.tenant.id);
        }
    }

    fn admit(&mut self) {
        self.queue.begin_round();
        while self.queue.next().is_some() {
            if self.running.len() == self.num_slots {
                let youngest = self.running.iter().rposition(|job| self.queue.gives_way(&job.tenant.id));
                let Some(youngest) = youngest else { return };
                let job = self.running.remove(youngest);
                self.queue.note_end(&job.tenant.id);
                let id = job.tenant.id.clone();
                self.queue.put_back(&id, job);
            }
            let mut job = self.queue.take().unwrap();
            if !job.has_run {
                assert_eq!(job.number, self.num_admitted[index(&job.tenant)], "a tenant's own order");
                self.num_admitted[index(&job.tenant)] += 1;
                self.queue.charge_prompt(&job.tenant, job.prompt);
                self.served[index(&job.tenant)] += job.prompt as u64;
                job.has_run = true;
            }
            self.running.push(job);
        }
    }

    fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.queue.is_empty()
    }

    fn is_waiting(&self, tenant: &Tenant) -> bool {
        self.queue.line(&tenant.id).is_some_and(|line| !line.waiting.is_empty())
    }

    /// The counters of those who wait.
    fn waiting_counters(&self) -> Vec<u64> {
        let waiting = self.queue.lines.iter().filter(|line| !line.waiting.is_empty());
        waiting.map(|line| line.counter).collect()
    }
}

/// What a tenant can be served between two turns: a prompt, and what its running requests generate.
fn bound(num_slots: usize) -> u64 {
    (MAX_PROMPT as u64 + OUTPUT_COST * (num_slots * MAX_OUTPUT) as u64) * PARTS
}

fn weighted(index: usize, weight: u32) -> Tenant {
    Tenant { weight: NonZeroU32::new(weight).unwrap(), ..tenant(index) }
}

prop_compose! {
    /// What comes before a step: a tenant's requests, of a prompt and an output each.
    fn arrivals()(
        tenant in 0_usize..4,
        jobs in prop::collection::vec((1..=MAX_PROMPT, 1..=MAX_OUTPUT), 0..6),
    ) -> (usize, Vec<(usize, usize)>) {
        (tenant, jobs)
    }
}

proptest! {
    #[test]
    fn nobody_who_waits_falls_behind_and_no_slot_is_left_empty(
        steps in prop::collection::vec(arrivals(), 1..60),
        num_slots in 1..=MAX_SLOTS,
        weights in prop::array::uniform4(1..=MAX_WEIGHT),
    ) {
        let mut engine = Engine::new(num_slots);
        let mut steps = steps.into_iter();
        loop {
            let next = steps.next();
            if next.is_none() && !engine.has_work() {
                break;
            }
            if let Some((index, jobs)) = next {
                for (prompt, output) in jobs {
                    engine.submit(weighted(index, weights[index]), prompt, output);
                }
            }
            engine.admit();
            prop_assert!(engine.running.len() == num_slots || engine.queue.is_empty());
            let served = engine.waiting_counters();
            let (least, most) = (served.iter().min(), served.iter().max());
            prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= bound(num_slots)));
            prop_assert!(!engine.running.iter().any(|job| engine.queue.gives_way(&job.tenant.id)));
            engine.step();
            for (index, weight) in weights.into_iter().enumerate() {
                let tenant = weighted(index, weight);
                let num_running = engine.running.iter().filter(|job| job.tenant == tenant).count();
                prop_assert_eq!(engine.queue.num_running(&tenant.id), num_running);
            }
        }
        prop_assert_eq!(engine.num_admitted, engine.num_came);
    }

    #[test]
    fn floods_share_by_weight(
        sizes in prop::array::uniform2((1..=MAX_PROMPT, 1..=MAX_OUTPUT)),
        num_slots in 1..=MAX_SLOTS,
        weight in 1..=MAX_WEIGHT,
    ) {
        let mut engine = Engine::new(num_slots);
        let tenants = [weighted(0, weight), weighted(1, 1)];
        for (tenant, (prompt, output)) in tenants.iter().zip(sizes) {
            for _ in 0..1000 {
                engine.submit(tenant.clone(), prompt, output);
            }
        }
        while tenants.iter().all(|tenant| engine.is_waiting(tenant)) {
            engine.step();
            let shares = engine.served[0] / u64::from(weight);
            prop_assert!(shares.abs_diff(engine.served[1]) <= bound(num_slots) / PARTS);
        }
    }

    #[test]
    fn with_one_tenant_the_order_is_that_of_arrival(passed in prop::collection::vec(any::<bool>(), 1..30)) {
        let mut queue = FairQueue::new();
        let tenant = Tenant::default();
        let arrived = 0..passed.len();
        for number in arrived.clone() {
            queue.push(&tenant.id, number);
        }
        queue.begin_round();
        let mut taken = Vec::new();
        for is_passed in &passed {
            if *is_passed {
                queue.pass_over();
            } else {
                taken.extend(queue.take());
                queue.charge_prompt(&tenant, 10);
            }
        }
        prop_assert!(queue.next().is_none());
        let expected: Vec<usize> = arrived.clone().filter(|&number| !passed[number]).collect();
        prop_assert_eq!(&taken, &expected);
        queue.begin_round();
        let rest: Vec<usize> = std::iter::from_fn(|| queue.take()).collect();
        let expected: Vec<usize> = arrived.filter(|&number| passed[number]).collect();
        prop_assert_eq!(rest, expected);
    }
}

#[test]
fn a_newcomer_goes_before_a_flood_but_saves_no_turns_up() {
    let mut engine = Engine::new(1);
    for _ in 0..100 {
        engine.submit(tenant(0), 10, 5);
    }
    for _ in 0..50 {
        engine.step();
    }
    for _ in 0..100 {
        engine.submit(tenant(1), 10, 5);
    }
    let before = engine.served;
    for _ in 0..5 {
        engine.step();
    }
    assert!(engine.served[1] > before[1], "the first turn is the newcomer's");
    for _ in 0..200 {
        engine.step();
    }
    let (flood, newcomer) = (engine.served[0] - before[0], engine.served[1] - before[1]);
    assert!(flood.abs_diff(newcomer) <= bound(1) / PARTS, "{flood} {newcomer}");
}

#[test]
fn the_slots_of_a_flood_give_way_to_a_newcomer_at_once() {
    let mut engine = Engine::new(4);
    for _ in 0..20 {
        engine.submit(tenant(0), 10, 20);
    }
    engine.step();
    engine.submit(tenant(1), 10, 20);
    engine.submit(tenant(1), 10, 20);
    engine.step();
    let running: Vec<usize> = engine.running.iter().map(|job| index(&job.tenant)).collect();
    // Its second request waits for a turn.
    assert_eq!(running, [0, 0, 0, 1]);
    // The one that gave way is the flood's next.
    assert_eq!(engine.queue.line(&tenant(0).id).unwrap().waiting[0].number, 3);
}

#[test]
fn those_who_are_gone_are_forgotten() {
    let mut engine = Engine::new(2);
    for _ in 0..300 {
        engine.submit(tenant(0), 10, 5);
    }
    for number in 0..100 {
        let id = TenantId(format!("1{number}").as_str().into());
        engine.queue.push(&id, Job { tenant: tenant(1), number: 0, prompt: 1, left: 1, has_run: true });
        engine.queue.remove_if(|job| job.has_run);
        engine.step();
    }
    assert!(engine.queue.lines.len() < 5, "{} lines", engine.queue.lines.len());
}

#[test]
fn what_nobody_wants_any_more_is_taken_out() {
    let mut queue = FairQueue::new();
    for number in 0..6 {
        queue.push(&tenant(number % 2).id, number);
    }
    assert_eq!(queue.remove_if(|number| number % 3 == 0), [0, 3]);
    assert_eq!(queue.len(), 4);
    queue.begin_round();
    let rest: Vec<usize> = std::iter::from_fn(|| queue.take()).collect();
    assert_eq!(rest, [2, 1, 4, 5]);
}
