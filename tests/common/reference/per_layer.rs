//! The input that layers get of each token beside the residual stream.

use super::config::Part;
use super::weights::{Matrix, Name, Norm, Weights};
use super::{Reference, Rows};

/// Weights for the inputs of all layers: a table with a row for each token, and a projection of the embedding.
pub struct PerLayer {
    table: Matrix,
    projection: Matrix,
    norm: Option<Norm>,
}

impl PerLayer {
    pub fn read(weights: &mut Weights) -> Self {
        let [table, projection] = ["per_layer_token_embd", "per_layer_model_proj"].map(|what| weights.matrix(what));
        Self { table, projection, norm: weights.norm("per_layer_proj_norm", Part::Needed) }
    }
}

/// Weights of a layer: a gate for each element of its input, and the matrix that leads into the residual stream.
pub struct LayerInput {
    gate: Matrix,
    output: Matrix,
    norm: Option<Norm>,
}

impl LayerInput {
    pub fn read(weights: &mut Weights, name: Name<'_>) -> Self {
        let [gate, output] = ["inp_gate", "proj"].map(|what| weights.matrix(&name(what)));
        Self { gate, output, norm: weights.norm(&name("post_norm"), Part::Needed) }
    }
}

impl Reference {
    /// Returns the input of each layer, `[rows, per layer]`, for the tokens and their embeddings `x`, or nothing if
    /// layers get no input.
    pub(super) fn inputs_of_layers(&self, tokens: &[u32], x: &Rows) -> Vec<Rows> {
        let Some(per_layer) = self.per_layer.as_ref().filter(|_| self.config.per_layer > 0) else { return Vec::new() };
        let mut projected = self.multiply(&per_layer.projection, x);
        projected.data.iter_mut().for_each(|x| *x /= (self.config.hidden as f64).sqrt());
        let mut all = self.norm(&projected, per_layer.norm.as_ref());
        let width = self.config.per_layer;
        for (row, token) in tokens.iter().enumerate() {
            let learned = per_layer.table.rows.row(*token as usize);
            let sum = |(x, learned): (&mut f64, &f64)| *x = (*x + learned * (width as f64).sqrt()) / 2f64.sqrt();
            all.row_mut(row).iter_mut().zip(learned).for_each(sum);
        }
        (0..self.config.layers).map(|layer| all.part(layer * width, width)).collect()
    }

    /// Ends a layer: adds the gated input, if there is one, and scales the residual stream.
    pub(super) fn end_of_layer(&self, index: usize, x: &mut Rows, input: Option<&Rows>) {
        let layer = &self.layers[index];
        if let (Some(input), Some(weights)) = (input, &layer.input) {
            let mut gated = self.multiply(&weights.gate, x);
            let activation = self.config.architecture.activation;
            gated.data.iter_mut().zip(&input.data).for_each(|(gate, input)| *gate = activation.of(*gate) * input);
            self.add(x, &self.multiply(&weights.output, &gated), weights.norm.as_ref());
        }
        let scale = layer.scale.unwrap_or(1.0);
        x.data.iter_mut().for_each(|x| *x *= scale);
    }
}
