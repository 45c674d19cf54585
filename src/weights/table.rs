//! Where the tensors of a model lie in its files.

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

/// Places in the table of the largest model.
const MAX_PLACES: usize = Role::OF_MODEL + MAX_LAYERS * Role::OF_LAYER;

/// Whether the model's program reads the tensor of a role in a layer. (The layer says nothing for roles outside of
/// layers.)
pub(crate) type Uses<'f> = dyn Fn(usize, Role) -> bool + 'f;

/// A tensor's place in the file. All zero where the model does not have it.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TensorRef {
    offset: u64,
    rows: u32,
    cols: u32,
    /// ggml's number, and 1.
    dtype: u16,
    /// The file that it is in.
    part: u16,
    /// The bits of what its products are multiplied by, other than those of 1: zero where there is nothing.
    scale: u32,
}

impl TensorRef {
    /// The place of rows of a tensor.
    pub(super) fn new(part: usize, info: &TensorInfo<'_>, dtype: Dtype, rows: u32, cols: u32) -> Self {
        let dtype = dtype.ggml_number() as u16 + 1;
        Self { offset: info.offset() as u64, rows, cols, dtype, part: part as u16, scale: 0 }
    }

    /// The tensor in the bytes of its file; `None` where there is none.
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

    /// What products with the matrix are multiplied by.
    fn scale(&self) -> f32 {
        f32::from_bits(self.scale ^ 1_f32.to_bits())
    }
}

/// The places of all tensors of a model, in the caller's memory.
#[derive(Debug)]
pub(crate) struct Weights<'m, 'a> {
    files: Files<'m>,
    /// Of all norms.
    norm: NormKind,
    epsilon: f32,
    /// The number in the file of the first layer.
    first_layer: usize,
    /// The tensors outside of layers, then those of each layer.
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
            // `survey` has refused the model where this is an error.
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

    /// The tensor of a role, in a layer if it has one there; `None` where the model does not have it. Matrices of
    /// experts follow one another.
    #[inline]
    pub(crate) fn tensor(&self, layer: usize, role: Role) -> Option<TensorView<'m>> {
        let Some(tensor) = self.table.get(place(layer, role)) else { return self.named(layer, role) };
        tensor.view(self.files.bytes(tensor.part as usize)?)
    }

    /// The same by its name in the file: while memory is measured there is no table.
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

    /// The numbers of the layer's activation function in the file: while memory is measured they are nowhere else.
    #[cfg(feature = "arch-apertus")]
    pub(crate) fn xielu(&self, layer: usize) -> Option<Xielu> {
        xielu(&self.files, layer).ok()
    }

    /// A matrix with its bias and its scale.
    pub(crate) fn linear(&self, layer: usize, role: Role) -> Option<Linear<'m>> {
        let bias = self.bias(layer, role);
        Some(Linear { bias, scale: self.scale(layer, role), ..Linear::plain(self.tensor(layer, role)?) })
    }

    /// The matrix of one of a layer's experts, with its bias and its scale.
    #[cfg(feature = "experts")]
    pub(crate) fn expert(&self, layer: usize, role: Role, expert: u32, rows: usize) -> Option<Linear<'m>> {
        let linear = self.linear(layer, role)?.slice((expert as usize).checked_mul(rows)?, rows)?;
        let scales = self.scales(layer, role).unwrap_or_default();
        let scale = scales.get(expert as usize).map_or(1.0, |&scale| settled_of(scale));
        Some(Linear { scale, ..linear })
    }

    /// The scales of a layer's experts that their matrices of this role are multiplied by. Those of the down matrices
    /// belong to the weights of the experts instead ([`Weights::expert_scales`]), but where biases are added between.
    #[cfg(feature = "experts")]
    fn scales(&self, layer: usize, role: Role) -> Option<&'m [[u8; size_of::<f32>()]]> {
        let moved = role == Role::DownExperts && self.bias(layer, role).is_empty();
        let scales = role.scales().filter(|_| !moved).and_then(|scales| self.tensor(layer, scales))?;
        Some(scales.bytes().as_chunks().0)
    }

    /// What the weights of a layer's experts are multiplied by: little-endian f32, or nothing.
    #[cfg(feature = "experts")]
    pub(crate) fn expert_scales(&self, layer: usize) -> &'m [u8] {
        let scales = self.tensor(layer, Role::DownExpertsScales);
        scales.filter(|_| self.bias(layer, Role::DownExperts).is_empty()).map_or(&[], |scales| scales.bytes())
    }

    /// Whether products with a matrix, or with one of the experts', are multiplied by a scale.
    pub(crate) fn is_scaled(&self, layer: usize, role: Role) -> bool {
        #[cfg(feature = "experts")]
        if self.scales(layer, role).is_some() {
            return true;
        }
        self.scale(layer, role) != 1.0
    }

    /// What products with a matrix are multiplied by.
    fn scale(&self, layer: usize, role: Role) -> f32 {
        match self.table.get(place(layer, role)) {
            Some(tensor) => tensor.scale(),
            None => self.named_scale(layer, role).unwrap_or(1.0),
        }
    }

    /// The same by its name in the file: while memory is measured there is no table.
    #[cold]
    fn named_scale(&self, layer: usize, role: Role) -> Option<f32> {
        let base = role.name().strip_suffix("weight").filter(|base| !base.ends_with("_exps."))?;
        let mut name = heapless::String::<64>::new();
        write!(name, "{base}scale").ok()?;
        if role.is_of_layer() || role.name().starts_with(Role::PREDICTOR) {
            name = layer_name(self.first_layer.saturating_add(layer), &name);
        }
        // The norm of a router has such a name, too.
        let info = self.files.tensor(&name).filter(|info| info.dims().iter().all(|&dim| dim == 1))?;
        info.data().first_chunk().copied().map(settled_of)
    }

    /// The norm of a role: a vector of weights, and of biases if it has any.
    pub(crate) fn norm(&self, layer: usize, role: Role) -> Option<Norm<'m>> {
        Some(self.norm_with(self.tensor(layer, role)?.bytes(), self.bias(layer, role)))
    }

    /// The output matrix: the embedding's where the file has none of its own. A layer that predicts further ahead can
    /// have another one.
    pub(crate) fn output(&self) -> Option<Linear<'m>> {
        let own = if self.first_layer > 0 { self.linear(0, Role::PredictorOutput) } else { None };
        let output = own.or_else(|| self.linear(0, Role::Output));
        output.or_else(|| self.tensor(0, Role::Embedding).map(Linear::plain))
    }

    /// A norm with these weights.
    pub(crate) fn norm_with<'w>(&self, weight: &'w [u8], bias: &'w [u8]) -> Norm<'w> {
        Norm { kind: self.norm, epsilon: self.epsilon, weight, bias }
    }

    /// The bias of a tensor; empty where there is none.
    pub(crate) fn bias(&self, layer: usize, role: Role) -> &'m [u8] {
        role.bias().and_then(|bias| self.tensor(layer, bias)).map_or(&[], |bias| bias.bytes())
    }
}

/// The element types that a model's tensors have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey {
    /// By role, over all layers.
    of: [Dtypes; Role::COUNT],
    /// Of all tensors with more than one dimension.
    pub(crate) matrices: Dtypes,
}

impl Survey {
    /// The types of the tensors of some roles.
    pub(crate) fn of(&self, roles: &[Role]) -> Dtypes {
        let types = roles.iter().filter_map(|&role| self.of.get(role as usize));
        types.fold(Dtypes::default(), |all, types| all.union(*types))
    }
}

/// Checks that the file has all tensors that the model's program reads, in the right shapes and types, each once, and
/// no other ones. One pass over the file.
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
        // The layers before one that predicts have been looked at.
        if in_layer.is_some_and(|(layer, _)| layer < first_layer) {
            continue;
        }
        let Found { layer, role, what } = match check(part, &info, config, uses) {
            // It is of the layers before.
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

/// A set of places in the table.
struct Places([u64; MAX_PLACES.div_ceil(64)]);

impl Places {
    /// Whether it was not there before.
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

/// The place of a tensor in the table.
#[inline]
fn place(layer: usize, role: Role) -> usize {
    if role.is_of_layer() { layer * Role::OF_LAYER + role as usize } else { role as usize }
}

/// The layer (0 outside of layers) and role of the tensor with this name; `None` where the model has none of this name.
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

/// What a tensor of the file is to the model.
struct Found {
    layer: usize,
    role: Role,
    what: What,
}

enum What {
    /// It has the role itself.
    Tensor(TensorRef),
    /// Products with the matrix of that role are multiplied by it.
    Scale(f32),
    /// The scale that the matrix's inputs had where they were rounded to 4 bits, which they are not here.
    InputScale,
}

/// The layer and role of a matrix of this name, and its shape, `[rows, cols]`, if its role is one of `roles`.
pub(super) fn matrix_of_layer(name: &str, roles: &[Role], config: &Config) -> Option<(usize, Role, [usize; 2])> {
    let (layer, suffix) = layer_in(name, config)?;
    let role = roles_in_layer(suffix).find(|role| roles.contains(role))?;
    match role.shape(config, layer)? {
        Shape::Matrix(rows, cols) => Some((layer, role, [rows, cols])),
        _ => None,
    }
}

/// What a tensor of the file is, if it has the shape and type that the model wants.
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

/// The scale of a matrix, of its products (`NAME.scale`) or of its inputs (`NAME.input_scale`); `None` where the name
/// is another one, or that of no matrix of the model.
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
        // Those of their products have roles.
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
