//! Programs: the lists of operations that run models.

use common::synthetic::SyntheticModel;
use gleed::program::{Part, Rows, StepInfo};
use gleed::{Limits, Model, Plan};

/// Returns all steps of a model, and the units that its plan counts for a token.
fn steps(model: &SyntheticModel) -> (Vec<StepInfo>, usize) {
    let file = model.bytes();
    let model = Model::open(&file).unwrap();
    let plan = Plan::new(&model, &Limits { context: 64, ..Limits::default() }).unwrap();
    let mut steps = Vec::new();
    plan.for_each_step(&model, &mut |step| steps.push(step.clone())).unwrap();
    (steps, plan.units_per_token())
}

/// Returns the operations of a layer, in order.
fn operations(steps: &[StepInfo], layer: usize) -> Vec<&'static str> {
    steps.iter().filter(|step| step.part == Part::Layer(layer)).map(|step| step.operation).collect()
}

#[test]
fn every_program_has_a_sound_order() {
    for (name, model) in SyntheticModel::all() {
        let (steps, units) = steps(&model);
        assert_eq!(steps.iter().map(|step| step.units).sum::<usize>(), units, "{name}");
        assert_eq!(steps[0].operation, "embed", "{name}");
        assert_eq!(steps.last().unwrap().operation, "logits", "{name}");
        for layer in 0..model.layers {
            let operations = operations(&steps, layer);
            let place = |operation: &str| operations.iter().position(|&other| other == operation);
            let (mixes, attends) =
                (place("gated convolution").or(place("delta rule")).or(place("scan")), place("attention"));
            // In Nemotron-H, a layer may be only a feed-forward part.
            let alone = name.starts_with("nemotron_h") && place("gate and up").or(place("add experts")).is_some();
            assert!(attends.is_some() || mixes.is_some() || alone, "{name}: {operations:?}");
            let shares = layer >= model.layers - model.shared_kv();
            let stored = place("qkv") < place("store") && place("store") < attends;
            let shared = shares && place("store").is_none() && place("qkv") < attends;
            assert!(attends.is_none() || stored || shared, "{name}: {operations:?}");
            assert!(mixes.is_none() || place("mixer input") < mixes, "{name}: {operations:?}");
            // Keys, values and states are written for all rows. Operations after the last write need only finished
            // rows.
            let rows = steps.iter().filter(|step| step.part == Part::Layer(layer)).map(|step| step.rows);
            let expected = (0..operations.len()).map(|index| match Some(index) < attends || Some(index) <= mixes {
                true => Rows::All,
                false => Rows::Finished,
            });
            assert!(rows.eq(expected), "{name}: {operations:?}");
        }
    }
}

#[test]
fn parallel_branches_read_before_anything_is_added() {
    for name in ["stablelm, parallel", "gptneox"] {
        let all = SyntheticModel::all();
        let (_, model) = all.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("no model {name}"));
        let (steps, _) = steps(model);
        let operations = operations(&steps, 0);
        let place = |operation: &str| operations.iter().position(|&other| other == operation).unwrap();
        assert!(place("gate and up") < place("project and add"), "{name}: {operations:?}");
    }
}

#[test]
fn layers_of_a_kind_run_the_same_operations() {
    for (name, model) in SyntheticModel::all() {
        let (steps, _) = steps(&model);
        let list = |layer: usize| -> Vec<_> {
            let steps = steps.iter().filter(|step| step.part == Part::Layer(layer));
            steps.map(|step| (step.kind, step.operation, step.tensors.clone())).collect()
        };
        for (a, b) in (1..model.layers).map(|layer| (list(layer - 1), list(layer))) {
            assert!(a[0].0 != b[0].0 || a == b, "{name}");
        }
    }
}

/// Each unit of a token belongs to the step that the engine names before the unit. These steps are the ones that the
/// plan lists.
#[cfg(feature = "std")]
#[test]
fn an_engine_names_the_step_of_its_next_unit() {
    use gleed::host::AlignedBytes;
    use gleed::{Engine, Logits, Step};

    for (name, model) in SyntheticModel::all() {
        let file = model.bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits { context: 1, ..Limits::default() };
        let plan = Plan::new(&model, &limits).unwrap();
        let mut memory = AlignedBytes::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let seq = engine.open().unwrap();
        assert_eq!(engine.next_step(), None, "{name}");
        engine.queue(seq, 0, &[1], Logits::Last).unwrap();
        let mut units = Vec::new();
        while engine.is_busy() {
            // The first unit belongs to the first step. Before a batch begins there is no next step.
            let next = engine.next_step();
            let _: Step = engine.step(1).unwrap();
            units.extend(next);
        }
        let mut planned = Vec::new();
        let mut add = |step: &StepInfo| {
            planned.extend((0..step.units).map(|done| {
                let mut unit = step.clone();
                unit.done = done;
                unit
            }));
        };
        plan.for_each_step(&model, &mut add).unwrap();
        // A batch begins together with its first unit.
        assert_eq!(units, planned[1..], "{name}");
    }
}
