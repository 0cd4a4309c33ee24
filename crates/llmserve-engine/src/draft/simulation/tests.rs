use super::*;

/// Throughput as a ratio.
#[derive(Debug, Clone, Copy)]
struct Ratios {
    /// The best of the fixed lengths, and what it gives beside no drafts.
    best_len: usize,
    gain: f64,
    /// The controller beside no drafts: in the first 400 tokens of each sequence of a new engine, and later.
    cold: f64,
    to_off: f64,
    /// Later, beside the best fixed length.
    to_best: f64,
}

fn measure(scenario: Scenario, longest_fixed: usize) -> Ratios {
    let most = scenario.counts.iter().max().copied().unwrap_or(1);
    let cycle: usize = scenario.counts.iter().sum::<usize>() * PHASE_TOKENS;
    let tokens = (8_000 + 4_000 * most).next_multiple_of(cycle);
    let fixed: Vec<f64> = (0..=longest_fixed)
        .map(|len| Simulation::new(scenario, Policy::Fixed(len)).run(tokens).rate())
        .collect();
    let best_len = (0..fixed.len()).max_by(|&a, &b| fixed[a].total_cmp(&fixed[b])).unwrap_or(0);
    let mut adaptive = Simulation::new(scenario, Policy::Adaptive);
    let cold = adaptive.run((400 * most).next_multiple_of(cycle)).rate();
    adaptive.run(1600 * most);
    let warm = adaptive.run(tokens).rate();
    Ratios {
        best_len,
        gain: fixed[best_len] / fixed[0],
        cold: cold / fixed[0],
        to_off: warm / fixed[0],
        to_best: warm / fixed[best_len],
    }
}

/// Measures and prints: `cargo test ... simulation -- --nocapture`.
fn report(name: &str, scenario: Scenario) -> Ratios {
    let ratios = measure(scenario, scenario.max);
    let Ratios { best_len, gain, cold, to_off, to_best } = ratios;
    let Scenario { machine, text, counts, .. } = scenario;
    let counts = if counts.len() > 4 { "1 to 16".to_owned() } else { format!("{counts:?}") };
    println!(
        "{name:<11} {:<10} {:<26} {counts:<13} best fixed {best_len} x{gain:.2} | cold {cold:.3} | off {to_off:.3} | best {to_best:.3}",
        format!("{machine:?}"),
        format!("{text:?}"),
    );
    ratios
}

/// The same beside no drafts only, which is a fraction of the work.
fn report_off(name: &str, scenario: Scenario) -> f64 {
    let Ratios { cold, to_off, .. } = measure(scenario, 0);
    println!("{name:<11} {scenario:?} | cold {cold:.3} | off {to_off:.3}");
    to_off
}

#[test]
fn steady_texts_come_near_the_best_length_and_cost_nothing_where_there_is_none() {
    let mut to_best = Vec::new();
    for machine in MACHINES {
        for counts in [&[1][..], &[2], &[4], &[8], &[16]] {
            for rate in [0.0, 0.3, 0.6, 0.8, 0.95] {
                let scenario = Scenario::new(machine, Text::Steady(rate), counts);
                let ratios = report("steady", scenario);
                assert!(ratios.to_off >= 0.98 && ratios.cold >= 0.9, "{scenario:?}: {ratios:?}");
                // Other seeds than this one give 0.93 to 0.96 as the least.
                assert!(ratios.to_best >= 0.92, "{scenario:?}: {ratios:?}");
                to_best.push(ratios.to_best);
            }
        }
    }
    let mean = to_best.iter().sum::<f64>() / to_best.len() as f64;
    assert!(mean >= 0.985, "{mean}");
}

#[test]
fn texts_that_change_or_differ_cost_nothing() {
    let texts = [
        Text::Drifting([0.9, 0.05], 40),
        Text::Drifting([0.9, 0.05], 100),
        Text::Drifting([0.9, 0.05], 200),
        Text::Mixed([0.9, 0.05]),
    ];
    for machine in MACHINES {
        for counts in [&[1][..], &[4], &[8]] {
            for text in texts {
                let scenario = Scenario::new(machine, text, counts);
                let to_off = report_off("change", scenario);
                assert!(to_off >= 0.98, "{scenario:?}: {to_off}");
            }
            let scenario = Scenario { num_tokens: 60, ..Scenario::new(machine, texts[3], counts) };
            let to_off = report_off("short", scenario);
            assert!(to_off >= 0.98, "{scenario:?}: {to_off}");
        }
    }
}

#[test]
fn lookups_long_drafts_and_disturbed_machines_cost_nothing() {
    for machine in MACHINES {
        for counts in [&[1][..], &[4], &[8]] {
            for rate in [0.5, 0.85] {
                let scenario = Scenario::new(machine, Text::Steady(rate), counts);
                let disturbed = |disturbance| Scenario { disturbance, ..scenario };
                for (name, scenario) in [
                    ("lookup", Scenario { found: 0.3, is_head: false, ..scenario }),
                    ("eight", Scenario { max: 8, ..scenario }),
                    ("noise", disturbed(Disturbance::Noise(0.2))),
                    ("spikes", disturbed(Disturbance::Spikes(10))),
                    ("pauses", disturbed(Disturbance::Pauses(100))),
                    ("slow starts", disturbed(Disturbance::SlowStarts)),
                    ("half speed", disturbed(Disturbance::HalfSpeed(20.0))),
                ] {
                    let to_off = report_off(name, scenario);
                    // Where steps differ by 20 %, a plan that loses little is sometimes held for better.
                    let least = if name == "noise" { 0.95 } else { 0.975 };
                    assert!(to_off >= least, "{scenario:?}: {to_off}");
                }
            }
        }
    }
}

#[test]
fn changing_loads_cost_nothing() {
    let texts = [Text::Steady(0.0), Text::Steady(0.6), Text::Steady(0.9), Text::Mixed([0.9, 0.05])];
    for machine in MACHINES {
        for text in texts {
            for counts in [&[1, 4, 16, 2][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]] {
                let scenario = Scenario::new(machine, text, counts);
                let to_off = report_off("load", scenario);
                assert!(to_off >= 0.98, "{scenario:?}: {to_off}");
            }
        }
    }
}

/// Drafted tokens for each generated one.
fn share(outcome: Outcome) -> f64 {
    outcome.drafted as f64 / outcome.tokens as f64
}

#[test]
fn drafting_stops_and_returns_with_the_text() {
    // Predictable for 1,000 tokens, unpredictable for 1,000, and so on.
    let text = Text::Drifting([0.9, 0.02], 1000);
    let scenario = Scenario { num_tokens: 100_000, ..Scenario::new(Machine::LinearRows, text, &[1]) };
    let mut simulation = Simulation::new(scenario, Policy::Adaptive);
    for _ in 0..5 {
        simulation.run(200);
        let predictable = share(simulation.run(700));
        simulation.run(200);
        let unpredictable = share(simulation.run(800));
        simulation.run(1000 - simulation.outcome.tokens % 1000);
        assert!(predictable > 0.6 && unpredictable < 0.05, "{predictable} {unpredictable}");
    }
}

#[test]
fn drafting_stops_under_load_and_returns() {
    let scenario = Scenario::new(Machine::FreeRows, Text::Steady(0.8), &[1, 16]);
    let mut simulation = Simulation::new(scenario, Policy::Adaptive);
    simulation.run(40_000);
    let mut drafted = [(0, 0); 2];
    for _ in 0..20_000 {
        let before = simulation.outcome;
        simulation.step();
        let (tokens, rows) = &mut drafted[simulation.running.len() / 16];
        *tokens += simulation.outcome.tokens - before.tokens;
        *rows += simulation.outcome.drafted - before.drafted;
    }
    let [alone, loaded] = drafted.map(|(tokens, rows)| f64::from(rows as u32) / f64::from(tokens as u32));
    assert!(alone > 0.9 && loaded < 0.05, "{alone} {loaded}");
}

#[test]
fn the_same_is_chosen_for_the_same_inputs() {
    let scenario = Scenario::new(Machine::LinearRows, Text::Mixed([0.9, 0.3]), &[1, 4, 16, 2]);
    let [mut a, mut b] = [0; 2].map(|_| Simulation::new(scenario, Policy::Adaptive));
    for _ in 0..2000 {
        a.step();
        b.step();
        assert_eq!(a.outcome.drafted, b.outcome.drafted);
    }
    assert!(a.outcome.drafted > 0);
}

#[test]
fn steps_that_are_not_recorded_are_no_probes_and_cost_none() {
    let mut controller = DraftController::new();
    let acceptance = controller.acceptance(true);
    let candidate = || DraftCandidate { acceptance: &acceptance, max: 1, adaptive: true, is_head: true };
    let mut choose = |may_probe| {
        let len = controller.choose(&[candidate()], may_probe)[0];
        if may_probe {
            controller.record_step(&DraftStep {
                num_decoding: 1,
                num_drafting: len,
                num_draft_rows: len,
                took: Duration::from_millis(20),
            });
        }
        len
    };
    // The step without drafts is known.
    assert_eq!([(); 2].map(|()| choose(true)), [0, 0]);
    assert!((0..500).all(|_| choose(false) == 0));
    assert_eq!(choose(true), 1);
}

#[test]
fn sequences_that_are_not_adaptive_draft_in_full_and_those_without_room_never() {
    let mut controller = DraftController::new();
    let acceptance = controller.acceptance(true);
    let candidate = |max, adaptive| DraftCandidate { acceptance: &acceptance, max, adaptive, is_head: true };
    for step in 0..500 {
        let lens = controller.choose(
            &[candidate(5, false), candidate(0, true), candidate(0, false), candidate(8, true)],
            true,
        );
        assert_eq!(lens[..3], [5, 0, 0]);
        assert!(lens[3] <= 8);
        let drafts: Vec<usize> = lens.into_iter().filter(|&len| len > 0).collect();
        let rows = drafts.iter().sum();
        // Nothing is accepted, and every row costs.
        controller.record_acceptance(true, rows, 0);
        controller.record_step(&DraftStep {
            num_decoding: 4,
            num_drafting: drafts.len(),
            num_draft_rows: rows,
            took: Duration::from_millis(20 + 20 * rows as u64 + step % 3),
        });
    }
    assert!(controller.choose(&[], true).is_empty());
}
