//! The sampler through its public interface, compared with a naive one that sorts.

use gleed::num;
use gleed::sample::{
    Choice, MAX_BIAS_TOKENS, MAX_BIASES, MAX_WINDOW, SampleError, Sampler, SamplerParams, argmax, scratch_len,
};
use proptest::prelude::*;

const DRAWN: SamplerParams = SamplerParams {
    temperature: 1.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repetition_penalty: 1.0,
    frequency_penalty: 0.0,
    presence_penalty: 0.0,
    penalty_window: 64,
    seed: 42,
};

fn sample(sampler: &mut Sampler, logits: &[f32]) -> Result<Choice, SampleError> {
    sampler.sample(logits, &mut vec![u64::MAX; scratch_len(logits.len())])
}

/// Returns logits between -4 and 4 in a fixed, scattered order.
fn logits(vocab: u32) -> Vec<f32> {
    (0..vocab).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 8192.0 - 4.0).collect()
}

/// Chooses by the documented rule, with sorting.
fn naive(logits: &[f32], params: &SamplerParams, uniform24: u128) -> Choice {
    let mass = |logit: f32, best: f32| (num::exp(logit - best) * 4_294_967_296.0) as u128;
    let mut kept: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
    kept.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
    let best = kept[0].1;
    if params.top_k > 0 {
        kept.truncate(params.top_k);
    }
    if params.top_p < 1.0 {
        let total: u128 = kept.iter().map(|&(_, logit)| mass(logit, best)).sum();
        let needed = (total * (params.top_p * 4_294_967_296.0) as u128).div_ceil(1 << 32);
        let mut running = 0;
        let reached = kept.iter().position(|&(_, logit)| {
            running += mass(logit, best);
            running >= needed
        });
        kept.truncate(reached.unwrap() + 1);
    }
    kept.retain(|&(_, logit)| params.min_p == 0.0 || num::exp(logit - best) >= params.min_p);
    kept.sort_by_key(|&(id, _)| id);
    let masses: Vec<u128> = kept.iter().map(|&(_, logit)| mass((logit - best) / params.temperature, 0.0)).collect();
    let total: u128 = masses.iter().sum();
    let mut running = 0;
    for (&(token, _), &mass) in kept.iter().zip(&masses) {
        running += mass;
        if running > (total * uniform24) >> 24 {
            return Choice { token: token as u32, probability: mass as f32 / total as f32 };
        }
    }
    unreachable!("the running total exceeds every threshold at the end");
}

/// Returns the top 24 bits of SplitMix64's next number.
fn uniform24(state: u64) -> u128 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    u128::from((z ^ (z >> 31)) >> 40)
}

fn any_logits() -> impl Strategy<Value = Vec<f32>> {
    let value = prop_oneof![
        8 => -12.0..12.0_f32,
        4 => (-6..6_i32).prop_map(|x| x as f32 * 0.5), // ties, zeros
        1 => prop_oneof![Just(-0.0), Just(f32::MAX), Just(f32::MIN), Just(1e-45), Just(-1e-45), Just(80.0)],
    ];
    prop::collection::vec(value, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_naive_sampler(
        logits in any_logits(),
        top_k in prop_oneof![Just(0), Just(1), 1..400_usize],
        top_p in prop_oneof![Just(0.0), Just(1.0), Just(0.999_999_94), Just(1e-9), 0.0..1.0_f32],
        min_p in prop_oneof![Just(0.0), Just(1.0), Just(1e-20), 0.0..1.0_f32],
        temperature in prop_oneof![Just(1.0), Just(1e-45), Just(f32::MAX), 0.05..4.0_f32],
        seed in any::<u64>(),
    ) {
        let params = SamplerParams { temperature, top_k, top_p, min_p, seed, ..DRAWN };
        let mut sampler = Sampler::new(params).unwrap();
        prop_assert_eq!(sample(&mut sampler, &logits).unwrap(), naive(&logits, &params, uniform24(seed)));
    }

    #[test]
    fn greedy_is_argmax(logits in any_logits()) {
        let want = (0..logits.len()).rev().max_by(|&a, &b| logits[a].partial_cmp(&logits[b]).unwrap()).unwrap();
        prop_assert_eq!(argmax(&logits), Ok(want as u32));
        let params = SamplerParams { top_k: 3, top_p: 0.5, min_p: 0.1, ..SamplerParams::default() };
        prop_assert_eq!(sample(&mut Sampler::new(params).unwrap(), &logits).unwrap().token, want as u32);
    }
}

#[test]
fn seeds_give_these_ids() {
    let logits = logits(32_000);
    let draw = |params: SamplerParams| -> Vec<u32> {
        let mut sampler = Sampler::new(params).unwrap();
        (0..8).map(|_| sample(&mut sampler, &logits).unwrap().token).collect()
    };
    let usual = SamplerParams { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, ..DRAWN };
    assert_eq!(draw(DRAWN), [23738, 5121, 8913, 11017, 1215, 27788, 6985, 25621]);
    assert_eq!(draw(usual), [23866, 5168, 8739, 11323, 987, 27060, 6765, 25463]);
    assert_eq!(draw(SamplerParams { seed: 43, ..usual }), [22879, 19685, 13530, 26450, 377, 2584, 10336, 28047]);
}

#[test]
fn tokens_are_drawn_as_often_as_they_are_probable() {
    let logits = [0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1.5, 0.0_f32];
    for temperature in [0.7, 1.0, 1.9] {
        let mut sampler = Sampler::new(SamplerParams { temperature, ..DRAWN }).unwrap();
        let weights = logits.map(|logit| (f64::from(logit) / f64::from(temperature)).exp());
        let total: f64 = weights.iter().sum();
        let mut counts = [0.0; 8];
        for _ in 0..40_000 {
            let choice = sample(&mut sampler, &logits).unwrap();
            counts[choice.token as usize] += 1.0;
            let want = weights[choice.token as usize] / total;
            assert!((f64::from(choice.probability) - want).abs() < 1e-6);
        }
        let squares = counts.iter().zip(weights).map(|(count, weight)| {
            let expected = 40_000.0 * weight / total;
            (count - expected) * (count - expected) / expected
        });
        // There are 7 degrees of freedom. One in a thousand fair samplers exceeds this limit.
        let chi_square: f64 = squares.sum();
        assert!(chi_square < 24.3, "{chi_square}");
    }
}

#[test]
fn a_flat_vocabulary_is_drawn_flat() {
    let flat = vec![3.25_f32; 150_000];
    let mut sampler = Sampler::new(SamplerParams { top_p: 0.5, ..DRAWN }).unwrap();
    for _ in 0..20 {
        let choice = sample(&mut sampler, &flat).unwrap();
        assert!(choice.token < 75_000, "the lowest ids come first among equals");
        assert_eq!(choice.probability, 1.0 / 75_000.0);
    }
    let mut sampler = Sampler::new(DRAWN).unwrap();
    let high = (0..200).filter(|_| sample(&mut sampler, &flat).unwrap().token >= 75_000).count();
    assert!((70..130).contains(&high), "{high}");
}

#[test]
fn penalties_are_the_documented_ones() {
    let params = SamplerParams {
        repetition_penalty: 2.0,
        frequency_penalty: 0.25,
        presence_penalty: 0.5,
        penalty_window: 4,
        ..SamplerParams::default()
    };
    let mut sampler = Sampler::new(params).unwrap();
    // The first token is outside of the window, and the vocabulary has no token 9.
    for token in [2, 0, 9, 1, 0] {
        sampler.accept(token);
    }
    // The changed logits are 2/2 - 2 * 0.25 - 0.5 = 0, -1 * 2 - 0.25 - 0.5 = -2.75, and 0.5.
    let choice = sample(&mut sampler, &[2.0, -1.0, 0.5]).unwrap();
    assert_eq!(choice.token, 2);
    let want = 1.0 / (1.0 + (-0.5_f64).exp() + (-3.25_f64).exp());
    assert!((f64::from(choice.probability) - want).abs() < 1e-7);

    let mut sampler = Sampler::new(SamplerParams { penalty_window: 0, ..params }).unwrap();
    sampler.accept(0);
    assert_eq!(sample(&mut sampler, &[2.0, -1.0, 0.5]).unwrap().token, 0);
}

#[test]
fn biases_add_and_ban() {
    let mut sampler = Sampler::new(SamplerParams::default()).unwrap();
    sampler.set_biases(&[(0, 1.5), (2, f32::NEG_INFINITY), (2, 9.0)]).unwrap();
    let choice = sample(&mut sampler, &[0.0, 1.0, 5.0]).unwrap();
    assert_eq!(choice.token, 0);
    assert!((f64::from(choice.probability) - 1.0 / (1.0 + (-0.5_f64).exp())).abs() < 1e-7);
    let mut drawn = Sampler::new(SamplerParams { temperature: 100.0, ..DRAWN }).unwrap();
    drawn.set_biases(&[(1, f32::NEG_INFINITY)]).unwrap();
    assert!((0..500).all(|_| sample(&mut drawn, &[0.0, 0.0, 0.0]).unwrap().token != 1));

    drawn.set_biases(&[(0, f32::NEG_INFINITY), (1, f32::NEG_INFINITY)]).unwrap();
    assert_eq!(sample(&mut drawn, &[1.0, 2.0]), Err(SampleError::AllBanned));
    assert_eq!(sample(&mut drawn, &[1.0]), Err(SampleError::UnknownToken { token: 1, vocab: 1 }));
    assert_eq!(drawn.set_biases(&[(7, f32::NAN)]), Err(SampleError::Bias { token: 7 }));
    assert_eq!(drawn.set_biases(&[(7, f32::INFINITY)]), Err(SampleError::Bias { token: 7 }));
    let many = [(1, 1.0); MAX_BIASES + 1];
    assert_eq!(drawn.set_biases(&many), Err(SampleError::TooManyBiases { given: 65, limit: 64 }));
    assert_eq!(sample(&mut drawn, &[1.0, 2.0]), Err(SampleError::AllBanned), "the refused lists changed nothing");
}

#[test]
fn a_bias_for_several_tokens_is_for_the_last_one_behind_the_others() {
    let logits = [0.0, 1.0, 2.0, 3.0];
    let mut sampler = Sampler::new(SamplerParams::default()).unwrap();
    sampler.add_bias(&[1, 2, 3], f32::NEG_INFINITY).unwrap();
    sampler.add_bias(&[0], 2.5).unwrap();
    sampler.add_bias(&[3, 3, 0], -9.0).unwrap();
    let mut choose = |accepted: u32| {
        sampler.accept(accepted);
        sample(&mut sampler, &logits).unwrap().token
    };
    // Only the tokens 1 and 2 in this order forbid 3, and two tokens 3 make 0 the smallest again.
    assert_eq!([1, 2, 1, 1, 2, 0, 3, 3, 3, 2].map(&mut choose), [3, 0, 3, 3, 0, 3, 3, 3, 3, 3]);
    sampler.set_biases(&[]).unwrap();
    sampler.accept(1);
    sampler.accept(2);
    assert_eq!(sample(&mut sampler, &logits).unwrap().token, 3);

    // A refused call changes nothing.
    let no_room = |given, limit| Err(SampleError::BiasTokens { given, limit });
    assert_eq!(sampler.add_bias(&[], 1.0), no_room(0, MAX_BIAS_TOKENS + 1));
    assert_eq!(sampler.add_bias(&[3; MAX_BIAS_TOKENS + 2], 1.0), no_room(MAX_BIAS_TOKENS + 2, MAX_BIAS_TOKENS + 1));
    assert_eq!(sampler.add_bias(&[1, 7], f32::NAN), Err(SampleError::Bias { token: 7 }));
    sampler.add_bias(&[3; MAX_BIAS_TOKENS], f32::NEG_INFINITY).unwrap();
    assert_eq!(sampler.add_bias(&[1, 2, 3], 1.0), no_room(3, 2));
    (1..MAX_BIASES).for_each(|_| sampler.add_bias(&[1], 0.0).unwrap());
    let full = SampleError::TooManyBiases { given: MAX_BIASES + 1, limit: MAX_BIASES };
    assert_eq!(sampler.add_bias(&[1], 0.0), Err(full));
    assert_eq!(sample(&mut sampler, &logits).unwrap().token, 3);
    (1..MAX_BIAS_TOKENS).for_each(|_| sampler.accept(3));
    assert_eq!(sample(&mut sampler, &logits).unwrap().token, 2, "127 times 3, and the next one is banned");
    sampler.accept(0);
    assert_eq!(sample(&mut sampler, &logits).unwrap().token, 3);
}

#[test]
fn a_failed_call_changes_nothing() {
    let good = logits(100);
    let mut sampler = Sampler::new(SamplerParams { frequency_penalty: f32::MAX, ..DRAWN }).unwrap();
    let mut twin = sampler.clone();
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut bad = good.clone();
        bad[99] = wrong;
        bad[17] = wrong;
        assert_eq!(sample(&mut sampler, &bad), Err(SampleError::NonFinite { token: 17 }));
        assert_eq!(argmax(&bad), Err(SampleError::NonFinite { token: 17 }));
    }
    assert_eq!(sample(&mut sampler, &[]), Err(SampleError::Vocab { given: 0 }));
    assert_eq!(argmax(&[]), Err(SampleError::Vocab { given: 0 }));
    let short = sampler.sample(&good, &mut [0; 99]);
    assert_eq!(short, Err(SampleError::ScratchTooSmall { needed: 100, given: 99 }));
    sampler.accept(5);
    twin.accept(5);
    let mut low = good.clone();
    low[5] = f32::MIN;
    assert_eq!(sample(&mut sampler, &low), Err(SampleError::NonFinite { token: 5 }));
    assert_eq!(sampler.state(), twin.state());
    assert_eq!(sample(&mut sampler, &good), sample(&mut twin, &good));
}

#[test]
fn the_state_goes_on_where_it_was() {
    let logits = logits(1000);
    let mut sampler = Sampler::new(DRAWN).unwrap();
    assert_eq!(sampler.state(), DRAWN.seed);
    for _ in 0..5 {
        sample(&mut sampler, &logits).unwrap();
    }
    let mut other = Sampler::new(DRAWN).unwrap();
    other.set_state(sampler.state());
    for _ in 0..5 {
        assert_eq!(sample(&mut sampler, &logits), sample(&mut other, &logits));
    }
}

#[test]
fn wrong_parameters_are_named() {
    let wrong = |params: SamplerParams| Sampler::new(params).unwrap_err().to_string();
    let base = SamplerParams::default();
    for (params, message) in [
        (SamplerParams { temperature: -0.5, ..base }, "temperature must be finite and not negative, it is -0.5"),
        (SamplerParams { temperature: f32::NAN, ..base }, "temperature must be finite and not negative, it is NaN"),
        (SamplerParams { top_p: 1.5, ..base }, "top_p must be from 0 to 1, it is 1.5"),
        (SamplerParams { top_p: f32::NAN, ..base }, "top_p must be from 0 to 1, it is NaN"),
        (SamplerParams { min_p: -0.1, ..base }, "min_p must be from 0 to 1, it is -0.1"),
        (SamplerParams { repetition_penalty: 0.0, ..base }, "repetition_penalty must be finite and above 0, it is 0"),
        (SamplerParams { frequency_penalty: f32::INFINITY, ..base }, "frequency_penalty must be finite, it is inf"),
        (SamplerParams { presence_penalty: f32::NAN, ..base }, "presence_penalty must be finite, it is NaN"),
        (
            SamplerParams { penalty_window: MAX_WINDOW + 1, ..base },
            "the penalties can look back at most 256 tokens, not 257",
        ),
    ] {
        assert_eq!(wrong(params), message);
    }
    assert!(Sampler::new(SamplerParams { top_p: 0.0, min_p: 1.0, top_k: usize::MAX, ..DRAWN }).is_ok());
}

/// The mask comes first: the allowed tokens are sampled as if there were no others.
#[test]
fn masks_leave_some_tokens() {
    let logits = logits(75);
    let allowed = [3, 31, 32, 40, 63, 64, 74];
    let mut mask = [0_u32; 3];
    allowed.iter().for_each(|id| mask[id / 32] |= 1 << (id % 32));
    let others = |id: &u32| !allowed.contains(&(*id as usize));
    let bans: Vec<(u32, f32)> = (0..75).filter(others).map(|id| (id, f32::NEG_INFINITY)).collect();
    assert!(bans.len() > MAX_BIASES);
    let (first, second) = bans.split_at(MAX_BIASES);
    for params in [
        SamplerParams::default(),
        DRAWN,
        SamplerParams { top_k: 3, ..DRAWN },
        SamplerParams { top_p: 0.6, min_p: 0.1, temperature: 1.3, repetition_penalty: 1.5, ..DRAWN },
    ] {
        let mut masked = Sampler::new(params).unwrap();
        let mut banned = masked.clone();
        masked.set_biases(first).unwrap();
        banned.set_biases(first).unwrap();
        let mut left = [u32::MAX; 3];
        second.iter().for_each(|&(id, _)| left[id as usize / 32] &= !(1 << (id % 32)));
        // The same tokens are banned by biases and the mask together, or by the mask alone.
        let mut alone = Sampler::new(params).unwrap();
        for _ in 0..50 {
            let mut scratch = vec![u64::MAX; 75];
            let choice = banned.sample_masked(&logits, &left, &mut scratch).unwrap();
            assert!(allowed.contains(&(choice.token as usize)));
            assert_eq!(masked.sample_masked(&logits, &mask, &mut scratch), Ok(choice));
            assert_eq!(alone.sample_masked(&logits, &mask, &mut scratch), Ok(choice));
            [&mut masked, &mut banned, &mut alone].into_iter().for_each(|sampler| sampler.accept(choice.token));
        }
        assert!(masked.state() == alone.state() && masked.state() == banned.state());
    }
    // An allowed greedy choice does not depend on the mask.
    let best = argmax(&logits).unwrap();
    let mut sampler = Sampler::new(SamplerParams::default()).unwrap();
    let mut scratch = vec![0; 75];
    mask[best as usize / 32] |= 1 << (best % 32);
    assert_eq!(sampler.sample_masked(&logits, &mask, &mut scratch).unwrap().token, best);
    let mut drawn = Sampler::new(DRAWN).unwrap();
    let state = drawn.state();
    assert_eq!(drawn.sample_masked(&logits, &[0; 3], &mut scratch), Err(SampleError::AllMasked));
    for given in [0, 2, 4] {
        let wrong = drawn.sample_masked(&logits, &mask_of(given), &mut scratch);
        assert_eq!(wrong, Err(SampleError::Mask { needed: 3, given }));
    }
    drawn.set_biases(&[(40, f32::NEG_INFINITY)]).unwrap();
    assert_eq!(drawn.sample_masked(&logits, &[0, 1 << 8, 0], &mut scratch), Err(SampleError::AllBanned));
    assert_eq!(drawn.state(), state);
}

fn mask_of(len: usize) -> Vec<u32> {
    vec![u32::MAX; len]
}
