//! No kernel computes with floats outside of the library, whose results are kept, and no number lies in a uniform.

use std::collections::BTreeSet;

use gleed_gpu::{Kernel, LIBRARY, NATIVE_HALVES, composed};
use naga::proc::TypeResolution;
use naga::valid::{Capabilities, FunctionInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Expression, Function, Literal, Module, ScalarKind, TypeInner, UnaryOperator};

/// Returns the names of the library's functions.
fn library() -> BTreeSet<String> {
    let sources = LIBRARY.iter().map(|name| composed(name, &[]).unwrap());
    let names = |source: String| -> Vec<String> {
        let lines = source.lines().filter_map(|line| line.strip_prefix("fn ")?.split_once('('));
        lines.map(|(name, _)| name.to_owned()).collect()
    };
    sources.flat_map(names).collect()
}

fn is_float(module: &Module, resolution: &TypeResolution) -> bool {
    matches!(resolution.inner_with(&module.types).scalar_kind(), Some(ScalarKind::Float | ScalarKind::AbstractFloat))
        || matches!(resolution.inner_with(&module.types), TypeInner::Matrix { .. })
}

/// Returns the float operations of a function.
fn operations(module: &Module, function: &Function, info: &FunctionInfo) -> Vec<String> {
    let float = |handle: naga::Handle<Expression>| is_float(module, &info[handle].ty);
    let wrong = function.expressions.iter().filter(|(handle, expression)| match expression {
        Expression::Binary { left, right, .. } => float(*left) || float(*right),
        Expression::Unary { op: UnaryOperator::Negate, expr } => float(*expr),
        Expression::Math { arg, .. } => float(*arg) || float(*handle),
        Expression::As { expr, convert, .. } => convert.is_some() && (float(*expr) || float(*handle)),
        Expression::Literal(literal) => {
            matches!(literal, Literal::F32(_) | Literal::F64(_) | Literal::AbstractFloat(_))
        }
        Expression::Relational { argument, .. } => float(*argument),
        _ => false,
    });
    wrong.map(|(_, expression)| format!("{:?}: {expression:?}", function.name)).collect()
}

/// Returns what a source has against the rules: float operations outside of the library, uniforms, overrides.
fn violations(source: &str) -> Vec<String> {
    let module = naga::front::wgsl::parse_str(source).unwrap();
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).unwrap();
    let library = library();
    let mut found = Vec::new();
    for (handle, function) in module.functions.iter() {
        if !function.name.as_ref().is_some_and(|name| library.contains(name)) {
            found.extend(operations(&module, function, &info[handle]));
        }
    }
    for (index, entry) in module.entry_points.iter().enumerate() {
        found.extend(operations(&module, &entry.function, info.get_entry_point(index)));
    }
    let uniform = module.global_variables.iter().filter(|(_, variable)| variable.space == AddressSpace::Uniform);
    found.extend(uniform.map(|(_, variable)| format!("a uniform: {:?}", variable.name)));
    found.extend(module.overrides.iter().map(|(_, constant)| format!("an override: {:?}", constant.name)));
    found
}

#[test]
fn kernels_compute_with_the_library_only() {
    assert!(library().contains("keep") && library().len() > 25);
    for kernel in Kernel::all() {
        assert_eq!(violations(&kernel.source().unwrap()), [""; 0], "{kernel:?}");
        assert_eq!(violations(&kernel.native_source().unwrap()), [""; 0], "{kernel:?} with native halves");
    }
}

/// Every float operation of the library is inside of `keep`, or a part of an estimate that integers correct.
#[test]
fn the_library_keeps_its_results() {
    let expected = ["add", "add_exact", "div", "mul", "mul_i32", "of_i32", "of_u32", "root", "sub"];
    assert_eq!(computing(&composed("num.wgsl", &[]).unwrap()), BTreeSet::from(expected.map(str::to_owned)));
    let native = composed("num.wgsl", &[NATIVE_HALVES]).unwrap();
    let with_native = expected.into_iter().chain(["f16_to_f32"]).map(str::to_owned).collect();
    assert_eq!(computing(&native), with_native);
    let kept = expected.into_iter().chain(["f16_to_f32"]).filter(|name| !["div", "root"].contains(name));
    for name in kept {
        let line = native.lines().find(|line| line.starts_with(&format!("fn {name}("))).unwrap();
        assert!(line.contains("{ return keep("), "{name}");
    }
}

/// Returns the functions of a library that have float operations.
fn computing(source: &str) -> BTreeSet<String> {
    let source =
        format!("{source}\nstruct Params {{ zero: u32 }}\n@group(0) @binding(0) var<storage, read> P: Params;");
    let module = naga::front::wgsl::parse_str(&source).unwrap();
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).unwrap();
    module
        .functions
        .iter()
        .filter(|(handle, function)| !operations(&module, function, &info[*handle]).is_empty())
        .filter_map(|(_, function)| function.name.clone())
        .collect()
}

/// The first statement of a kernel sets the barrier's zero to the one that only the run time knows. A zero that is not
/// set is a constant for the compiler.
#[test]
fn every_kernel_reads_its_zero_first() {
    for kernel in Kernel::all() {
        let source = kernel.source().unwrap();
        let main = source.split_once("fn main(").and_then(|(_, rest)| rest.split_once("{\n")).unwrap().1;
        assert_eq!(main.lines().next(), Some("    ZERO = P.zero;"), "{kernel:?}");
        assert_eq!(source.matches("ZERO = ").count(), 1, "{kernel:?}");
    }
}

#[test]
fn the_lint_sees_what_is_wrong() {
    let good = Kernel::Input.source().unwrap();
    for (from, to) in [
        ("X[ROW * P.n + i] = add(X[ROW * P.n + i], y);", "X[ROW * P.n + i] = X[ROW * P.n + i] + y;"),
        ("X[ROW * P.n + i] = add(X[ROW * P.n + i], y);", "X[ROW * P.n + i] = fma(y, y, y);"),
        ("X[ROW * P.n + i] = add(X[ROW * P.n + i], y);", "X[ROW * P.n + i] = f32(i);"),
        ("X[ROW * P.n + i] = add(X[ROW * P.n + i], y);", "X[ROW * P.n + i] = unpack2x16float(i).x;"),
        ("if (P.factor != 0u)", "if (y > number(0u))"),
        ("var<storage, read> P:", "var<uniform> P:"),
    ] {
        assert!(good.contains(from));
        assert_ne!(violations(&good.replacen(from, to, 1)), [""; 0], "{to}");
    }
}
