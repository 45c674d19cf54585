/*
 * The program that Gleed's instructions per token are compared with: the plain loops of a small C program for Llama
 * models, with a C library, f32 keys and values in one array, and matrices (Q8_0 or F32) that are read in place. It
 * checks nothing, so the file must be right.
 */
#include <math.h>
#include <string.h>

#include "board.h"

#define COUNT 12
#define MAX_LAYERS 8
#define MAX_WIDTH 1024
#define MAX_VOCAB 1024
#define CONTEXT 96
#define MAX_KV 128

static const uint32_t prompt[] = {1, 414, 435, 261, 385};

typedef struct {
    const uint8_t *data;
    uint32_t type, rows, cols;
} tensor;

static struct {
    uint32_t layers, hidden, ffn, heads, kv_heads, vocab;
    float epsilon, theta;
    tensor embedding, output, norm;
    struct {
        tensor attn_norm, q, k, v, o, ffn_norm, gate, up, down;
    } layer[MAX_LAYERS];
} model;

static float keys[MAX_LAYERS][CONTEXT][MAX_KV], values[MAX_LAYERS][CONTEXT][MAX_KV];
static float x[MAX_WIDTH], normed[MAX_WIDTH], q[MAX_WIDTH], attended[MAX_WIDTH], gate[MAX_WIDTH], up[MAX_WIDTH],
    weights[CONTEXT], logits[MAX_VOCAB];
static int8_t codes[MAX_WIDTH];
static float scales[MAX_WIDTH / 32];

/* ---- The file ---------------------------------------------------------------------------------------- */

static uint32_t u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static const uint8_t *skip_value(const uint8_t *at, uint32_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint32_t element, count;
    if (type == 8)
        return at + 8 + u32(at);
    if (type != 9)
        return at + sizes[type];
    element = u32(at);
    count = u32(at + 4);
    for (at += 12; count > 0; count--)
        at = skip_value(at, element);
    return at;
}

static int ends_with(const uint8_t *text, uint32_t len, const char *end)
{
    size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

static void read_key(const uint8_t *key, uint32_t len, const uint8_t *value)
{
    if (ends_with(key, len, ".block_count"))
        model.layers = u32(value);
    else if (ends_with(key, len, ".embedding_length"))
        model.hidden = u32(value);
    else if (ends_with(key, len, ".feed_forward_length"))
        model.ffn = u32(value);
    else if (ends_with(key, len, ".head_count"))
        model.heads = u32(value);
    else if (ends_with(key, len, ".head_count_kv"))
        model.kv_heads = u32(value);
    else if (ends_with(key, len, ".layer_norm_rms_epsilon"))
        memcpy(&model.epsilon, value, 4);
    else if (ends_with(key, len, ".freq_base"))
        memcpy(&model.theta, value, 4);
}

static tensor *place_of(const uint8_t *name, uint32_t len)
{
    uint32_t layer = name[4] - '0';
    if (ends_with(name, len, "token_embd.weight"))
        return &model.embedding;
    if (ends_with(name, len, "output_norm.weight"))
        return &model.norm;
    if (memcmp(name, "blk.", 4) != 0)
        return &model.output;
    if (ends_with(name, len, "attn_norm.weight"))
        return &model.layer[layer].attn_norm;
    if (ends_with(name, len, "attn_q.weight"))
        return &model.layer[layer].q;
    if (ends_with(name, len, "attn_k.weight"))
        return &model.layer[layer].k;
    if (ends_with(name, len, "attn_v.weight"))
        return &model.layer[layer].v;
    if (ends_with(name, len, "attn_output.weight"))
        return &model.layer[layer].o;
    if (ends_with(name, len, "ffn_norm.weight"))
        return &model.layer[layer].ffn_norm;
    if (ends_with(name, len, "ffn_gate.weight"))
        return &model.layer[layer].gate;
    if (ends_with(name, len, "ffn_up.weight"))
        return &model.layer[layer].up;
    return &model.layer[layer].down;
}

static void read_model(const uint8_t *file)
{
    uint32_t tensors = u32(file + 8), keys_left = u32(file + 16), left, len, dims, pass;
    const uint8_t *at = file + 24, *infos, *data = NULL;
    model.theta = 10000;
    for (; keys_left > 0; keys_left--) {
        len = u32(at);
        read_key(at + 8, len, at + 12 + len);
        at = skip_value(at + 12 + len, u32(at + 8 + len));
    }
    infos = at;
    /* The offset of the data is known only after the first pass over the infos. */
    for (pass = 0; pass < 2; pass++) {
        for (at = infos, left = tensors; left > 0; left--) {
            tensor *place;
            len = u32(at);
            place = place_of(at + 8, len);
            at += 8 + len;
            dims = u32(at);
            place->cols = u32(at + 4);
            place->rows = dims > 1 ? u32(at + 12) : 1;
            at += 4 + 8 * dims;
            place->type = u32(at);
            place->data = data + u32(at + 4);
            at += 12;
        }
        data = file + ((size_t)(at - file) + 31) / 32 * 32;
    }
    model.vocab = model.embedding.rows;
    if (model.output.data == NULL)
        model.output = model.embedding;
}

/* ---- The arithmetic ---------------------------------------------------------------------------------- */

static float block_scale(const uint8_t *block)
{
    __fp16 scale;
    memcpy(&scale, block, 2);
    return scale;
}

static void quantize(const float *from, uint32_t cols)
{
    uint32_t b, i;
    for (b = 0; b < cols / 32; b++, from += 32) {
        float max = 0, inverse;
        for (i = 0; i < 32; i++)
            max = fmaxf(max, fabsf(from[i]));
        inverse = max > 0 ? 127 / max : 0;
        scales[b] = max / 127;
        for (i = 0; i < 32; i++)
            codes[b * 32 + i] = (int8_t)roundf(from[i] * inverse);
    }
}

static void matmul(float *out, const float *in, const tensor *w)
{
    uint32_t row, b, i, cols = w->cols;
    if (w->type == 0) {
        const float *weight = (const float *)(const void *)w->data;
        for (row = 0; row < w->rows; row++, weight += cols) {
            float sum = 0;
            for (i = 0; i < cols; i++)
                sum += weight[i] * in[i];
            out[row] = sum;
        }
        return;
    }
    quantize(in, cols);
    for (row = 0; row < w->rows; row++) {
        const uint8_t *block = w->data + (size_t)row * (cols / 32) * 34;
        float sum = 0;
        for (b = 0; b < cols / 32; b++, block += 34) {
            const int8_t *weight = (const int8_t *)block + 2;
            int32_t dot = 0;
            for (i = 0; i < 32; i++)
                dot += (int32_t)weight[i] * codes[b * 32 + i];
            sum += (float)dot * (block_scale(block) * scales[b]);
        }
        out[row] = sum;
    }
}

static void rms_norm(float *out, const float *in, const tensor *w)
{
    const float *weight = (const float *)(const void *)w->data;
    float sum = 0;
    uint32_t i;
    for (i = 0; i < w->cols; i++)
        sum += in[i] * in[i];
    sum = 1 / sqrtf(sum / (float)w->cols + model.epsilon);
    for (i = 0; i < w->cols; i++)
        out[i] = in[i] * sum * weight[i];
}

static void rotate(float *head, uint32_t dim, uint32_t position)
{
    uint32_t i;
    for (i = 0; i < dim; i += 2) {
        float angle = (float)position * powf(model.theta, -(float)i / (float)dim), a = head[i], b = head[i + 1];
        float c = cosf(angle), s = sinf(angle);
        head[i] = a * c - b * s;
        head[i + 1] = a * s + b * c;
    }
}

static void attend(uint32_t layer, uint32_t head, uint32_t dim, uint32_t position)
{
    const float *query = q + head * dim;
    float *out = attended + head * dim, max, sum = 0;
    uint32_t kv = head / (model.heads / model.kv_heads) * dim, t, i;
    for (t = 0; t <= position; t++) {
        float score = 0;
        for (i = 0; i < dim; i++)
            score += query[i] * keys[layer][t][kv + i];
        weights[t] = score / sqrtf((float)dim);
    }
    max = weights[0];
    for (t = 1; t <= position; t++)
        max = fmaxf(max, weights[t]);
    for (t = 0; t <= position; t++)
        sum += weights[t] = expf(weights[t] - max);
    memset(out, 0, dim * sizeof *out);
    for (t = 0; t <= position; t++)
        for (i = 0; i < dim; i++)
            out[i] += weights[t] / sum * values[layer][t][kv + i];
}

static void embed(uint32_t token)
{
    const tensor *w = &model.embedding;
    uint32_t i;
    for (i = 0; i < model.hidden; i++) {
        const uint8_t *block = w->data + ((size_t)token * w->cols + i) / 32 * 34;
        if (w->type == 0)
            memcpy(&x[i], w->data + ((size_t)token * w->cols + i) * 4, 4);
        else
            x[i] = block_scale(block) * (int8_t)block[2 + i % 32];
    }
}

static void forward(uint32_t token, uint32_t position)
{
    uint32_t layer, head, i, dim = model.hidden / model.heads;
    embed(token);
    for (layer = 0; layer < model.layers; layer++) {
        float *key = keys[layer][position], *value = values[layer][position];
        rms_norm(normed, x, &model.layer[layer].attn_norm);
        matmul(q, normed, &model.layer[layer].q);
        matmul(key, normed, &model.layer[layer].k);
        matmul(value, normed, &model.layer[layer].v);
        for (head = 0; head < model.heads; head++)
            rotate(q + head * dim, dim, position);
        for (head = 0; head < model.kv_heads; head++)
            rotate(key + head * dim, dim, position);
        for (head = 0; head < model.heads; head++)
            attend(layer, head, dim, position);
        matmul(normed, attended, &model.layer[layer].o);
        for (i = 0; i < model.hidden; i++)
            x[i] += normed[i];
        rms_norm(normed, x, &model.layer[layer].ffn_norm);
        matmul(gate, normed, &model.layer[layer].gate);
        matmul(up, normed, &model.layer[layer].up);
        for (i = 0; i < model.ffn; i++)
            gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
        matmul(normed, gate, &model.layer[layer].down);
        for (i = 0; i < model.hidden; i++)
            x[i] += normed[i];
    }
    rms_norm(normed, x, &model.norm);
    matmul(logits, normed, &model.output);
}

int main(void)
{
    uint32_t position, token = 0, i, start, instructions = 0;
    const uint32_t given = sizeof prompt / sizeof *prompt;
    read_model(model_bytes);
    for (position = 0; position < given; position++)
        forward(prompt[position], position);
    for (; position < given + COUNT; position++) {
        for (token = 0, i = 1; i < model.vocab; i++)
            if (logits[i] > logits[token])
                token = i;
        board_print_number(token);
        board_print(position + 1 < given + COUNT ? " " : "\n");
        start = board_clock();
        forward(token, position);
        instructions += board_instructions(start) / COUNT;
    }
    board_print("plain C: code ");
    board_print_number((uint32_t)board_code());
    board_print(" bytes, arrays ");
    board_print_number(sizeof keys + sizeof values + sizeof x * 6 + sizeof weights + sizeof logits + sizeof codes + sizeof scales);
    board_print(" bytes, stack ");
    board_print_number((uint32_t)board_stack_used());
    board_print(" bytes, ");
    board_print_number(instructions);
    board_print(" instructions per token\n");
    return 0;
}
