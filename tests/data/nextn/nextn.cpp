// The logits of a layer that predicts further ahead, as llama.cpp computes them.
//
//   c++ -O2 -std=c++17 nextn.cpp -I$LLAMA/include -I$LLAMA/ggml/include -I$LLAMA/src -L... -lllama -lggml -lggml-cpu -lggml-base -o nextn
//   nextn MODEL OUT.f32 ID...
//
// Row i of the layer has the model's state at position i and the token at i + 1. OUT.f32 has the logits of these rows, and then of two
// more, whose states are the layer's own and whose tokens are the most probable ones of the rows before them.
#include "llama-ext.h"
#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void quiet(ggml_log_level level, const char * text, void *) {
    if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void fail(const char * what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static llama_context * context(llama_model * model, llama_context_type type) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = 64;
    params.n_threads = params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.ctx_type = type;
    llama_context * made = llama_init_from_model(model, params);
    if (!made) fail("no context");
    llama_set_embeddings_nextn(made, true, false);
    return made;
}

// Computes tokens from a position on, with states where there are any.
static void compute(llama_context * of, int position, const std::vector<llama_token> & tokens, const float * states, size_t width) {
    llama_batch_ext * batch = llama_batch_ext_init(of);
    for (size_t i = 0; i < tokens.size(); i++) {
        const int index = llama_batch_ext_add_token(batch, 0, tokens[i]);
        const llama_pos places[4] = {position + (int) i, 0, 0, 0};
        llama_batch_ext_set_pos(batch, index, places);
        if (states && !llama_batch_ext_set_embd_token(batch, index, {states + i * width, 1, width})) fail("no state");
        llama_batch_ext_set_output_logits(batch, index, true);
    }
    if (llama_process(of, LLAMA_PROCESS_TYPE_DECODE, batch) != 0) fail("not computed");
    llama_batch_ext_free(batch);
}

int main(int argc, char ** argv) {
    if (argc < 5) fail("usage: nextn MODEL OUT.f32 ID ID...");
    llama_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = false;
    params.load_mtp = true;
    llama_model * model = llama_model_load_from_file(argv[1], params);
    if (!model) fail("no model");
    const size_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model)), width = llama_model_n_embd(model);
    std::vector<llama_token> tokens;
    for (int i = 3; i < argc; i++) tokens.push_back(atoi(argv[i]));

    llama_context * whole = context(model, LLAMA_CONTEXT_TYPE_DEFAULT);
    llama_context * layer = context(model, LLAMA_CONTEXT_TYPE_MTP);
    compute(whole, 0, tokens, nullptr, 0);
    FILE * out = fopen(argv[2], "wb");
    if (!out) fail("no file");
    std::vector<llama_token> given(tokens.begin() + 1, tokens.end());
    std::vector<float> states(llama_get_embeddings_nextn(whole), llama_get_embeddings_nextn(whole) + given.size() * width);
    for (int position = 0, more = 0; more <= 2; more++) {
        compute(layer, position, given, states.data(), width);
        position += (int) given.size();
        fwrite(llama_get_logits(layer), sizeof(float), given.size() * vocab, out);
        const float * last = llama_get_logits_ith(layer, (int) given.size() - 1);
        const float * own = llama_get_embeddings_nextn_ith(layer, (int) given.size() - 1);
        states.assign(own, own + width);
        given = {(llama_token) (std::max_element(last, last + vocab) - last)};
        printf("%d\n", given[0]);
    }
    fclose(out);
}
