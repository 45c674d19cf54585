//! Rewrites the tree of a template, with guards (`guard.rs`) around everything that makes values, reads them or writes
//! text.
//!
//! Guards are filters with names that no template can write.

use std::vec;
use std::vec::Vec;

use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, Expr, Spanned, Stmt, UnaryOpKind};

use super::guard::{ALONE, CONCAT, CYCLE, HELD, KEPT, LIST, LOOPED, NESTED, PLUS, READ, SLICE, TIMES, WEIGHED};

/// Returns the template with guards.
pub(super) fn guarded<'a>(stmt: &Stmt<'a>) -> Stmt<'a> {
    match stmt {
        Stmt::Template(s) => Stmt::Template(node(s, ast::Template { children: body(&s.children) })),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(node(s, ast::EmitExpr { expr: emitted(&s.expr) })),
        Stmt::EmitRaw(s) => Stmt::EmitExpr(node(s, ast::EmitExpr { expr: constant(Value::from(s.raw), s.span()) })),
        Stmt::ForLoop(s) => Stmt::ForLoop(node(s, for_loop(s))),
        Stmt::IfCond(s) => {
            let (true_body, false_body) = (body(&s.true_body), body(&s.false_body));
            Stmt::IfCond(node(s, ast::IfCond { expr: expr(&s.expr), true_body, false_body }))
        }
        Stmt::WithBlock(s) => {
            let assignments = s.assignments.iter().map(|(to, value)| (target(to), expr(value))).collect();
            Stmt::WithBlock(node(s, ast::WithBlock { assignments, body: body(&s.body) }))
        }
        Stmt::Set(s) => {
            let value = owned(&s.expr);
            let value = match &s.target {
                Expr::GetAttr(of) => filter(HELD, value, vec![CallArg::Pos(target(&of.expr))]),
                _ => value,
            };
            Stmt::Set(node(s, ast::Set { target: target(&s.target), expr: value }))
        }
        Stmt::SetBlock(s) => {
            let filter = s.filter.as_ref().map(expr);
            Stmt::SetBlock(node(s, ast::SetBlock { target: target(&s.target), filter, body: body(&s.body) }))
        }
        Stmt::AutoEscape(s) => {
            Stmt::AutoEscape(node(s, ast::AutoEscape { enabled: expr(&s.enabled), body: body(&s.body) }))
        }
        Stmt::FilterBlock(s) => {
            Stmt::FilterBlock(node(s, ast::FilterBlock { filter: expr(&s.filter), body: body(&s.body) }))
        }
        // Blocks exist to be replaced in other templates. Here a block is written once, and cannot call itself.
        Stmt::Block(s) => Stmt::WithBlock(node(s, ast::WithBlock { assignments: vec![], body: body(&s.body) })),
        Stmt::Import(s) => alone(s.span()),
        Stmt::FromImport(s) => alone(s.span()),
        Stmt::Extends(s) => alone(s.span()),
        Stmt::Include(s) => alone(s.span()),
        Stmt::Macro(s) => Stmt::Macro(macro_decl(s)),
        Stmt::CallBlock(s) => {
            let parts = ast::CallBlock { call: call(&s.call), macro_decl: macro_decl(&s.macro_decl) };
            Stmt::CallBlock(node(s, parts))
        }
        Stmt::Continue(s) => Stmt::Continue(node(s, ast::Continue)),
        Stmt::Break(s) => Stmt::Break(node(s, ast::Break)),
        Stmt::Do(s) => done(&s.call, s.span()),
    }
}

fn node<T, U>(from: &Spanned<T>, to: U) -> Spanned<U> {
    Spanned::new(to, from.span())
}

fn body<'a>(stmts: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    stmts.iter().map(guarded).collect()
}

/// Returns the replacement of a statement that needs another template.
fn alone<'a>(span: Span) -> Stmt<'a> {
    let expr = filter(ALONE, constant(Value::UNDEFINED, span), vec![]);
    Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr }, span))
}

/// Returns an expression that is written. Calls of loops, blocks and `super` that stand alone write by themselves, so
/// no guard is put around a call.
fn emitted<'a>(expression: &Expr<'a>) -> Expr<'a> {
    match expression {
        Expr::Call(c) => called(c),
        _ => expr(expression),
    }
}

fn called<'a>(c: &Spanned<ast::Call<'a>>) -> Expr<'a> {
    match &c.expr {
        Expr::GetAttr(g) if g.name == "cycle" => filter(CYCLE, expr(&g.expr), arguments(&c.args)),
        _ => Expr::Call(call(c)),
    }
}

/// Returns a call whose value is not used.
fn done<'a>(c: &Spanned<ast::Call<'a>>, span: Span) -> Stmt<'a> {
    match called(c) {
        Expr::Call(call) => Stmt::Do(Spanned::new(ast::Do { call }, span)),
        // `do` accepts only a call. Any other value becomes the condition of an `if` without bodies.
        expr => Stmt::IfCond(Spanned::new(ast::IfCond { expr, true_body: vec![], false_body: vec![] }, span)),
    }
}

fn for_loop<'a>(s: &ast::ForLoop<'a>) -> ast::ForLoop<'a> {
    ast::ForLoop {
        target: target(&s.target),
        iter: filter(LOOPED, expr(&s.iter), vec![]),
        filter_expr: s.filter_expr.as_ref().map(expr),
        recursive: s.recursive,
        body: body(&s.body),
        else_body: body(&s.else_body),
    }
}

fn macro_decl<'a>(s: &Spanned<ast::Macro<'a>>) -> Spanned<ast::Macro<'a>> {
    let args: Vec<Expr<'a>> = s.args.iter().map(target).collect();
    if s.defaults.iter().all(|default| matches!(default, Expr::Const(_))) {
        let defaults = s.defaults.iter().map(expr).collect();
        return node(s, ast::Macro { name: s.name, args, defaults, body: body(&s.body) });
    }
    // A default may use the parameters before it. The engine sets these later, so the body sets the defaults.
    let with_defaults = s.args.get(s.args.len().saturating_sub(s.defaults.len())..).unwrap_or_default();
    let set = with_defaults.iter().zip(&s.defaults).map(|(to, default)| defaulted(to, default));
    let body = set.chain(s.body.iter().map(guarded)).collect();
    node(s, ast::Macro { name: s.name, args, defaults: vec![], body })
}

/// Returns `{% set parameter = default if parameter is undefined else parameter %}`.
fn defaulted<'a>(parameter: &Expr<'a>, default: &Expr<'a>) -> Stmt<'a> {
    let span = default.span();
    let test = ast::Test { name: "undefined", expr: target(parameter), args: vec![] };
    let value = ast::IfExpr {
        test_expr: Expr::Test(Spanned::new(test, span)),
        true_expr: expr(default),
        false_expr: Some(target(parameter)),
    };
    let expr = Expr::IfExpr(Spanned::new(value, span));
    Stmt::Set(Spanned::new(ast::Set { target: target(parameter), expr }, span))
}

fn call<'a>(c: &Spanned<ast::Call<'a>>) -> Spanned<ast::Call<'a>> {
    let args = arguments(&c.args).into_iter();
    let args = match &c.expr {
        // `changed` compares its arguments with those of the last call.
        Expr::GetAttr(g) if g.name == "changed" => args.map(|argument| wrapped(WEIGHED, argument)).collect(),
        Expr::Var(v) if v.id == "namespace" => c.args.iter().map(owned_argument).collect(),
        // The argument is the list of a recursive loop's next round.
        Expr::Var(v) if v.id == "loop" => args.map(|argument| wrapped(LOOPED, argument)).collect(),
        _ => args.collect(),
    };
    node(c, ast::Call { expr: target(&c.expr), args })
}

/// Returns an argument in a guard.
fn wrapped<'a>(guard: &'static str, argument: CallArg<'a>) -> CallArg<'a> {
    let wrap = |value| filter(guard, value, vec![]);
    match argument {
        CallArg::Pos(value) => CallArg::Pos(wrap(value)),
        CallArg::Kwarg(name, value) => CallArg::Kwarg(name, wrap(value)),
        CallArg::PosSplat(value) => CallArg::PosSplat(wrap(value)),
        CallArg::KwargSplat(value) => CallArg::KwargSplat(wrap(value)),
    }
}

/// Returns a value that gets a name. If it is a list that is written out, the list can then be changed.
fn owned<'a>(value: &Expr<'a>) -> Expr<'a> {
    match value {
        Expr::List(_) => filter(LIST, expr(value), vec![]),
        _ => expr(value),
    }
}

fn owned_argument<'a>(argument: &CallArg<'a>) -> CallArg<'a> {
    match argument {
        CallArg::Kwarg(name, value) => CallArg::Kwarg(name, owned(value)),
        _ => arguments(std::slice::from_ref(argument)).remove(0),
    }
}

fn arguments<'a>(args: &[CallArg<'a>]) -> Vec<CallArg<'a>> {
    let args = args.iter().map(|argument| match argument {
        CallArg::Pos(value) => CallArg::Pos(expr(value)),
        CallArg::Kwarg(name, value) => CallArg::Kwarg(name, expr(value)),
        CallArg::PosSplat(value) => CallArg::PosSplat(filter(READ, expr(value), vec![])),
        CallArg::KwargSplat(value) => CallArg::KwargSplat(filter(READ, expr(value), vec![])),
    });
    args.collect()
}

/// Returns an expression that is assigned to or called. It stays as it is, with guards in its parts.
fn target<'a>(expression: &Expr<'a>) -> Expr<'a> {
    match expression {
        Expr::Var(e) => Expr::Var(node(e, ast::Var { id: e.id })),
        Expr::GetAttr(e) => Expr::GetAttr(node(e, ast::GetAttr { expr: expr(&e.expr), name: e.name })),
        Expr::List(e) => Expr::List(node(e, ast::List { items: e.items.iter().map(target).collect() })),
        _ => expr(expression),
    }
}

fn expr<'a>(expression: &Expr<'a>) -> Expr<'a> {
    match expression {
        Expr::Var(_) | Expr::GetAttr(_) => target(expression),
        Expr::Const(e) => constant(e.value.clone(), e.span()),
        Expr::Slice(e) => {
            let none = || constant(Value::from(()), e.span());
            let parts = [&e.start, &e.stop, &e.step];
            let parts = parts.map(|part| CallArg::Pos(part.as_ref().map_or_else(none, expr)));
            filter(SLICE, expr(&e.expr), parts.into())
        }
        Expr::UnaryOp(e) => {
            let with = |op| Expr::UnaryOp(node(e, ast::UnaryOp { op, expr: expr(&e.expr) }));
            match e.op {
                UnaryOpKind::Not => with(UnaryOpKind::Not),
                UnaryOpKind::Neg => with(UnaryOpKind::Neg),
            }
        }
        Expr::BinOp(e) => bin_op(e),
        Expr::Compare(e) => {
            let op = |op: &ast::CompareOp<'a>| ast::CompareOp { op: op.op, expr: weighed(&op.expr) };
            Expr::Compare(node(e, ast::Compare { expr: weighed(&e.expr), ops: e.ops.iter().map(op).collect() }))
        }
        Expr::IfExpr(e) => {
            let (test_expr, true_expr) = (expr(&e.test_expr), expr(&e.true_expr));
            let false_expr = e.false_expr.as_ref().map(expr);
            Expr::IfExpr(node(e, ast::IfExpr { test_expr, true_expr, false_expr }))
        }
        Expr::Filter(e) => {
            let of = e.expr.as_ref().map(expr);
            Expr::Filter(node(e, ast::Filter { name: e.name, expr: of, args: arguments(&e.args) }))
        }
        Expr::Test(e) => Expr::Test(node(e, ast::Test { name: e.name, expr: expr(&e.expr), args: arguments(&e.args) })),
        Expr::GetItem(e) => get_item(e),
        Expr::Call(e) => filter(KEPT, called(e), vec![]),
        Expr::List(e) => nested(Expr::List(node(e, ast::List { items: e.items.iter().map(expr).collect() }))),
        Expr::Tuple(e) => nested(Expr::Tuple(node(e, ast::Tuple { items: e.items.iter().map(expr).collect() }))),
        Expr::Map(e) => {
            let (keys, values) = (e.keys.iter().map(weighed).collect(), e.values.iter().map(expr).collect());
            nested(Expr::Map(node(e, ast::Map { keys, values })))
        }
    }
}

fn constant<'a>(value: Value, span: Span) -> Expr<'a> {
    Expr::Const(Spanned::new(ast::Const { value }, span))
}

fn filter<'a>(name: &'static str, of: Expr<'a>, args: Vec<CallArg<'a>>) -> Expr<'a> {
    let span = of.span();
    Expr::Filter(Spanned::new(ast::Filter { name, expr: Some(of), args }, span))
}

fn nested(container: Expr<'_>) -> Expr<'_> {
    // A constant was checked with the source.
    if container.as_const().is_some() { container } else { filter(NESTED, container, vec![]) }
}

/// Returns an operand of an operation that reads values with everything in them. The cost of a constant is bounded by
/// that of its source.
fn weighed<'a>(operand: &Expr<'a>) -> Expr<'a> {
    if let Expr::Const(_) = operand { expr(operand) } else { filter(WEIGHED, expr(operand), vec![]) }
}

fn bin_op<'a>(e: &Spanned<ast::BinOp<'a>>) -> Expr<'a> {
    use BinOpKind::{Add, Concat, Eq, Gt, Gte, In, Lt, Lte, Mul, Ne};
    let with = |left, right| Expr::BinOp(node(e, ast::BinOp { op: e.op, left, right }));
    let (left, right) = (&e.left, &e.right);
    let is_constant = |operand: &Expr<'a>| matches!(operand, Expr::Const(_));
    match e.op {
        Add => filter(PLUS, expr(left), vec![CallArg::Pos(expr(right))]),
        Concat => filter(CONCAT, expr(left), vec![CallArg::Pos(expr(right))]),
        Mul => filter(TIMES, expr(left), vec![CallArg::Pos(expr(right))]),
        Eq | Ne | Gt | Gte | Lt | Lte if is_constant(left) || is_constant(right) => with(expr(left), expr(right)),
        Eq | Ne | Gt | Gte | Lt | Lte => with(weighed(left), weighed(right)),
        In if is_constant(left) => with(expr(left), filter(READ, expr(right), vec![])),
        In => with(weighed(left), weighed(right)),
        _ => with(expr(left), expr(right)),
    }
}

fn get_item<'a>(e: &Spanned<ast::GetItem<'a>>) -> Expr<'a> {
    let of = match &e.subscript_expr {
        Expr::Const(key) if key.value.as_str().is_some() => expr(&e.expr),
        _ => filter(READ, expr(&e.expr), vec![]),
    };
    Expr::GetItem(node(e, ast::GetItem { expr: of, subscript_expr: weighed(&e.subscript_expr) }))
}
