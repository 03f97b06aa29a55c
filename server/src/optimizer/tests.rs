use proptest::prelude::*;
use windlass_common::optimizer::Adam;

use super::*;

const START: [f32; 3] = [0.1, -0.2, 0.0];

const GRADIENTS: [[f32; 3]; 4] = [
    [0.5, -1.0, 0.01],
    [-0.25, 0.0, 0.02],
    [1.5, 3.0, -0.03],
    [0.125, -0.5, 0.01],
];

/// Four steps against the printed weights of `server/tests/golden/optimizers.py`, in float64.
///
/// An f32 step rounds about ten times, each by at most 2^-24 of terms that are at most 1 here after
/// the learning rate (FTRL's: z up to 4, divided by at least 11): four steps err by less than
/// 4 x 10 x 6e-8 = 2.4e-6. Any term left out of any formula shows at 1e-4 or more.
fn check(spec: OptimizerSpec, expected: [[f64; 3]; 4]) {
    let optimizer = Optimizer::new(spec.clone());
    let mut weights = START;
    let mut slots = vec![0.0; spec.slots(3)];
    optimizer.born(&weights, &mut slots);
    for ((t, gradient), expected) in (1..).zip(&GRADIENTS).zip(expected) {
        optimizer
            .at(Clock(t))
            .row(&mut weights, &mut slots, gradient);
        for (i, (got, want)) in weights.iter().zip(expected).enumerate() {
            let name = spec.kind();
            assert!(
                (f64::from(*got) - want).abs() < 2.4e-6,
                "{name}, step {t}, coordinate {i}: {got}, not {want}"
            );
        }
    }
}

fn adagrad() -> Adagrad {
    Adagrad {
        learning_rate: 0.1,
        initial_accumulator: 0.1,
        epsilon: 0.01,
        l2: 0.01,
    }
}

fn all() -> [OptimizerSpec; 6] {
    [
        OptimizerSpec::Sgd(Sgd {
            learning_rate: 0.1,
            l2: 0.01,
        }),
        OptimizerSpec::Momentum(Momentum {
            learning_rate: 0.1,
            momentum: 0.9,
            l2: 0.01,
        }),
        OptimizerSpec::Adagrad(adagrad()),
        OptimizerSpec::RowwiseAdagrad(adagrad()),
        OptimizerSpec::Adam(Adam {
            learning_rate: 0.1,
            epsilon: 0.01,
            l2: 0.01,
            ..Adam::default()
        }),
        OptimizerSpec::Ftrl(Ftrl {
            l1: 0.05,
            ..Ftrl::default()
        }),
    ]
}

#[test]
fn sgd_gives_the_golden_numbers() {
    let [spec, ..] = all();
    check(
        spec,
        [
            [0.0499000007, -0.0998000015, -0.000999999993],
            [0.0748501011, -0.0997002015, -0.00299899998],
            [-0.0752247512, -0.399600506, 3.99899994e-06],
            [-0.0876495267, -0.349200905, -0.000996004992],
        ],
    );
}

#[test]
fn momentum_gives_the_golden_numbers() {
    let [_, spec, ..] = all();
    check(
        spec,
        [
            [0.0499000007, -0.0998000015, -0.000999999993],
            [0.0297601016, -0.00952020253, -0.00389899995],
            [-0.138395569, -0.22825887, -0.00350420086],
            [-0.302097274, -0.374895406, -0.00414537748],
        ],
    );
}

#[test]
fn adagrad_gives_the_golden_numbers() {
    let [_, _, spec, ..] = all();
    check(
        spec,
        [
            [0.0166158471, -0.105065441, -0.00301374383],
            [0.055010137, -0.104965896, -0.00902127868],
            [-0.036734999, -0.199294397, -6.09791041e-06],
            [-0.044333136, -0.183698013, -0.00300078675],
        ],
    );
}

#[test]
fn rowwise_adagrad_gives_the_golden_numbers() {
    let [_, _, _, spec, ..] = all();
    check(
        spec,
        [
            [0.0310761812, -0.0621523625, -0.00137572492],
            [0.064766233, -0.0620685016, -0.00407242721],
            [-0.00760992021, -0.206728399, -0.00262356478],
            [-0.0135734018, -0.182761256, -0.00309968151],
        ],
    );
}

#[test]
fn adam_gives_the_golden_numbers() {
    let [_, _, _, _, spec, _] = all();
    check(
        spec,
        [
            [0.00195694715, -0.100988144, -0.0500000007],
            [-0.0240986725, -0.0348411419, -0.108827617],
            [-0.0904510406, -0.0787829848, -0.102549994],
            [-0.148991131, -0.105269081, -0.106566012],
        ],
    );
}

#[test]
fn ftrl_gives_the_golden_numbers() {
    let [.., spec] = all();
    check(
        spec,
        [
            [0.0687500011, -0.152380955, 0.0],
            [0.0838191658, -0.152380955, 0.0],
            [0.0282796759, -0.222765859, 0.0],
            [0.0236597209, -0.211142174, 0.0],
        ],
    );
}

/// A zero gradient leaves z and n as they are, so the proximal solution is that of the birth. The
/// bound: three roundings on the way there and three back.
#[test]
fn ftrl_is_born_where_its_initial_weights_are() {
    let [.., spec] = all();
    let optimizer = Optimizer::new(spec);
    let mut slots = [0.0; 6];
    let mut weights = START;
    optimizer.born(&weights, &mut slots);
    optimizer
        .at(Clock(1))
        .row(&mut weights, &mut slots, &[0.0; 3]);
    for (got, want) in weights.iter().zip(START) {
        assert!(
            (got - want).abs() <= 6.0 * f32::EPSILON * want.abs(),
            "{got}"
        );
    }
}

#[test]
fn ftrl_without_penalties_keeps_a_weight_until_its_first_gradient() {
    let spec = Ftrl {
        beta: 0.0,
        l1: 0.0,
        l2: 0.0,
        ..Ftrl::default()
    };
    let optimizer = Optimizer::new(OptimizerSpec::Ftrl(spec));
    let (mut weights, mut slots) = ([0.5], [0.0; 2]);
    optimizer.born(&weights, &mut slots);
    // 1e-30 squared is 0 in f32.
    for tiny in [0.0, 1e-30] {
        optimizer
            .at(Clock(1))
            .row(&mut weights, &mut slots, &[tiny]);
        assert_eq!(weights, [0.5]);
    }
}

/// The lanes' sums against the definition in f64; 64 equal terms err by at most 64 ulp.
#[test]
fn a_row_of_any_length_has_its_mean_square_accumulated() {
    for dim in [1usize, 7, 8, 9, 64] {
        let optimizer = Optimizer::new(OptimizerSpec::RowwiseAdagrad(Adagrad::default()));
        let gradient: Vec<f32> = (0..dim).map(|i| 0.1 + i as f32).collect();
        let mean = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>() / dim as f64;
        let (mut weights, mut slots) = (vec![0.0; dim], [0.0]);
        optimizer
            .at(Clock(1))
            .row(&mut weights, &mut slots, &gradient);
        assert!((f64::from(slots[0]) / mean - 1.0).abs() < 64.0 * f64::from(f32::EPSILON));
    }
}

/// Pushes `gradients` to a new counting row.
fn counted(gradients: &[[f32; 3]]) -> [f32; 3] {
    let optimizer = Optimizer::new(OptimizerSpec::Count);
    let mut row = [0.0; 3];
    optimizer.born(&row, &mut []);
    for (t, gradient) in (1..).zip(gradients) {
        optimizer.at(Clock(t)).row(&mut row, &mut [], gradient);
    }
    row
}

/// By hand: 2^24 = 16777216, and limbs are least first.
#[test]
fn count_gives_the_golden_numbers() {
    let one = [1.0, 0.0, 0.0];
    let full = 16_777_215.0;
    assert_eq!(counted(&[one; 3]), [3.0, 0.0, 0.0]);
    assert_eq!(counted(&[[full, 0.0, 0.0], one]), [0.0, 1.0, 0.0]);
    assert_eq!(counted(&[[16_777_216.0, 0.0, 0.0], one]), [1.0, 1.0, 0.0]);
    assert_eq!(counted(&[[full, full, 0.0], one]), [0.0, 0.0, 1.0]);
    assert_eq!(
        counted(&[[5.0, 6.0, 7.0], [full, 1.0, 0.0]]),
        [4.0, 8.0, 7.0]
    );
    assert_eq!(counted(&[[0.0; 3]]), [0.0; 3]);
}

#[test]
fn a_count_that_passed_its_end_is_none_for_ever() {
    let full = [16_777_215.0; 3];
    let passed = [0.0, 0.0, 16_777_216.0];
    assert_eq!(counted(&[full, [1.0, 0.0, 0.0]]), passed);
    assert_eq!(counted(&[full, [1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]), passed);
}

proptest! {
    #[test]
    fn counts_are_sums_of_integers(
        pushes in prop::collection::vec((0u32..=1 << 24, 0u32..1 << 24, 0u32..1 << 19), 0..30),
    ) {
        let gradients: Vec<_> = pushes
            .iter()
            .map(|&(a, b, c)| [a as f32, b as f32, c as f32])
            .collect();
        let sum: u128 = pushes
            .iter()
            .map(|&(a, b, c)| u128::from(a) + (u128::from(b) << 24) + (u128::from(c) << 48))
            .sum();
        prop_assert_eq!(windlass_common::count::read(&counted(&gradients)), Some(sum));
    }

    #[test]
    fn finite_gradients_leave_finite_rows(
        gradients in prop::collection::vec(prop::array::uniform3(-1e6f32..1e6), 1..20),
        first in 1u64..1_000_000,
    ) {
        for spec in all() {
            let optimizer = Optimizer::new(spec.clone());
            let mut weights = START;
            let mut slots = vec![0.0; spec.slots(3)];
            optimizer.born(&weights, &mut slots);
            for (t, gradient) in (first..).zip(&gradients) {
                optimizer.at(Clock(t)).row(&mut weights, &mut slots, gradient);
            }
            prop_assert!(weights.iter().chain(&slots).all(|x| x.is_finite()), "{}", spec.kind());
        }
    }
}
