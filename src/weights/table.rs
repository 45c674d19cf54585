//! The positions of a model's tensors in its files.

use core::fmt::Write;

use bytemuck::{Pod, Zeroable};
use gguf_rs_lite::{Name, TensorInfo};

#[cfg(feature = "arch-apertus")]
use super::activation::xielu;
use super::config::Config;
use super::dtypes::Dtypes;
use super::error::ModelError;
use super::files::Files;
use super::names::{layer_and_suffix, layer_in, layer_name};
use super::roles::{Role, role_in_model, roles_in_layer, specs};
use super::shapes::Shape;
use crate::kernels::{Norm, NormKind};
use crate::kv::MAX_LAYERS;
use crate::mem::{Arena, MemoryError};
use crate::nn::Linear;
#[cfg(feature = "arch-apertus")]
use crate::num::Xielu;
use crate::num::settled_of;
use crate::tensor::{Dtype, TensorView};

/// Number of entries of the table for the largest model.
const MAX_PLACES: usize = Role::OF_MODEL + MAX_LAYERS * Role::OF_LAYER;

/// A function that returns whether the model's program reads the tensor of a role in a layer. For roles outside of
/// layers, the layer is ignored.
pub(crate) type Uses<'f> = dyn Fn(usize, Role) -> bool + 'f;

/// The position of a tensor in the files. All fields are 0 if the model does not have the tensor.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TensorRef {
    offset: u64,
    rows: u32,
    cols: u32,
    /// ggml's number of the element type plus 1.
    dtype: u16,
    /// Number of the part that contains the tensor.
    part: u16,
    /// Bits of the factor of the tensor's products, XOR the bits of 1.0, so that 0 stands for no factor.
    scale: u32,
}

impl TensorRef {
    /// Returns the position of rows of a tensor.
    pub(super) fn new(part: usize, info: &TensorInfo<'_>, dtype: Dtype, rows: u32, cols: u32) -> Self {
        let dtype = dtype.ggml_number() as u16 + 1;
        Self { offset: info.offset() as u64, rows, cols, dtype, part: part as u16, scale: 0 }
    }

    /// Returns the tensor in the bytes of its file. `None` if the model does not have it.
    pub(crate) fn view<'m>(&self, file: &'m [u8]) -> Option<TensorView<'m>> {
        let dtype = self.dtype()?;
        let (rows, cols) = (self.rows as usize, self.cols as usize);
        let len = dtype.row_bytes(cols)?.checked_mul(rows)?;
        let offset = usize::try_from(self.offset).ok()?;
        TensorView::new(dtype, rows, cols, file.get(offset..offset.checked_add(len)?)?)
    }

    fn dtype(&self) -> Option<Dtype> {
        Dtype::from_ggml(self.dtype.checked_sub(1)?.into())
    }

    /// Returns the factor of products with the matrix.
    fn scale(&self) -> f32 {
        f32::from_bits(self.scale ^ 1_f32.to_bits())
    }
}

/// The positions of all tensors of a model, in the caller's memory.
#[derive(Debug)]
pub(crate) struct Weights<'m, 'a> {
    files: Files<'m>,
    /// Kind of all norms.
    norm: NormKind,
    epsilon: f32,
    /// Number of the first layer in the file.
    first_layer: usize,
    /// Table of the tensors outside of layers, then of those of each layer.
    table: &'a mut [TensorRef],
}

impl<'m, 'a> Weights<'m, 'a> {
    /// Takes the table's memory from the arena and fills it with the tensors that [`survey`] has checked.
    pub(crate) fn carve(
        arena: &mut Arena<'a>,
        files: &Files<'m>,
        config: &Config,
        uses: &Uses<'_>,
    ) -> Result<Self, MemoryError> {
        let places = config.layers.checked_mul(Role::OF_LAYER).and_then(|places| places.checked_add(Role::OF_MODEL));
        let table = arena.slice("weight table", places.ok_or(MemoryError::TooLarge)?)?;
        table.fill(TensorRef::zeroed());
        for (part, info) in files.tensors() {
            // `survey` refuses models for which this is an error.
            let Ok(found) = check(part, &info, config, uses) else { continue };
            let Some(place) = table.get_mut(place(found.layer, found.role)) else { continue };
            match found.what {
                What::Tensor(tensor) => *place = TensorRef { scale: place.scale, ..tensor },
                What::Scale(scale) => place.scale = scale.to_bits() ^ 1_f32.to_bits(),
                What::InputScale => {}
            }
        }
        let Config { norm, norm_epsilon: epsilon, first_layer, .. } = *config;
        Ok(Self { files: *files, norm, epsilon, first_layer: first_layer.into(), table })
    }

    /// Returns the tensor of a role. For a role in layers, it is the tensor of `layer`. `None` if the model does not
    /// have it. The matrices of experts follow one another.
    #[inline]
    pub(crate) fn tensor(&self, layer: usize, role: Role) -> Option<TensorView<'m>> {
        let Some(tensor) = self.table.get(place(layer, role)) else { return self.named(layer, role) };
        tensor.view(self.files.bytes(tensor.part as usize)?)
    }

    /// Returns the tensor of a role by its name in the file. There is no table while memory is measured.
    #[cold]
    fn named(&self, layer: usize, role: Role) -> Option<TensorView<'m>> {
        let info = match role.is_of_layer() || role.name().starts_with(Role::PREDICTOR) {
            true => self.files.tensor(&layer_name(self.first_layer.saturating_add(layer), role.name()))?,
            false => self.files.tensor(role.name())?,
        };
        let dim = |index: usize| info.dims().get(index).map_or(Some(1), |&dim| usize::try_from(dim).ok());
        let rows = dim(1)?.checked_mul(dim(2)?)?;
        TensorView::new(Dtype::from_ggml(info.ggml_type().number())?, rows, dim(0)?, info.data())
    }

    /// Returns the numbers of the layer's activation function from the file, the only place that has them while memory
    /// is measured.
    #[cfg(feature = "arch-apertus")]
    pub(crate) fn xielu(&self, layer: usize) -> Option<Xielu> {
        xielu(&self.files, layer).ok()
    }

    /// Returns a matrix with its bias and its scale.
    pub(crate) fn linear(&self, layer: usize, role: Role) -> Option<Linear<'m>> {
        let bias = self.bias(layer, role);
        Some(Linear { bias, scale: self.scale(layer, role), ..Linear::plain(self.tensor(layer, role)?) })
    }

    /// Returns the matrix of one of a layer's experts, with its bias and its scale.
    #[cfg(feature = "experts")]
    pub(crate) fn expert(&self, layer: usize, role: Role, expert: u32, rows: usize) -> Option<Linear<'m>> {
        let linear = self.linear(layer, role)?.slice((expert as usize).checked_mul(rows)?, rows)?;
        let scales = self.scales(layer, role).unwrap_or_default();
        let scale = scales.get(expert as usize).map_or(1.0, |&scale| settled_of(scale));
        Some(Linear { scale, ..linear })
    }

    /// Returns the factors of the products of a layer's experts with the matrices of this role. The factors of down
    /// matrices become part of the weights of the experts instead ([`Weights::expert_scales`]), unless biases are added
    /// in between.
    #[cfg(feature = "experts")]
    fn scales(&self, layer: usize, role: Role) -> Option<&'m [[u8; size_of::<f32>()]]> {
        let moved = role == Role::DownExperts && self.bias(layer, role).is_empty();
        let scales = role.scales().filter(|_| !moved).and_then(|scales| self.tensor(layer, scales))?;
        Some(scales.bytes().as_chunks().0)
    }

    /// Returns the factors of the weights of a layer's experts as little-endian f32, or nothing.
    #[cfg(feature = "experts")]
    pub(crate) fn expert_scales(&self, layer: usize) -> &'m [u8] {
        let scales = self.tensor(layer, Role::DownExpertsScales);
        scales.filter(|_| self.bias(layer, Role::DownExperts).is_empty()).map_or(&[], |scales| scales.bytes())
    }

    /// Returns whether products with a matrix, or with one of the experts' matrices, are multiplied by a scale.
    pub(crate) fn is_scaled(&self, layer: usize, role: Role) -> bool {
        #[cfg(feature = "experts")]
        if self.scales(layer, role).is_some() {
            return true;
        }
        self.scale(layer, role) != 1.0
    }

    /// Returns the factor of products with a matrix.
    fn scale(&self, layer: usize, role: Role) -> f32 {
        match self.table.get(place(layer, role)) {
            Some(tensor) => tensor.scale(),
            None => self.named_scale(layer, role).unwrap_or(1.0),
        }
    }

    /// Returns the factor of products with a matrix by its name in the file. There is no table while memory is
    /// measured.
    #[cold]
    fn named_scale(&self, layer: usize, role: Role) -> Option<f32> {
        let base = role.name().strip_suffix("weight").filter(|base| !base.ends_with("_exps."))?;
        let mut name = heapless::String::<64>::new();
        write!(name, "{base}scale").ok()?;
        if role.is_of_layer() || role.name().starts_with(Role::PREDICTOR) {
            name = layer_name(self.first_layer.saturating_add(layer), &name);
        }
        // The norm of a router has such a name, too, but more than one element.
        let info = self.files.tensor(&name).filter(|info| info.dims().iter().all(|&dim| dim == 1))?;
        info.data().first_chunk().copied().map(settled_of)
    }

    /// Returns the norm of a role: a vector of weights, and of biases if it has any.
    pub(crate) fn norm(&self, layer: usize, role: Role) -> Option<Norm<'m>> {
        Some(self.norm_with(self.tensor(layer, role)?.bytes(), self.bias(layer, role)))
    }

    /// Returns the output matrix, or the embedding's matrix if the file has none. A layer that predicts further ahead
    /// can have an output matrix of its own.
    pub(crate) fn output(&self) -> Option<Linear<'m>> {
        let own = if self.first_layer > 0 { self.linear(0, Role::PredictorOutput) } else { None };
        let output = own.or_else(|| self.linear(0, Role::Output));
        output.or_else(|| self.tensor(0, Role::Embedding).map(Linear::plain))
    }

    /// Returns a norm with these weights.
    pub(crate) fn norm_with<'w>(&self, weight: &'w [u8], bias: &'w [u8]) -> Norm<'w> {
        Norm { kind: self.norm, epsilon: self.epsilon, weight, bias }
    }

    /// Returns the bias of a tensor, or an empty slice if there is none.
    pub(crate) fn bias(&self, layer: usize, role: Role) -> &'m [u8] {
        role.bias().and_then(|bias| self.tensor(layer, bias)).map_or(&[], |bias| bias.bytes())
    }
}

/// The element types that a model's tensors have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey {
    /// Element types of each role, over all layers.
    of: [Dtypes; Role::COUNT],
    /// Element types of all tensors with more than one dimension.
    pub(crate) matrices: Dtypes,
}

impl Survey {
    /// Returns the element types of the tensors of some roles.
    pub(crate) fn of(&self, roles: &[Role]) -> Dtypes {
        let types = roles.iter().filter_map(|&role| self.of.get(role as usize));
        types.fold(Dtypes::default(), |all, types| all.union(*types))
    }
}

/// Checks that the file has all tensors that the model's program reads, in the right shapes and types, each once, and
/// no other tensors. It reads the tensors of the file once.
pub(crate) fn survey(files: &Files<'_>, config: &Config, uses: &Uses<'_>) -> Result<Survey, ModelError> {
    let count = files.tensor_count();
    if count > MAX_PLACES {
        return Err(ModelError::TooMany { count, limit: MAX_PLACES });
    }
    let mut survey = Survey { of: [Dtypes::default(); Role::COUNT], matrices: Dtypes::default() };
    let [mut found, mut scaled] = [const { Places([0; MAX_PLACES.div_ceil(64)]) }; 2];
    let (mut predicting, first_layer) = (None, usize::from(config.first_layer));
    for (part, info) in files.tensors() {
        let in_layer = layer_and_suffix(info.name());
        let behind = in_layer.filter(|&(layer, _)| layer >= first_layer.saturating_add(config.layers));
        if behind.is_some_and(|(layer, _)| predicting.get_or_insert_with(|| files.predicting()).contains(layer)) {
            continue;
        }
        // The layers before a predicting layer were checked when the model was opened.
        if in_layer.is_some_and(|(layer, _)| layer < first_layer) {
            continue;
        }
        let Found { layer, role, what } = match check(part, &info, config, uses) {
            // It belongs to the model of the layers before.
            Err(ModelError::UnknownTensor { .. }) if config.is_predictor() && in_layer.is_none() => continue,
            found => found?,
        };
        let is_new = match what {
            What::Tensor(_) => found.insert(place(layer, role)),
            What::Scale(_) => scaled.insert(place(layer, role)),
            What::InputScale => true,
        };
        if !is_new {
            return Err(ModelError::DuplicateTensor { tensor: Name::new(info.name().as_bytes()) });
        }
        let What::Tensor(tensor) = what else { continue };
        let Some(dtype) = tensor.dtype() else { continue };
        if let Some(types) = survey.of.get_mut(role as usize) {
            types.insert(dtype);
        }
        if info.dims().len() > 1 {
            survey.matrices.insert(dtype);
        }
    }
    let is_missing = |layer: usize, role: Role| {
        let required = role.shape(config, layer).is_some_and(|shape| !shape.is_optional()) && uses(layer, role.owner());
        let place = place(layer, role);
        (required || scaled.contains(place)) && !found.contains(place)
    };
    for spec in specs().filter(|spec| !spec.role.is_of_layer()) {
        if is_missing(0, spec.role) {
            let in_layer = layer_name(first_layer, spec.name);
            let name = if spec.name.starts_with(Role::PREDICTOR) { &in_layer } else { spec.name };
            return Err(ModelError::MissingTensor { tensor: Name::new(name.as_bytes()) });
        }
    }
    for layer in 0..config.layers {
        for spec in specs().filter(|spec| spec.role.is_of_layer()) {
            if is_missing(layer, spec.role) {
                let name = layer_name(first_layer.saturating_add(layer), spec.name);
                return Err(ModelError::MissingTensor { tensor: Name::new(name.as_bytes()) });
            }
        }
    }
    Ok(survey)
}

/// A set of indices of the table.
struct Places([u64; MAX_PLACES.div_ceil(64)]);

impl Places {
    /// Inserts an index. Returns whether it was not in the set before.
    fn insert(&mut self, index: usize) -> bool {
        let Some(word) = self.0.get_mut(index / 64) else { return false };
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & 1 << (index % 64) != 0)
    }
}

/// Returns the index of a tensor in the table.
#[inline]
fn place(layer: usize, role: Role) -> usize {
    if role.is_of_layer() { layer * Role::OF_LAYER + role as usize } else { role as usize }
}

/// Returns the layer (0 outside of layers) and the role of the tensor with this name. `None` if the model has no such
/// tensor.
fn find(name: &str, config: &Config, uses: &Uses<'_>) -> Option<(usize, Role)> {
    let wanted = |layer, role: Role| role.shape(config, layer).is_some() && uses(layer, role.owner());
    if let Some(role) = role_in_model(name).filter(|_| !name.starts_with(Role::PREDICTOR)) {
        return wanted(0, role).then_some((0, role));
    }
    let (layer, suffix) = layer_in(name, config)?;
    if suffix.starts_with(Role::PREDICTOR) {
        return Some((0, role_in_model(suffix).filter(|&role| wanted(0, role))?));
    }
    Some((layer, roles_in_layer(suffix).find(|&role| wanted(layer, role))?))
}

/// The layer and the role to which a tensor of the file belongs, and its purpose for them.
struct Found {
    layer: usize,
    role: Role,
    what: What,
}

enum What {
    /// The tensor of the role.
    Tensor(TensorRef),
    /// Factor of products with the matrix of the role.
    Scale(f32),
    /// Scale of inputs that are rounded to 4 bits. It has no use here, because inputs are not rounded to 4 bits.
    InputScale,
}

/// Returns the layer, the role and the shape `[rows, cols]` of a matrix with this name, if its role is one of `roles`.
pub(super) fn matrix_of_layer(name: &str, roles: &[Role], config: &Config) -> Option<(usize, Role, [usize; 2])> {
    let (layer, suffix) = layer_in(name, config)?;
    let role = roles_in_layer(suffix).find(|role| roles.contains(role))?;
    match role.shape(config, layer)? {
        Shape::Matrix(rows, cols) => Some((layer, role, [rows, cols])),
        _ => None,
    }
}

/// Returns the purpose of a tensor of the file, if it has the shape and the type that the model requires.
fn check(part: usize, info: &TensorInfo<'_>, config: &Config, uses: &Uses<'_>) -> Result<Found, ModelError> {
    let tensor = Name::new(info.name().as_bytes());
    let Some((layer, role)) = find(info.name(), config, uses) else {
        return scale(info, config, uses)?.ok_or(ModelError::UnknownTensor { tensor });
    };
    let shape = role.shape(config, layer).ok_or(ModelError::UnknownTensor { tensor })?;
    let (experts, rows, cols, vector) = match shape {
        Shape::Matrix(rows, cols) | Shape::OptionalMatrix(rows, cols) => (1, rows, cols, false),
        Shape::Matrices(experts, rows, cols) => (experts, rows, cols, false),
        Shape::Vectors(rows, n) | Shape::OptionalVectors(rows, n) => (1, rows, n, true),
        Shape::Vector(n) | Shape::OptionalVector(n) => (1, 1, n, true),
    };
    check_dims(info, [experts, rows, cols])?;
    let wrong_type = ModelError::TensorType { tensor, found: info.ggml_type() };
    let dtype = Dtype::from_ggml(info.ggml_type().number()).ok_or(wrong_type)?;
    let computed = if vector { dtype == Dtype::F32 } else { dtype.is_built() };
    let len = dtype.row_bytes(cols).and_then(|bytes| bytes.checked_mul(rows)?.checked_mul(experts));
    let all_rows = rows.checked_mul(experts).and_then(|rows| u32::try_from(rows).ok());
    let (Some(all_rows), true) = (all_rows, computed && len == Some(info.data().len())) else {
        return Err(wrong_type);
    };
    let what = What::Tensor(TensorRef::new(part, info, dtype, all_rows, cols as u32));
    Ok(Found { layer, role, what })
}

/// Returns the scale of a matrix: of its products (`NAME.scale`) or of its inputs (`NAME.input_scale`). `None` if the
/// name has another form, or belongs to no matrix of the model.
fn scale(info: &TensorInfo<'_>, config: &Config, uses: &Uses<'_>) -> Result<Option<Found>, ModelError> {
    let (name, tensor) = (info.name(), Name::new(info.name().as_bytes()));
    let of_input = name.strip_suffix(".input_scale");
    let Some(base) = of_input.or_else(|| name.strip_suffix(".scale")) else { return Ok(None) };
    let mut owner = heapless::String::<64>::new();
    if write!(owner, "{base}.weight").is_err() {
        return Ok(None);
    }
    let Some((layer, role)) = find(&owner, config, uses).filter(|&(_, role)| !role.is_table()) else { return Ok(None) };
    let count = match role.shape(config, layer) {
        Some(Shape::Matrix(..) | Shape::OptionalMatrix(..)) => 1,
        // The scales of the experts' products have roles of their own.
        Some(Shape::Matrices(experts, ..)) if of_input.is_some() => experts,
        _ => return Ok(None),
    };
    check_dims(info, [1, 1, count])?;
    let number = info.data().first_chunk().filter(|_| info.ggml_type().number() == Dtype::F32.ggml_number());
    let number = number.ok_or(ModelError::TensorType { tensor, found: info.ggml_type() })?;
    let what = if of_input.is_some() { What::InputScale } else { What::Scale(settled_of(*number)) };
    Ok(Some(Found { layer, role, what }))
}

/// Checks that a tensor has the dimensions `[experts, rows, cols]`.
fn check_dims(info: &TensorInfo<'_>, [experts, rows, cols]: [usize; 3]) -> Result<(), ModelError> {
    let dim = |index: usize| info.dims().get(index).copied().unwrap_or(1);
    if [dim(0), dim(1), dim(2), dim(3)] == [cols as u64, rows as u64, experts as u64, 1] {
        return Ok(());
    }
    let tensor = Name::new(info.name().as_bytes());
    Err(ModelError::TensorShape { tensor, expected: [rows, cols], found: [dim(1), dim(0)] })
}
