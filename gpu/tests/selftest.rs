//! The self-test finds what is wrong with a device.

mod common;

use gleed_gpu::{AtOnce, Catalog, Gpu, GpuError, Kernel, Tested, Weights, selftest};

/// Returns what the self-test says of a kernel in which `to` replaces the text `from`.
fn with(hardware: &gleed_gpu::Hardware, kernel: Kernel, from: &str, to: &str) -> Result<(), GpuError> {
    let source = kernel.source().unwrap();
    assert!(source.contains(from), "{kernel:?} has no {from}");
    let mut catalog = Catalog::default();
    catalog.replace(hardware, kernel, &source.replace(from, to)).unwrap();
    selftest::run(hardware, &catalog)
}

#[test]
fn broken_kernels_are_found() {
    let Some(hardware) = common::hardware() else { return };
    let (q8, q4k, q6k) = (Weights::Q8_0, Weights::Q4K, Weights::Q6K);
    for (kernel, from, to, name) in [
        (Kernel::Input, "0x3c010204u", "0x3c010205u", "the input of matrices"),
        (Kernel::Input, "atomicMax(&FLAG[P.flag], 1u);", "", "the check for numbers that are not finite"),
        (
            Kernel::Vector(q8),
            "mul_i32(sums.sum, mul(w.scale, step))",
            "mul(mul_i32(sums.sum, w.scale), step)",
            "products of Q8_0",
        ),
        (Kernel::Vector(Weights::F16), "i += 16u", "i += 17u", "products of F16"),
        (Kernel::Tile(q4k), "CODES[2u * row] + CODES[2u * row + 1u]", "CODES[2u * row]", "products of Q4_K"),
        (Kernel::Tile(q4k), "let high = (sum >> 7u) << shift;", "let high = 0u;", "products of Q4_K"),
        (Kernel::Tile(q4k), "group.y * ROWS + i, last_row()", "group.y * ROWS, last_row()", "products of Q4_K"),
        (Kernel::Narrow(Weights::Mxfp4), "0x0c080604u", "0x0c080605u", "products of MXFP4"),
        (Kernel::Vector(q6k), "P.cols / 16u * 13u + 2u * block", "P.cols / 16u * 13u", "products of Q6_K"),
        (
            Kernel::Tile(q8),
            "add(number(0x3f800000u), exp_of(neg(x)))",
            "add(exp_of(neg(x)), number(0x3f800001u))",
            "activations",
        ),
        (Kernel::Embed(q8), "P.factor != 0u", "P.factor == 1u", "rows of the embedding"),
        (
            Kernel::Store,
            "add(mul(x, sine), mul(y, cosine))",
            "sub(mul(x, sine), mul(y, cosine))",
            "norms and rotation of heads",
        ),
        (Kernel::Store, "select(bits, 0u, largest == 0u)", "bits + 1u", "keys and values"),
        (Kernel::Attend, "weight = short(weight);", "", "attention"),
        (Kernel::Input, "return settle(select(y,", "return (select(y,", "the input of matrices"),
        (
            Kernel::Input,
            "X[ROW * P.n + i] = add(X[ROW * P.n + i], y);",
            "X[ROW * P.n + i] = y;",
            "the norm of a branch",
        ),
        (Kernel::Input, "ATTENTION[ROW * P.attention + i] = 0u;", "", "the largest activations"),
        (Kernel::Attend, "LARGEST[row * P.largest + column / 32u]", "LARGEST[column / 32u]", "the largest activations"),
        (Kernel::Vector(q4k), "let word = largest_of(row) + ", "let word = ", "the largest activations"),
        (Kernel::Tile(q8), "max(noted.largest, magnitude)", "magnitude", "the largest activations"),
        (Kernel::StoreMany, "add(sum, a), b)", "add(sum, b), a)", "norms and rotation of heads"),
        (Kernel::Raw(q8), "code_of(x.y, inverse) << 8u", "code_of(x.x, inverse) << 8u", "activations as floats"),
        (Kernel::Quantize, "code_of(x.y, inverse) << 8u", "code_of(x.x, inverse) << 8u", "activations of many rows"),
        (Kernel::AttendMany(AtOnce::Four), "table_of(row) == table);", "true);", "attention"),
        (Kernel::AttendMany(AtOnce::Eight), "atomicLoad(&HOLES[g]) == turn", "false", "attention"),
        (
            Kernel::AttendMany(AtOnce::Sixteen),
            "return Sums(s.b, s.c, s.d, last);",
            "return Sums(last, s.c, s.d, s.b);",
            "attention",
        ),
        (Kernel::Attend, "weighing(w.h, high.w)", "w.h", "attention"),
        (Kernel::Raw(q8), "first % window == 0u", "first == 0u", "activations as floats"),
        (Kernel::Raw(q4k), "first % window == 0u", "first == 0u", "activations as floats"),
        (Kernel::Vector(Weights::F16), "return activation(x);", "return x;", "activations as floats"),
        (Kernel::Input, "return settle(sub(x, MEAN));", "return x;", "norms by mean and deviation"),
        (Kernel::Embed(q8), "P.adds != 0u) { x =", "P.adds == 2u) { x =", "rows of positions"),
        (Kernel::Store, "bits - MAGIC), 7)", "bits - MAGIC), 8)", "keys and values"),
        (Kernel::Store, "d |= 0x8000u;", "d |= 0u;", "keys and values"),
        (
            Kernel::Attend,
            "bitcast<i32>(position) - bitcast<i32>(query)",
            "bitcast<i32>(query) - bitcast<i32>(position)",
            "attention",
        ),
        (Kernel::Attend, "let factor = exp_of(sub(peak, sink));", "let factor = number(0x3f800000u);", "attention"),
        (Kernel::Attend, "result = mul(result, sigmoid(", "result = mul(sigmoid(result), sigmoid(", "attention"),
        (Kernel::Tile(q8), "select(0u, P.split_at, half % 2u == 1u)", "P.split_at", "queries and gates"),
        (Kernel::Attend, "put_result(row, head, invocation + 256u, sums.other, part);", "", "attention"),
        (Kernel::Store, "settle(sums.other)", "settle(sums.value)", "chunks of attention"),
        (
            Kernel::Narrow(q8),
            "y = mul(y, Y[P.times + row * P.times_stride + column]);",
            "",
            "activations times numbers",
        ),
        (Kernel::Embed(q8), "x = mul(x, P.of_sum);", "", "inputs of layers"),
        (Kernel::Input, "ROW = group.x + P.first_row;", "ROW = group.x;", "norms in place"),
        (Kernel::Input, "P.second_form - 1u", "P.form", "an input in two forms"),
        (Kernel::Route, "GROUPS[i] == mine && i < invocation", "false", "the choice of experts"),
        (Kernel::Route, "before >= P.groups_used", "false", "the choice of experts"),
        (Kernel::Route, "RANKS[j] == mine && j < i", "false", "the choice of experts"),
        (
            Kernel::Input,
            "P.factor != 0u && (P.adds & TO_BRANCH) == 0u",
            "P.factor != 0u",
            "what is done before an input",
        ),
        (
            Kernel::Vector(q8),
            "y = mul(x, sigmoid(Y[P.gates + row * P.gates_stride]));",
            "y = x;",
            "an expert of all rows",
        ),
        (Kernel::Narrow(q8), "mul(above, settle(mul(x, x)))", "mul(above, x)", "activations"),
        (Kernel::Store, "select(dim, count * dim, is_whole)", "dim", "norms and rotation of heads"),
        (Kernel::Store, "select(0u, own * dim, (P.norms & OWN_WEIGHTS) != 0u)", "0u", "norms and rotation of heads"),
        (Kernel::Store, "HEAD[i] = mul(HEAD[i], factor);", "", "norms and rotation of heads"),
        (Kernel::Store, "of_value && (P.norms & KEYS_AS_VALUES) != 0u", "false", "keys and values"),
        (Kernel::Convolve, "result = silu(result);", "", "a convolution"),
        (Kernel::Convolve, "EARLIER[i - 1u] = EARLIER[i];", "", "the state of a convolution"),
        (Kernel::Convolve, "place + i * width] = EARLIER[i]", "place + i] = EARLIER[i]", "the state of a convolution"),
        (Kernel::Update, "mul(KEY[i], new_value)", "mul(QUERY[i], new_value)", "the state of matrices"),
        (Kernel::Update, "settle(sigmoid(", "settle(silu(", "the state of matrices"),
        (Kernel::Update, "mul(s, QUERY[i])", "mul(s, KEY[i])", "an update of matrices"),
        (Kernel::GroupNorm, "P.weight + column", "P.weight", "the norm of groups"),
        (Kernel::Draw, "before + mass.low < before", "before > 0xffffffffu", "a token that is drawn"),
        (Kernel::Draw, "a.logit == b.logit && a.id > b.id", "false", "a token that is drawn"),
        (Kernel::Draw, "share.low != 0u", "false", "a token that is drawn"),
        (Kernel::Draw, "product(SUMS[0], D.top_p)", "product(SUMS[0], D.top_p / 2u)", "a token that is drawn"),
        (Kernel::Draw, "0xbf58476du", "0xbf58476cu", "a token that is drawn"),
        (Kernel::Draw, "D.top_k, 0u", "D.top_k + 1u, 0u", "a token that is drawn"),
        (Kernel::Draw, "< D.min_p", "<= D.min_p", "a token that is drawn"),
        (Kernel::Choose, "TOKEN[other] < TOKEN[invocation]", "TOKEN[other] > TOKEN[invocation]", "the largest logit"),
    ] {
        assert_eq!(with(&hardware, kernel, from, to), Err(GpuError::Unfit { operation: name }), "{kernel:?}: {to}");
    }
}

/// A zero that the compiler knows, as Mesa knows one in a uniform buffer, whose value it compiles into the shader: the
/// barrier keeps nothing.
#[test]
fn a_zero_that_the_compiler_knows_is_found() {
    let Some(hardware) = common::hardware() else { return };
    // In other kernels Mesa sees no sums to simplify.
    for kernel in [Kernel::Attend, Kernel::Vector(Weights::Q8_0)] {
        let found = with(&hardware, kernel, "P.zero", "0u");
        assert!(matches!(found, Err(GpuError::Unfit { .. })), "{kernel:?}: {found:?}");
    }
}

#[test]
fn a_result_counts_for_a_device_and_its_kernels() {
    let Some(hardware) = common::hardware() else { return };
    let (gpu, tested) = Gpu::open(&common::ANY, None).unwrap();
    assert_eq!(tested, Tested(selftest::key(&hardware, &Kernel::all())));
    assert_ne!(tested, Tested(selftest::key(&hardware, &[Kernel::Choose])));
    assert_eq!(gpu.hardware().info(), hardware.info());
    let started = std::time::Instant::now();
    let (_, again) = Gpu::open(&common::ANY, Some(tested)).unwrap();
    println!("the sentinel, with the compiler: {:?}", started.elapsed());
    assert_eq!(again, tested);
}

#[test]
fn an_absent_adapter_is_refused_with_those_that_there_are() {
    let Some(hardware) = common::hardware() else { return };
    let absent = if cfg!(target_vendor = "apple") { gleed_gpu::Backend::Vulkan } else { gleed_gpu::Backend::Metal };
    let choice = gleed_gpu::Choice { backend: Some(absent), ..common::ANY };
    let refused = Gpu::open(&choice, None).unwrap_err();
    assert!(matches!(refused, GpuError::NoAdapter { .. }));
    assert!(refused.to_string().contains(&hardware.info().to_string()), "{refused}");
    assert_eq!(
        "glide".parse::<gleed_gpu::Backend>(),
        Err("\"glide\" is none of vulkan, metal, dx12, webgpu".to_owned())
    );
}
