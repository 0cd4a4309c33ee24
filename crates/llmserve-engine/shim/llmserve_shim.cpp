// Calls into llama.cpp that may throw, wrapped so that no C++ exception reaches Rust: one would
// end the process. Only forward declarations: the sys crate passes no include path on, and the
// linker checks the symbols.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

struct llama_context;
struct llama_batch_ext;
struct llama_vocab;
struct llama_memory_i;

extern "C" {
int32_t llama_process(llama_context *, int type, llama_batch_ext *);
int32_t llama_tokenize(const llama_vocab *, const char * text, int32_t len, int32_t * tokens, int32_t max, bool add_special,
                       bool parse_special);
int32_t llama_token_to_piece(const llama_vocab *, int32_t token, char * buf, int32_t len, int32_t lstrip, bool special);
size_t llama_state_seq_get_size(llama_context *, int32_t seq);
size_t llama_state_seq_get_data(llama_context *, uint8_t * dst, size_t size, int32_t seq);
size_t llama_state_seq_set_data(llama_context *, const uint8_t * src, size_t size, int32_t seq);
void ggml_backend_load_all_from_path(const char * folder);
bool llama_memory_seq_rm(llama_memory_i *, int32_t seq, int32_t p0, int32_t p1);
void llama_memory_seq_cp(llama_memory_i *, int32_t src, int32_t dst, int32_t p0, int32_t p1);
}

// Functions of llama-ext.h, which has no C linkage.
void llama_set_embeddings_nextn(llama_context *, bool value, bool masked);
void llama_set_embeddings_layer_inp(llama_context *, uint32_t layer, bool value);
float * llama_get_embeddings_nextn(llama_context *);
float * llama_get_embeddings_nextn_ith(llama_context *, int32_t i);

namespace {

// Room for what() of an exception; written with snprintf, always terminated.
struct fault {
    char * text;
    size_t size;

    void set(const char * what) const { snprintf(text, size, "%s", what); }
};

template <typename T, typename F> T guarded(fault out, T failed, F && call) {
    try {
        return call();
    } catch (const std::exception & e) {
        out.set(e.what());
    } catch (...) {
        out.set("unknown C++ exception");
    }
    return failed;
}

}  // namespace

extern "C" {

// The path of the library that has this address, by default the address of this function; empty if it is in none.
void llmserve_library_of(const void * address, char * path, size_t size) {
    Dl_info library;
    const void * wanted = address ? address : reinterpret_cast<const void *>(llmserve_library_of);
    snprintf(path, size, "%s", dladdr(wanted, &library) != 0 ? library.dli_fname : "");
}

#ifdef LLMSERVE_PORTABLE
// Loads the best of ggml's backends in a folder.
void llmserve_load_backends(const char * folder) {
    ggml_backend_load_all_from_path(folder);
}

// Whether a library can be loaded, with what it needs; else `err` says why not.
bool llmserve_can_load(const char * path, char * err, size_t err_size) {
    void * library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        snprintf(err, err_size, "%s", dlerror());
        return false;
    }
    dlclose(library);
    return true;
}
#endif

int32_t llmserve_process(llama_context * ctx, int type, llama_batch_ext * batch, char * err, size_t err_size) {
    return guarded<int32_t>({ err, err_size }, INT32_MIN, [&] { return llama_process(ctx, type, batch); });
}

int32_t llmserve_tokenize(const llama_vocab * vocab, const char * text, int32_t len, int32_t * tokens, int32_t max,
                          int32_t flags, char * err, size_t err_size) {
    return guarded<int32_t>({ err, err_size }, INT32_MIN, [&] {
        return llama_tokenize(vocab, text, len, tokens, max, (flags & 1) != 0, (flags & 2) != 0);
    });
}

int32_t llmserve_token_to_piece(const llama_vocab * vocab, int32_t token, char * buf, int32_t len, bool special, char * err,
                                size_t err_size) {
    return guarded<int32_t>({ err, err_size }, INT32_MIN,
                            [&] { return llama_token_to_piece(vocab, token, buf, len, 0, special); });
}

size_t llmserve_state_size(llama_context * ctx, int32_t seq, char * err, size_t err_size) {
    return guarded<size_t>({ err, err_size }, 0, [&] { return llama_state_seq_get_size(ctx, seq); });
}

size_t llmserve_state_get(llama_context * ctx, uint8_t * dst, size_t size, int32_t seq, char * err, size_t err_size) {
    return guarded<size_t>({ err, err_size }, 0, [&] { return llama_state_seq_get_data(ctx, dst, size, seq); });
}

size_t llmserve_state_set(llama_context * ctx, const uint8_t * src, size_t size, int32_t seq, char * err, size_t err_size) {
    return guarded<size_t>({ err, err_size }, 0, [&] { return llama_state_seq_set_data(ctx, src, size, seq); });
}

bool llmserve_seq_rm(llama_memory_i * mem, int32_t seq, int32_t p0, char * err, size_t err_size) {
    return guarded<bool>({ err, err_size }, false, [&] { return llama_memory_seq_rm(mem, seq, p0, -1); });
}

bool llmserve_seq_cp(llama_memory_i * mem, int32_t src, int32_t dst, char * err, size_t err_size) {
    return guarded<bool>({ err, err_size }, false, [&] {
        llama_memory_seq_cp(mem, src, dst, -1, -1);
        return true;
    });
}

void llmserve_set_hidden_rows(llama_context * ctx, bool value, bool masked) {
    llama_set_embeddings_nextn(ctx, value, masked);
    // Has the graphs made again: llama.cpp would reuse an earlier one for a batch of the same shape as the last.
    llama_set_embeddings_layer_inp(ctx, 0, false);
}

const float * llmserve_hidden_rows(llama_context * ctx, char * err, size_t err_size) {
    return guarded<const float *>({ err, err_size }, nullptr, [&] { return llama_get_embeddings_nextn(ctx); });
}

const float * llmserve_hidden_row(llama_context * ctx, int32_t index, char * err, size_t err_size) {
    return guarded<const float *>({ err, err_size }, nullptr,
                                  [&] { return llama_get_embeddings_nextn_ith(ctx, index); });
}

}  // extern "C"
