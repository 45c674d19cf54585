//! The feed-forward parts of layers: one for all rows, or experts, and the parts beside them.

use super::architecture::{Activation, xielu};
use super::config::{Part, Scores};
use super::weights::{FeedForward, Layer, Name, Norm, Weights};
use super::{Config, Reference, Rows, sigmoid, softmax};

/// An ordinary feed-forward part beside experts, with a norm after it, norms before and after the experts, and the
/// factors of the router's normed input.
pub struct DenseBeside {
    part: FeedForward,
    norm: Option<Norm>,
    before_experts: Option<Norm>,
    after_experts: Option<Norm>,
    router_scale: Norm,
}

impl DenseBeside {
    pub fn read(weights: &mut Weights, config: &Config, name: Name<'_>) -> Self {
        let scale = weights.matrix(&format!("{}=", name("ffn_gate_inp.scale")));
        Self {
            part: FeedForward::read(weights, config, name),
            norm: weights.norm(&name("post_ffw_norm_1"), Part::Needed),
            before_experts: weights.norm(&name("pre_ffw_norm_2"), Part::Needed),
            after_experts: weights.norm(&name("post_ffw_norm_2"), Part::Needed),
            router_scale: Norm { weight: scale.rows, bias: None },
        }
    }
}

impl Reference {
    /// Returns the branch of a layer's feed-forward part. `normed` is the norm of the residual stream `x`.
    pub(super) fn feed_forward(&self, layer: &Layer, x: &Rows, normed: &Rows) -> Rows {
        let Some(dense) = &layer.dense else { return self.experts(layer, normed, normed) };
        let mut out = self.norm(&self.expert(&dense.part, normed), dense.norm.as_ref());
        let mut routed = self.norm(x, Some(&dense.router_scale));
        routed.data.iter_mut().for_each(|x| *x /= (self.config.hidden as f64).sqrt());
        let experts = self.experts(layer, &self.norm(x, dense.before_experts.as_ref()), &routed);
        let experts = self.norm(&experts, dense.after_experts.as_ref());
        out.data.iter_mut().zip(&experts.data).for_each(|(out, experts)| *out += experts);
        out
    }

    /// Returns the output of the only feed-forward part, or the sum of the chosen experts of each row by their weights,
    /// plus the shared expert. The router reads `routed`.
    fn experts(&self, layer: &Layer, x: &Rows, routed: &Rows) -> Rows {
        let Some(router) = &layer.router else { return self.expert(&layer.experts[0], x) };
        let mut out = self.shared(layer, x);
        let scores = self.config.architecture.scores;
        for (row, logits) in self.multiply(router, routed).iter().enumerate() {
            let rated = match scores {
                Scores::OfChosen => logits.to_vec(),
                Scores::Softmax | Scores::Normalized => softmax(logits),
                Scores::Sigmoid => logits.iter().map(|logit| sigmoid(*logit)).collect(),
            };
            let bias = |expert: usize| layer.selection.as_ref().map_or(0.0, |bias| bias[expert]);
            let mut ranked =
                self.grouped(&(0..logits.len()).map(|expert| rated[expert] + bias(expert)).collect::<Vec<_>>());
            ranked.sort_by(|&a, &b| (rated[b] + bias(b)).total_cmp(&(rated[a] + bias(a))));
            ranked.truncate(self.config.experts_used);
            let mut weights: Vec<f64> = ranked.iter().map(|expert| rated[*expert]).collect();
            let sum = weights.iter().sum::<f64>() + self.config.architecture.scores_eps;
            match scores {
                Scores::OfChosen => weights = softmax(&weights),
                Scores::Normalized | Scores::Sigmoid => weights.iter_mut().for_each(|weight| *weight /= sum),
                Scores::Softmax => {}
            }
            let input = Rows { cols: x.cols, data: x.row(row).to_vec() };
            for (expert, weight) in ranked.into_iter().zip(weights) {
                let part = self.expert(&layer.experts[expert], &input);
                out.row_mut(row)
                    .iter_mut()
                    .zip(part.row(0))
                    .for_each(|(out, part)| *out += self.config.expert_scale * weight * part);
            }
        }
        out
    }

    /// Returns the experts of the chosen groups: groups whose two largest scores have the largest sums.
    fn grouped(&self, scores: &[f64]) -> Vec<usize> {
        let Config { groups, groups_used, .. } = self.config;
        if groups == 1 {
            return (0..scores.len()).collect();
        }
        let len = scores.len() / groups;
        let of_two = |group: &usize| {
            let mut of_group = scores[group * len..][..len].to_vec();
            of_group.sort_by(|a, b| b.total_cmp(a));
            of_group[0] + of_group[1]
        };
        let mut order: Vec<usize> = (0..groups).collect();
        order.sort_by(|a, b| of_two(b).total_cmp(&of_two(a)));
        order.truncate(groups_used);
        order.sort_unstable();
        order.into_iter().flat_map(|group| group * len..(group + 1) * len).collect()
    }

    /// Returns the output of the shared expert, or zeros if there is none.
    fn shared(&self, layer: &Layer, x: &Rows) -> Rows {
        let Some(shared) = &layer.shared else { return Rows::zeros(x.len(), x.cols) };
        let mut out = self.expert(shared, x);
        if let Some(gate) = &layer.shared_gate {
            for (row, gate) in self.multiply(gate, x).data.into_iter().enumerate() {
                out.row_mut(row).iter_mut().for_each(|out| *out *= sigmoid(gate));
            }
        }
        out
    }

    fn expert(&self, expert: &FeedForward, x: &Rows) -> Rows {
        let up = self.multiply(&expert.up, x);
        let activation = self.config.architecture.activation;
        let inner = match &expert.gate {
            None => {
                let numbers = expert.numbers.filter(|_| activation == Activation::Xielu);
                let of = |x: f64| numbers.map_or_else(|| activation.of(x), |numbers| xielu(numbers, x));
                up.data.iter().map(|up| of(*up)).collect()
            }
            Some(gate) => {
                let gate = self.multiply(gate, x);
                let values = gate.data.iter().zip(&up.data);
                values.map(|(gate, up)| activation.of(*gate) * activation.factor(*up)).collect()
            }
        };
        self.multiply(&expert.down, &Rows { cols: up.cols, data: inner })
    }
}
